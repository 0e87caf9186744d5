"""One call of a hosted tool: its arguments, its outcome, and its item in the reply."""

from collections.abc import Callable, Iterable, Sequence
from typing import Final

import orjson

from translation.hosted.call_forms import MCP_FORM, CallForm, CallView, output_text_of
from translation.hosted.citations.citation_table import MARKER_START, keep_markers, read_result_details
from translation.hosted.elicitation.answers import UserInput
from translation.hosted.elicitation.forms import RequestedInput
from translation.hosted.outcomes import ToolOutcome, build_execution_error, build_model_output
from translation.hosted.past_hosted_calls import ApprovedCall
from translation.hosted.result_reader import ResultReader
from translation.hosted.tool_report import UNKNOWN_TOOL, CallFigures, CallNote
from translation.hosted.tools import HostedTool, ToolCatalogue, ToolKey, digest_arguments
from translation.representation.events import Delta, Event, ItemEnded, ItemStarted, PartEnded, Progressed
from translation.representation.items import NewId
from translation.representation.json_types import Item, Json

INVALID_JSON: Final = "Could not parse arguments as JSON"

_CHANGED: Final = "The tool has changed since it asked for input. The call was not continued."

NO_ITEM: Final = -1
"""The index of a call without an item."""


def describe_unknown_tool(name: str) -> str:
    """Returns the error that the model reads about a tool that does not exist."""
    return f"{name} is not a valid tool name"


class HostedCall:
    """A call of a hosted tool in a response. `tool` is None if the model called a tool that does not exist.

    `call_id` pairs the call with its output for the model, which knows the tool as `model_name`. `item_id` and `index`
    belong to its item. `index` is NO_ITEM as long as the call has no item, because it may become a request for an
    approval.
    """

    def __init__(
        self,
        *,
        item_id: str,
        call_id: str,
        key: ToolKey,
        model_name: str,
        tool: HostedTool | None,
        index: int,
        approval_request_id: str | None = None,
    ) -> None:
        self.item_id = item_id
        self.call_id = call_id
        self.key = key
        self.model_name = model_name
        self.tool = tool
        self.index = index
        self.approval_request_id = approval_request_id
        self._texts: list[str] = []
        self.outcome: ToolOutcome | None = None
        """Its outcome; None until it has been run."""
        self.model_note = ""
        """A note that the model reads after the result."""
        self.user_input: UserInput | None = None
        """The input of the user, with which the call continues; None if it did not request any."""
        self.input_request_id: str | None = None
        """The id of the item that asks for the input of the call; None if it needs none."""
        self.form: CallForm = MCP_FORM if tool is None else tool.form
        self.is_incomplete = False
        """Whether the reply was cut before the arguments were complete, so that the call is not run."""

    @property
    def arguments(self) -> str:
        """The arguments that the model has written so far."""
        if len(self._texts) > 1:
            self._texts = ["".join(self._texts)]
        return self._texts[0] if self._texts else ""

    @arguments.setter
    def arguments(self, text: str) -> None:
        self._texts = [text]

    def append_arguments(self, text: str) -> None:
        """Appends to the arguments. There may be thousands of texts, so they are joined only when they are read."""
        self._texts.append(text)

    @property
    def fingerprint(self) -> tuple[ToolKey, str]:
        """A value that is equal for calls of one tool with the same arguments."""
        return self.key, digest_arguments(self.arguments)

    @property
    def has_item(self) -> bool:
        """Whether the call has an item in the reply."""
        return self.index != NO_ITEM

    @property
    def needs_approval(self) -> bool:
        """Whether the call must be approved before it is run."""
        return self.approval_request_id is None and self.tool is not None and self.tool.needs_approval

    @property
    def client_id(self) -> str:
        """The id by which clients know this call, through all its items."""
        return self.item_id if self.approval_request_id is None else self._origin_id or self.approval_request_id

    @property
    def is_settled(self) -> bool:
        """Whether the call has its outcome, or is incomplete and so never run."""
        return self.is_incomplete or self.outcome is not None

    def is_longer_than(self, max_bytes: int) -> bool:
        """Whether the arguments have more bytes than this."""
        text = self.arguments
        return len(text) > max_bytes or len(text.encode(errors="surrogatepass")) > max_bytes

    @property
    def report_name(self) -> str:
        """The name of its tool in reports: that of a tool of an MCP server follows the label of the server."""
        if self.tool is None:
            return UNKNOWN_TOOL
        return f"{self.key.server}.{self.key.name}" if self.form is MCP_FORM else self.key.name

    def build_figures(self, is_cut: Callable[[str], bool]) -> CallFigures:
        """Returns the numbers of a settled call. `is_cut` says whether the model reads a text in parts."""
        if self.outcome is None:
            return CallFigures(has_failed=True, notes=("skipped",))
        return build_call_figures(self.outcome, self.form, is_cut)

    def build_start_events(self) -> Sequence[Event]:
        """Returns the events that begin the item."""
        started = ItemStarted(self.index, self._build_item("in_progress", ""))
        return [started, Progressed(self.index, "in_progress")] if self.form.has_phases else [started]

    def build_approved_events(self) -> Sequence[Event]:
        """Returns all events of the item of an approved call that precede its run."""
        return [
            *self.build_start_events(),
            *self.build_delta_events(self.arguments),
            Progressed(self.index, "in_progress"),
            *self.build_arguments_events(),
        ]

    def build_whole_events(self) -> Sequence[Event]:
        """Returns the events that begin the item of a call whose arguments are complete."""
        return [
            *self.build_start_events(),
            *self.build_delta_events(self.arguments),
            *self.build_arguments_events(),
        ]

    def build_delta_events(self, text: str) -> list[Event]:
        """Returns the events of a piece of the arguments: none if clients do not see them as they are written."""
        return [Delta(self.index, None, text)] if self.form.streams_arguments else []

    def build_arguments_events(self) -> list[Event]:
        """Returns the events that end the arguments, and begin the run of a call that is not settled."""
        events: list[Event] = []
        if (key := self.form.text_key) is not None:
            text = self.form.read_text(self.arguments)
            if not self.form.streams_arguments:
                events.append(Delta(self.index, None, text))
            events.append(PartEnded(self.index, None, {key: text}))
        if not self.is_settled:
            events += [Progressed(self.index, phase) for phase in self.form.run_phases]
        return events

    def build_end_events(self) -> Sequence[Event]:
        """Returns the events that end the item of a settled call."""
        if self.is_incomplete or self.input_request_id is not None:
            return [ItemEnded(self.index, self._build_item("incomplete", self.arguments), "incomplete")]
        has_failed = self.outcome is not None and self.outcome.failed
        status = self.form.failed_status if has_failed else "completed"
        ended = ItemEnded(self.index, self._build_item(status, self.arguments))
        phase = self.form.failed_phase if has_failed else "completed" if self.form.has_phases else None
        return [ended] if phase is None else [Progressed(self.index, phase), ended]

    def build_model_items(self, reader: ResultReader) -> tuple[Item, Item]:
        """Returns the function call and its output for the next round. `reader` cuts the output."""
        outcome = self.outcome or ToolOutcome()
        text = output_text_of({"output": outcome.output, "error": outcome.error})
        if MARKER_START in text:
            marked = read_result_details((outcome.fields or {}).get("details"))
            text = keep_markers(text, {} if marked is None else marked.citables)
        text = reader.cut(self.item_id, text)
        call = {
            "type": "function_call",
            "call_id": self.call_id,
            "name": self.model_name,
            # A model that sees its own broken JSON again is refused by some upstreams.
            "arguments": self.arguments if is_json_object(self.arguments) else "{}",
        }
        output = build_model_output(text + self.model_note, outcome.media)
        return call, {"type": "function_call_output", "call_id": self.call_id, "output": output}

    def build_item(self, status: str) -> Item:
        """Returns the item with the arguments and the outcome so far."""
        return self._build_item(status, self.arguments)

    @property
    def final_item(self) -> Item:
        """The item of a call whose outcome is known."""
        return self.build_item_with(self.outcome or ToolOutcome())

    def build_item_with(self, outcome: ToolOutcome) -> Item:
        """Returns the item of the call with this outcome, before the call is settled."""
        if outcome.requested_input is not None:
            return self._build_item("incomplete", self.arguments)
        status = self.form.failed_status if outcome.failed else "completed"
        return self._build_item(status, self.arguments, outcome)

    def _build_item(self, status: str, arguments: str, outcome: ToolOutcome | None = None) -> Item:
        outcome = outcome or self.outcome or ToolOutcome()
        item: Item = {
            "id": self.item_id,
            "type": self.form.item_type,
            "status": status,
            **self.form.build_fields(CallView(*self.key, arguments, self.approval_request_id, outcome)),
        }
        if self._origin_id is not None:
            item["continues"] = self._origin_id
        if self.input_request_id is not None:
            item["input_request_id"] = self.input_request_id
        return item

    @property
    def _origin_id(self) -> str | None:
        return None if self.user_input is None else self.user_input.call_id


def build_approved_call(
    approval: ApprovedCall, catalogue: ToolCatalogue, new_id: NewId, given: UserInput | None, *, is_changed: bool
) -> HostedCall:
    """Returns a call that the client approved, or gave input to. `new_id` makes the id of its item.

    If its tool `is_changed`, the approval is not valid; a call that asked for input is settled then.
    """
    name = catalogue.name_of(approval.key)
    tool = catalogue.find(name)
    call = HostedCall(
        item_id=new_id(MCP_FORM.id_prefix if tool is None else tool.form.id_prefix),
        call_id=approval.approval_request_id,
        key=approval.key,
        model_name=name,
        tool=tool,
        index=NO_ITEM,
        approval_request_id=None if is_changed and given is None else approval.approval_request_id,
    )
    call.arguments = approval.arguments
    call.user_input = given
    if is_changed and given is not None:
        call.outcome = build_execution_error(_CHANGED)
    return call


def build_call_figures(outcome: ToolOutcome, form: CallForm, is_cut: Callable[[str], bool]) -> CallFigures:
    """Returns the numbers of a call that has ended. `is_cut` says whether the model reads a text in parts."""
    text = output_text_of({"output": outcome.output, "error": outcome.error})
    cut: Sequence[CallNote] = ("cut",) if "cut" not in outcome.notes and is_cut(text) else ()
    return CallFigures(
        has_failed=outcome.failed,
        elapsed_ms=outcome.elapsed_ms,
        size=len(text.encode(errors="surrogatepass")) + sum(len(orjson.dumps(part)) for part in outcome.media),
        results=form.count_results(outcome),
        notes=(*outcome.notes, *cut),
    )


def is_json_object(text: str) -> bool:
    """Whether a text is a JSON object."""
    try:
        return isinstance(orjson.loads(text), dict)
    except orjson.JSONDecodeError:
        return False


def build_model_items(entries: Iterable[Item | HostedCall], reader: ResultReader) -> list[Item]:
    """Returns items and calls of one round for the model: the outputs of the calls follow after all of them."""
    items: list[Item] = []
    outputs: list[Item] = []
    for entry in entries:
        if not isinstance(entry, HostedCall):
            items.append(entry)
            continue
        function_call, output = entry.build_model_items(reader)
        items.append(function_call)
        outputs.append(output)
    return items + outputs


def build_approval_request(call: HostedCall, item_id: str, requested: RequestedInput | None = None) -> Json:
    """Returns the item that asks the client to approve a call, or for the input of a call."""
    item: Item = {
        "id": item_id,
        "type": "mcp_approval_request",
        "arguments": call.arguments,
        "name": call.key.name,
        "server_label": call.key.server,
    }
    if requested is not None:
        item |= {"continues": requested.call_id, "elicitation": requested.describe()}
    return item
