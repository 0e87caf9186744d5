"""Examines the messages of MCP servers before the library does: a server may be anyone's, and send anything.

Each message is weighed before it is parsed, because a parser holds the interpreter to its end. What the library cannot
read, or what could not be passed on, is then removed or refused by itself: one tool, or one result.
"""

import json
import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Final, get_args

import orjson
from mcp.shared.message import SessionMessage
from mcp_types import (
    INTERNAL_ERROR,
    AudioContent,
    EmbeddedResource,
    ErrorData,
    ImageContent,
    JSONRPCError,
    JSONRPCResponse,
    ResourceLink,
    TextContent,
)
from pydantic import BaseModel, TypeAdapter, ValidationError

from dataplane.core import measure_json
from dataplane.sharing.work_pool import run_in_pool
from gateway.tools.mcp.errors import NOT_THE_PROTOCOL, TOO_LARGE, FaultKind, McpFault
from translation.hosted.bounds import AnswerLimits

UNREADABLE: Final = "responses-gateway/unreadable"
"""The key of a tool that was removed from a list, with the reason."""

_REFUSED: Final = "responses-gateway refused: "
"""The beginning of the message of an error in place of an answer, with which the refusal passes through the library."""

_MAX_PARSED_DEPTH: Final = 900
"""The deepest nesting of a message that is parsed. Parsers fail at 1024 levels. A deeper message is refused whole."""

_READABLE_DEPTH: Final = 150
"""The deepest nesting that the library gets. It fails at 200 levels."""

_LONG_NUMBER: Final = re.compile(rb"[0-9]{19}")
_SURROGATE: Final = re.compile(rb"\\u[dD][89a-fA-F]")
"""What a message must contain if it has an integer of more than 64 bits, or half a surrogate pair."""

_MAX_DIGITS: Final = 4_000

_ID_BYTES: Final = 200
"""The first or last bytes of a message that is not read, in which its id is searched."""

_ID: Final = rb'"id"\s*:\s*(0|[1-9][0-9]{0,17}|"[ !#-\[\]-~]{0,100}")\s*'
_FIRST_ID: Final = re.compile(rb"\s*\{[^{\[]*?" + _ID + rb"[,}]")
_LAST_ID: Final = re.compile(_ID + rb"\}\s*\Z")
_ANSWER_FIRST: Final = re.compile(rb'\s*\{[^{\[]*?"(?:result|error)"\s*:')
_NO_ANSWER: Final = re.compile(rb'\s*\{[^{\[]*?"(?:method|params)"\s*:')
"""Members of the message itself: those before its first object or list, and the one before its last brace."""

_NOT_UNICODE: Final = "it has half a surrogate pair, which is no text"
_NUMBER_TOO_LONG: Final = "it has a number of more than 64 bits"
_TOO_DEEP: Final = "it is nested deeper than {} levels"

_CONTENT_TYPES: Final[Mapping[str, type[BaseModel]]] = {
    "audio": AudioContent,
    "image": ImageContent,
    "resource": EmbeddedResource,
    "resource_link": ResourceLink,
    "text": TextContent,
}

_IN_THREAD_PARTS: Final = 64
"""Answers with more parts or tools are examined in a thread."""


def weigh_message(data: bytes, limits: AnswerLimits) -> bytes:
    """Returns a message in the form in which the library can read it. Raises McpFault for one that is too heavy.

    In a list, tools that could not be passed on are replaced by a stub with UNREADABLE. A result that could not be is
    replaced by an error of its tool.
    """
    values, depth = measure_json(data)
    if values > limits.max_values:
        raise McpFault(
            TOO_LARGE,
            f"the server's answer has {values} values, and may have {limits.max_values} (tools.mcp.max_result_values)",
        )
    if depth > _MAX_PARSED_DEPTH:
        raise McpFault("invalid_result", f"the server's answer is nested {depth} levels deep")
    is_deep = depth > min(limits.max_depth, _READABLE_DEPTH)
    if is_deep or _SURROGATE.search(data) or _LONG_NUMBER.search(data):
        return _repair(data, limits)
    return data


def read_refusal(message: str) -> McpFault | None:
    """Returns the fault of an error that was put in place of an answer; None for any other error."""
    if not message.startswith(_REFUSED):
        return None
    kind, _, text = message.removeprefix(_REFUSED).partition(": ")
    return McpFault(kind, text) if kind in get_args(FaultKind) else None  # type: ignore[arg-type]


def build_refusal(request_id: Any, fault: McpFault) -> SessionMessage:
    """Returns the error that takes the place of an answer."""
    error = ErrorData(code=INTERNAL_ERROR, message=f"{_REFUSED}{fault.kind}: {fault}")
    return SessionMessage(JSONRPCError(jsonrpc="2.0", id=request_id, error=error))


def refuse_unread(data: bytes, fault: McpFault, *, is_whole: bool) -> SessionMessage | None:
    """Returns the error that takes the place of an answer which was not read; None for a request or a notification.

    `data` is the beginning of the message, unless it `is_whole`. Raises the fault if it does not tell to which request
    the message belongs.
    """
    head = data[:_ID_BYTES]
    if _NO_ANSWER.match(head):
        return None
    match = _FIRST_ID.match(head)
    if match is None and is_whole and _ANSWER_FIRST.match(head):
        match = _LAST_ID.search(data[-_ID_BYTES:])
    if match is None:
        raise fault
    return build_refusal(orjson.loads(match[1]), fault)


async def examine_answer(received: SessionMessage, limits: AnswerLimits) -> SessionMessage:
    """Returns an answer, or an error in its place if its structure is not that of a result. It stops at the first
    fault, whereas the library would collect one error for each part and each form that the part does not have."""
    message = received.message
    if not isinstance(message, JSONRPCResponse):
        return received
    content = message.result.get("content")
    if not isinstance(content, list):
        return received
    try:
        if len(content) > limits.max_parts:
            raise McpFault(
                TOO_LARGE,
                f"the result has {len(content)} parts, and may have {limits.max_parts} (tools.mcp.max_result_parts)",
            )
        if len(content) > _IN_THREAD_PARTS:
            await run_in_pool(_examine_content, content)
        else:
            _examine_content(content)
    except McpFault as fault:
        return build_refusal(message.id, fault)
    return received


def _examine_content(content: Sequence[Any]) -> None:
    for part in content:
        kind = part.get("type") if isinstance(part, dict) else None
        if not isinstance(kind, str) or kind not in _CONTENT_TYPES:
            raise McpFault("invalid_result", NOT_THE_PROTOCOL)
        try:
            _find_adapter(kind).validate_python(part, by_name=False)
        except ValidationError:
            raise McpFault("invalid_result", NOT_THE_PROTOCOL) from None


@cache
def _find_adapter(kind: str) -> TypeAdapter[BaseModel]:
    return TypeAdapter(_CONTENT_TYPES[kind])


def _repair(data: bytes, limits: AnswerLimits) -> bytes:
    """Returns a message without the parts that could not be passed on. It is unchanged if there are none: what made the
    caller suspect them can also be part of a text."""
    try:
        message: Any = json.loads(data, parse_int=_read_integer)
    except (ValueError, RecursionError):
        return data  # the library refuses it
    result = message.get("result") if isinstance(message, dict) else None
    if not isinstance(result, dict):
        return data
    if isinstance(tools := result.get("tools"), list):
        faults = [_find_fault(tool, limits, takes_long_numbers=False) for tool in tools]
        if not any(faults):
            return data
        result["tools"] = [
            tool if fault is None else _build_stub(tool, fault) for tool, fault in zip(tools, faults, strict=True)
        ]
    elif (fault := _find_fault(result, limits, takes_long_numbers=True)) is None:
        return data
    elif "content" in result:
        text = f"invalid_result: the result was left out: {fault}"
        message["result"] = {
            "content": [{"type": "text", "text": text}],
            "isError": True,
            "resultType": "complete",
        }
    return json.dumps(message).encode()


def _read_integer(digits: str) -> int:
    """Returns an integer. Python reads at most 4300 digits; more are only known to be too many."""
    return int(digits) if len(digits) <= _MAX_DIGITS else 1 << 80


def _find_fault(value: Any, limits: AnswerLimits, *, takes_long_numbers: bool) -> str | None:
    """Returns why a value cannot be passed on; None if it can."""
    level, depth = [value], 0
    while level:
        depth += 1
        if depth > limits.max_depth:
            return _TOO_DEEP.format(limits.max_depth)
        containers = [each for each in level if isinstance(each, dict | list)]
        level = [child for each in containers for child in (each.values() if isinstance(each, dict) else each)]
        texts = [each for each in level if isinstance(each, str)]
        texts += [key for each in containers if isinstance(each, dict) for key in each]
        if not all(map(_is_unicode, texts)):
            return _NOT_UNICODE
        if not takes_long_numbers and any(isinstance(each, int) and not -(2**63) <= each < 2**64 for each in level):
            return _NUMBER_TOO_LONG
    return None


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _build_stub(tool: Any, fault: str) -> Any:
    """Returns what takes the place of a tool in a list, so that it is named as left out."""
    name = tool.get("name") if isinstance(tool, dict) else None
    return {"name": name if isinstance(name, str) and _is_unicode(name) else None, UNREADABLE: fault}


def serialize_value(value: Any) -> str:
    """Returns a value of a server as JSON, with all digits of its numbers."""
    try:
        return orjson.dumps(value).decode()
    except orjson.JSONEncodeError:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
