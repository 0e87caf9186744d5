"""Calls on a Responses relay: each under an id of its own, JSON taken out of its fence, faults noted; else as they
came."""

from collections import defaultdict, deque
from dataclasses import dataclass, field
from typing import Any, Final, TypeGuard

from translation.hygiene.call_rules import CallRules
from translation.representation.items import CALL_TYPES
from translation.representation.json_types import Item, Json
from translation.tools.arguments import unfenced

ARGUMENTS: Final = frozenset({"response.function_call_arguments.delta", "response.function_call_arguments.done"})
"""Events of a call's arguments."""

ITEM_DONE: Final = "response.output_item.done"

_NAMED: Final = tuple(f'"{kind}"'.encode() for kind in sorted(CALL_TYPES))


@dataclass(slots=True, eq=False)
class _Call:
    said: str | None
    """The upstream's id of it; `id` is the client's."""
    id: str
    held: bool | None = None
    """Whether its arguments are kept back, because they may be JSON between fences; None before they have begun."""
    blank: str = ""
    """What went out before they began."""
    texts: list[str] = field(default_factory=list)
    """What did not go out."""
    last: Json | None = None
    """The latest event of them. It goes out at their end, with all of them; those before it go out empty."""
    arguments: str | None = None
    """What clients are told they are, where that may be another thing than the upstream says."""
    ended: bool = False


class RelayedCalls:
    """The calls of one reply: their events, or the items of the whole.

    What has to be held back costs no number of the stream: events stay as many as they were.
    """

    def __init__(self, rules: CallRules) -> None:
        self.listening: set[int] = set()
        """Positions of the calls whose arguments have to be looked at."""
        self.warnings: list[Json] = []
        self._rules = rules
        self._ids = rules.ids()
        self._calls: dict[int, _Call] = {}

    def concerns(self, payload: bytes) -> bool:
        """Whether an event of an item may be about a call."""
        return any(name in payload for name in _NAMED)

    def taken(self, event_type: str, event: Json) -> list[Json]:
        """What goes out for an event of an item or of arguments; the event itself where it is as it should be."""
        index = event.get("output_index")
        if not isinstance(index, int):
            return [event]
        if event_type in ARGUMENTS:
            return self._argued(index, event) if index in self.listening else [event]
        item, released = event.get("item"), self._released(index)
        if not _is_call(item):
            return [*released, event]
        call = self._calls.get(index)
        if call is None or call.said != item.get("call_id"):
            call = self._calls[index] = self._begun(item)
        if event_type == ITEM_DONE:
            self.listening.discard(index)
            told = self._end(call, item)
        else:
            told = self._start(index, call, item)
        return [*released, event if told is item else {**event, "item": told}]

    def released(self) -> list[Json]:
        """The events that say what was held back, where nothing more comes."""
        return [event for index in sorted(self.listening) for event in self._released(index)]

    def whole(self, output: list[Any]) -> list[Any]:
        """The items of a whole response; the list itself where all is fine in it."""
        waiting: dict[str | None, deque[_Call]] = defaultdict(deque)
        for _, call in sorted(self._calls.items()):
            waiting[call.said].append(call)
        told: list[Any] = []
        for item in output:
            if not _is_call(item):
                told.append(item)
                continue
            known = waiting[item.get("call_id")]
            told.append(self._end(known.popleft() if known else self._begun(item), item))
        return told if any(new is not old for new, old in zip(told, output, strict=True)) else output

    def _argued(self, index: int, event: Json) -> list[Json]:
        call, delta, said = self._calls[index], event.get("delta"), event.get("arguments")
        if isinstance(said, str):
            told = self._arguments(call, said)
            return [*self._released(index), event if told == said else {**event, "arguments": told}]
        return self._delta(index, call, event, delta) if isinstance(delta, str) else [event]

    def _released(self, index: int) -> list[Json]:
        call = self._calls.get(index)
        if call is None or call.last is None:
            return []
        event, call.last = call.last, None
        return [{**event, "delta": unfenced("".join(call.texts))}]

    def _delta(self, index: int, call: _Call, event: Json, text: str) -> list[Json]:
        if call.held is None:
            if not text.strip():
                call.blank += text
                return [event]
            call.held = text.lstrip().startswith("`")
            if not call.held:
                self.listening.discard(index)
                return [event]
        call.texts.append(text)
        before, call.last = call.last, event
        return [] if before is None else [{**before, "delta": ""}]

    def _begun(self, item: Item) -> _Call:
        said = item.get("call_id")
        return _Call(said, self._ids.take(said))

    def _start(self, index: int, call: _Call, item: Item) -> Item:
        if item["type"] == "function_call" and not item.get("arguments"):
            self.listening.add(index)
        else:
            call.held = False  # said already, or no JSON
        return _told(item, call.id, None)

    def _end(self, call: _Call, item: Item) -> Item:
        said = item.get("arguments")
        if item["type"] != "function_call" or not isinstance(said, str):
            return _told(item, call.id, None)
        arguments = self._arguments(call, said)
        if not call.ended and item.get("status") != "incomplete":
            call.ended = True
            if (warning := self._rules.warning(str(item.get("name")), arguments)) is not None:
                self.warnings.append(warning)
        return _told(item, call.id, arguments)

    def _arguments(self, call: _Call, said: str) -> str:
        if call.held is False:
            return said
        if call.arguments is None:
            call.arguments = call.blank + unfenced("".join(call.texts)) if call.held else unfenced(said)
        return call.arguments


def _is_call(item: Any) -> TypeGuard[Item]:
    if not (isinstance(item, dict) and isinstance(item.get("type"), str) and item["type"] in CALL_TYPES):
        return False
    return isinstance(item.get("call_id"), str | None)


def _told(item: Item, call_id: str, arguments: str | None) -> Item:
    changed = {"call_id": call_id} if call_id != (item.get("call_id") or "") else {}
    if arguments is not None and arguments != item["arguments"]:
        changed["arguments"] = arguments
    return {**item, **changed} if changed else item
