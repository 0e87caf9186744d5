"""The outcome of a call of a hosted tool, for its item and for the model."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from translation.hosted.elicitation.forms import RequestedInput
from translation.hosted.tool_report import CallNote
from translation.representation.json_types import Json


@dataclass(frozen=True, slots=True)
class ToolOutcome:
    """The outcome of one call.

    `output` is the text of the item; `error` is its error object, in one of the three forms of the API. `media` are
    content parts besides the text, such as images, in the form of the Responses API. A call with `requested_input` has
    no other outcome yet: it continues in another response, when the user has answered. With `has_declined_input` the
    server asked for input, and the gateway declined.
    """

    output: str | None = None
    error: Json | None = None
    media: Sequence[Json] = ()
    fields: Json | None = None
    """Fields of the item that its form takes from the outcome, such as the `action` of a search."""
    requested_input: RequestedInput | None = None
    has_declined_input: bool = False
    elapsed_ms: int = 0
    """How long the call ran, for reports."""
    notes: Sequence[CallNote] = ()
    """What reports say of the call besides its numbers."""

    @property
    def failed(self) -> bool:
        """Whether the call failed, so that its item does."""
        return self.error is not None


def build_execution_error(text: str) -> ToolOutcome:
    """Returns the outcome of a call whose failure the tool itself, or the gateway in its place, reports."""
    return ToolOutcome(error={"type": "mcp_tool_execution_error", "content": [{"type": "text", "text": text}]})


def build_skip(text: str) -> ToolOutcome:
    """Returns the outcome of a call that is not run, and why."""
    return replace(build_execution_error(text), notes=("skipped",))


def build_protocol_error(code: int, message: str) -> ToolOutcome:
    """Returns the outcome of a call that its server answered with a JSON-RPC error, or not at all."""
    return ToolOutcome(error={"type": "mcp_protocol_error", "code": code, "message": message})


def build_http_error(code: int, message: str) -> ToolOutcome:
    """Returns the outcome of a call that its server answered with an HTTP error."""
    return ToolOutcome(error={"type": "http_error", "code": code, "message": message})


def build_model_output(text: str, media: Sequence[Json]) -> Any:
    """Returns the `output` of the function call output that the model reads: a text, or parts if there are media.

    There is no part for an empty text, which some upstreams refuse.
    """
    if not media:
        return text
    return [{"type": "input_text", "text": text}, *media] if text else [*media]
