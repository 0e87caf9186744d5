"""providers/http/exchange.py: streams that end with their body only."""

import asyncio
from collections.abc import Sequence
from contextlib import aclosing
from typing import Any

import pytest

from providers.config import ProviderConfig
from providers.registry import build_provider
from tests.unit.support.translator_drivers import collect
from tests.upstream import Hang, Reply, ScriptedUpstream
from tests.upstream.builders import SSE, data_frame
from tests.upstream.gemini import chunk, error, last, text
from tests.upstream.script import Drip, Reset, Step
from translation.representation.events import Event, Failed, Finished
from translation.representation.profile import DEFAULT_PROFILE
from translation.representation.turn import Turn

QUESTION = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hi"}]}
END = data_frame(last(text("Hello")))
# The rest arrives in a read of its own.
PARTED = Drip(END, per=0.01, size=len(END))
GROUNDING: Any = {
    "groundingChunks": [{"web": {"uri": "https://a", "title": "A"}}],
    "groundingSupports": [{"segment": {"endIndex": 5}, "groundingChunkIndices": [0]}],
}
CITING = {"candidates": [{"groundingMetadata": GROUNDING}]}
PATIENCE_S = 60.0


async def events_of(*steps: Step) -> Sequence[Event]:
    async with ScriptedUpstream() as server:
        server.script(Reply(headers=SSE, body=list(steps)))
        provider = build_provider("up", ProviderConfig(type="gemini", base_url=server.url, silence_s=30))
        exchange = provider.prepare(Turn(model="m", items=[QUESTION]), DEFAULT_PROFILE)
        events: list[Event] = []
        async with asyncio.timeout(PATIENCE_S), aclosing(exchange.batches()) as batches:
            async for batch in batches:
                events += batch
        await provider.aclose()
    return events


ENDS: dict[str, list[Step]] = {
    "at once": [END],
    "a moment later": [PARTED],
    "never": [END, Hang()],
    "with a reset": [PARTED, Reset()],
    "after what is no event": [PARTED, b"data: {oops\n\n", Hang()],
}


@pytest.mark.parametrize("steps", ENDS.values(), ids=ENDS)
async def test_a_whole_answer_ends_however_its_body_does(steps: list[Step]) -> None:
    events = await events_of(*steps)
    assert isinstance(events[-1], Finished)
    assert [item["content"][0]["text"] for item in collect(events)] == ["Hello"]


async def test_events_shortly_after_the_end_still_count() -> None:
    events = await events_of(PARTED, data_frame(CITING))
    [message] = collect(events)
    assert [each["url"] for each in message["content"][0]["annotations"]] == ["https://a"]


async def test_a_failure_a_moment_later_is_one() -> None:
    events = await events_of(PARTED, data_frame(error(503, "UNAVAILABLE", "overloaded")), Hang())
    assert isinstance(failed := events[-1], Failed)
    assert failed.code == "upstream_overloaded"


async def test_without_a_finish_reason_the_end_of_the_body_is_a_failure() -> None:
    assert isinstance((await events_of(data_frame(chunk(text("Hel")))))[-1], Failed)
