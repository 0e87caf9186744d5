"""The output that waits behind a call, as JSON: another process that continues the response has to send it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final

from translation.hosted.calls import HostedCall
from translation.hosted.elicitation.answers import UserInput
from translation.hosted.outcomes import ToolOutcome
from translation.hosted.tools import ToolCatalogue, ToolKey
from translation.representation.events import (
    Annotated,
    Delta,
    Event,
    ItemEnded,
    ItemStarted,
    Opaque,
    PartEnded,
    PartStarted,
    Progressed,
)
from translation.representation.json_types import Json

_EVENT_TYPES: Final[Mapping[str, type[Event]]] = {
    event_type.__name__: event_type
    for event_type in (Annotated, Delta, ItemEnded, ItemStarted, Opaque, PartEnded, PartStarted, Progressed)
}
"""The types of events that can wait: the events of items."""


_REPORTED: Final = frozenset({"elapsed_ms", "notes"})


def save_queue(entries: Iterable[Event | HostedCall]) -> list[Json]:
    """Returns the entries of an output queue as JSON. Deltas with nothing but text are joined."""
    saved: list[Json] = []
    for entry in entries:
        if isinstance(entry, HostedCall):
            saved.append({"call": save_call(entry)})
        elif not _extends_last(saved, entry):
            saved.append({"event": type(entry).__name__, **asdict(entry)})
    return saved


def restore_queue(
    saved: Sequence[Json], catalogue: ToolCatalogue, inputs: Mapping[str, UserInput]
) -> list[Event | HostedCall]:
    """Returns the entries that `save_queue` saved.

    `inputs` has the user's input for calls, by the ids of their requests.
    """
    return [_restore_entry(entry, catalogue, inputs) for entry in saved]


def save_call(call: HostedCall) -> Json:
    """Returns a call as JSON."""
    return {
        "item_id": call.item_id,
        "call_id": call.call_id,
        "key": [*call.key],
        "model_name": call.model_name,
        "index": call.index,
        "approval_request_id": call.approval_request_id,
        "arguments": call.arguments,
        "outcome": None if call.outcome is None else _save_outcome(call.outcome),
    }


def _save_outcome(outcome: ToolOutcome) -> Json:
    """Returns an outcome as JSON, without what only reports need: older servers would not know it."""
    return {name: value for name, value in asdict(outcome).items() if name not in _REPORTED}


def _restore_entry(saved: Json, catalogue: ToolCatalogue, inputs: Mapping[str, UserInput]) -> Event | HostedCall:
    if "call" in saved:
        call = _restore_call(saved["call"], catalogue)
        call.user_input = inputs.get(call.approval_request_id or "")
        return call
    fields = {name: value for name, value in saved.items() if name != "event"}
    return _EVENT_TYPES[saved["event"]](**fields)


def _restore_call(saved: Json, catalogue: ToolCatalogue) -> HostedCall:
    names = ("item_id", "call_id", "model_name", "index", "approval_request_id")
    named: dict[str, Any] = {name: saved[name] for name in names}
    key = ToolKey(*saved["key"])
    tool = catalogue.find(saved["model_name"])
    call = HostedCall(**named, key=key, tool=tool if tool is not None and tool.key == key else None)
    call.arguments = saved["arguments"]
    if saved["outcome"] is not None:
        call.outcome = ToolOutcome(**saved["outcome"])
    return call


def _extends_last(saved: list[Json], event: Event) -> bool:
    """Appends the text of a delta to the saved delta before it, if they are of one text."""
    if not isinstance(event, Delta) or event.logprobs or event.token_ids or not saved:
        return False
    last = saved[-1]
    if last.get("event") != Delta.__name__ or (last["index"], last["part_index"]) != (event.index, event.part_index):
        return False
    if last["logprobs"] or last["token_ids"]:
        return False
    last["text"] += event.text
    return True
