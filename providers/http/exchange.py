"""The provider for upstreams behind HTTP, in every dialect of `providers/http/dialects.py`: exchanges and relays."""

import asyncio
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import replace

import orjson

from dataplane.source import Sink, Source
from providers.base import Batch, Capabilities, CountMethod, Dialect, Exchange, WireDialect
from providers.errors import ProviderError, UpstreamGarbled
from providers.http.dialects import (
    DIALECTS,
    RELAY_DIALECTS,
    SSE,
    Decoder,
    DecoderRun,
    EndOfBodyDecoder,
    Framing,
    PayloadSplitter,
    RelayDialectSpec,
    as_end_of_body_decoder,
)
from providers.http.token_counting import TokenCounter
from providers.http.upstream import END_GRACE_S, Upstream, UpstreamReply
from translation.errors import ProtocolViolation
from translation.framing.sse import DONE_PAYLOAD
from translation.representation.events import Event, Failed, Finished
from translation.representation.json_types import Json
from translation.representation.loss import Loss
from translation.representation.profile import Profile
from translation.representation.turn import Turn

_TERMINAL_EVENTS = (Finished, Failed)

_DONE_LINE = re.compile(rb"[\r\n]data: ?\[DONE\]")
_DONE_LINE_BYTES = len(b"\ndata: [DONE]")

BodyCheck = Callable[[Json], Awaitable[None]]
"""Checks a body before it is sent. Raises ProviderError or Unrepresentable for a body that the upstream would answer
wrongly."""

_PROTOCOL_ERRORS = (ProtocolViolation, AttributeError, KeyError, TypeError, ValueError)
"""What decoders raise if values do not have the types that the protocol says."""


class HttpProvider:
    """One configured upstream. Turns are sent in `dialect`, relays in any dialect of its capabilities."""

    def __init__(self, upstream: Upstream, capabilities: Capabilities, dialect: WireDialect) -> None:
        self.name = upstream.name
        self.capabilities = capabilities
        self._upstream = upstream
        self._dialect = DIALECTS[dialect]

    def prepare(self, turn: Turn, profile: Profile) -> Exchange:
        body, losses = self._dialect.lower(turn, profile)
        if unenforced := self._unenforced_losses(turn, profile):
            losses = (*losses, *unenforced)
        if profile.think_open is not False and _disables_thinking(body):
            profile = replace(profile, think_open=False)
        return HttpExchange(
            self._upstream,
            self._dialect.path_of(turn),
            body,
            losses,
            self._dialect.new_decoder(turn, profile),
            turn.stream,
            self._dialect.framing,
            self._body_check_of(turn),
        )

    def prepare_relay(self, dialect: Dialect, body: Json) -> "HttpRelay":
        return HttpRelay(self._upstream, RELAY_DIALECTS[dialect], body)

    def _body_check_of(self, _turn: Turn) -> BodyCheck | None:
        """Returns the check for the body of a turn. Subclasses override it."""
        return None

    def _unenforced_losses(self, _turn: Turn, _profile: Profile) -> Sequence[Loss]:
        """Returns the losses of what is sent to the upstream but ignored by it. Subclasses override it."""
        return ()

    async def count_tokens(self, turn: Turn, profile: Profile, method: CountMethod) -> int:
        return await TokenCounter(self._upstream, self.prepare, self._dialect.build_count_request).count_tokens(
            turn, profile, method
        )

    async def list_models(self) -> Sequence[str]:
        if not self.capabilities.models:
            return []
        path, parse_names = self._dialect.model_list
        names = parse_names(await self._upstream.get_json(path))
        if names is None:
            raise UpstreamGarbled("the upstream's list of models is malformed", provider=self.name)
        return names

    def redact(self, message: str) -> str:
        return self._upstream.redact(message)

    async def aclose(self) -> None:
        await self._upstream.aclose()


class HttpExchange(Source[Batch]):
    """One lowered turn. Its pieces are the events of each upstream read, and end with Finished or Failed.

    It raises ProviderError.
    """

    ended = False
    _splitter: PayloadSplitter
    """Set if the reply is a stream."""
    _end_of_body: EndOfBodyDecoder | None = None
    _is_complete = False
    _whole_batch: list[Event]
    """The events of the reply; set if it is one JSON object."""

    def __init__(
        self,
        upstream: Upstream,
        path: str,
        body: Json,
        losses: Sequence[Loss],
        decoder: Decoder,
        stream: bool,
        framing: Framing,
        check: BodyCheck | None = None,
    ) -> None:
        self.losses = losses
        self._upstream = upstream
        self._path = path
        self._body = body
        self._decoder = decoder
        self._stream = stream
        self._framing = framing
        self._check = check
        # Every read looks these up, and attributes of the class alone are slower to find.
        self.is_draining = False
        self.delta_run: DecoderRun | None = None
        """The run that the next read belongs to, if it consists of whole chunks that only continue one text. A caller
        that gets the texts of a read from it must not pass that read to `take_read`."""
        self._reply: UpstreamReply | None = None
        self._late_deadline: float | None = None

    def batches(self) -> AsyncGenerator[Batch, None]:
        return self.iterate()

    async def open(self) -> None:
        if self._check is not None:
            await self._check(self._body)
        reply = await self._upstream.post(self._path, self._body, stream=self._stream)
        if _is_json_reply(reply, self._framing, asked_for_stream=self._stream):
            answer = self._upstream.parse_json(await reply.read_body(self._upstream.max_frame_bytes))
            self._whole_batch = self._decode_whole(answer)
        else:
            self._reply = reply
            self._splitter = self._framing.new_splitter(self._upstream.max_frame_bytes)
            self._end_of_body = as_end_of_body_decoder(self._decoder)

    def take(self) -> Batch:
        reply = self._reply
        if reply is None:
            return self._end_with(self._whole_batch)
        if self._late_deadline is not None:
            return self._take_late_chunks(reply, self._late_deadline)
        read = reply.take()
        return self._decode_read(reply, read) if read or reply.ended else ()

    def take_read(self, read: bytes) -> Batch:
        reply = self._reply
        assert reply is not None  # a JSON reply pushes nothing to a sink
        return self._decode_read(reply, reply.take_read(read))

    def wait_for_read(self, sink: Sink | None = None) -> Awaitable[None]:
        assert self._reply is not None  # a JSON reply ends with the first take
        if self._late_deadline is None:
            return self._reply.wait_for_read(sink)
        return _wait_with_deadline(self._late_deadline, self._reply.wait_for_read())

    async def close(self, *, whole: bool = False) -> None:
        reply = self._reply
        if reply is not None and not reply.ended:
            await reply.close(whole=whole or self._is_complete)

    def _decode_read(self, reply: UpstreamReply, read: bytes) -> Batch:
        run = self.delta_run
        if run is not None and (texts := run.parse_texts(read)) is not None:
            batch = run.take_texts(texts)
            return self._end_with([*batch, *self._finish_without_done()]) if reply.ended else batch
        splitter = self._splitter
        try:
            payloads = splitter.parse_payloads(read)
        except ProtocolViolation as violation:
            raise self._garbled_error(str(violation)) from violation
        done = DONE_PAYLOAD in payloads
        batch = self._decode_done(payloads) if done else self._decode(payloads)
        self.delta_run = self._decoder.delta_run if splitter.at_boundary else None
        if batch and isinstance(batch[-1], _TERMINAL_EVENTS):
            self._is_complete = done or isinstance(batch[-1], Finished)
            return self._end_with(batch)
        if done:
            self._is_complete = True
            if self._decoder.usage is None and not reply.ended:
                self._begin_grace_period()
                return batch
            return self._end_with([*batch, *self._decoder.finish()])
        if reply.ended:
            return self._end_with([*batch, *self._finish_without_done()])
        if self._end_of_body is not None and self._end_of_body.is_complete:
            self._is_complete = True
            self._begin_grace_period()
        return batch

    def _begin_grace_period(self) -> None:
        self.delta_run = None
        self.is_draining = True
        self._late_deadline = _now() + END_GRACE_S

    def _decode(self, payloads: Sequence[bytes]) -> list[Event]:
        try:
            return self._decoder.decode_payloads(payloads)
        except orjson.JSONDecodeError as error:
            raise self._garbled_error("an event of the upstream's stream is not JSON") from error
        except _PROTOCOL_ERRORS as error:
            raise self._garbled_error("the upstream's reply does not follow its protocol") from error

    def _decode_done(self, payloads: Sequence[bytes]) -> list[Event]:
        end = payloads.index(DONE_PAYLOAD)
        events = self._decode(payloads[:end])
        return events + self._decode_late(payloads[end + 1 :]) if end + 1 < len(payloads) else events

    def _decode_whole(self, answer: Json) -> list[Event]:
        try:
            return [*self._decoder.feed(answer), *self._decoder.finish()]
        except _PROTOCOL_ERRORS as error:
            raise self._garbled_error("the upstream's reply does not follow its protocol") from error

    def _decode_late(self, payloads: Sequence[bytes]) -> list[Event]:
        """Decodes what follows the end. After [DONE] only usage still counts."""
        if self._end_of_body is not None:
            return self._decode(payloads)
        return self._decode([payload for payload in payloads if b'"usage"' in payload])

    def _take_late_chunks(self, reply: UpstreamReply, deadline: float) -> Batch:
        """Returns the events of chunks that follow the end before the deadline.

        The answer was complete before them, so no failure here counts.
        """
        try:
            batch = self._decode_late(self._splitter.parse_payloads(reply.take()))
        except (ProviderError, ProtocolViolation):
            return self._end_with(self._decoder.finish())
        if batch and isinstance(batch[-1], _TERMINAL_EVENTS):
            return self._end_with(batch)
        is_over = self._decoder.usage is not None and self._end_of_body is None
        if not is_over and not reply.ended and _now() < deadline:
            return batch
        return self._end_with([*batch, *self._decoder.finish()])

    def _finish_without_done(self) -> list[Event]:
        """Returns the last events of an upstream that closed without [DONE].

        What it left is a last frame that is complete, or one that was cut off.
        """
        try:
            batch = self._decode([frame.payload for frame in self._splitter.finish() if frame.payload != DONE_PAYLOAD])
        except UpstreamGarbled:
            batch = []  # the frame was cut off: `finish` decides what that means
        return [*batch, *self._decoder.finish()]

    def _end_with(self, batch: list[Event]) -> Batch:
        """Ends the exchange with its last batch. Clients read the message of a failure, so it is redacted."""
        self.ended = True
        if batch and isinstance(failed := batch[-1], Failed):
            failed.message = self._upstream.redact(failed.message)
        return batch

    def _garbled_error(self, message: str) -> UpstreamGarbled:
        return UpstreamGarbled(message, provider=self._upstream.name)


class HttpRelay(Source[bytes]):
    """One body in the upstream's own dialect. Its pieces are the raw reads of the SSE reply, up to [DONE].

    It raises ProviderError.
    """

    ended = False

    def __init__(self, upstream: Upstream, dialect: RelayDialectSpec, body: Json, losses: Sequence[Loss] = ()) -> None:
        self.losses = losses
        self._upstream = upstream
        self._dialect = dialect
        self._body = body
        self._reply: UpstreamReply | None = None
        self._whole_stream = b""
        # `[DONE]` counts only at the start of a line: within one, it is text of a model. The stream starts a line.
        self._read_tail = b"\n"
        self._is_complete = False

    def reads(self) -> AsyncGenerator[bytes, None]:
        return self.iterate()

    async def open(self) -> None:
        reply = await self._upstream.post(self._dialect.path, self._body, stream=True)
        if _is_json_reply(reply, SSE, asked_for_stream=True):
            self._whole_stream = self._dialect.to_stream(
                self._parse(await reply.read_body(self._upstream.max_frame_bytes))
            )
        else:
            self._reply = reply

    def take(self) -> bytes:
        if self._reply is None:
            self.ended = True
            return self._whole_stream
        return self._check_done(self._reply, self._reply.take())

    def take_read(self, read: bytes) -> bytes:
        reply = self._reply
        assert reply is not None  # a JSON reply pushes nothing to a sink
        return self._check_done(reply, reply.take_read(read))

    def _check_done(self, reply: UpstreamReply, read: bytes) -> bytes:
        joined = self._read_tail + read
        if b"[DONE]" in joined and _DONE_LINE.search(joined):
            self._is_complete = True
        self._read_tail = joined[-_DONE_LINE_BYTES:]
        self.ended = self._is_complete or reply.ended
        return read

    def wait_for_read(self, sink: Sink | None = None) -> Awaitable[None]:
        assert self._reply is not None  # a JSON reply ends with the first take
        return self._reply.wait_for_read(sink)

    async def close(self, *, whole: bool = False) -> None:
        reply = self._reply
        if reply is not None and not reply.ended:
            await reply.close(whole=whole or self._is_complete)

    async def fetch_body(self) -> Json | bytes:
        reply = await self._upstream.post(self._dialect.path, self._body, stream=False)
        body = await reply.read_body(self._upstream.max_frame_bytes)
        is_stream = reply.content_type == "text/event-stream" and not body.lstrip().startswith(b"{")
        return body if is_stream else self._parse(body)

    def _parse(self, body: bytes) -> Json:
        answer = self._upstream.parse_json(body)
        # A response object has a member `error`, which may be set in a valid reply to this request.
        if answer.get("object") != "response" and (rejection := self._upstream.error_in_body(answer)):
            raise rejection
        return answer


def _disables_thinking(body: Json) -> bool:
    """Returns whether the body turns thinking off. The chat template then does not open the think tag."""
    if body.get("think") is False:
        return True
    switches = {**(body.get("chat_template_kwargs") or {}), **(body.get("reasoning") or {})}
    return any(switches.get(switch) is False for switch in ("enable_thinking", "thinking", "enabled"))


def _is_json_reply(reply: UpstreamReply, framing: Framing, *, asked_for_stream: bool) -> bool:
    """Returns whether a reply is one JSON object and not a stream.

    Its media type decides, not the request. An unknown media type means that the upstream sent what was requested.
    """
    if reply.content_type == framing.media_type:
        return False
    return reply.content_type.endswith("json") or not asked_for_stream


async def _wait_with_deadline(deadline: float, wait: Awaitable[None]) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout_at(deadline):
            await wait


def _now() -> float:
    return asyncio.get_running_loop().time()
