"""Examines the configured MCP servers: connects, lists tools, reports unusable tools, makes one safe call."""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from gateway.config.mcp_server_settings import ProbeSettings
from gateway.config.settings import Settings
from gateway.doctor.checks.verdicts import Finding
from gateway.doctor.text_report import format_duration
from gateway.errors import StoreUnavailable
from gateway.state.values import SchemaMismatch
from translation.hosted.call_forms import output_text_of
from translation.representation.json_types import Json

if TYPE_CHECKING:
    from gateway.tools.mcp.operator_server import OperatorServer, ToolListing

MCP_SERVER: Final = "MCP server"
_MAX_DETAIL_CHARS: Final = 300


@dataclass(frozen=True, slots=True)
class ServerDiagnosis:
    """The results of all checks of one server."""

    label: str
    findings: Sequence[Finding]
    kind: str = MCP_SERVER
    """What it is, for people."""

    @property
    def failed(self) -> bool:
        return any(finding.verdict == "fail" for finding in self.findings)

    def as_json(self) -> Json:
        """Returns the diagnosis for the report in JSON."""
        keys = ("check", "verdict", "detail", "seconds", "advice")
        checks = [{key: getattr(finding, key) for key in keys} for finding in self.findings]
        return {"server": self.label, "ok": not self.failed, "checks": checks}


def examine_servers(settings: Settings) -> list[ServerDiagnosis]:
    """Returns a diagnosis of each configured server. They are examined at once, on an event loop of their own."""
    return asyncio.run(_examine_all(settings)) if settings.tools.mcp.servers else []


def render_servers(diagnoses: Sequence[ServerDiagnosis]) -> str:
    """Returns the diagnoses as text: one line per check."""
    lines = []
    for diagnosis in diagnoses:
        lines.append(f"{diagnosis.kind} {diagnosis.label}")
        for finding in diagnosis.findings:
            time_taken = f" ({format_duration(finding.seconds)})" if finding.seconds else ""
            lines.append(f"  {finding.verdict} {finding.check}: {finding.detail}{time_taken}")
            if finding.advice:
                lines.append(f"    {finding.advice}")
    return "\n".join(lines)


async def _examine_all(settings: Settings) -> list[ServerDiagnosis]:
    from gateway.tools.operator_servers.opening import (
        open_servers,  # the library is large, and few configurations need it
    )

    configured = settings.tools.mcp.servers.items()
    try:
        async with open_servers(settings, with_added=False) as servers:
            return await asyncio.gather(*(_examine(servers.require(label), own.probe) for label, own in configured))
    except (SchemaMismatch, StoreUnavailable) as error:  # the store has the tokens of a server
        return [_describe_unlisted(label, str(error)) for label, _ in configured]


async def _examine(server: "OperatorServer", probe: ProbeSettings | None) -> ServerDiagnosis:
    from gateway.tools.mcp.errors import McpFault

    began = time.monotonic()
    try:
        listing = await server.list_tools()
    except McpFault as fault:
        advice = f"its output: {server.last_output.splitlines()[-1]}" if server.last_output.strip() else ""
        return _describe_unlisted(server.label, str(fault), advice)
    tools = f"{len(listing.tools)} tool{'' if len(listing.tools) == 1 else 's'}"
    findings = [Finding(check="list", verdict="pass", detail=tools, seconds=time.monotonic() - began)]
    if not listing.tools:
        findings = [Finding(check="list", verdict="fail", detail="no tools", advice="Look at `allow` of the server.")]
    if listing.left_out:
        detail = "; ".join(f"{name}: {reason}" for name, reason in listing.left_out.items())
        findings.append(Finding(check="schemas", verdict="fail", detail=f"left out: {detail[:_MAX_DETAIL_CHARS]}"))
    else:
        findings.append(Finding(check="schemas", verdict="pass", detail="all tools can be used"))
    return ServerDiagnosis(server.label, [*findings, await _call(server, listing, probe)])


def _describe_unlisted(label: str, reason: str, advice: str = "") -> ServerDiagnosis:
    failed = Finding(check="list", verdict="fail", detail=reason, advice=advice)
    skipped = [Finding(check=check, verdict="skipped", detail="there is no list") for check in ("schemas", "call")]
    return ServerDiagnosis(label, [failed, *skipped])


async def _call(server: "OperatorServer", listing: "ToolListing", probe: ProbeSettings | None) -> Finding:
    """Makes the call that the configuration marks as safe. No other call is made, because a tool may do anything."""
    from gateway.tools.mcp.errors import McpFault
    from gateway.tools.mcp.results import build_outcome

    if probe is None:
        return Finding(check="call", verdict="skipped", detail="the server has no `probe`, a call that has no effects")
    schema = listing.output_schemas.get(probe.tool)
    began = time.monotonic()
    try:
        outcome = build_outcome(await server.call_tool(probe.tool, probe.arguments, schema), sees_images=False)
    except McpFault as fault:
        return Finding(check="call", verdict="fail", detail=f"{probe.tool}: {fault}")
    if outcome.failed:
        text = output_text_of({"output": outcome.output, "error": outcome.error})
        scrubbed = server.settings.server.scrub(text)[:_MAX_DETAIL_CHARS]
        return Finding(check="call", verdict="fail", detail=f"{probe.tool}: {scrubbed}")
    return Finding(check="call", verdict="pass", detail=probe.tool, seconds=time.monotonic() - began)
