"""Reads what a tool of an MCP server wrote, as text and images."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from gateway.tools.mapped_tools.found_entries import MappedToolFailed, parse_result
from gateway.tools.mcp.results import build_outcome
from translation.hosted.call_forms import output_text_of

if TYPE_CHECKING:
    from mcp_types import CallToolResult

    from gateway.tools.mapped_tools.mapped_tool import MappedTool

_MAX_IMAGE_CHARS: Final = 1_400_000
"""The longest image as a data URL: 1 MiB in base64. Larger ones are left out, which the text says."""

_LEFT_OUT: Final = "[An image is too large to be shown.]"


class ToolOutput(NamedTuple):
    """The text and the images, as data URLs, of a result."""

    text: str
    images: Sequence[str]
    is_error: bool


def read_output(result: "CallToolResult", tool: "MappedTool") -> ToolOutput:
    """Returns what a tool wrote: the text at the path of the configuration, or all of its text. Raises MappedToolFailed
    if there is no text at the path."""
    outcome = build_outcome(result, sees_images=True)
    text = output_text_of({"output": outcome.output, "error": outcome.error})
    place = tool.settings.result.read_path("text")
    if place is not None and not outcome.failed:
        value = place.find(parse_result(result, tool.limits))
        if not isinstance(value, str):
            raise tool.report(MappedToolFailed(f"the result has no text at {place.text} (result.text)"))
        text = value
    images = [part["image_url"] for part in outcome.media]
    small = [image for image in images if len(image) <= _MAX_IMAGE_CHARS]
    notes = [_LEFT_OUT] * (len(images) - len(small))
    return ToolOutput("\n".join([text, *notes] if text else notes), small, outcome.failed)
