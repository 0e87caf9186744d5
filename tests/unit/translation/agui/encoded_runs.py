"""Events of replies, and the AG-UI events that they become."""

from collections.abc import Sequence
from typing import Any

from tests.agui_events import read_run
from translation.agui.encode import AguiEncoder, RunInterrupts
from translation.agui.run import RunHead
from translation.representation import items
from translation.representation.events import (
    Delta,
    Event,
    Failed,
    Finished,
    ItemEnded,
    ItemStarted,
    PartEnded,
    PartStarted,
    Started,
)
from translation.representation.json_types import Item

Json = dict[str, Any]

HEAD = RunHead(thread_id="t", run_id="r", is_versioned=True)
OLD = RunHead(thread_id="t", run_id="r")


def encode(
    *events: Event, head: RunHead = HEAD, results: dict[str, str] | None = None, **interrupts: Any
) -> list[Json]:
    """The events of a run whose reply has these events; one that has not failed finishes."""
    encoder = AguiEncoder(
        head, response_id="resp_1", model="m", results=results, interrupts=RunInterrupts(**interrupts)
    )
    ends: list[Event] = [] if events and isinstance(events[-1], Failed | Finished) else [Finished("stop")]
    frames = encoder.feed([Started("m")]) + b"".join(encoder.feed([event]) for event in [*events, *ends])
    assert encoder.ended
    frames += encoder.conclude()
    assert encoder.conclude() == b""
    return read_run(frames)


def message(*texts: str, index: int = 0, kind: str = "output_text") -> list[Event]:
    key = "refusal" if kind == "refusal" else "text"
    part: Json = {"type": kind, key: "".join(texts)}
    item = {**items.new_message(f"msg_{index}"), "content": [part]}
    return [
        ItemStarted(index, items.new_message(f"msg_{index}")),
        PartStarted(index, 0, {"type": kind, key: ""}),
        *(Delta(index, 0, text) for text in texts),
        PartEnded(index, 0, part),
        ItemEnded(index, item),
    ]


def whole(item: Item, *between: Event, index: int = 0, status: Any = "completed") -> list[Event]:
    started = {**item, "status": "in_progress"}
    return [ItemStarted(index, started), *between, ItemEnded(index, item, status)]


def call(call_id: str, arguments: str = '{"a":1}', index: int = 0, status: Any = "completed") -> list[Event]:
    item = items.new_function_call(f"fc_{index}", call_id=call_id, name="add") | {"arguments": arguments}
    started = {**item, "arguments": ""}
    return [
        ItemStarted(index, started),
        *(Delta(index, None, piece) for piece in (arguments[:3], arguments[3:])),
        PartEnded(index, None, {"arguments": arguments}),
        ItemEnded(index, {**item, "status": status}, status),
    ]


def mcp_call(index: int = 0, **more: Any) -> Item:
    fields = {"arguments": '{"q":1}', "output": "found", "error": None, "status": "completed"}
    return {"id": f"mcp_{index}", "type": "mcp_call", "server_label": "docs", "name": "search", **fields, **more}


def of_type(events: Sequence[Json], kind: str) -> list[Json]:
    return [event for event in events if event["type"] == kind]
