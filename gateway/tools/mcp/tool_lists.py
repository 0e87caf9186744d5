"""Reads the list of the tools of an MCP server. Unusable tools are left out of it, each with the reason.

The MCP library refuses a whole page of a list if one tool on it is malformed. So malformed tools are removed from a
page before the library reads it.

The operator may pin tools: the configuration then has a digest of each definition that was reviewed. The model follows
what a definition says, so a server that changes it after the review (a "rug pull") could make the model do something
else. Tools whose definition has another digest are left out.
"""

from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, Final

import orjson
from mcp.client.client import Client
from mcp.shared.inbound import find_invalid_x_mcp_header
from mcp.shared.message import SessionMessage
from mcp_types import METHOD_NOT_FOUND, ErrorData, JSONRPCError, JSONRPCRequest, JSONRPCResponse, Tool
from pydantic import ValidationError

from dataplane.sharing.work_pool import run_in_pool
from gateway.tools.mcp.answers import UNREADABLE, build_refusal, examine_answer
from gateway.tools.mcp.errors import McpFault
from gateway.tools.mcp.messages import ServerMessages
from translation.hosted.bounds import AnswerLimits, SchemaLimits
from translation.hosted.schema_checks import find_schema_fault

_LEFT_OUT: Final = "responses-gateway/left_out"
"""The key in the metadata of a page that carries the tools left out of it through the library."""

_REFUSED_METHODS: Final = frozenset({"sampling/createMessage", "roots/list"})
"""Requests that a server may only send to a client which has declared that it serves them."""

_CHECKS_AT_ONCE: Final = 32
"""Longer lists are checked in a thread."""

_REASON_CHARS: Final = 200
_MAX_LEFT_OUT: Final = 1_000
_DIGEST_CHARS: Final = 32
_CHANGED: Final = "its definition is not the one that was accepted (`pins` of the server)"
_NEW: Final = "its definition has not been accepted (`pins` of the server)"


@dataclass(frozen=True, slots=True)
class ToolList:
    """The tools of a server, in its order. `left_out` has the names of unusable tools, each with the reason."""

    tools: list[Tool]
    left_out: dict[str, str] = field(default_factory=dict)

    async def check(self, allows: Callable[[Tool], bool], limits: SchemaLimits, max_checked: int) -> "ToolList":
        """Returns the list with the tools that `allows` accepts and that can be used: each once, with a schema within
        the limits. Only the first `max_checked` schemas are checked. It takes place in a thread, where each schema is
        compiled for itself, so that other requests run meanwhile."""
        return await run_in_pool(self._check, allows, limits, max_checked)

    def _check(self, allows: Callable[[Tool], bool], limits: SchemaLimits, max_checked: int) -> "ToolList":
        tools: dict[str, Tool] = {}
        left_out = {**self.left_out}
        for number, tool in enumerate(filter(allows, self.tools)):
            if tool.name in tools:
                left_out[tool.name] = "it is listed twice, and only the first of them is used"
            elif number < max_checked and (fault := find_schema_fault(tool.input_schema, limits)) is not None:
                left_out[tool.name] = fault
            else:
                tools[tool.name] = tool
        return ToolList([*tools.values()], left_out)


def digest_definition(tool: Tool) -> str:
    """Returns a digest of the definition of a tool: name, description, schema, and hints."""
    hints = None if tool.annotations is None else tool.annotations.model_dump(mode="json", exclude_none=True)
    parts = [tool.name, tool.title, tool.description, tool.input_schema, hints]
    return sha256(orjson.dumps(parts, option=orjson.OPT_SORT_KEYS)).hexdigest()[:_DIGEST_CHARS]


def find_unaccepted(tools: Iterable[Tool], pins: Mapping[str, str]) -> dict[str, str]:
    """Returns the names of the tools whose definitions are not the pinned ones, and why they are held back."""
    return {
        tool.name: _CHANGED if tool.name in pins else _NEW
        for tool in tools
        if pins.get(tool.name) != digest_definition(tool)
    }


async def list_pages(client: Client, max_pages: int) -> ToolList:
    """Returns all tools of a server. Raises McpFault for a list that does not end, and what the library raises."""
    tools: list[Tool] = []
    left_out: dict[str, str] = {}
    cursor: str | None = None
    seen: set[str] = set()
    for _ in range(max_pages):
        page = await client.list_tools(cursor=cursor)
        tools += page.tools
        left_out |= dict((page.meta or {}).get(_LEFT_OUT, {}))
        cursor = page.next_cursor
        if not cursor:
            return ToolList(tools, left_out)
        if cursor in seen:
            raise McpFault("list_too_long", "list_too_long: its list of tools repeats itself")
        seen.add(cursor)
    raise McpFault("list_too_long", f"list_too_long: its list of tools has more than {max_pages} pages")


@asynccontextmanager
async def with_readable_messages(
    transport: AbstractAsyncContextManager[Any], limits: AnswerLimits
) -> AsyncGenerator[tuple[Any, Any], None]:
    """Yields a transport for the library, whose pages of tools have only tools that it can read, and whose results have
    only parts that are what they should be.

    Requests of the server for unsupported methods are refused, so that the library does not get them.
    """
    async with transport as (read_stream, write_stream):
        yield _ReadableMessages(read_stream, write_stream, limits), write_stream


class _ReadableMessages(ServerMessages):
    """The messages of a server that the library can read. `replies` is the stream to the server."""

    def __init__(self, stream: Any, replies: Any, limits: AnswerLimits) -> None:
        super().__init__(stream)
        self._replies = replies
        self._limits = limits

    async def filter_message(self, received: SessionMessage | Exception) -> SessionMessage | Exception | None:
        if await self._refuse(received):
            return None
        if isinstance(received, Exception):
            return received
        return await _make_readable(await examine_answer(received, self._limits), self._limits)

    async def _refuse(self, received: SessionMessage | Exception) -> bool:
        """Answers a request that no client may get. The library would say that it is invalid, and not unknown."""
        message = received.message if isinstance(received, SessionMessage) else None
        if not isinstance(message, JSONRPCRequest) or message.method not in _REFUSED_METHODS:
            return False
        error = ErrorData(code=METHOD_NOT_FOUND, message=f"Method not found: {message.method}")
        await self._replies.send(SessionMessage(JSONRPCError(jsonrpc="2.0", id=message.id, error=error)))
        return True


async def _make_readable(received: SessionMessage, limits: AnswerLimits) -> SessionMessage:
    """Returns a message. From a page of a list, unreadable tools are removed."""
    if not isinstance(received.message, JSONRPCResponse):
        return received
    result = received.message.result
    listed = result.get("tools")
    if not isinstance(listed, list) or "content" in result:
        return received
    if len(listed) > limits.max_listed:
        message = (
            f"list_too_long: a page of its list has {len(listed)} tools, and may have {limits.max_listed} "
            "(tools.mcp.max_listed_tools)"
        )
        return build_refusal(received.message.id, McpFault("list_too_long", message))
    if len(listed) > _CHECKS_AT_ONCE:
        readable_tools, left_out = await run_in_pool(_split_tools, listed)
    else:
        readable_tools, left_out = _split_tools(listed)
    meta = result.get("_meta")
    others = {name: value for name, value in meta.items() if name != _LEFT_OUT} if isinstance(meta, dict) else {}
    readable = {**result, "tools": readable_tools, "_meta": {**others, **({_LEFT_OUT: left_out} if left_out else {})}}
    return SessionMessage(received.message.model_copy(update={"result": readable}), received.metadata)


def _split_tools(tools: Iterable[Any]) -> tuple[list[Any], dict[str, str]]:
    readable_tools: list[Any] = []
    left_out: dict[str, str] = {}
    for number, tool in enumerate(tools, 1):
        if len(left_out) >= _MAX_LEFT_OUT:
            left_out["other tools"] = f"{_MAX_LEFT_OUT} tools before them cannot be used"
            break
        name = tool.get("name") if isinstance(tool, dict) else None
        if isinstance(tool, dict) and isinstance(reason := tool.get(UNREADABLE), str):
            left_out[name if isinstance(name, str) and name else f"number {number}"] = reason[:_REASON_CHARS]
            continue
        try:
            parsed = Tool.model_validate(tool, by_name=False)
        except ValidationError as error:
            place = ".".join(map(str, error.errors(include_url=False, include_input=False)[0]["loc"]))
            label = name if isinstance(name, str) and name else f"number {number}"
            left_out[label] = f"it is malformed in {place}" if place else "it is not an object"
            continue
        if not parsed.name:
            left_out[f"number {number}"] = "it has no name"
        elif (reason := find_invalid_x_mcp_header(parsed.input_schema)) is not None:
            left_out[parsed.name] = f"its x-mcp-header is invalid: {reason}"
        else:
            readable_tools.append(tool)
    return readable_tools, left_out
