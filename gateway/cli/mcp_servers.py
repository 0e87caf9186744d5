"""Implements the commands `mcp list`, `mcp pin` and `mcp try`, which connect to the configured MCP servers."""

import asyncio
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import orjson
from mcp_types import Tool

from gateway.config.mcp_server_settings import McpServerSettings
from gateway.config.settings import Settings
from gateway.tools.mcp.errors import McpFault
from gateway.tools.mcp.results import build_outcome, is_read_only
from gateway.tools.mcp.tool_lists import digest_definition
from gateway.tools.operator_servers.opening import open_servers
from gateway.tools.operator_servers.servers import OperatorServers
from translation.hosted.call_forms import output_text_of
from translation.hosted.calls import is_json_object
from translation.hosted.policy import needs_approval
from translation.tools.call_validator import CallValidator

_DESCRIPTION_CHARS: Final = 60


class ServerTools(NamedTuple):
    """The tools of a server as rows of a table, and its problems, one line each."""

    rows: Sequence[Sequence[str]]
    problems: Sequence[str]


class CallResult(NamedTuple):
    """The result of a call, and its duration in milliseconds without the connection."""

    text: str
    has_failed: bool
    ms: float


async def list_server_tools(settings: Settings, labels: Sequence[str]) -> list[ServerTools]:
    """Connects the servers of these labels, by default all servers, at once, and lists their tools.

    Raises UnknownServer.
    """
    async with open_servers(settings) as servers:
        chosen = dict.fromkeys(labels or servers.configured)
        for label in chosen:
            servers.require(label)
        return await asyncio.gather(*(_list_tools(servers, label) for label in chosen))


async def pin_tools(settings: Settings, label: str) -> Mapping[str, str]:
    """Returns the digests of the definitions that a server's tools have now, by name.

    Raises McpFault and UnknownServer.
    """
    async with open_servers(settings, ignores_pins=True) as servers:
        listing = await servers.require(label).list_tools()
        return {tool.name: digest_definition(tool) for tool in listing.tools}


async def try_tool(settings: Settings, label: str, name: str, arguments: dict[str, Any]) -> CallResult:
    """Calls a tool by its name at the server, or by the name that models know.

    Raises UnknownServer, and McpFault, also for arguments that do not fit the tool's schema: they are not sent.
    """
    async with open_servers(settings) as servers:
        server = servers.require(label)
        listing = await server.list_tools()
        key = servers.list_names().get(name)
        plain = key.name if key is not None and key.server == label else name
        if (tool := listing.find(plain)) is None:
            known = ", ".join(tool.name for tool in listing.tools) or "none"
            raise McpFault("protocol_error", f"{label} has no tool {name}; it has: {known}")
        if (fault := _find_argument_fault(tool, arguments)) is not None:
            raise McpFault("protocol_error", f"the call was not sent: {fault}")
        began = time.monotonic()
        result = await server.call_tool(plain, arguments, listing.output_schemas.get(plain))
        outcome = build_outcome(result, sees_images=False)
        text = output_text_of({"output": outcome.output, "error": outcome.error})
        return CallResult(text, outcome.failed, (time.monotonic() - began) * 1000)


def read_call_arguments(text: str) -> dict[str, Any] | None:
    """Returns the arguments of a call; None if the text is no JSON object."""
    return orjson.loads(text) if is_json_object(text) else None


async def _list_tools(servers: OperatorServers, label: str) -> ServerTools:
    server, own = servers.require(label), servers.configured[label]
    try:
        listing = await server.list_tools()
    except McpFault as fault:
        words = [f"{label}: its output: {line}" for line in server.last_output.splitlines()[-3:]]
        return ServerTools([], [f"{label}: {fault}", *words])
    names = {key.name: name for name, key in servers.list_names().items() if key.server == label}
    rows = [(label, names[tool.name], *_describe_tool(tool, own)) for tool in listing.tools]
    return ServerTools(rows, [f"{label}: left out: {name}: {reason}" for name, reason in listing.left_out.items()])


def _find_argument_fault(tool: Tool, arguments: dict[str, Any]) -> str | None:
    """Returns the place and the reason where arguments do not fit the schema of a tool; None if they fit."""
    text = orjson.dumps(arguments).decode()
    function = {"type": "function", "name": tool.name, "parameters": tool.input_schema}
    return CallValidator([function], len(text)).fault_of(tool.name, text)


def _describe_tool(tool: Tool, own: McpServerSettings) -> tuple[str, str, str]:
    read_only = is_read_only(tool)
    approval = needs_approval(own.require_approval, tool.name, is_read_only=read_only and own.trusted)
    description = " ".join((tool.description or "").split())
    short = description if len(description) <= _DESCRIPTION_CHARS else f"{description[: _DESCRIPTION_CHARS - 3]}..."
    return "yes" if read_only else "no", "always" if approval else "never", short
