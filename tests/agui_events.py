"""Reads the event stream of an AG-UI run, and holds it to the models of `ag-ui-protocol` and to the rules of order."""

from collections.abc import Sequence
from typing import Any, TypeAlias

import orjson
from ag_ui.core import Event as AguiEvent
from pydantic import TypeAdapter

Json: TypeAlias = dict[str, Any]

_MODELS: TypeAdapter[Any] = TypeAdapter(AguiEvent)

_PAIRS = {
    "TEXT_MESSAGE_START": ("TEXT_MESSAGE_END", "messageId"),
    "TOOL_CALL_START": ("TOOL_CALL_END", "toolCallId"),
    "REASONING_START": ("REASONING_END", "messageId"),
    "REASONING_MESSAGE_START": ("REASONING_MESSAGE_END", "messageId"),
}
_CONTENTS = {
    "TEXT_MESSAGE_CONTENT": ("TEXT_MESSAGE_START", "messageId"),
    "TOOL_CALL_ARGS": ("TOOL_CALL_START", "toolCallId"),
    "REASONING_MESSAGE_CONTENT": ("REASONING_MESSAGE_START", "messageId"),
}
_ENDS = {end: (start, key) for start, (end, key) in _PAIRS.items()}

OLD_EVENTS = frozenset(
    {
        *("RUN_STARTED", "RUN_FINISHED", "RUN_ERROR", "REASONING_ENCRYPTED_VALUE", "CUSTOM", "RAW"),
        *("TOOL_CALL_RESULT", "STATE_SNAPSHOT", "ACTIVITY_SNAPSHOT", "ACTIVITY_DELTA"),
        *_PAIRS,
        *_CONTENTS,
        *_ENDS,
    }
)
"""The events that clients of 0.0.59 know, as far as the gateway has a use for them."""


def read_run(stream: bytes) -> list[Json]:
    """Returns the events of a whole run. Each must be valid, and their order must be that of the specification."""
    events = read_events(stream)
    check_order(events)
    return events


def read_events(stream: bytes) -> list[Json]:
    """Returns the events of a stream, each of which must be valid. Comments are left out."""
    events: list[Json] = []
    for frame in stream.split(b"\n\n"):
        if not frame or frame.startswith(b":"):
            continue
        assert frame.startswith(b"data: "), frame
        assert b"\n" not in frame, frame
        event = orjson.loads(frame[6:])
        # The model accepts null for what may be left out; the specification does not.
        assert None not in event.values(), event
        _MODELS.validate_python(event)
        events.append(event)
    return events


def check_order(events: Sequence[Json]) -> None:
    """Fails unless a run begins and ends once, and closes everything that it opened."""
    kinds = [event["type"] for event in events]
    assert kinds[0] in ("RUN_STARTED", "RUN_ERROR"), kinds
    assert kinds.count("RUN_STARTED") <= 1, kinds
    assert [kind for kind in kinds if kind in ("RUN_FINISHED", "RUN_ERROR")] == kinds[-1:], kinds
    opened: set[tuple[str, str]] = set()
    called: set[str] = set()
    for event in events:
        kind = event["type"]
        if kind in _PAIRS:
            address = (kind, event[_PAIRS[kind][1]])
            assert address not in opened, event
            opened.add(address)
        elif kind in _ENDS:
            start, key = _ENDS[kind]
            opened.remove((start, event[key]))
            called.add(event[key])
        elif kind in _CONTENTS:
            start, key = _CONTENTS[kind]
            assert (start, event[key]) in opened, event
    assert kinds[-1] == "RUN_ERROR" or not opened, opened


def kinds_of(events: Sequence[Json]) -> list[str]:
    """Returns the types of events, each sequence of equal ones as one."""
    kinds: list[str] = []
    for event in events:
        if kinds[-1:] != [event["type"]]:
            kinds.append(event["type"])
    return kinds


def text_of(events: Sequence[Json]) -> str:
    """Returns the text of the messages of a run."""
    return "".join(event["delta"] for event in events if event["type"] == "TEXT_MESSAGE_CONTENT")
