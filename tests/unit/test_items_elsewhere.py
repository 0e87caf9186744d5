"""What any upstream's answers leave in a history can be said to every other."""

from collections.abc import Iterator
from pathlib import Path

import orjson
import pytest

from providers.base import WireDialect
from providers.config import ProviderType
from providers.profiles import PROFILES
from providers.registry import CAPABILITIES
from providers.spoken import SPOKEN
from tests.unit.driving import collect, counting_ids
from tests.unit.golden import GOLDEN, chunks_of
from translation.events import Event, Failed
from translation.json_types import Item
from translation.tools.bridge import bridge
from translation.turn import Turn

HI: Item = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hi"}]}
UPSTREAMS: list[tuple[ProviderType, WireDialect]] = [
    ("openai_compatible", "chat"),
    ("openrouter", "chat"),
    ("openai", "responses"),
    ("anthropic", "anthropic"),
    ("gemini", "gemini"),
    ("ollama", "ollama"),
]
STREAMS = [
    path for dialect in SPOKEN for suffix in ("sse", "ndjson") for path in (GOLDEN / dialect).glob(f"*.{suffix}")
]


def events_of(recording: Path) -> Iterator[Event]:
    dialect: WireDialect = recording.parent.name  # type: ignore[assignment]  # the folders are named so
    decoder = SPOKEN[dialect].decoder(counting_ids(), PROFILES["openai_compatible"])
    wire = recording.read_bytes()
    for each in map(orjson.loads, wire.splitlines()) if recording.suffix == ".ndjson" else chunks_of(wire):
        yield from decoder.feed(each)
    yield from decoder.finish()


def history_of(items: list[Item]) -> list[Item]:
    """The items with an output for each call, and a question before and after."""
    calls = [item for item in items if item["type"] == "function_call"]
    outputs = [{"type": "function_call_output", "call_id": call["call_id"], "output": "done"} for call in calls]
    return [HI, *items, *outputs, HI]


@pytest.mark.parametrize(("kind", "dialect"), UPSTREAMS, ids=lambda each: str(each))
def test_what_one_upstream_said_can_be_said_to_another(kind: ProviderType, dialect: WireDialect) -> None:
    assert STREAMS
    able = CAPABILITIES[kind]
    for recording in STREAMS:
        events = list(events_of(recording))
        if isinstance(events[-1], Failed):
            continue
        turn = Turn(model="gemini-3-pro", items=history_of(collect(events)))
        bridged = bridge(turn, kinds=able.tool_kinds, hosted=able.hosted_tools)
        body, _ = SPOKEN[dialect].lower(bridged.turn, PROFILES[kind])
        assert b"Hi" in orjson.dumps(body), recording
