"""Tool calls out of fragments, however an upstream numbers, names and cuts them."""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import orjson

from translation.representation.events import Event
from translation.representation.item_writer import ItemWriter
from translation.representation.json_types import Json
from translation.tools.call_ids import CallIds


class _Fragment(NamedTuple):
    """What one entry of `tool_calls` says."""

    place: int | None
    id: str | None
    name: str
    text: str
    custom: bool


@dataclass(slots=True, eq=False)
class _Call:
    custom: bool
    id: str | None = None
    name: str = ""
    texts: list[str] = field(default_factory=list)
    opened: bool = False


class CallReader:
    """Entries of `tool_calls` in, events out, written through an ItemWriter.

    A call is opened when its arguments begin, because until then its name and id may still grow: names come split over
    chunks or repeated in each, ids late or never. Calls are opened in the order in which they were first heard of.
    """

    def __init__(self, writer: ItemWriter) -> None:
        self._writer = writer
        self._calls: list[_Call] = []
        self._by_index: dict[int, _Call] = {}
        self._ids = CallIds()

    @property
    def made(self) -> bool:
        """Whether there was any call."""
        return any(call.opened for call in self._calls)

    @property
    def nameless(self) -> bool:
        """Whether there are arguments of a call that never said its name."""
        return any(call.texts and not call.name for call in self._calls)

    def feed(self, entries: Any, *, whole: bool = False) -> list[Event]:
        """Take the `tool_calls` of a delta, or with `whole` of a message: there each entry is a call of its own."""
        events: list[Event] = []
        listed = entries if isinstance(entries, list) else [entries]
        for position, entry in enumerate(listed):
            if not isinstance(entry, dict):
                continue
            fragment = _read(entry)
            call = None if whole else self._find(fragment, position)
            if call is None:
                call = _Call(custom=fragment.custom)
                self._calls.append(call)
            if fragment.place is not None:
                self._by_index[fragment.place] = call
            events += self._add(call, fragment)
        return events + self.open_named() if whole else events

    def open_named(self) -> list[Event]:
        """Open the calls that have said nothing but their name: something else follows them."""
        if not self._calls:
            return []
        return [event for call in self._calls if not call.opened and call.name for event in self._open(call)]

    def close(self, *, truncated: bool) -> list[Event]:
        """No more is coming. A function called without arguments gets `{}`, but for a last one that was cut off."""
        events = self.open_named()
        opened = [call for call in self._calls if call.opened]
        for call in opened[:-1] if truncated else opened:
            if not call.custom and not any(text.strip() for text in call.texts):
                events += self._writer.arguments(call, "{}")
        return events

    def _find(self, fragment: _Fragment, position: int) -> _Call | None:
        """The call a fragment belongs to; `None` if it begins a new one."""
        if fragment.place is not None:
            call = self._by_index.get(fragment.place)
        else:
            known = (call for call in self._calls if fragment.id is not None and call.id == fragment.id)
            call = next(known, self._calls[-1] if self._calls else None)
            if position > 0 and fragment.id is None and fragment.name:
                return None
        return call if call is not None and _continues(call, fragment) else None

    def _add(self, call: _Call, fragment: _Fragment) -> list[Event]:
        call.id = fragment.id or call.id
        if call.opened:
            if fragment.text:
                call.texts.append(fragment.text)
            return self._writer.arguments(call, fragment.text)
        call.name = _grow(call.name, fragment.name)
        if not fragment.text:
            return []
        call.texts.append(fragment.text)
        if not call.name:
            return []
        earlier = self._calls[: self._calls.index(call)]
        events = [event for each in earlier if not each.opened and each.name for event in self._open(each)]
        return events + self._open(call)

    def _open(self, call: _Call) -> list[Event]:
        call.opened = True
        kind = "custom_tool_call" if call.custom else "function_call"
        call_id = self._ids.take(call.id)
        return self._writer.call(call, name=call.name, call_id=call_id, arguments="".join(call.texts), kind=kind)


def _continues(call: _Call, fragment: _Fragment) -> bool:
    """Whether a fragment goes on with the call that has its index (or, without one, its id or the last place).

    A new call always says its name. Some upstreams number every call 0, some repeat the name in each fragment, some
    change the id in the middle: what the call has so far decides.
    """
    if not (fragment.name and call.name):
        return True
    other_id = fragment.id is not None and call.id is not None and fragment.id != call.id
    if call.custom or not call.texts:
        return not other_id
    if is_whole("".join(call.texts)):
        return not fragment.text and (fragment.id is None or fragment.id == call.id)
    return fragment.id == call.id or fragment.name == call.name


def is_whole(arguments: str) -> bool:
    """Whether arguments so far are one JSON object, so that nothing can follow."""
    if not arguments.rstrip().endswith("}"):
        return False
    try:
        orjson.loads(arguments)
    except orjson.JSONDecodeError:
        return False
    return True


def _grow(name: str, piece: str) -> str:
    """A name with one more piece, which may also be the whole name (so far) again."""
    return piece if piece.startswith(name) else name if name == piece else name + piece


def _read(entry: Json) -> _Fragment:
    body = entry.get("function")
    text_key, custom = "arguments", False
    if not isinstance(body, dict) and isinstance(entry.get("custom"), dict):
        body, text_key, custom = entry["custom"], "input", True
    if not isinstance(body, dict):
        body = entry  # flat, as in the legacy `function_call`
    index, call_id, name, text = entry.get("index"), entry.get("id"), body.get("name"), body.get(text_key)
    return _Fragment(
        index if isinstance(index, int) else None,
        str(call_id) if call_id else None,
        name if isinstance(name, str) else "",
        text if isinstance(text, str) else "" if text is None else orjson.dumps(text).decode(),
        custom or entry.get("type") == "custom",
    )
