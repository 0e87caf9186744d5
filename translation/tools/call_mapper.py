"""Function calls of the upstream back to the kinds of tools the client declared."""

from collections.abc import Sequence
from dataclasses import replace

import orjson

from translation.representation.delta_runs import TextKey, TextObserver
from translation.representation.events import (
    Delta,
    Event,
    Failed,
    Finished,
    ItemEnded,
    ItemStarted,
    Noted,
    PartEnded,
    Started,
)
from translation.representation.items import ID_PREFIXES
from translation.representation.json_types import Item, Json
from translation.tools.freeform import FreeformUnwrapper, unwrap_input
from translation.tools.kinds import CLIENT_TOOL_KINDS
from translation.tools.names import Callee, ToolNames


class _BufferedCall:
    """The events of one call that only makes sense as a whole, kept until its arguments are complete."""

    def __init__(self, started: ItemStarted, callee: Callee) -> None:
        self.index = started.index
        self.callee = callee
        self.events: list[Event] = [started]

    @property
    def arguments(self) -> str:
        last = self.events[-1]
        if isinstance(last, ItemEnded) and last.item is not None:
            return str(last.item.get("arguments") or "")
        return "".join(event.text for event in self.events if isinstance(event, Delta))


class ToolCallMapper:
    """Feed it every batch; what is no call of a bridged tool passes untouched.

    Freeform calls stream on as `custom_tool_call`. Kinds that come whole (shell, computer, …) wait for their arguments
    and hold back what follows them, so that items keep their numbers. Arguments that make no such call, and a call that
    was cut off, come out as the plain function call the model made, its text unchanged: a client can see it, and will
    not run it.
    """

    def __init__(self, names: ToolNames) -> None:
        self._names = names
        self._renamed_calls: dict[int, Callee] = {}
        self._unwrappers: dict[int, FreeformUnwrapper] = {}
        self._buffered: _BufferedCall | None = None
        self._held_events: list[Event] = []

    def feed(self, batch: Sequence[Event]) -> list[Event]:
        """The batch in the client's terms; possibly shorter, possibly with events held back before."""
        events: list[Event] = []
        for event in batch:
            self._route_event(event, events)
        return events

    def delta_observers(self, text_key: TextKey) -> Sequence[TextObserver] | None:
        """Returns no observers if further deltas of a text pass unchanged; None if they do not."""
        return None if self._buffered is not None or text_key[0] in self._unwrappers else ()

    def _route_event(self, event: Event, out: list[Event]) -> None:
        whole = self._buffered
        if whole is None:
            self._map_event(event, out)
        elif isinstance(event, Failed):
            self._buffered = None
            out += whole.events
            self._release_held(out)
            self._route_event(event, out)
        elif isinstance(event, Noted):
            out.append(event)
        elif getattr(event, "index", None) != whole.index:
            self._held_events.append(event)
        else:
            whole.events.append(event)
            if isinstance(event, ItemEnded):
                self._buffered = None
                out += self._build_call_events(whole, event) or whole.events
                self._release_held(out)

    def _release_held(self, out: list[Event]) -> None:
        held, self._held_events = self._held_events, []
        for event in held:
            self._route_event(event, out)

    def _map_event(self, event: Event, out: list[Event]) -> None:
        match event:
            case Delta(index=index) if index in self._unwrappers:
                if text := self._unwrappers[index].feed(event.text):
                    out.append(Delta(index, None, text))
            case ItemStarted(item={"type": "function_call" | "custom_tool_call", "name": str(wire)}):
                callee = self._names.callee(wire)
                if callee is None:
                    out.append(event)
                elif callee.kind in CLIENT_TOOL_KINDS:
                    self._buffered = _BufferedCall(event, callee)
                else:
                    self._start(event, callee, out)
            case PartEnded(index=index) if index in self._unwrappers:
                self._flush(index, out)
                out.append(PartEnded(index, None))
            case ItemEnded(index=index) if index in self._renamed_calls:
                self._flush(index, out)
                callee = self._renamed_calls.pop(index)
                item = None if event.item is None else _client_item(event.item, callee)
                out.append(ItemEnded(index, item, event.status))
            case Started(response=dict(response)):
                out.append(replace(event, response=_without_tools(response)))
            case Finished(response=dict(response)):
                out.append(replace(event, response=_without_tools(response)))
            case _:
                out.append(event)

    def _start(self, event: ItemStarted, callee: Callee, out: list[Event]) -> None:
        self._renamed_calls[event.index] = callee
        if callee.kind == "custom" and event.item["type"] == "function_call":
            self._unwrappers[event.index] = FreeformUnwrapper()
        out.append(ItemStarted(event.index, _client_item(event.item, callee)))

    def _flush(self, index: int, out: list[Event]) -> None:
        unwrapper = self._unwrappers.pop(index, None)
        if unwrapper is not None and (text := unwrapper.finish()):
            out.append(Delta(index, None, text))

    def _build_call_events(self, whole: _BufferedCall, ended: ItemEnded) -> list[Event] | None:
        """The call as its own kind of item, or `None` where it is none."""
        try:
            arguments = orjson.loads(whole.arguments or "{}")
        except orjson.JSONDecodeError:
            return None
        if ended.status != "completed" or not isinstance(arguments, dict):
            return None
        kind = CLIENT_TOOL_KINDS[whole.callee.kind]
        own = kind.parse_arguments(arguments, self._names.tool(whole.callee))
        if own is None:
            return None
        started = whole.events[0]
        assert isinstance(started, ItemStarted)
        item: Json = {
            "id": _id_for_type(kind.call_type, started.item["id"]),
            "type": kind.call_type,
            "status": "completed",
            "call_id": started.item["call_id"],
            **own,
        }
        return [ItemStarted(whole.index, {**item, "status": "in_progress"}), ItemEnded(whole.index, item)]


def _without_tools(response: Json) -> Json:
    """An upstream's own snapshot speaks of functions; what is left of it is true of the client's response too."""
    return {key: said for key, said in response.items() if key not in ("output", "tools", "tool_choice")}


def _client_item(item: Item, callee: Callee) -> Item:
    renamed = {**item, "name": callee.name}
    if callee.namespace:
        renamed["namespace"] = callee.namespace
    if callee.kind != "custom" or item["type"] == "custom_tool_call":
        return renamed
    arguments = renamed.pop("arguments")
    renamed.pop("status", None)
    return {
        **renamed,
        "id": _id_for_type("custom_tool_call", item["id"]),
        "type": "custom_tool_call",
        "input": unwrap_input(arguments),
    }


def _id_for_type(item_type: str, item_id: str) -> str:
    prefix, _, rest = item_id.partition("_")
    return f"{ID_PREFIXES[item_type]}_{rest or prefix}"
