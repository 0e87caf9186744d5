"""Results of MCP calls as outcomes of the loop."""

from collections.abc import Sequence
from typing import Any

import orjson
from mcp_types import CallToolResult, ImageContent, TextContent

from translation.hosted.outcomes import ToolOutcome
from translation.representation.json_types import Json


def outcome_of(result: CallToolResult, *, sees_images: bool) -> ToolOutcome:
    """Returns the outcome of a call that the server answered.

    Its text is that of the result, or its structured content as JSON. Images are media for models that see them; what a
    model cannot read is a note in the text, never base64.
    """
    texts: list[str] = []
    media: list[Json] = []
    for content in result.content:
        if isinstance(content, TextContent):
            texts.append(content.text)
        elif isinstance(content, ImageContent) and sees_images:
            media.append({"type": "input_image", "image_url": f"data:{content.mime_type};base64,{content.data}"})
        else:
            texts.append(_note_of(content))
    if not texts and result.structured_content is not None:
        texts.append(orjson.dumps(result.structured_content).decode())
    text = "\n".join(texts)
    if not result.is_error:
        return ToolOutcome(output=text, media=media)
    return ToolOutcome(error={"type": "mcp_tool_execution_error", "content": _texts_as_content(texts)}, media=media)


def _texts_as_content(texts: Sequence[str]) -> list[Json]:
    return [{"type": "text", "text": text} for text in texts or ("The tool failed without a message.",)]


def _note_of(content: Any) -> str:
    """Returns a line that stands for content that the model cannot read."""
    uri = getattr(content, "uri", None) or getattr(getattr(content, "resource", None), "uri", None)
    text = getattr(getattr(content, "resource", None), "text", None)
    if isinstance(text, str):
        return text
    kind = getattr(content, "type", "content")
    return f"[{kind}: {uri}]" if uri else f"[{kind}: {getattr(content, 'mime_type', None) or 'unknown type'}]"
