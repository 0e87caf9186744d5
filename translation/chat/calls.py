"""Assembles tool calls from the fragments of a chat stream, however an upstream numbers, names and splits them."""

from dataclasses import dataclass, field
from typing import Any

from translation.chat.call_entries import (
    CallEntry,
    are_complete,
    list_call_entries,
    parse_call_entry,
    repeats_arguments,
)
from translation.chat.final_message import KnownCall, find_missing_calls
from translation.chat.reasoning import build_call_detail
from translation.parsers.text_calls import TOOL_WARNINGS
from translation.representation.events import Event, Noted
from translation.representation.item_writer import ItemWriter
from translation.representation.items import NewId, new_reasoning
from translation.representation.json_types import Json
from translation.tools.call_ids import CallIdAllocator, check_call_count


@dataclass(slots=True, eq=False)
class _Call:
    is_custom: bool
    id: str | None = None
    client_id: str = ""
    """The unique id that it was opened with."""
    name: str = ""
    texts: list[str] = field(default_factory=list)
    is_open: bool = False
    is_ended: bool = False
    has_late_text: bool = False
    extra_content: Json | None = None
    """Opaque data that the upstream needs back, until it was written."""
    examined_count: int = 0
    """How many of the texts were there when it was last examined whether they are complete."""


class CallAssembler:
    """Turns entries of `tool_calls` into events, through an ItemWriter.

    A call is opened when its arguments begin, because until then its name and id may still change: names come split
    over chunks or repeated in each, ids late or never. Calls are opened in the order of their first entries.

    A call ends when the next item begins, if its arguments are complete then. Every other call stays open until the
    reply ends, because upstreams may send the arguments of several calls in turns.
    """

    def __init__(self, writer: ItemWriter, new_id: NewId) -> None:
        self._writer = writer
        self._new_id = new_id
        self._calls: list[_Call] = []
        self._by_index: dict[int, _Call] = {}
        self._ids = CallIdAllocator()

    @property
    def has_calls(self) -> bool:
        """Whether any call was opened, even if it has ended."""
        return any(call.is_open for call in self._calls)

    @property
    def has_nameless_call(self) -> bool:
        """Whether a call has arguments but no name."""
        return any(call.texts and not call.name for call in self._calls)

    def feed(self, entries: Any, *, whole: bool = False) -> list[Event]:
        """Takes `tool_calls` of a delta and returns the events they cause.

        With `whole` they are the calls of a whole message, where each entry is a separate call. Raises
        ProtocolViolation for something that is no list of calls.
        """
        events: list[Event] = []
        for position, entry in enumerate(list_call_entries(entries)):
            fragment = parse_call_entry(entry)
            call = None if whole else self._find_numbered_call(fragment, position)
            if call is not None and repeats_arguments(fragment, call.id, call.name, call.texts):
                continue
            if call is None or not _continues(call, fragment):
                call = _Call(is_custom=fragment.is_custom)
                self._calls.append(call)
                check_call_count(len(self._calls))
            if fragment.call_index is not None:
                self._by_index[fragment.call_index] = call
            events += self._add_fragment(call, fragment)
        return events + self._open_named_calls() if whole else events

    def continued_texts(self, entry: Json) -> list[str] | None:
        """Returns the texts of the open call that an entry without a name continues; None if there is no such call.

        As long as only such entries follow, their arguments are just appended.
        """
        fragment = parse_call_entry(entry)
        call = None if fragment.name else self._find_numbered_call(fragment, 0)
        return call.texts if call is not None and call.is_open and not call.is_ended else None

    def complete(self, listed: Any) -> list[Event]:
        """Takes the calls of the upstream's final message. Returns the events of what the fragments lacked.

        Raises ProtocolViolation if the message has other calls.
        """
        known = [KnownCall(call.id, call.name, "".join(call.texts)) for call in self._calls]
        rests, further = find_missing_calls(listed, known)
        events: list[Event] = []
        for position, rest in rests:
            call = self._calls[position]
            events += self._add_fragment(call, CallEntry(None, None, "", rest, call.is_custom, None))
        return [*events, *self.feed(further, whole=True)] if further else events

    def prepare_text(self) -> list[Event]:
        """Returns the events that precede text: calls that have a name are opened, and complete ones end."""
        if not self._calls:
            return []
        return self._open_named_calls() + self._end_complete_calls()

    def close(self, *, truncated: bool) -> list[Event]:
        """Ends the input. A function call without arguments gets `{}`, unless it is the last one and `truncated`."""
        events = self._open_named_calls()
        for call in self._calls:
            events += self._write_data(call)
        open_calls = [call for call in self._calls if call.is_open]
        for call in open_calls[:-1] if truncated else open_calls:
            if not call.is_custom and not any(text.strip() for text in call.texts):
                events += self._writer.write_arguments(call, "{}")
        return events

    def _find_numbered_call(self, fragment: CallEntry, position: int) -> _Call | None:
        """Returns the call that has a fragment's index (or, without one, its id or the last position); None if there is
        none. The fragment may still start a new call. `position` is its list index."""
        if fragment.call_index is not None:
            return self._by_index.get(fragment.call_index)
        if position > 0 and fragment.id is None and fragment.name:
            return None
        known = (call for call in self._calls if fragment.id is not None and call.id == fragment.id)
        return next(known, self._calls[-1] if self._calls else None)

    def _add_fragment(self, call: _Call, fragment: CallEntry) -> list[Event]:
        call.extra_content = fragment.extra_content or call.extra_content
        if call.is_ended:
            return self._report_late_text(call) if fragment.text.strip() else []
        call.id = fragment.id or call.id
        if call.is_open:
            if fragment.text:
                call.texts.append(fragment.text)
            return self._writer.write_arguments(call, fragment.text)
        call.name = _extend_name(call.name, fragment.name)
        if not fragment.text:
            return []
        call.texts.append(fragment.text)
        if not call.name:
            return []
        earlier = self._calls[: self._calls.index(call)]
        events = [event for other in earlier if not other.is_open and other.name for event in self._open_call(other)]
        return events + self._open_call(call)

    def _open_named_calls(self) -> list[Event]:
        """Opens the calls that have a name and no arguments yet, because no more of the name can follow."""
        return [event for call in self._calls if not call.is_open and call.name for event in self._open_call(call)]

    def _open_call(self, call: _Call) -> list[Event]:
        events = self._end_complete_calls()
        call.is_open = True
        kind = "custom_tool_call" if call.is_custom else "function_call"
        call.client_id, arguments = self._ids.claim(call.id), "".join(call.texts)
        events += self._write_data(call)
        call_id = call.client_id
        return events + self._writer.open_call(call, name=call.name, call_id=call_id, arguments=arguments, kind=kind)

    def _write_data(self, call: _Call) -> list[Event]:
        """Writes the opaque data of a call as an item of its own, before the call unless it came later."""
        extra_content, call.extra_content = call.extra_content, None
        if extra_content is None or not call.is_open:
            return []
        details = [build_call_detail(call.client_id, extra_content)]
        return self._writer.write_item({**new_reasoning(self._new_id("rs")), "details": details})

    def _end_complete_calls(self) -> list[Event]:
        events: list[Event] = []
        for call in self._calls:
            # Text may follow in thousands of pieces, so the same arguments are not examined again.
            if not call.is_open or call.is_ended or call.is_custom or call.examined_count == len(call.texts):
                continue
            call.examined_count = len(call.texts)
            if are_complete(call.texts):
                call.is_ended = True
                events += self._writer.close_call(call)
        return events

    def _report_late_text(self, call: _Call) -> list[Event]:
        """Reports text that follows complete arguments, once for each call. It is left out."""
        if call.has_late_text:
            return []
        call.has_late_text = True
        return [Noted(facts={TOOL_WARNINGS: [{"name": call.name, "why": "text followed its complete arguments"}]})]


def _continues(call: _Call, fragment: CallEntry) -> bool:
    """Whether a fragment continues the call that has its index (or, without one, its id or the last position).

    A new call always has a name. Some upstreams give every call the index 0, some repeat the name in each fragment,
    some change the id in the middle of a call. So what the call has so far decides.
    """
    if not (fragment.name and call.name):
        return True
    other_id = fragment.id is not None and call.id is not None and fragment.id != call.id
    if call.is_custom or not call.texts:
        return not other_id
    if are_complete(call.texts):
        return not fragment.text and (fragment.id is None or fragment.id == call.id)
    return fragment.id == call.id or fragment.name == call.name


def _extend_name(name: str, piece: str) -> str:
    """Returns a name with one more piece. The piece may also repeat the whole name or the name so far."""
    return piece if piece.startswith(name) else name if name == piece else name + piece
