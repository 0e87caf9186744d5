"""Examines the configured MCP servers: connects, lists tools, reports unusable tools, makes one safe call."""

import asyncio
import time
from typing import TYPE_CHECKING, Final

from gateway.config.mcp_server_settings import McpServerSettings
from gateway.config.settings import Settings
from gateway.doctor.checks.verdicts import Finding
from gateway.doctor.mapped_tools import examine_mappings, examine_probe_result
from gateway.doctor.part_diagnosis import PartDiagnosis
from gateway.errors import StoreUnavailable
from gateway.state.values import SchemaMismatch
from translation.hosted.call_forms import output_text_of

if TYPE_CHECKING:
    from gateway.tools.mcp.operator_server import OperatorServer, ToolListing

_MAX_DETAIL_CHARS: Final = 300


def examine_servers(settings: Settings) -> list[PartDiagnosis]:
    """Returns a diagnosis of each configured server. They are examined at once, on an event loop of their own."""
    return asyncio.run(_examine_all(settings)) if settings.tools.mcp.servers else []


async def _examine_all(settings: Settings) -> list[PartDiagnosis]:
    from gateway.tools.operator_servers.opening import (
        open_servers,  # the library is large, and few configurations need it
    )

    configured = settings.tools.mcp.servers.items()
    try:
        async with open_servers(settings, with_added=False) as servers:
            return await asyncio.gather(*(_examine(servers.require(label), own) for label, own in configured))
    except (SchemaMismatch, StoreUnavailable) as error:  # the store has the tokens of a server
        return [_describe_unlisted(label, str(error)) for label, _ in configured]


async def _examine(server: "OperatorServer", own: McpServerSettings) -> PartDiagnosis:
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
    findings += examine_mappings(own, listing)
    return PartDiagnosis(server.label, [*findings, *await _call(server, listing, own)])


def _describe_unlisted(label: str, reason: str, advice: str = "") -> PartDiagnosis:
    failed = Finding(check="list", verdict="fail", detail=reason, advice=advice)
    skipped = [Finding(check=check, verdict="skipped", detail="there is no list") for check in ("schemas", "call")]
    return PartDiagnosis(label, [failed, *skipped])


async def _call(server: "OperatorServer", listing: "ToolListing", own: McpServerSettings) -> list[Finding]:
    """Makes the call that the configuration marks as safe. No other call is made, because a tool may do anything."""
    from gateway.tools.mcp.errors import McpFault
    from gateway.tools.mcp.results import build_outcome

    if (probe := own.probe) is None:
        detail = "the server has no `probe`, a call that has no effects"
        return [Finding(check="call", verdict="skipped", detail=detail)]
    schema = listing.output_schemas.get(probe.tool)
    began = time.monotonic()
    try:
        result = await server.call_tool(probe.tool, probe.arguments, schema)
    except McpFault as fault:
        return [Finding(check="call", verdict="fail", detail=f"{probe.tool}: {fault}")]
    outcome = build_outcome(result, sees_images=False)
    if outcome.failed:
        text = output_text_of({"output": outcome.output, "error": outcome.error})
        scrubbed = server.settings.server.scrub(text)[:_MAX_DETAIL_CHARS]
        return [Finding(check="call", verdict="fail", detail=f"{probe.tool}: {scrubbed}")]
    called = Finding(check="call", verdict="pass", detail=probe.tool, seconds=time.monotonic() - began)
    mapped = own.mapped_tools.get(probe.tool)
    read = None if mapped is None else examine_probe_result(result, mapped, server.settings.server.limits)
    return [called] if read is None else [called, read]
