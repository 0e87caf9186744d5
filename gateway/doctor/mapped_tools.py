"""Examines tools of an MCP server that are run as hosted tools: whether the mapping fits the tool and its result."""

from typing import TYPE_CHECKING, Final

from gateway.config.mapped_tools.settings import MappedToolSettings
from gateway.config.mcp_server_settings import McpServerSettings
from gateway.doctor.checks.verdicts import Finding
from providers.redaction import Redactor
from translation.hosted.bounds import AnswerLimits
from translation.representation.json_types import mapping_or_empty

if TYPE_CHECKING:
    from mcp_types import CallToolResult

    from gateway.tools.mcp.operator_server import ToolListing

_CHECK: Final = "as"
_MAX_NAMED: Final = 20
_MOST_RESULTS: Final = 20


def examine_mappings(own: McpServerSettings, listing: "ToolListing") -> list[Finding]:
    """Returns a finding about the mappings of a server; none if it has none."""
    if not own.mapped_tools:
        return []
    problems = [
        f"{name}: {problem}"
        for name, mapped in own.mapped_tools.items()
        if (problem := _find_problem(name, mapped, listing)) is not None
    ]
    if problems:
        advice = "Correct `as` of the server, or `allow` and `pins` if the tool is left out."
        return [Finding(check=_CHECK, verdict="fail", detail="; ".join(problems), advice=advice)]
    pairs = ", ".join(f"{name} is {mapped.tool}" for name, mapped in own.mapped_tools.items())
    return [Finding(check=_CHECK, verdict="pass", detail=pairs)]


def examine_probe_result(result: "CallToolResult", mapped: MappedToolSettings, limits: AnswerLimits) -> Finding | None:
    """Returns a finding about the result of a call of a mapped tool: whether the paths find something in it; None for
    a tool that is no search."""
    from gateway.tools.mapped_tools.found_entries import EntryLimits, MappedToolFailed, read_entries

    if mapped.tool == "code_interpreter":
        return None
    wanted = EntryLimits(_MOST_RESULTS, lambda _: True, needs_all=True)
    try:
        count = len(read_entries(result, mapped.result, wanted, limits, Redactor(())))
    except MappedToolFailed as failed:
        return Finding(check="result", verdict="fail", detail=failed.why, advice="Correct `result` of the mapping.")
    if not count:
        return Finding(
            check="result", verdict="fail", detail="no results", advice="Write a probe that finds something."
        )
    return Finding(check="result", verdict="pass", detail=f"{count} result{'' if count == 1 else 's'} can be read")


def _find_problem(name: str, mapped: MappedToolSettings, listing: "ToolListing") -> str | None:
    tool = listing.find(name)
    if tool is None:
        return listing.left_out.get(name, "the server does not list this tool")
    properties = mapping_or_empty(tool.input_schema.get("properties"))
    required = tool.input_schema.get("required")
    theirs = [*mapped.arguments.values()]
    if odd := [each for each in theirs if each not in properties]:
        known = ", ".join([*properties][:_MAX_NAMED]) or "none"
        return f"it has no argument {odd[0]!r} (it has: {known})"
    if missing := [each for each in required or () if each not in theirs]:
        return f"it requires the argument {missing[0]!r}, which the mapping does not have"
    return None
