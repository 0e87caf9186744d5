"""Maps function calls of the upstream back to the kinds of tools that the client declared."""

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
from translation.tools.names import ClientToolName, ToolNames


class _BufferedCall:
    """The events of one call of a kind that can only be mapped as a whole. They wait for the end of its arguments."""

    def __init__(self, started: ItemStarted, callee: ClientToolName) -> None:
        self.index = started.index
        self.callee = callee
        self.started_item = started.item
        self.events: list[Event] = [started]

    @property
    def arguments(self) -> str:
        last = self.events[-1]
        if isinstance(last, ItemEnded) and last.item is not None:
            return str(last.item.get("arguments") or "")
        return "".join(event.text for event in self.events if isinstance(event, Delta))


class ToolCallMapper:
    """A stage of the reply that maps calls by the names of the turn's tools. Other items pass unchanged.

    Calls of freeform tools are streamed as `custom_tool_call`. Calls of other kinds (shell, computer, …) are buffered
    until their arguments are complete. The items after such a call are buffered too, so that items stay in order. If
    the arguments do not fit the kind, or the call was cut off, the events are those of the function call that the model
    made, with its text unchanged: a client can see that call, and does not run it.
    """

    def __init__(self, names: ToolNames) -> None:
        self._names = names
        self._renamed_calls: dict[int, ClientToolName] = {}
        self._unwrappers: dict[int, FreeformUnwrapper] = {}
        self._buffered: _BufferedCall | None = None
        self._queued_events: list[Event] = []
        """Events of later items. They follow the buffered call."""

    def feed(self, batch: Sequence[Event]) -> list[Event]:
        """Returns the batch with its calls mapped, without the events that are buffered, and with those released."""
        events: list[Event] = []
        for event in batch:
            self._route_event(event, events)
        return events

    def delta_observers(self, text_key: TextKey) -> Sequence[TextObserver] | None:
        """Returns an empty sequence if further deltas of the text pass unchanged; None if they must be fed."""
        return None if self._buffered is not None or text_key[0] in self._unwrappers else ()

    def _route_event(self, event: Event, out: list[Event]) -> None:
        call = self._buffered
        if call is None:
            self._map_event(event, out)
        elif isinstance(event, Failed):
            self._buffered = None
            out += call.events
            self._release_queued(out)
            self._route_event(event, out)
        elif isinstance(event, Noted):
            out.append(event)
        elif getattr(event, "index", None) != call.index:
            self._queued_events.append(event)
        else:
            call.events.append(event)
            if isinstance(event, ItemEnded):
                self._buffered = None
                out += self._build_call_events(call, event) or call.events
                self._release_queued(out)

    def _release_queued(self, out: list[Event]) -> None:
        queued, self._queued_events = self._queued_events, []
        for event in queued:
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

    def _start(self, event: ItemStarted, callee: ClientToolName, out: list[Event]) -> None:
        self._renamed_calls[event.index] = callee
        if callee.kind == "custom" and event.item["type"] == "function_call":
            self._unwrappers[event.index] = FreeformUnwrapper()
        out.append(ItemStarted(event.index, _client_item(event.item, callee)))

    def _flush(self, index: int, out: list[Event]) -> None:
        unwrapper = self._unwrappers.pop(index, None)
        if unwrapper is not None and (text := unwrapper.finish()):
            out.append(Delta(index, None, text))

    def _build_call_events(self, call: _BufferedCall, ended: ItemEnded) -> list[Event] | None:
        """Returns the events of the call as an item of its own kind; None if the arguments do not fit that kind."""
        try:
            arguments = orjson.loads(call.arguments or "{}")
        except orjson.JSONDecodeError:
            return None
        if ended.status != "completed" or not isinstance(arguments, dict):
            return None
        kind = CLIENT_TOOL_KINDS[call.callee.kind]
        call_fields = kind.parse_arguments(arguments, self._names.tool(call.callee))
        if call_fields is None:
            return None
        item: Json = {
            "id": _id_for_type(kind.call_type, call.started_item["id"]),
            "type": kind.call_type,
            "status": "completed",
            "call_id": call.started_item["call_id"],
            **call_fields,
        }
        return [ItemStarted(call.index, {**item, "status": "in_progress"}), ItemEnded(call.index, item)]


def _without_tools(response: Json) -> Json:
    """Returns an upstream's own snapshot without the keys that name function tools instead of the client's tools."""
    return {key: value for key, value in response.items() if key not in ("output", "tools", "tool_choice")}


def _client_item(item: Item, callee: ClientToolName) -> Item:
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
