"""A failure before content is raised, so that it can be a status. A failure after content is an event."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

import pytest

from gateway.errors import TurnFailed
from gateway.replies.reply_streams import RelayedReply, TranslatedReply, batch_has_content, relay_buffered_stream
from providers.base import Batch
from providers.errors import UpstreamBroken
from tests.unit.support.chat_replies import text
from tests.unit.support.translator_drivers import conclude, fail_to_end
from translation.chat.client.encode import ChatEncoder
from translation.chat.relaying.choices import ChunkForm
from translation.chat.relaying.chunk_identity import OwnCompletion
from translation.chat.relaying.relay import ChatRelay
from translation.errors import ProtocolViolation
from translation.framing import sse
from translation.representation.events import Event, Failed, Finished, Noted, Opaque, Started
from translation.representation.json_types import Json
from translation.representation.loss import Loss
from translation.responses.client.initial_response import new_response
from translation.responses.relaying.relay import ResponsesRelay
from translation.responses.relaying.whole_response import OwnResponse

BOTH = frozenset({"reasoning", "reasoning_content"})
STARTED = Started("m")
FAILED = Failed("rate_limited", "slow down")
CHUNK = b'data: {"id":"x","object":"chat.completion.chunk","choices":[{"index":0,"delta":{%b},"finish_reason":%b}]}\n\n'
SAID, STOPPED = CHUNK % (b'"content":"Hi"', b"null"), CHUNK % (b"", b'"stop"')
OPENED = CHUNK % (b'"role":"assistant"', b"null")
IDENTITY: Json = {"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "m"}
ERROR = b'data: {"error":{"message":"slow down","code":"rate_limit_exceeded"}}\n\n'
BEGUN = sse.encode_event("response.created", b'{"type":"response.created","sequence_number":0,"response":{"id":"r"}}')
FAILURE = sse.encode_event(
    "response.failed",
    b'{"type":"response.failed","sequence_number":1,"response":{"id":"r","status":"failed",'
    b'"error":{"code":"server_error","message":"boom"},"output":[]}}',
)


class Upstream:
    """Plays batches as an exchange, or reads as a relay."""

    losses: Sequence[Loss] = ()

    def __init__(self, *batches: Batch, reads: Sequence[bytes] = ()) -> None:
        self._batches = batches
        self._reads = reads
        self.closed = False

    async def batches(self) -> AsyncGenerator[Batch, None]:
        try:
            for batch in self._batches:
                yield batch
        finally:
            self.closed = True

    async def reads(self) -> AsyncGenerator[bytes, None]:
        try:
            for read in self._reads:
                yield read
        finally:
            self.closed = True

    async def fetch_body(self) -> Json | bytes:
        return b"".join(self._reads)


def translated(upstream: Upstream) -> TranslatedReply:
    encoder = ChatEncoder(completion_id="c", created=1, model="m", reasoning_fields=BOTH, include_usage=False)
    return TranslatedReply(upstream, None, encoder)


def relay() -> ChatRelay:
    return ChatRelay(OwnCompletion(None, IDENTITY), ChunkForm(BOTH))


async def sent(wire: TranslatedReply | RelayedReply) -> bytes:
    return b"".join([frames async for frames in wire.frames()]) + conclude(wire)


async def test_a_turn_is_encoded_to_its_end() -> None:
    wire = translated(Upstream([STARTED], text(0, "Hi"), [Finished("stop")]))
    stream = await sent(wire)
    assert b'"content":"Hi"' in stream
    assert stream.endswith(sse.DONE_FRAME)
    assert wire.has_content
    assert wire.fail(UpstreamBroken("late")) == b""


@pytest.mark.parametrize("batches", [[[FAILED]], [[STARTED], [FAILED]]], ids=["at once", "after the start"])
async def test_a_turn_that_fails_before_content_is_raised(batches: list[Batch]) -> None:
    upstream = Upstream(*batches)
    wire = translated(upstream)
    with pytest.raises(TurnFailed, match="slow down") as raised:
        await sent(wire)
    assert fail_to_end(wire, raised.value).endswith(sse.DONE_FRAME)
    assert wire.fail(raised.value) == b""


async def test_a_turn_that_fails_after_content_ends_in_it() -> None:
    stream = await sent(translated(Upstream([STARTED], text(0, "Hi"), [FAILED])))
    assert b'"finish_reason":"error"' in stream
    assert stream.endswith(sse.DONE_FRAME)


async def test_a_turn_that_broke_off_can_still_be_ended() -> None:
    wire = translated(Upstream([STARTED], text(0, "Hi")))
    with pytest.raises(ProtocolViolation):
        await sent(wire)
    assert fail_to_end(wire, UpstreamBroken("cut")).endswith(sse.DONE_FRAME)


@pytest.mark.parametrize("relayed", [True, False], ids=["relayed", "translated"])
async def test_closing_a_stream_closes_the_upstream(relayed: bool) -> None:
    upstream = Upstream([STARTED, *text(0, "Hi")], [Finished("stop")], reads=[SAID, STOPPED])
    wire = RelayedReply(upstream, relay()) if relayed else translated(upstream)
    async with aclosing(wire.frames()) as frames:
        await anext(frames)
    assert upstream.closed


async def test_a_relay_forwards_the_received_bytes() -> None:
    wire = RelayedReply(Upstream(reads=[OPENED, SAID, STOPPED, sse.DONE_FRAME]), relay())
    assert await sent(wire) == OPENED + SAID + STOPPED + sse.DONE_FRAME
    assert wire.has_content


@pytest.mark.parametrize(
    "reads", [[ERROR], [OPENED, ERROR], [OPENED], []], ids=["an error", "after the opening", "a cut", "nothing"]
)
async def test_a_relay_that_fails_before_content_is_raised_and_still_has_an_end(reads: list[bytes]) -> None:
    wire = RelayedReply(Upstream(reads=reads), relay())
    with pytest.raises(TurnFailed) as raised:
        await sent(wire)
    # Whoever was promised a stream already gets the failure as its end, once.
    assert fail_to_end(wire, raised.value).endswith(sse.DONE_FRAME)
    assert wire.ended
    assert wire.fail(raised.value) == b""


@pytest.mark.parametrize(
    "reads",
    [[BEGUN, FAILURE], [BEGUN + FAILURE], [FAILURE], [BEGUN, b"data: {}\n\n"], [BEGUN]],
    ids=["a failure", "at once", "nothing else", "garbage", "a cut"],
)
async def test_a_responses_relay_that_fails_before_content_does_so_too(reads: list[bytes]) -> None:
    head = new_response({"model": "m", "input": "hi"}, response_id="resp_1", created_at=1, model="m")
    wire = RelayedReply(Upstream(reads=reads), ResponsesRelay(OwnResponse(None, head, is_stored=True)))
    received: list[bytes] = []
    with pytest.raises(TurnFailed) as raised:
        received += [frames async for frames in wire.frames()]
    received.append(fail_to_end(wire, raised.value))
    assert b"".join(received).count(b"event: response.failed\n") == 1
    assert b"".join(received).endswith(sse.DONE_FRAME)
    assert wire.ended
    assert wire.fail(raised.value) == b""


@pytest.mark.parametrize("reads", [[SAID, ERROR], [SAID]], ids=["an error", "a cut"])
async def test_a_relay_that_fails_after_content_ends_in_it(reads: list[bytes]) -> None:
    stream = await sent(RelayedReply(Upstream(reads=reads), relay()))
    assert b'"finish_reason":"error"' in stream
    assert stream.endswith(sse.DONE_FRAME)


async def test_a_relay_that_broke_off_can_still_be_ended() -> None:
    wire = RelayedReply(Upstream(), relay())
    assert fail_to_end(wire, UpstreamBroken("cut")).endswith(sse.DONE_FRAME)


@pytest.mark.parametrize("relayed", [True, False], ids=["relayed", "translated"])
async def test_an_unsent_end_can_still_become_a_failure(relayed: bool) -> None:
    upstream = Upstream([STARTED, *text(0, "Hi")], [Finished("stop")], reads=[OPENED + SAID, STOPPED + sse.DONE_FRAME])
    wire = RelayedReply(upstream, relay()) if relayed else translated(upstream)
    stream = b"".join([frames async for frames in wire.frames()])
    assert wire.ended
    assert sse.DONE_FRAME not in stream
    end = fail_to_end(wire, UpstreamBroken("late"))
    assert b'"finish_reason":"error"' in end
    assert end.endswith(sse.DONE_FRAME)
    assert wire.ended


def test_a_stream_in_one_read_is_relayed_whole_or_raised() -> None:
    assert relay_buffered_stream(relay(), SAID + STOPPED + sse.DONE_FRAME) == SAID + STOPPED + sse.DONE_FRAME
    with pytest.raises(TurnFailed):
        relay_buffered_stream(relay(), SAID + ERROR)


CONTENT: dict[str, tuple[list[Event], bool]] = {
    "nothing": ([], False),
    "a start": ([STARTED], False),
    "metadata": ([Noted(facts={"a": 1}), Opaque("chat", {})], False),
    "an item": (text(0, "Hi"), True),
    "a regular end": ([Finished("stop")], True),
}


@pytest.mark.parametrize(("batch", "expected"), CONTENT.values(), ids=CONTENT)
def test_content_is_output_that_a_retry_would_repeat(batch: list[Event], expected: bool) -> None:
    assert batch_has_content(batch) == expected
