"""The fast path forwards chunks of a delta run with the bytes of the encoder, and leaves other data to the caller."""

import asyncio
import socket
from collections.abc import Callable
from typing import cast

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataplane.core import CORE, ChunkWriter, make_fast_path
from tests.unit.support.chat_chunks import chunk, text_chunk
from translation.chat.delta_run import ChatDeltaRun
from translation.chat.relaying.choices import ChunkForm
from translation.chat.relaying.chunk_identity import OwnCompletion
from translation.chat.relaying.relay import ChatRelay
from translation.encoding.templates import DeltaTemplate, RelayTemplate
from translation.framing import sse
from translation.messages.client.encode import MessagesEncoder
from translation.parsers.edges import EdgeTrimmer
from translation.representation.delta_runs import trim_texts
from translation.representation.events import Delta, ItemStarted, PartStarted, Started
from translation.representation.streamed_text import StreamedText
from translation.responses.client.encode import ResponsesEncoder
from translation.responses.client.initial_response import new_response

pytestmark = pytest.mark.skipif(CORE is None, reason="the core is not compiled here: it needs a C compiler")

HEAD = new_response({"model": "m", "input": "hi"}, response_id="resp_1", created_at=100, model="m")
NEVER = 0.0


class Peer(ChunkWriter):
    """Stores written bytes."""

    def __init__(self) -> None:
        self.ready = True
        self.sent_at = NEVER
        self.written = bytearray()
        self.write_chunk = self.written.extend

    @property
    def body(self) -> bytes:
        """Returns the sent body without its chunked coding."""
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
    return sse.encode_data(orjson.dumps(text_chunk(text)))


def begin_encoder(item_id: str = "msg_1") -> ResponsesEncoder:
    encoder = ResponsesEncoder(HEAD, lambda: 105)
    encoder.feed(
        [
            Started("m"),
            ItemStarted(0, {"type": "message", "id": item_id, "role": "assistant", "content": []}),
            PartStarted(0, 0, {"type": "output_text", "text": "", "annotations": []}),
            Delta(0, 0, "one"),
        ]
    )
    return encoder


def begin_messages_encoder() -> MessagesEncoder:
    """An encoder whose frames have no numbers."""
    encoder = MessagesEncoder(message_id="msg_%d", model="m", thinking="text")
    part = {"type": "output_text", "text": "", "annotations": []}
    message = {"type": "message", "id": "msg_1", "role": "assistant", "content": []}
    encoder.feed([Started("m"), ItemStarted(0, message), PartStarted(0, 0, part), Delta(0, 0, "one")])
    return encoder


def begin_trimmer() -> EdgeTrimmer:
    """A trimmer in the middle of reasoning."""
    trimmer = EdgeTrimmer()
    assert trimmer.trim_reasoning("one") == "one"
    return trimmer


def run(trimmer: EdgeTrimmer | None = None, streamed_text: StreamedText | None = None) -> ChatDeltaRun:
    payload = orjson.dumps(text_chunk("one"))
    delta = Delta(0, 0, "one")
    run = ChatDeltaRun.from_delta(payload, "content", delta, trimmer=trimmer, streamed_text=streamed_text)
    assert run is not None
    return run


def make_forwarder(template: DeltaTemplate | RelayTemplate | None, peer: Peer) -> Callable[[bytes], int]:
    path = make_fast_path(template, peer)
    assert path is not None
    return path.forward_chunks


@pytest.mark.parametrize("stop", ['{"a": 1}', '"{}"', "{"])
def test_a_text_that_has_to_be_examined_ends_a_run_of_arguments(stop: str) -> None:
    def arguments(text: str) -> bytes:
        return orjson.dumps(chunk({"tool_calls": [{"index": 0, "function": {"arguments": text}}]}))

    peer = Peer()
    run = ChatDeltaRun.from_delta(arguments("one"), "arguments", Delta(0, None, "one"))
    assert run is not None
    encoder = ResponsesEncoder(HEAD, lambda: 105)
    call = {"type": "function_call", "id": "fc_1", "call_id": "c", "name": "f", "arguments": ""}
    encoder.feed([Started("m"), ItemStarted(0, call), Delta(0, None, "one")])
    texts = (' "{', "}", stop, "more")
    chunks = [chunked(sse.encode_data(arguments(text))) for text in texts]
    forward_chunks = make_forwarder(encoder.build_delta_template(run), peer)
    assert forward_chunks(b"".join(chunks)) == len(chunks[0]) + len(chunks[1])
    assert forward_chunks(b"".join(chunks[2:])) == 0


@given(
    texts=st.lists(st.text(min_size=1, max_size=200), max_size=8),
    size=st.sampled_from(["%x", "%X"]),
    sequence=st.integers(0, 1001),
)
def test_deltas_have_the_bytes_of_the_encoder(texts: list[str], size: str, sequence: int) -> None:
    fast, slow, peer = begin_encoder(), begin_encoder(), Peer()
    fast.sequence = slow.sequence = sequence
    forward_chunks = make_forwarder(fast.build_delta_template(run()), peer)
    expected = b""
    for text in texts:
        assert forward_chunks(chunked(frame(text), size))
        expected += slow.feed([Delta(0, 0, text)])
    assert peer.body == expected
    assert fast.feed([Delta(0, 0, "end")]) == slow.feed([Delta(0, 0, "end")])
    assert fast.response == slow.response


@given(texts=st.lists(st.text(min_size=1), min_size=1, max_size=40), at_once=st.booleans())
def test_frames_without_numbers_have_the_bytes_of_the_encoder(texts: list[str], at_once: bool) -> None:
    fast, slow, peer = begin_messages_encoder(), begin_messages_encoder(), Peer()
    forward_chunks = make_forwarder(fast.build_delta_template(run()), peer)
    chunks = [chunked(frame(text)) for text in texts]
    for read in [b"".join(chunks)] if at_once else chunks:
        assert forward_chunks(read) == len(read)
    assert peer.body == slow.feed([Delta(0, 0, text) for text in texts])
    assert fast.feed([Delta(0, 0, "end")]) == slow.feed([Delta(0, 0, "end")])


@given(texts=st.lists(st.text(min_size=1), min_size=1, max_size=20), at_once=st.booleans(), relayed=st.booleans())
def test_texts_are_remembered_as_python_remembers_them(texts: list[str], *, at_once: bool, relayed: bool) -> None:
    fast, slow = StreamedText(), StreamedText()
    fast_run = run(begin_trimmer(), fast)
    template = RelayTemplate(fast_run, ()) if relayed else begin_encoder().build_delta_template(fast_run)
    forward_chunks = make_forwarder(template, Peer())
    chunks = [chunked(frame(text)) for text in texts]
    for number, read in enumerate([b"".join(chunks)] if at_once else chunks):
        assert forward_chunks(read) == len(read)
        if number % 3 == 1:  # something else needs the counts in between
            fast.settle()
    fast.settle()
    slow_run = run(begin_trimmer(), slow)
    slow_template = RelayTemplate(slow_run, ()) if relayed else begin_encoder().build_delta_template(slow_run)
    assert slow_template is not None
    slow_template.encode_read(b"".join(map(frame, texts)))
    assert [(each.size, each.ink_size, each.checksum) for each in (fast, slow)] == [
        (len("".join(texts).encode()), len(b"".join("".join(texts).encode().split())), slow.checksum)
    ] * 2


LINES = st.text(alphabet='a\n\r é😀"', min_size=1, max_size=4)


@given(texts=st.lists(LINES, min_size=1, max_size=40), sequence=st.integers(0, 1001), per_read=st.integers(1, 40))
def test_trimmed_texts_have_the_bytes_of_the_encoder(texts: list[str], sequence: int, per_read: int) -> None:
    fast, python, slow, peer = begin_encoder(), begin_encoder(), begin_encoder(), Peer()
    fast.sequence = python.sequence = slow.sequence = sequence
    trimmers = begin_trimmer(), begin_trimmer(), begin_trimmer()
    forward_chunks = make_forwarder(fast.build_delta_template(run(trimmers[0])), peer)
    template, written = python.build_delta_template(run(trimmers[1])), b""
    assert template is not None
    for at in range(0, len(texts), per_read):
        frames = [frame(text) for text in texts[at : at + per_read]]
        read = b"".join(map(chunked, frames))
        assert forward_chunks(read) == len(read)
        written += template.encode_read(b"".join(frames)) or b""
    expected = slow.feed([Delta(0, 0, text) for text in trim_texts(trimmers[2], texts)])
    assert peer.body == written == expected
    assert trimmers[0].pending == trimmers[1].pending == trimmers[2].pending
    assert fast.feed([Delta(0, 0, "end")]) == slow.feed([Delta(0, 0, "end")])
    assert fast.response == slow.response


def test_nothing_is_written_while_all_texts_are_held_back() -> None:
    encoder, trimmer, peer = begin_encoder(), begin_trimmer(), Peer()
    forward_chunks = make_forwarder(encoder.build_delta_template(run(trimmer)), peer)
    read = chunked(frame("\n")) * 2
    assert forward_chunks(read) == len(read)
    assert (bytes(peer.written), peer.sent_at, trimmer.pending) == (b"", NEVER, "\n\n")
    assert forward_chunks(chunked(frame("a")))
    assert peer.body == begin_encoder().feed([Delta(0, 0, "\n\na")])


def test_a_number_may_gain_a_digit_on_the_way() -> None:
    fast, slow, peer = begin_encoder(), begin_encoder(), Peer()
    forward_chunks = make_forwarder(fast.build_delta_template(run()), peer)
    assert all(forward_chunks(chunked(frame(f"{count}"))) for count in range(1200))
    assert peer.body == slow.feed([Delta(0, 0, f"{count}") for count in range(1200)])


def test_an_item_may_have_any_id() -> None:
    item_id = "%d%b%%%x%%d"
    fast, slow, peer = begin_encoder(item_id), begin_encoder(item_id), Peer()
    assert make_forwarder(fast.build_delta_template(run()), peer)(chunked(frame("two")))
    assert peer.body == slow.feed([Delta(0, 0, "two")])


@given(texts=st.lists(st.text(min_size=1), min_size=1, max_size=40), sequence=st.integers(0, 1001))
def test_chunks_of_one_read_are_translated_in_one_write(texts: list[str], sequence: int) -> None:
    fast, slow, peer = begin_encoder(), begin_encoder(), Peer()
    fast.sequence = slow.sequence = sequence
    assert make_forwarder(fast.build_delta_template(run()), peer)(b"".join(chunked(frame(text)) for text in texts))
    assert peer.body == slow.feed([Delta(0, 0, text) for text in texts])
    assert fast.feed([Delta(0, 0, "end")]) == slow.feed([Delta(0, 0, "end")])
    assert fast.response == slow.response


def test_chunks_of_one_read_are_relayed_in_one_write() -> None:
    peer = Peer()
    data = b"".join(chunked(frame(text)) for text in ["two", '"drei\\', "fünf", ""])
    assert make_forwarder(RelayTemplate(run(), ()), peer)(data)
    assert peer.written == data


def test_the_time_of_the_last_write_is_known() -> None:
    peer = Peer()
    assert make_forwarder(begin_encoder().build_delta_template(run()), peer)(chunked(frame("two")))
    assert peer.sent_at > NEVER


BARE_QUOTE = frame("two").replace(b"two", b'two","b":"c')
OTHERS = {
    "nothing": b"",
    "the end": b"0\r\n\r\n",
    "no frame of the run": chunked(b"data: [DONE]\n\n"),
    "another beginning": chunked(frame("two").replace(b"data", b"date")),
    "less than a frame": chunked(frame("two")[:20]),
    "no whole frame": chunked(frame("two")[:-1]),
    "bare quotes": chunked(BARE_QUOTE),
    "bare quotes behind an escape": chunked(BARE_QUOTE.replace(b"two", b"two\\n")),
    "a bare line end": chunked(frame("two").replace(b"two", b"t\nwo")),
    "half an escape": chunked(frame("two").replace(b"two", b"two\\")),
    "bytes that are no text": chunked(frame("two").replace(b"two", b"\xff")),
    "no line end behind it": chunked(frame("two"))[:-2] + b"xx",
    "a part of a chunk": chunked(frame("two"))[:-1],
    "a part of a size": b"1",
    "a chunk that says less than it has": b"3\r\n%b\r\n" % frame("two"),
    "a chunk that says more than it has": b"fffffff\r\n%b\r\n" % frame("two"),
    "a chunk that says more than there is": b"ffffffff\r\n%b\r\n" % frame("two"),
    "a chunk that says nothing": b"\r\n%b\r\n" % frame("two"),
    "a chunk with an extension": chunked(frame("two")).replace(b"\r\n", b";x\r\n", 1),
    "a chunk with a zero before its size": b"0" + chunked(frame("two")),
}


@pytest.mark.parametrize("data", OTHERS.values(), ids=OTHERS)
def test_other_chunks_are_left_to_the_caller(data: bytes) -> None:
    encoder, peer = begin_encoder(), Peer()
    assert not make_forwarder(encoder.build_delta_template(run()), peer)(data)
    assert not make_forwarder(RelayTemplate(run(), ()), peer)(data)
    assert (bytes(peer.written), peer.sent_at) == (b"", NEVER)
    assert encoder.feed([Delta(0, 0, "end")]) == begin_encoder().feed([Delta(0, 0, "end")])
    assert not make_forwarder(begin_messages_encoder().build_delta_template(run()), peer)(data)
    assert not peer.written


@pytest.mark.parametrize(
    "data", [data for data in OTHERS.values() if data], ids=[name for name in OTHERS if OTHERS[name]]
)
def test_bytes_after_chunks_of_the_run_are_left_to_the_caller(data: bytes) -> None:
    first = b"".join(chunked(frame(text)) for text in ("two", "drei\n"))
    taken = len(first)
    fast, slow, peer, other = begin_encoder(), begin_encoder(), Peer(), Peer()
    assert make_forwarder(fast.build_delta_template(run()), peer)(first + data) == taken
    assert make_forwarder(RelayTemplate(run(), ()), other)(first + data) == taken
    assert peer.body == (slow.feed([Delta(0, 0, "two"), Delta(0, 0, "drei\n")]) if taken else b"")
    assert bytes(other.written) == first[:taken]
    assert fast.feed([Delta(0, 0, "end")]) == slow.feed([Delta(0, 0, "end")])


NOT_ONE_TEXT = {
    "an empty one": chunked(frame("")),
    "two in a chunk": chunked(frame("two") * 2),
}


@pytest.mark.parametrize("data", NOT_ONE_TEXT.values(), ids=NOT_ONE_TEXT)
def test_chunks_that_are_not_one_text_each_are_not_translated(data: bytes) -> None:
    encoder, peer = begin_encoder(), Peer()
    assert not make_forwarder(encoder.build_delta_template(run()), peer)(data)
    assert encoder.feed([Delta(0, 0, "end")]) == begin_encoder().feed([Delta(0, 0, "end")])


@pytest.mark.parametrize(
    "template", [begin_encoder().build_delta_template(run()), RelayTemplate(run(), ())], ids=["delta", "relay"]
)
def test_nothing_is_written_to_a_client_that_does_not_read(template: DeltaTemplate | RelayTemplate) -> None:
    peer = Peer()
    peer.ready = False
    assert not make_forwarder(template, peer)(chunked(frame("two")))
    assert not peer.written


def test_model_names_are_changed_in_relayed_chunks() -> None:
    identity = {"id": "chatcmpl-ours", "created": 1}
    relay = ChatRelay(OwnCompletion("ours", identity), ChunkForm(frozenset()))
    peer = Peer()
    for each in (chunk({"role": "assistant", "content": ""}), text_chunk("one")):
        relay.feed(sse.encode_data(orjson.dumps(each)))
    assert relay.template is not None
    assert make_forwarder(relay.template, peer)(chunked(frame("two, not the model")))
    assert peer.body == relay.feed(frame("two, not the model"))
    assert b'"model":"ours"' in peer.body
    assert peer.sent_at > NEVER


class SocketTransport:
    """A transport with a socket, to which others may write."""

    def __init__(self, closing: bool = False, waiting: int = 0) -> None:
        self.here, self.there = socket.socketpair()
        self.here.setblocking(False)
        self.closing = closing
        self.waiting = waiting

    def is_closing(self) -> bool:
        return self.closing

    def get_write_buffer_size(self) -> int:
        return self.waiting

    def sent(self) -> bytes:
        with self.here, self.there:
            self.here.shutdown(socket.SHUT_WR)
            return b"".join(iter(lambda: self.there.recv(1 << 16), b""))


def socket_peer(transport: SocketTransport) -> Peer:
    peer = Peer()
    peer.transport = cast("asyncio.Transport", transport)
    peer.socket = transport.here.fileno()
    return peer


def test_the_compiled_core_writes_to_the_socket_itself() -> None:
    peer = socket_peer(transport := SocketTransport())
    assert make_forwarder(RelayTemplate(run(), ()), peer)(delta := chunked(frame("two")))
    assert (transport.sent(), bytes(peer.written)) == (delta, b"")
    assert peer.sent_at > NEVER


@pytest.mark.parametrize(("closing", "waiting"), [(True, 0), (False, 1)], ids=["it closes", "something goes first"])
def test_the_compiled_core_leaves_writes_to_a_transport_with_a_buffer(closing: bool, waiting: int) -> None:
    peer = socket_peer(transport := SocketTransport(closing, waiting))
    assert make_forwarder(RelayTemplate(run(), ()), peer)(delta := chunked(frame("two")))
    assert (transport.sent(), bytes(peer.written)) == (b"", delta)


def test_bytes_beyond_the_socket_buffer_go_to_the_transport() -> None:
    peer = socket_peer(transport := SocketTransport())
    delta = chunked(frame("two" * 100_000))
    forward_chunks = make_forwarder(RelayTemplate(run(), ()), peer)
    while not peer.written:
        assert forward_chunks(delta)
    kept = bytes(peer.written)
    assert forward_chunks(delta)  # nothing of which there is room for
    assert bytes(peer.written) == kept + delta
    sent = transport.sent()
    assert sent + kept == delta * (len(sent + kept) // len(delta))


def test_a_broken_socket_is_detected_by_the_transport() -> None:
    peer = socket_peer(transport := SocketTransport())
    transport.there.close()
    assert make_forwarder(RelayTemplate(run(), ()), peer)(delta := chunked(frame("two")))
    assert bytes(peer.written) == delta
    transport.here.close()


def test_each_kind_of_template_has_a_fast_path() -> None:
    for template in (begin_encoder().build_delta_template(run()), RelayTemplate(run(), ())):
        way = make_fast_path(template, peer := Peer())
        assert way is not None
        assert way.forward_chunks(data := chunked(frame("two"))) == len(data)
        assert peer.written


def test_without_a_template_there_is_no_fast_path() -> None:
    class Other:
        fast_path_kind = None

        def encode_read(self, read: bytes) -> bytes | None:
            raise AssertionError(read)

    assert make_fast_path(None, Peer()) is None
    assert make_fast_path(Other(), Peer()) is None
