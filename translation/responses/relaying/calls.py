"""Normalizes tool calls on a Responses relay: unique ids, arguments without a code fence, and warnings.

Other calls pass unchanged. Does not know frames, only the parsed events or items of one reply.
"""

from collections import defaultdict, deque
from dataclasses import dataclass
from typing import Any, Final, TypeGuard

from translation.hygiene.call_tracker import CallRules, ReplyCallTracker, TrackedCall
from translation.representation.items import CALL_TYPES
from translation.representation.json_types import Item, Json
from translation.tools.arguments import strip_code_fence

ARGUMENT_EVENTS: Final = frozenset({"response.function_call_arguments.delta", "response.function_call_arguments.done"})
"""Types of the events about a call's arguments."""

ITEM_DONE: Final = "response.output_item.done"

_QUOTED_CALL_TYPES: Final = tuple(f'"{kind}"'.encode() for kind in sorted(CALL_TYPES))


@dataclass(slots=True, eq=False)
class _Call:
    tracked: TrackedCall
    last_event: Json | None = None
    """The latest event whose text is held back. At the end it is sent with the whole
    arguments. Those before it are sent empty."""
    arguments: str | None = None
    """The arguments that the client gets, once known, for a call whose arguments may differ from the upstream's."""
    ended: bool = False


class RelayedCalls:
    """Normalizes the calls of one reply, in the events of a stream or in the output of a whole response.

    The number of events stays the same, so that the upstream's sequence numbers stay valid: an event whose text is
    buffered is sent with an empty delta.
    """

    def __init__(self, rules: CallRules) -> None:
        self.watched_indexes: set[int] = set()
        """Output indexes of the calls whose argument events must be passed to `rewrite_event`."""
        self._tracker = ReplyCallTracker(rules)
        self.warnings = self._tracker.warnings
        """Entries for `tool_warnings`: complete calls that break a rule."""
        self._calls: dict[int, _Call] = {}
        """The newest call of each output index."""
        self._streamed: list[tuple[int, _Call]] = []
        """All calls with their output indexes, of which several may have one."""

    def may_hold_call(self, payload: bytes) -> bool:
        """Whether the bytes of an event about an item may contain a call."""
        return any(name in payload for name in _QUOTED_CALL_TYPES)

    def rewrite_event(self, event_type: str, event: Json) -> list[Json]:
        """Returns the events to send for an event about an item or about arguments.

        An event that needs no change is returned as the same object.
        """
        index = event.get("output_index")
        if not isinstance(index, int):
            return [event]
        if event_type in ARGUMENT_EVENTS:
            return self._rewrite_arguments(index, event) if index in self.watched_indexes else [event]
        item, released = event.get("item"), self._release(index)
        if not _is_call(item):
            return [*released, event]
        call = self._calls.get(index)
        if call is None or call.tracked.upstream_id != item.get("call_id"):
            call = self._calls[index] = self._new_call(item)
            self._streamed.append((index, call))
        if event_type == ITEM_DONE:
            self.watched_indexes.discard(index)
            rewritten = self._rewrite_done(call, item)
        else:
            rewritten = self._rewrite_added(index, call, item)
        return [*released, event if rewritten is item else {**event, "item": rewritten}]

    def release_all(self) -> list[Json]:
        """Returns the events with all arguments that are still buffered, for the end of the stream."""
        return [event for index in sorted(self.watched_indexes) for event in self._release(index)]

    def rewrite_output(self, output: list[Any]) -> list[Any]:
        """Returns the items of a whole response, the same list if nothing changed.

        Calls that were seen in events keep the ids they got there.
        """
        streamed_calls: dict[object, deque[_Call]] = defaultdict(deque)
        for _, call in sorted(self._streamed, key=lambda entry: entry[0]):
            streamed_calls[call.tracked.upstream_id].append(call)
        items: list[Any] = []
        for item in output:
            if not _is_call(item):
                items.append(item)
                continue
            known = streamed_calls[item.get("call_id")]
            items.append(self._rewrite_done(known.popleft() if known else self._new_call(item), item))
        return items if any(new is not item for new, item in zip(items, output, strict=True)) else output

    def _rewrite_arguments(self, index: int, event: Json) -> list[Json]:
        call, delta, arguments = self._calls[index], event.get("delta"), event.get("arguments")
        if isinstance(arguments, str):
            released, client_arguments = self._release(index), self._client_arguments(call, arguments)
            return [*released, event if client_arguments == arguments else {**event, "arguments": client_arguments}]
        return self._rewrite_delta(index, call, event, delta) if isinstance(delta, str) else [event]

    def _release(self, index: int) -> list[Json]:
        call = self._calls.get(index)
        if call is None or call.last_event is None:
            return []
        event, call.last_event = call.last_event, None
        released = call.tracked.release()
        call.arguments = "".join(call.tracked.texts)
        return [{**event, "delta": released}]

    def _rewrite_delta(self, index: int, call: _Call, event: Json, text: str) -> list[Json]:
        if call.tracked.add_text(text) or not text:
            if call.tracked.is_held is False:
                self.watched_indexes.discard(index)
            return [event]
        before, call.last_event = call.last_event, event
        return [] if before is None else [{**before, "delta": ""}]

    def _new_call(self, item: Item) -> _Call:
        is_json = item["type"] == "function_call"
        return _Call(self._tracker.start_call(item.get("call_id"), str(item.get("name")), is_json=is_json))

    def _rewrite_added(self, index: int, call: _Call, item: Item) -> Item:
        if item["type"] == "function_call" and not item.get("arguments"):
            self.watched_indexes.add(index)
        else:
            call.tracked.is_held = False  # the arguments are sent already, or are not JSON
        return _rewritten_item(item, call.tracked.id, None)

    def _rewrite_done(self, call: _Call, item: Item) -> Item:
        upstream_arguments = item.get("arguments")
        if item["type"] != "function_call" or not isinstance(upstream_arguments, str):
            return _rewritten_item(item, call.tracked.id, None)
        arguments = self._client_arguments(call, upstream_arguments)
        if not call.ended and item.get("status") != "incomplete":
            call.ended = True
            self._tracker.check_arguments(str(item.get("name")), arguments)
        return _rewritten_item(item, call.tracked.id, arguments)

    def _client_arguments(self, call: _Call, upstream_arguments: str) -> str:
        if call.arguments is None:
            if call.tracked.is_held is False:
                return upstream_arguments
            call.arguments = strip_code_fence(upstream_arguments)
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
