"""The items by which clients see the calls of hosted tools, and what a later turn reads of them.

A form is a value of a tool, so that the loop knows nothing of the kinds of tools: MCP is the form of this module, and
the executors of other tools bring their own.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

import orjson

from translation.hosted.citations.citables import MarkedSource
from translation.hosted.outcomes import ToolOutcome, build_execution_error
from translation.representation.json_types import Item, Json

_COMMON_FIELDS: Final = frozenset({"id", "type", "status"})


class CallView(NamedTuple):
    """A call as a form shows it. `arguments` is what the model has written so far; `outcome` is empty before the
    end."""

    server: str
    name: str
    arguments: str
    approval_request_id: str | None
    outcome: ToolOutcome


class PastHostedCall(NamedTuple):
    """A call in an input, as the model reads it: `server` and `name` identify the tool.

    `citables` is what the markers in its output stand for.
    """

    server: str
    name: str
    arguments: str
    output: str
    citables: Mapping[int, MarkedSource] = {}  # never changed


class CallForm(ABC):
    """The form of the calls of one kind of tools. A subclass sets what differs; it has no state."""

    item_type: str
    id_prefix: str
    """The prefix of the ids of its items."""
    run_phases: Sequence[str] = ()
    """The phases that a call reports when its arguments are complete and it is about to be run, such as `searching`."""
    failed_phase: str | None = None
    """The phase of a call that failed; None if the API has no event for it."""
    text_key: str | None = None
    """The field of the item whose text is streamed, such as `arguments`; None if no text of the call is."""
    streams_arguments: bool = False
    """Whether the arguments are streamed as the model writes them. Otherwise `read_text` gives the text at their
    end."""
    has_phases: bool = True
    """Whether the API has events for the progress of a call."""
    failed_status: str = "failed"
    """The status of the item of a call that failed."""
    output_type: str | None = None
    """The type of a second item, which has the result of a call and follows it; None if the call's own item has it."""
    holds_output: bool = False
    """Whether the item holds the text that the model reads, so that a journal of items is enough to continue."""

    @abstractmethod
    def build_fields(self, call: CallView) -> Json:
        """Returns the fields of the item besides its id, type and status."""

    @abstractmethod
    def read_past(self, item: Item) -> PastHostedCall:
        """Returns the call of an item in an input, which a client may have written."""

    def reads(self, item: Item) -> bool:
        """Whether an item of this type, or of the `output_type`, is of a call that the gateway ran."""
        return True

    def build_output_item(
        self, item_id: str, outcome: ToolOutcome, load: Callable[[Iterable[str]], list[Json]]
    ) -> Item | None:
        """Returns the item of the `output_type` for a call that has ended; None if there is none.

        `load` lets the model see the tools with these names from the next round on, and returns them.
        """
        return None

    def read_output(self, item: Item) -> str:
        """Returns what the model reads of an item of the `output_type`."""
        return output_text_of(item)

    def read_text(self, arguments: str) -> str:
        """Returns the text of `text_key` for complete arguments."""
        return arguments

    def count_results(self, outcome: ToolOutcome) -> int:
        """Returns how many results a call has: those of a search, otherwise one."""
        return 0 if outcome.failed or outcome.requested_input is not None else 1

    def build_journal_media(self, outcome: ToolOutcome) -> Sequence[Json]:
        """Returns the content parts that a journal stores beside the item of a call that has ended."""
        text = output_text_of({"output": outcome.output, "error": outcome.error})
        return (
            outcome.media if self.holds_output or not text else [{"type": "input_text", "text": text}, *outcome.media]
        )

    def restore_outcome(self, item: Item, media: Sequence[Json]) -> ToolOutcome:
        """Returns the outcome of a call from its item in a journal, and from the parts beside it."""
        text = "\n".join(part["text"] for part in media if part["type"] == "input_text")
        fields = {name: value for name, value in item.items() if name not in _COMMON_FIELDS}
        outcome = build_execution_error(text) if item["status"] == "failed" else ToolOutcome(output=text)
        others = [part for part in media if part["type"] != "input_text"]
        return replace(outcome, media=others, fields=fields)


class McpForm(CallForm):
    """Calls of tools of MCP servers: items of the type `mcp_call`."""

    item_type = "mcp_call"
    id_prefix = "mcp"
    failed_phase = "failed"
    text_key = "arguments"
    streams_arguments = True
    holds_output = True

    def build_fields(self, call: CallView) -> Json:
        return {
            "approval_request_id": call.approval_request_id,
            "arguments": call.arguments,
            "error": call.outcome.error,
            "name": call.name,
            "output": call.outcome.output,
            "server_label": call.server,
        }

    def read_past(self, item: Item) -> PastHostedCall:
        arguments = item.get("arguments") or "{}"
        return PastHostedCall(item["server_label"], item["name"], arguments, output_text_of(item))

    def restore_outcome(self, item: Item, media: Sequence[Json]) -> ToolOutcome:
        return ToolOutcome(item["output"], item["error"], media)


MCP_FORM: Final = McpForm()

MCP_FORMS: Final[Mapping[str, CallForm]] = {MCP_FORM.item_type: MCP_FORM}
"""The forms of a response whose tools are those of MCP servers, by the types of their items."""


def output_text_of(call: Item) -> str:
    """Returns the output of an `mcp_call` item for the model: its output, or its error."""
    error: Any = call.get("error")
    if not error:
        return _text_of(call.get("output"))
    if not isinstance(error, dict):
        return _text_of(error)
    content = error.get("content")
    parts = content if isinstance(content, list) else []
    texts = [part["text"] for part in parts if isinstance(part, dict) and isinstance(part.get("text"), str)]
    return "\n".join(texts) or _text_of(error.get("message") or error)


def _text_of(value: Any) -> str:
    """Returns a value of an item as text. Clients may have written values of other types."""
    return value if isinstance(value, str) else orjson.dumps(value).decode() if value else ""
