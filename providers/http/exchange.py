"""A provider for any upstream that speaks chat or Responses over HTTP: facts in, adapter out."""

import asyncio
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import replace

import orjson

from dataplane.source import Incoming, Sink
from providers.base import Batch, Capabilities, Counting, Dialect, Exchange, WireDialect
from providers.errors import ProviderError, UpstreamGarbled
from providers.http.dialects import RELAYED, SPOKEN, SSE, Closing, Decoder, Frames, Framing, Relayed, Run, closing
from providers.http.token_counting import Counter
from providers.http.upstream import AFTER_END_S, Reply, Upstream
from translation.errors import ProtocolViolation
from translation.framing.sse import DONE_PAYLOAD
from translation.representation.events import Event, Failed, Finished
from translation.representation.json_types import Json
from translation.representation.loss import Loss
from translation.representation.profile import Profile
from translation.representation.turn import Turn

_ENDS = (Finished, Failed)

_DONE_LINE = re.compile(rb"[\r\n]data: ?\[DONE\]")
_DONE_LINE_BYTES = len(b"\ndata: [DONE]")

Check = Callable[[Json], Awaitable[None]]
"""Looks at a body before it is sent. Raises ProviderError or Unrepresentable for one that would be answered
wrongly."""

_NOT_THE_PROTOCOL = (ProtocolViolation, AttributeError, KeyError, TypeError, ValueError)
"""What decoding raises when values are not of the types the protocol says."""


class WireProvider:
    """One configured upstream. Turns go out in `dialect`; relays in any dialect of its capabilities."""

    def __init__(self, upstream: Upstream, capabilities: Capabilities, dialect: WireDialect) -> None:
        self.name = upstream.name
        self.capabilities = capabilities
        self._upstream = upstream
        self._spoken = SPOKEN[dialect]

    def prepare(self, turn: Turn, profile: Profile) -> Exchange:
        body, losses = self._spoken.lower(turn, profile)
        if unheld := self._unheld(turn, profile):
            losses = (*losses, *unheld)
        if profile.think_open and _is_told_not_to_think(body):
            profile = replace(profile, think_open=False)
        return WireExchange(
            self._upstream,
            self._spoken.path_of(turn),
            body,
            losses,
            self._spoken.decoder_of(turn, profile),
            turn.stream,
            self._spoken.framing,
            self._check_of(turn),
        )

    def relay(self, dialect: Dialect, body: Json) -> "WireRelay":
        return WireRelay(self._upstream, RELAYED[dialect], body)

    def _check_of(self, _turn: Turn) -> Check | None:
        """What its body is held against before it is sent."""
        return None

    def _unheld(self, _turn: Turn, _profile: Profile) -> Sequence[Loss]:
        """What the upstream is told of a turn and will not do."""
        return ()

    async def count(self, turn: Turn, profile: Profile, way: Counting) -> int:
        return await Counter(self._upstream, self.prepare, self._spoken.counting).count(turn, profile, way)

    async def models(self) -> Sequence[str]:
        if not self.capabilities.models:
            return []
        path, names_in = self._spoken.listing
        names = names_in(await self._upstream.get(path))
        if names is None:
            raise UpstreamGarbled("the upstream's list of models is no list", provider=self.name)
        return names

    def scrub(self, message: str) -> str:
        return self._upstream.scrub(message)

    async def aclose(self) -> None:
        await self._upstream.aclose()


class WireExchange(Incoming[Batch]):
    """One lowered turn. Its pieces are the events of each upstream read, ending in Finished or Failed."""

    ended = False
    _frames: Frames
    """A stream's."""
    _closing: Closing | None = None
    _is_whole = False
    _said: list[Event]
    """By an answer that came whole."""

    def __init__(
        self,
        upstream: Upstream,
        path: str,
        body: Json,
        losses: Sequence[Loss],
        decoder: Decoder,
        stream: bool,
        framing: Framing,
        check: Check | None = None,
    ) -> None:
        self.losses = losses
        self._upstream = upstream
        self._path = path
        self._body = body
        self._decoder = decoder
        self._stream = stream
        self._framing = framing
        self._check = check
        # Each read asks for these, and what only the class has is looked up the slow way.
        self.is_late = False
        self.run: Run | None = None
        """What the next read is like, if it is whole chunks that only say more of one text. Whoever asked it for the
        texts of a read has taken that read."""
        self._reply: Reply | None = None
        self._wait_until: float | None = None

    def batches(self) -> AsyncGenerator[Batch, None]:
        return self.each()

    async def open(self) -> None:
        if self._check is not None:
            await self._check(self._body)
        reply = await self._upstream.post(self._path, self._body, stream=self._stream)
        if _is_json(reply, self._framing, asked_for_stream=self._stream):
            answer = self._upstream.parse(await reply.body(self._upstream.max_frame_bytes))
            self._said = self._decode_whole(answer)
        else:
            self._reply = reply
            self._frames = self._framing.frames(self._upstream.max_frame_bytes)
            self._closing = closing(self._decoder)

    def take(self) -> Batch:
        reply = self._reply
        if reply is None:
            return self._end(self._said)
        if self._wait_until is not None:
            return self._take_late(reply, self._wait_until)
        read = reply.take()
        return self._read(reply, read) if read or reply.ended else ()

    def taken(self, read: bytes) -> Batch:
        reply = self._reply
        assert reply is not None  # of an answer that came whole no sink is given anything
        return self._read(reply, reply.taken(read))

    def arrival(self, sink: Sink | None = None) -> Awaitable[None]:
        assert self._reply is not None  # without one, the first take ends it
        if self._wait_until is None:
            return self._reply.arrival(sink)
        return _within(self._wait_until, self._reply.arrival())

    async def close(self, *, whole: bool = False) -> None:
        reply = self._reply
        if reply is not None and not reply.ended:
            await reply.close(whole=whole or self._is_whole)

    def _read(self, reply: Reply, read: bytes) -> Batch:
        run = self.run
        if run is not None and (texts := run.texts_of(read)) is not None:
            batch = run.deltas(texts)
            return self._end([*batch, *self._finish()]) if reply.ended else batch
        frames = self._frames
        try:
            payloads = frames.payloads(read)
        except ProtocolViolation as violation:
            raise self._garbled(str(violation)) from violation
        done = DONE_PAYLOAD in payloads
        batch = self._decode_done(payloads) if done else self._decode(payloads)
        self.run = self._decoder.run if frames.between else None
        if batch and isinstance(batch[-1], _ENDS):
            self._is_whole = done or isinstance(batch[-1], Finished)
            return self._end(batch)
        if done:
            self._is_whole = True
            if self._decoder.usage is None and not reply.ended:
                self._wait_a_moment()
                return batch
            return self._end([*batch, *self._decoder.finish()])
        if reply.ended:
            return self._end([*batch, *self._finish()])
        if self._closing is not None and self._closing.whole:
            self._is_whole = True
            self._wait_a_moment()
        return batch

    def _wait_a_moment(self) -> None:
        self.run = None
        self.is_late = True
        self._wait_until = _now() + AFTER_END_S

    def _decode(self, payloads: Sequence[bytes]) -> list[Event]:
        try:
            return self._decoder.read(payloads)
        except orjson.JSONDecodeError as error:
            raise self._garbled("an event of the upstream's stream is not JSON") from error
        except _NOT_THE_PROTOCOL as error:
            raise self._garbled("the upstream's answer is not its own protocol") from error

    def _decode_done(self, payloads: Sequence[bytes]) -> list[Event]:
        end = payloads.index(DONE_PAYLOAD)
        events = self._decode(payloads[:end])
        return events + self._decode_late(payloads[end + 1 :]) if end + 1 < len(payloads) else events

    def _decode_whole(self, answer: Json) -> list[Event]:
        try:
            return [*self._decoder.feed(answer), *self._decoder.finish()]
        except _NOT_THE_PROTOCOL as error:
            raise self._garbled("the upstream's answer is not its own protocol") from error

    def _decode_late(self, payloads: Sequence[bytes]) -> list[Event]:
        """After [DONE] only usage still counts."""
        if self._closing is not None:
            return self._decode(payloads)
        return self._decode([payload for payload in payloads if b'"usage"' in payload])

    def _take_late(self, reply: Reply, until: float) -> Batch:
        """What comes after the end, within a short time. The answer was whole before it."""
        try:
            batch = self._decode_late(self._frames.payloads(reply.take()))
        except (ProviderError, ProtocolViolation):
            return self._end(self._decoder.finish())
        if batch and isinstance(batch[-1], _ENDS):
            return self._end(batch)
        is_over = self._decoder.usage is not None and self._closing is None
        if not is_over and not reply.ended and _now() < until:
            return batch
        return self._end([*batch, *self._decoder.finish()])

    def _finish(self) -> list[Event]:
        """The upstream closed without [DONE]. What it left is a last whole frame, or one that was cut."""
        try:
            batch = self._decode([each.payload for each in self._frames.finish() if each.payload != DONE_PAYLOAD])
        except UpstreamGarbled:
            batch = []  # cut: finishing says what that means
        return [*batch, *self._decoder.finish()]

    def _end(self, batch: list[Event]) -> Batch:
        """Clients read what a failure says: not the upstream's key or address."""
        self.ended = True
        if batch and isinstance(failed := batch[-1], Failed):
            failed.message = self._upstream.scrub(failed.message)
        return batch

    def _garbled(self, message: str) -> UpstreamGarbled:
        return UpstreamGarbled(message, provider=self._upstream.name)


class WireRelay(Incoming[bytes]):
    """One body in the upstream's own dialect. Its pieces are the raw reads of the SSE reply, up to [DONE]."""

    ended = False

    def __init__(self, upstream: Upstream, relayed: Relayed, body: Json, losses: Sequence[Loss] = ()) -> None:
        self.losses = losses
        self._upstream = upstream
        self._relayed = relayed
        self._body = body
        self._reply: Reply | None = None
        self._said = b""
        # At the start of a line: within one, it is a model that speaks of streams.
        self._before = b"\n"
        self._is_whole = False

    def reads(self) -> AsyncGenerator[bytes, None]:
        return self.each()

    async def open(self) -> None:
        reply = await self._upstream.post(self._relayed.path, self._body, stream=True)
        if _is_json(reply, SSE, asked_for_stream=True):
            self._said = self._relayed.stream_of(self._parse(await reply.body(self._upstream.max_frame_bytes)))
        else:
            self._reply = reply

    def take(self) -> bytes:
        if self._reply is None:
            self.ended = True
            return self._said
        return self._read(self._reply, self._reply.take())

    def taken(self, read: bytes) -> bytes:
        reply = self._reply
        assert reply is not None  # of an answer that came whole no sink is given anything
        return self._read(reply, reply.taken(read))

    def _read(self, reply: Reply, read: bytes) -> bytes:
        joined = self._before + read
        if b"[DONE]" in joined and _DONE_LINE.search(joined):
            self._is_whole = True
        self._before = joined[-_DONE_LINE_BYTES:]
        self.ended = self._is_whole or reply.ended
        return read

    def arrival(self, sink: Sink | None = None) -> Awaitable[None]:
        assert self._reply is not None  # without one, the first take ends it
        return self._reply.arrival(sink)

    async def close(self, *, whole: bool = False) -> None:
        reply = self._reply
        if reply is not None and not reply.ended:
            await reply.close(whole=whole or self._is_whole)

    async def answer(self) -> Json | bytes:
        reply = await self._upstream.post(self._relayed.path, self._body, stream=False)
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
    if body.get("think") is False:
        return True
    told = {**(body.get("chat_template_kwargs") or {}), **(body.get("reasoning") or {})}
    return any(told.get(switch) is False for switch in ("enable_thinking", "thinking", "enabled"))


def _is_json(reply: Reply, framing: Framing, *, asked_for_stream: bool) -> bool:
    """What came, whatever was asked for; an upstream that does not say sent what it was asked for."""
    if reply.content_type == framing.media_type:
        return False
    return reply.content_type.endswith("json") or not asked_for_stream


async def _within(until: float, arrival: Awaitable[None]) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout_at(until):
            await arrival


def _now() -> float:
    return asyncio.get_running_loop().time()
