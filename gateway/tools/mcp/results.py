"""Results of MCP calls as outcomes of the loop."""

import base64
import binascii
import json
from collections.abc import Sequence
from typing import Any, Final

from mcp_types import CallToolResult, ImageContent, ResourceLink, TextContent, Tool

from gateway.tools.mcp.answers import serialize_value
from gateway.tools.mcp.errors import INPUT_DECLINED
from translation.hosted.outcomes import ToolOutcome
from translation.representation.json_types import Json
from translation.tools.call_validator import CallValidator

_IMAGE_TYPES: Final = ("image/png", "image/jpeg", "image/gif", "image/webp")
"""The types of images that every model which sees images can read."""

_RESULT: Final = "result"
_DECLINED: Final = "responses-gateway/declined_input"
_NO_MESSAGE: Final = "The tool failed without a message."
_MAX_UTF8_BYTES: Final = 4

_MAX_SEARCHED_VALUES: Final = 200
_MAX_SEARCHED_CHARS: Final = 100_000
"""Structured content with more values, or beside a longer text, is shown unless the text is the same JSON."""


def build_outcome(result: CallToolResult, *, sees_images: bool) -> ToolOutcome:
    """Returns the outcome of a call that the server answered.

    Its text is the text of the result, and its structured content as JSON if the text does not repeat it. Images are
    media for models that see them. Content other than text is also a note in the text, never base64.
    """
    texts: list[str] = []
    media: list[Json] = []
    for content in result.content:
        texts.append(content.text if isinstance(content, TextContent) else _write_note(content))
        if isinstance(content, ImageContent) and sees_images and _is_image(content):
            media.append({"type": "input_image", "image_url": f"data:{content.mime_type};base64,{content.data}"})
    structured = result.structured_content
    if structured is not None and not (texts and (result.is_error or _is_repeated(structured, texts))):
        texts.append(serialize_value(structured))
    is_declined = _DECLINED in (result.meta or {})
    if not result.is_error:
        return ToolOutcome(output="\n".join(texts), media=media, has_declined_input=is_declined)
    reasons = [*(texts or (_NO_MESSAGE,)), *((INPUT_DECLINED,) if is_declined else ())]
    error: Json = {"type": "mcp_tool_execution_error", "content": _texts_as_content(reasons)}
    return ToolOutcome(error=error, media=media, has_declined_input=is_declined)


def mark_declined_input(result: CallToolResult) -> CallToolResult:
    """Returns the result of a call with a mark that its server asked for input, which was declined."""
    return result.model_copy(update={"meta": {**(result.meta or {}), _DECLINED: True}})


def build_tool_item(tool: Tool) -> Json:
    """Returns a tool in the form of an `mcp_list_tools` item."""
    return {
        "name": tool.name,
        "description": tool.description,
        "input_schema": tool.input_schema,
        "annotations": {"read_only": is_read_only(tool)},
    }


def is_read_only(tool: Tool) -> bool:
    """Whether a server declares a tool as read-only."""
    return bool(tool.annotations and tool.annotations.read_only_hint)


def find_structure_fault(result: CallToolResult, schema: Json) -> TextContent | None:
    """Returns an error text if the structured content of a result does not follow the output schema of its tool.

    Only objects are checked. Invalid and too expensive schemas are ignored.
    """
    if not isinstance(result.structured_content, dict):
        return None
    text = serialize_value(result.structured_content)
    function = {"type": "function", "name": _RESULT, "parameters": schema}
    fault = CallValidator([function], len(text) * _MAX_UTF8_BYTES).fault_of(_RESULT, text)
    if fault is None:
        return None
    message = fault.replace("arguments", "structuredContent", 1)
    return TextContent(
        type="text", text=f"invalid_result: the result does not follow the tool's output schema: {message}"
    )


def _is_image(content: ImageContent) -> bool:
    """Whether this is an image that upstreams accept. An invalid image would make them refuse the whole request."""
    try:
        return content.mime_type in _IMAGE_TYPES and bool(base64.b64decode(content.data, validate=True))
    except (binascii.Error, ValueError):
        return False


def _texts_as_content(texts: Sequence[str]) -> list[Json]:
    return [{"type": "text", "text": text} for text in texts]


def _is_repeated(structured: Any, texts: Sequence[str]) -> bool:
    """Whether the texts of a result say what its structured content says: one is the same JSON, or they have all of its
    values, as libraries write them that wrap a plain value in an object."""
    if any(_is_json_of(structured, text) for text in texts):
        return True
    joined = "\n".join(texts)
    values = _list_values(structured)
    return len(joined) <= _MAX_SEARCHED_CHARS and values is not None and all(value in joined for value in values)


def _is_json_of(structured: Any, text: str) -> bool:
    if not text.lstrip().startswith(("{", "[", '"')):
        return False
    try:
        return bool(json.loads(text) == structured)
    except (ValueError, RecursionError):
        return False


def _list_values(structured: Any) -> list[str] | None:
    """Returns the values in a structure as text; None if they are too many to be searched."""
    values: list[str] = []
    pending = [structured]
    while pending:
        value = pending.pop()
        if isinstance(value, dict):
            pending += value.values()
        elif isinstance(value, list):
            pending += value
        elif value is not None:
            values.append(value if isinstance(value, str) else serialize_value(value))
        if len(values) > _MAX_SEARCHED_VALUES:
            return None
    return values


def _write_note(content: Any) -> str:
    """Returns a line in place of content that the model cannot read."""
    if isinstance(content, ResourceLink):
        return _describe_link(content)
    uri = getattr(content, "uri", None) or getattr(getattr(content, "resource", None), "uri", None)
    text = getattr(getattr(content, "resource", None), "text", None)
    if isinstance(text, str):
        return text
    kind = getattr(content, "type", "content")
    return f"[{kind}: {uri}]" if uri else f"[{kind}: {getattr(content, 'mime_type', None) or 'unknown type'}]"


def _describe_link(link: ResourceLink) -> str:
    """Returns a line about a resource that the result refers to. It is not fetched."""
    facts = [each for each in (link.mime_type, None if link.size is None else f"{link.size} bytes") if each]
    if not (facts or link.title or link.description):
        return f"[resource_link: {link.uri}]"  # its name is no more than an id
    names = " ".join(filter(None, [link.title or link.name, f"({', '.join(facts)})" if facts else ""]))
    return f"[resource_link: {link.uri} {': '.join(filter(None, [names, link.description]))}]"
