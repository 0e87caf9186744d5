"""A delta that comes alone leaves as it would have by the long way, in a chunk of its own; anything else is left."""

from typing import cast

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.http_protocol import Client
from gateway.passage import passage
from providers.incoming import Alike
from tests.unit.chat_chunks import chunk, said
from translation import sse
from translation.chat.passing import Passing
from translation.chat.relay import ChatRelay
from translation.chat.text_run import TextRun
from translation.events import Delta, Event, ItemStarted, PartStarted, Started
from translation.responses.encode import ResponsesEncoder
from translation.responses.resource import new_response

HEAD = new_response({"model": "m", "input": "hi"}, response_id="resp_1", created_at=100, model="m")
BEGIN: list[Event] = [
    Started("m"),
    ItemStarted(0, {"type": "message", "id": "msg_1", "role": "assistant", "content": []}),
    PartStarted(0, 0, {"type": "output_text", "text": "", "annotations": []}),
    Delta(0, 0, "one"),
]
NEVER = 0.0


class Peer:
    """What a passage asks of a `Client`."""

    def __init__(self) -> None:
        self.ready = True
        self.sent_at = NEVER
        self.written = bytearray()
        self.write_chunk = self.written.extend

    @property
    def body(self) -> bytes:
        """What it was sent, out of its chunks."""
        body, rest = b"", bytes(self.written)
        while rest:
            size, _, rest = rest.partition(b"\r\n")
            body, rest = body + rest[: int(size, 16)], rest[int(size, 16) :]
            assert rest[:2] == b"\r\n"
            rest = rest[2:]
        return body


def chunked(body: bytes, size: str = "%x") -> bytes:
    return b"%b\r\n%b\r\n" % ((size % len(body)).encode(), body)


def frame(text: str) -> bytes:
    return sse.data(orjson.dumps(said(text)))


def begun() -> ResponsesEncoder:
    encoder = ResponsesEncoder(HEAD, lambda: 105)
    encoder.feed(BEGIN)
    return encoder


def run() -> TextRun:
    run = TextRun.learn(orjson.dumps(said("one")), "content", Delta(0, 0, "one"))
    assert run is not None
    return run


def passing(alike: Alike[bytes], peer: Peer, data: bytes) -> bool:
    pass_chunk = passage(alike, cast("Client", peer))
    assert pass_chunk is not None
    return pass_chunk(data)


@settings(deadline=None)
@given(st.lists(st.text(min_size=1, max_size=200), max_size=8), st.sampled_from(["%x", "%X"]), st.integers(0, 1001))
def test_deltas_are_told_as_the_encoder_tells_them(texts: list[str], size: str, sequence: int) -> None:
    short, long, peer = begun(), begun(), Peer()
    short.sequence = long.sequence = sequence
    pass_chunk = passage(short.retelling(run()), cast("Client", peer))
    assert pass_chunk is not None
    told = b""
    for text in texts:
        if pass_chunk(chunked(frame(text), size)):
            told += long.feed([Delta(0, 0, text)])
        else:  # longer than deltas are
            assert len(frame(text)) > 1024
    assert peer.body == told
    assert short.feed([Delta(0, 0, "end")]) == long.feed([Delta(0, 0, "end")])
    assert short.response == long.response


def test_a_number_may_gain_a_digit_on_the_way() -> None:
    short, long, peer = begun(), begun(), Peer()
    pass_chunk = passage(short.retelling(run()), cast("Client", peer))
    assert pass_chunk is not None
    assert all(pass_chunk(chunked(frame(f"{count}"))) for count in range(1200))
    assert peer.body == long.feed([Delta(0, 0, f"{count}") for count in range(1200)])


def test_when_it_was_sent_is_known() -> None:
    peer = Peer()
    assert passing(begun().retelling(run()), peer, chunked(frame("two")))
    assert peer.sent_at > NEVER


BARE_QUOTE = frame("two").replace(b"two", b'two","b":"c')
NOT_OF_THE_RUN = {
    "nothing": b"",
    "the end": b"0\r\n\r\n",
    "no frame of the run": chunked(b"data: [DONE]\n\n"),
    "another beginning": chunked(frame("two").replace(b"data", b"date")),
    "no whole frame": chunked(frame("two")[:-1]),
    "two of them": chunked(frame("two") * 2),
    "bare quotes": chunked(BARE_QUOTE),
    "a bare line end": chunked(frame("two").replace(b"two", b"t\nwo")),
    "bytes that are no text": chunked(frame("two").replace(b"two", b"\xff")),
    "two chunks": chunked(frame("two")) * 2,
    "a part of a chunk": chunked(frame("two"))[:-1],
    "a chunk that says less than it has": b"3\r\n%b\r\n" % frame("two"),
    "a chunk with an extension": chunked(frame("two")).replace(b"\r\n", b";x\r\n", 1),
    "an empty text": chunked(frame("")),
    "a text longer than deltas are": chunked(frame("x" * 2000)),
}


@pytest.mark.parametrize("data", NOT_OF_THE_RUN.values(), ids=NOT_OF_THE_RUN)
def test_anything_else_is_not_retold(data: bytes) -> None:
    encoder, peer = begun(), Peer()
    assert not passing(encoder.retelling(run()), peer, data)
    assert (bytes(peer.written), peer.sent_at) == (b"", NEVER)
    assert encoder.feed([Delta(0, 0, "end")]) == begun().feed([Delta(0, 0, "end")])


TEXTLESS = ("an empty text", "two of them")


@pytest.mark.parametrize("name", [name for name in NOT_OF_THE_RUN if name not in TEXTLESS])
def test_anything_else_is_not_passed(name: str) -> None:
    peer = Peer()
    assert not passing(Passing(run(), ()), peer, NOT_OF_THE_RUN[name])
    assert (bytes(peer.written), peer.sent_at) == (b"", NEVER)


@pytest.mark.parametrize("name", TEXTLESS)
def test_frames_with_nothing_to_retell_are_passed(name: str) -> None:
    peer = Peer()
    assert passing(Passing(run(), ()), peer, NOT_OF_THE_RUN[name])
    assert peer.written == NOT_OF_THE_RUN[name]


@pytest.mark.parametrize("alike", [begun().retelling(run()), Passing(run(), ())], ids=["retold", "passed"])
def test_nothing_is_written_to_a_client_that_does_not_read(alike: Alike[bytes]) -> None:
    peer = Peer()
    peer.ready = False
    assert not passing(alike, peer, chunked(frame("two")))
    assert not peer.written


def test_names_are_changed_in_what_is_passed() -> None:
    identity = {"id": "chatcmpl-ours", "created": 1}
    relay = ChatRelay(model="ours", identity=identity, reasoning_fields=frozenset(), include_usage=False)
    peer = Peer()
    for each in (chunk({"role": "assistant", "content": ""}), said("one")):
        relay.feed(sse.data(orjson.dumps(each)))
    assert relay.alike is not None
    data = chunked(frame("two, not the model"))
    assert passing(relay.alike, peer, data)
    assert peer.body == relay.feed(frame("two, not the model"))
    assert b'"model":"ours"' in peer.body
    assert peer.sent_at > NEVER


def test_there_is_none_without_a_client_or_anything_alike() -> None:
    class Other:
        def piece_of(self, read: bytes) -> bytes | None:
            raise AssertionError(read)

    assert passage(Passing(run(), ()), None) is None
    assert passage(None, cast("Client", Peer())) is None
    assert passage(Other(), cast("Client", Peer())) is None
