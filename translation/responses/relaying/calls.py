"""Calls on a Responses relay: each under an id of its own, JSON taken out of its fence, faults noted; else as they
came."""

from collections import defaultdict, deque
from dataclasses import dataclass, field
from typing import Any, Final, TypeGuard

from translation.hygiene.call_rules import CallRules
from translation.representation.items import CALL_TYPES
from translation.representation.json_types import Item, Json
from translation.tools.arguments import strip_code_fence

ARGUMENT_EVENTS: Final = frozenset({"response.function_call_arguments.delta", "response.function_call_arguments.done"})
"""Events of a call's arguments."""

ITEM_DONE: Final = "response.output_item.done"

_QUOTED_CALL_TYPES: Final = tuple(f'"{kind}"'.encode() for kind in sorted(CALL_TYPES))


@dataclass(slots=True, eq=False)
class _Call:
    upstream_id: str | None
    """The upstream's id of it; `id` is the client's."""
    client_id: str
    is_held: bool | None = None
    """Whether its arguments are kept back, because they may be JSON between fences; None before they have begun."""
    leading_blanks: str = ""
    """What went out before they began."""
    held_texts: list[str] = field(default_factory=list)
    """What did not go out."""
    last_event: Json | None = None
    """The latest event of them. It goes out at their end, with all of them; those before it go out empty."""
    arguments: str | None = None
    """What clients are told they are, where that may be another thing than the upstream says."""
    ended: bool = False


class RelayedCalls:
    """The calls of one reply: their events, or the items of the whole.

    What has to be held back costs no number of the stream: events stay as many as they were.
    """

    def __init__(self, rules: CallRules) -> None:
        self.watched_indexes: set[int] = set()
        """Positions of the calls whose arguments have to be looked at."""
        self.warnings: list[Json] = []
        self._rules = rules
        self._ids = rules.id_allocator()
        self._calls: dict[int, _Call] = {}

    def may_hold_call(self, payload: bytes) -> bool:
        """Whether an event of an item may be about a call."""
        return any(name in payload for name in _QUOTED_CALL_TYPES)

    def rewrite_event(self, event_type: str, event: Json) -> list[Json]:
        """What goes out for an event of an item or of arguments; the event itself where it is as it should be."""
        index = event.get("output_index")
        if not isinstance(index, int):
            return [event]
        if event_type in ARGUMENT_EVENTS:
            return self._rewrite_arguments(index, event) if index in self.watched_indexes else [event]
        item, released = event.get("item"), self._release(index)
        if not _is_call(item):
            return [*released, event]
        call = self._calls.get(index)
        if call is None or call.upstream_id != item.get("call_id"):
            call = self._calls[index] = self._new_call(item)
        if event_type == ITEM_DONE:
            self.watched_indexes.discard(index)
            rewritten = self._rewrite_done(call, item)
        else:
            rewritten = self._rewrite_added(index, call, item)
        return [*released, event if rewritten is item else {**event, "item": rewritten}]

    def release_all(self) -> list[Json]:
        """The events that say what was held back, where nothing more comes."""
        return [event for index in sorted(self.watched_indexes) for event in self._release(index)]

    def rewrite_output(self, output: list[Any]) -> list[Any]:
        """The items of a whole response; the list itself where all is fine in it."""
        waiting: dict[str | None, deque[_Call]] = defaultdict(deque)
        for _, call in sorted(self._calls.items()):
            waiting[call.upstream_id].append(call)
        items: list[Any] = []
        for item in output:
            if not _is_call(item):
                items.append(item)
                continue
            known = waiting[item.get("call_id")]
            items.append(self._rewrite_done(known.popleft() if known else self._new_call(item), item))
        return items if any(new is not old for new, old in zip(items, output, strict=True)) else output

    def _rewrite_arguments(self, index: int, event: Json) -> list[Json]:
        call, delta, arguments = self._calls[index], event.get("delta"), event.get("arguments")
        if isinstance(arguments, str):
            told = self._client_arguments(call, arguments)
            return [*self._release(index), event if told == arguments else {**event, "arguments": told}]
        return self._rewrite_delta(index, call, event, delta) if isinstance(delta, str) else [event]

    def _release(self, index: int) -> list[Json]:
        call = self._calls.get(index)
        if call is None or call.last_event is None:
            return []
        event, call.last_event = call.last_event, None
        return [{**event, "delta": strip_code_fence("".join(call.held_texts))}]

    def _rewrite_delta(self, index: int, call: _Call, event: Json, text: str) -> list[Json]:
        if call.is_held is None:
            if not text.strip():
                call.leading_blanks += text
                return [event]
            call.is_held = text.lstrip().startswith("`")
            if not call.is_held:
                self.watched_indexes.discard(index)
                return [event]
        call.held_texts.append(text)
        before, call.last_event = call.last_event, event
        return [] if before is None else [{**before, "delta": ""}]

    def _new_call(self, item: Item) -> _Call:
        said = item.get("call_id")
        return _Call(said, self._ids.claim(said))

    def _rewrite_added(self, index: int, call: _Call, item: Item) -> Item:
        if item["type"] == "function_call" and not item.get("arguments"):
            self.watched_indexes.add(index)
        else:
            call.is_held = False  # said already, or no JSON
        return _rewritten_item(item, call.client_id, None)

    def _rewrite_done(self, call: _Call, item: Item) -> Item:
        said = item.get("arguments")
        if item["type"] != "function_call" or not isinstance(said, str):
            return _rewritten_item(item, call.client_id, None)
        arguments = self._client_arguments(call, said)
        if not call.ended and item.get("status") != "incomplete":
            call.ended = True
            if (warning := self._rules.warning_for(str(item.get("name")), arguments)) is not None:
                self.warnings.append(warning)
        return _rewritten_item(item, call.client_id, arguments)

    def _client_arguments(self, call: _Call, upstream_arguments: str) -> str:
        if call.is_held is False:
            return upstream_arguments
        if call.arguments is None:
            call.arguments = (
                call.leading_blanks + strip_code_fence("".join(call.held_texts))
                if call.is_held
                else strip_code_fence(upstream_arguments)
            )
        return call.arguments


def _is_call(item: Any) -> TypeGuard[Item]:
    if not (isinstance(item, dict) and isinstance(item.get("type"), str) and item["type"] in CALL_TYPES):
        return False
    return isinstance(item.get("call_id"), str | None)


def _rewritten_item(item: Item, call_id: str, arguments: str | None) -> Item:
    changed = {"call_id": call_id} if call_id != (item.get("call_id") or "") else {}
    if arguments is not None and arguments != item["arguments"]:
        changed["arguments"] = arguments
    return {**item, **changed} if changed else item
