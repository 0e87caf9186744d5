"""Reads of a delta run become the frames of their texts; other reads are left to the caller."""

import orjson
import pytest

from tests.unit.support.chat_chunks import text_chunk
from translation.chat.delta_run import ChatDeltaRun
from translation.framing import sse
from translation.representation.events import Delta, Event, ItemStarted, PartStarted, Started
from translation.responses.client.encode import ResponsesEncoder
from translation.responses.client.initial_response import new_response

HEAD = new_response({"model": "m", "input": "hi"}, response_id="resp_1", created_at=100, model="m")
BEGIN: list[Event] = [
    Started("m"),
    ItemStarted(0, {"type": "message", "id": "msg_1", "role": "assistant", "content": []}),
    PartStarted(0, 0, {"type": "output_text", "text": "", "annotations": []}),
    Delta(0, 0, "one"),
]


def begun() -> ResponsesEncoder:
    encoder = ResponsesEncoder(HEAD, lambda: 105)
    encoder.feed(BEGIN)
    return encoder


def frame(text: str) -> bytes:
    return sse.encode_data(orjson.dumps(text_chunk(text)))


def run() -> ChatDeltaRun:
    run = ChatDeltaRun.from_delta(orjson.dumps(text_chunk("one")), "content", Delta(0, 0, "one"))
    assert run is not None
    return run


@pytest.mark.parametrize(
    "texts",
    [
        ["two"],
        ['"two\\'],
        ["zwölf\n\x7f\u2028"],
        ["", ""],
        [""],
        ["two", "three"],
        ["two", ""],
        ["x" * 9000],
        ["x" * 9000, "y"],
    ],
)
def test_reads_become_the_frames_of_their_texts(texts: list[str]) -> None:
    short, long = begun(), begun()
    template = short.build_delta_template(run())
    assert template is not None
    frames = template.encode_read(b"".join(map(frame, texts)))
    assert frames == long.feed([Delta(0, 0, text) for text in texts if text])
    assert short.feed([Delta(0, 0, "end")]) == long.feed([Delta(0, 0, "end")])
    assert short.response == long.response


BARE_QUOTE = frame("two").replace(b"two", b'two","b":"c')


@pytest.mark.parametrize(
    "read",
    [
        b"",
        b"data: [DONE]\n\n",
        frame("two")[:-1],
        frame("two")[1:],
        BARE_QUOTE,
        frame("two").replace(b"two", b"t\nwo"),
        frame("two").replace(b"two", b"\xff"),
        frame("two") + BARE_QUOTE,
        frame("two") * 2 + b"data: [DONE]\n\n",
    ],
)
def test_a_read_that_is_anything_else_is_left_alone(read: bytes) -> None:
    encoder = begun()
    template = encoder.build_delta_template(run())
    assert template is not None
    assert template.encode_read(read) is None
    assert encoder.feed([Delta(0, 0, "end")]) == begun().feed([Delta(0, 0, "end")])
