"""A provider for any upstream that speaks chat or Responses over HTTP: facts in, adapter out."""

import asyncio
import re
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import NamedTuple, Protocol

import orjson

from providers.base import Batch, Capabilities, Counting, Dialect
from providers.counting import Counter
from providers.errors import ProviderError, UpstreamGarbled
from providers.http import Reply, Upstream
from providers.new_id import new_id
from translation.chat.decode import ChatDecoder
from translation.chat.forms import stream_of as stream_of_completion
from translation.chat.lower import lower as lower_to_chat
from translation.errors import ProtocolViolation
from translation.events import Event, Failed, Usage
from translation.ids import NewId
from translation.json_types import Json
from translation.loss import Loss
from translation.lowered import Lowered
from translation.profile import Profile
from translation.responses.decode import ResponsesDecoder
from translation.responses.forms import stream_of as stream_of_response
from translation.responses.lower import lower as lower_to_responses
from translation.sse import DONE_PAYLOAD, FrameDecoder
from translation.turn import Turn

_AFTER_DONE_S = 0.25
"""How long a stream may go on after its [DONE]: enough for a late usage chunk and for the connection to be reusable."""


_DONE_LINE = re.compile(rb"[\r\n]data: ?\[DONE\]")
_DONE_LINE_BYTES = len(b"\ndata: [DONE]")

_NOT_THE_PROTOCOL = (ProtocolViolation, AttributeError, KeyError, TypeError, ValueError)
"""What decoding raises when values are not of the types the protocol says."""


class Decoder(Protocol):
    """Chunks, or one whole answer, to events."""

    @property
    def usage(self) -> Usage | None: ...
    def feed(self, chunk: Json) -> list[Event]: ...
    def read(self, payloads: Sequence[bytes]) -> list[Event]: ...
    def finish(self) -> list[Event]: ...


class Spoken(NamedTuple):
    """How one dialect is spoken over HTTP."""

    path: str
    lower: Callable[[Turn, Profile], Lowered]
    decoder: Callable[[NewId, Profile], Decoder]
    stream_of: Callable[[Json], bytes]
    """A whole answer as the stream it could have been."""


SPOKEN: dict[Dialect, Spoken] = {
    "chat": Spoken("/chat/completions", lower_to_chat, ChatDecoder, stream_of_completion),
    "responses": Spoken(
        "/responses", lower_to_responses, ResponsesDecoder, lambda answer: stream_of_response(answer, new_id)
    ),
}


class WireProvider:
    """One configured upstream. Turns go out in `dialect`; relays in any dialect of its capabilities."""

    def __init__(self, upstream: Upstream, capabilities: Capabilities, dialect: Dialect) -> None:
        self._upstream = upstream
        self._capabilities = capabilities
        self._spoken = SPOKEN[dialect]

    @property
    def name(self) -> str:
        return self._upstream.name

    @property
    def capabilities(self) -> Capabilities:
        return self._capabilities

    def prepare(self, turn: Turn, profile: Profile) -> "WireExchange":
        body, losses = self._spoken.lower(turn, profile)
        if profile.think_open and _is_told_not_to_think(body):
            profile = replace(profile, think_open=False)
        decoder = self._spoken.decoder(new_id, profile)
        return WireExchange(self._upstream, self._spoken.path, body, losses, decoder, stream=turn.stream)

    def relay(self, dialect: Dialect, body: Json) -> "WireRelay":
        return WireRelay(self._upstream, SPOKEN[dialect], body)

    async def count(self, turn: Turn, profile: Profile, way: Counting) -> int:
        return await Counter(self._upstream, self.prepare).count(turn, profile, way)

    async def models(self) -> Sequence[str]:
        if not self._capabilities.models:
            return []
        rows = (await self._upstream.get("/models")).get("data")
        if not isinstance(rows, list):
            raise UpstreamGarbled("the upstream's list of models has no data", provider=self.name)
        return [row["id"] for row in rows if isinstance(row, dict) and isinstance(row.get("id"), str)]

    def scrub(self, message: str) -> str:
        return self._upstream.scrub(message)

    async def aclose(self) -> None:
        await self._upstream.aclose()


class WireExchange:
    """One lowered turn: `batches()` sends it."""

    def __init__(
        self, upstream: Upstream, path: str, body: Json, losses: Sequence[Loss], decoder: Decoder, *, stream: bool
    ) -> None:
        self.losses = losses
        self._upstream = upstream
        self._path = path
        self._body = body
        self._decoder = decoder
        self._stream = stream

    async def batches(self) -> AsyncGenerator[Batch, None]:
        reply = await self._upstream.post(self._path, self._body, stream=self._stream)
        if _is_json(reply, asked_for_stream=self._stream):
            answer = self._upstream.parse(await reply.body(self._upstream.max_frame_bytes))
            yield self._scrubbed(self._decode_whole(answer))
            return
        frames = FrameDecoder(self._upstream.max_frame_bytes)
        async with aclosing(reply.reads()) as reads:
            async for read in reads:
                batch, done = self._read(frames, read)
                if done:
                    late = [] if self._decoder.usage else await _after_done(reads, frames)
                    yield self._scrubbed([*batch, *self._decode_late(late), *self._decoder.finish()])
                    await _exhaust(reply, reads)
                    return
                if batch and isinstance(batch[-1], Failed):
                    yield self._scrubbed(batch)
                    return
                if batch:
                    yield batch
        yield self._scrubbed(self._finish(frames))

    def _read(self, frames: FrameDecoder, read: bytes) -> tuple[list[Event], bool]:
        """The events of one read, and whether [DONE] was in it."""
        try:
            payloads = frames.payloads(read)
        except ProtocolViolation as violation:
            raise self._garbled(str(violation)) from violation
        return self._decode(payloads)

    def _decode(self, payloads: Sequence[bytes]) -> tuple[list[Event], bool]:
        late: Sequence[bytes] = ()
        done = DONE_PAYLOAD in payloads
        if done:
            end = payloads.index(DONE_PAYLOAD)
            payloads, late = payloads[:end], payloads[end + 1 :]
        try:
            batch = self._decoder.read(payloads)
        except orjson.JSONDecodeError as error:
            raise self._garbled("an event of the upstream's stream is not JSON") from error
        except _NOT_THE_PROTOCOL as error:
            raise self._garbled("the upstream's answer is not its own protocol") from error
        return [*batch, *self._decode_late(late)] if late else batch, done

    def _decode_whole(self, answer: Json) -> list[Event]:
        try:
            return [*self._decoder.feed(answer), *self._decoder.finish()]
        except _NOT_THE_PROTOCOL as error:
            raise self._garbled("the upstream's answer is not its own protocol") from error

    def _decode_late(self, payloads: Sequence[bytes]) -> list[Event]:
        """After [DONE] only usage still counts."""
        return self._decode([payload for payload in payloads if b'"usage"' in payload])[0]

    def _finish(self, frames: FrameDecoder) -> list[Event]:
        """The upstream closed without [DONE]. What it left is a last whole frame, or one that was cut."""
        try:
            batch, _ = self._decode([frame.payload for frame in frames.finish()])
        except UpstreamGarbled:
            batch = []  # cut: finishing says what that means
        return [*batch, *self._decoder.finish()]

    def _scrubbed(self, batch: list[Event]) -> Batch:
        """Clients read what a failure says: not the upstream's key or address."""
        if batch and isinstance(failed := batch[-1], Failed):
            failed.message = self._upstream.scrub(failed.message)
        return batch

    def _garbled(self, message: str) -> UpstreamGarbled:
        return UpstreamGarbled(message, provider=self._upstream.name)


class WireRelay:
    """One body in the upstream's own dialect."""

    def __init__(self, upstream: Upstream, spoken: Spoken, body: Json) -> None:
        self._upstream = upstream
        self._spoken = spoken
        self._body = body

    async def reads(self) -> AsyncGenerator[bytes, None]:
        reply = await self._upstream.post(self._spoken.path, self._body, stream=True)
        if _is_json(reply, asked_for_stream=True):
            yield self._spoken.stream_of(self._parse(await reply.body(self._upstream.max_frame_bytes)))
            return
        # At the start of a line: within one, it is a model that speaks of streams.
        before = b"\n"
        async with aclosing(reply.reads()) as reads:
            async for read in reads:
                yield read
                joined = before + read
                if b"[DONE]" in joined and _DONE_LINE.search(joined):
                    await _exhaust(reply, reads)
                    return
                before = joined[-_DONE_LINE_BYTES:]

    async def answer(self) -> Json | bytes:
        reply = await self._upstream.post(self._spoken.path, self._body, stream=False)
        body = await reply.body(self._upstream.max_frame_bytes)
        is_stream = reply.content_type == "text/event-stream" and not body.lstrip().startswith(b"{")
        return body if is_stream else self._parse(body)

    def _parse(self, body: bytes) -> Json:
        answer = self._upstream.parse(body)
        # A response object has an `error` of its own, also when it is a good answer to this request.
        if answer.get("object") != "response" and (rejection := self._upstream.rejection_in(answer)):
            raise rejection
        return answer


def _is_told_not_to_think(body: Json) -> bool:
    """A chat template that is told so does not open the think tag: the reply starts with the answer."""
    told = {**(body.get("chat_template_kwargs") or {}), **(body.get("reasoning") or {})}
    return any(told.get(switch) is False for switch in ("enable_thinking", "thinking", "enabled"))


def _is_json(reply: Reply, *, asked_for_stream: bool) -> bool:
    """What came, whatever was asked for; an upstream that does not say sent what it was asked for."""
    if reply.content_type == "text/event-stream":
        return False
    return reply.content_type.endswith("json") or not asked_for_stream


async def _after_done(reads: AsyncIterator[bytes], frames: FrameDecoder) -> list[bytes]:
    """Data that still comes after [DONE], within a short time."""
    late: list[bytes] = []
    try:
        async with asyncio.timeout(_AFTER_DONE_S):
            async for read in reads:
                late += frames.payloads(read)
    except (TimeoutError, ProviderError, ProtocolViolation):
        return late  # the answer was whole before this
    return late


async def _exhaust(reply: Reply, reads: AsyncIterator[bytes]) -> None:
    """Read to the end of the body, so that the connection can be used again."""
    if reply.ended:
        return
    try:
        async with asyncio.timeout(_AFTER_DONE_S):
            async for _ in reads:
                continue
    except (TimeoutError, ProviderError):
        return  # the answer was whole before this
