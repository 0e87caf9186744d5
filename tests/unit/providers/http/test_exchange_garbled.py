"""A stream with a bad frame has one outcome, however its bytes are cut into reads."""

from itertools import combinations, pairwise
from typing import Any

import orjson
import pytest

from providers.base import Dialect
from providers.errors import UpstreamGarbled
from tests.unit.providers.http.test_exchange import SSE, Body, provider
from tests.upstream.builders import DONE, chat_chunk, data_frame
from translation.representation.events import Delta, Event, Failed, Finished
from translation.representation.profile import DEFAULT_PROFILE
from translation.representation.turn import Turn

ROLE = data_frame(chat_chunk({"role": "assistant"}))
END = data_frame(chat_chunk({}, finish_reason="stop"))
BAD = b"data: {oops}\n\n"
FAILED = b'data: {"error": {"message": "busy"}}\n\n'


def text(content: str) -> bytes:
    return data_frame(chat_chunk({"content": content}))


STREAMS: dict[str, tuple[bytes, str, str]] = {
    "after text": (ROLE + text("a") + text("b") + BAD + text("c") + END + DONE, "ab", "garbled"),
    "before text": (ROLE + BAD + text("c") + END + DONE, "", "garbled"),
    "at once": (BAD + text("c"), "", "garbled"),
    "not an object": (ROLE + text("a") + b"data: [1]\n\n" + END + DONE, "a", "garbled"),
    "not chat": (ROLE + text("a") + b'data: {"choices": 1}\n\n' + DONE, "a", "garbled"),
    "not UTF-8": (ROLE + text("a") + b'data: {"choices": "\xff"}\n\n' + DONE, "a", "garbled"),
    "after a failure": (ROLE + text("a") + FAILED + BAD, "a", "failed"),
    "after the end": (ROLE + text("a") + END + DONE + BAD, "a", "finished"),
    "usage after the end": (ROLE + text("a") + END + DONE + b'data: {"usage"}\n\n', "a", "finished"),
    "at the end of the stream": (ROLE + text("a") + BAD, "a", "garbled"),
}


async def outcome_of(*reads: bytes, dialect: Dialect = "chat") -> tuple[str, str]:
    """The text, and how the turn ended."""
    exchange = provider(Body(*reads), SSE, dialect).prepare(
        Turn(model="m", items=[], instructions="Hi"), DEFAULT_PROFILE
    )
    events: list[Event] = []
    ending = ""
    try:
        async for batch in exchange.batches():
            events += batch
        ending = {Finished: "finished", Failed: "failed"}[type(events[-1])]
    except UpstreamGarbled:
        ending = "garbled"
    return "".join(event.text for event in events if isinstance(event, Delta)), ending


@pytest.mark.parametrize(("stream", "words", "ending"), STREAMS.values(), ids=STREAMS)
async def test_a_bad_frame_has_one_outcome_for_every_split(stream: bytes, words: str, ending: str) -> None:
    assert await outcome_of(stream) == (words, ending)
    places = range(1, len(stream), 3)
    for cuts in [*combinations(places, 1), *combinations(places[::15], 2)]:
        edges = [0, *cuts, len(stream)]
        reads = [stream[start:end] for start, end in pairwise(edges)]
        assert await outcome_of(*reads) == (words, ending), reads


def escaped(content: str) -> bytes:
    """A chunk as servers write it that escape all but ASCII."""
    chunk = orjson.dumps(chat_chunk({"content": "TEXT"})).decode()
    return f"data: {chunk.replace('TEXT', content)}\n\n".encode()


async def test_a_pair_of_surrogates_may_be_split_over_two_deltas() -> None:
    stream = ROLE + escaped("a") + escaped("b\\ud83d") + escaped("\\uDE00c") + escaped("\\ud83d\\ude00") + END + DONE
    assert await outcome_of(stream) == ("ab😀c😀", "finished")
    for cut in range(1, len(stream), 7):
        assert await outcome_of(stream[:cut], stream[cut:]) == ("ab😀c😀", "finished")


HALF = ROLE + text("a") + escaped("\\ud83d")


@pytest.mark.parametrize("rest", [END + DONE, text("b") + text("c") + END + DONE, END])
async def test_half_a_character_is_garbled(rest: bytes) -> None:
    stream = HALF + rest
    outcomes = {await outcome_of(stream[:cut], stream[cut:]) for cut in range(1, len(stream), 7)}
    assert {ending for _, ending in outcomes} == {"garbled"}


RESPONSES_EVENTS: list[Any] = [
    {"type": "response.created", "response": {"id": "r", "status": "in_progress", "output": []}},
    {
        "type": "response.output_item.added",
        "output_index": 0,
        "item": {"id": "m", "type": "message", "role": "assistant", "content": [], "status": "in_progress"},
    },
    {
        "type": "response.content_part.added",
        "output_index": 0,
        "content_index": 0,
        "item_id": "m",
        "part": {"type": "output_text", "text": "", "annotations": []},
    },
    {"type": "response.output_text.delta", "output_index": 0, "content_index": 0, "item_id": "m", "delta": "a"},
]


async def test_events_of_responses_before_a_bad_frame_are_not_lost() -> None:
    frames = [b"event: %s\ndata: %s\n\n" % (event["type"].encode(), orjson.dumps(event)) for event in RESPONSES_EVENTS]
    stream = b"".join(frames) + BAD
    for cut in range(1, len(stream), 9):
        assert await outcome_of(stream[:cut], stream[cut:], dialect="responses") == ("a", "garbled")
