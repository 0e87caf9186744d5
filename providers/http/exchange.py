"""The provider for upstreams behind HTTP, in every dialect of `providers/http/dialects.py`: exchanges and relays."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import replace
from typing import NamedTuple, cast

import orjson

from dataplane.sharing.work_pool import run_in_pool
from dataplane.source import Sink, Source
from providers.base import (
    Batch,
    Capabilities,
    CountMethod,
    Dialect,
    Exchange,
    HeadObserver,
    Provider,
    WireDialect,
)
from providers.errors import ProviderError, UpstreamGarbled, UpstreamRejected
from providers.http.dialects import (
    DIALECTS,
    NO_PROTOCOL,
    PROTOCOL_ERRORS,
    RELAY_DIALECTS,
    DecodedDeltaRun,
    Decoder,
    EndOfBodyDecoder,
    Framing,
    PayloadSplitter,
)
from providers.http.path_relay import relay_path
from providers.http.relay import HttpRelay, is_json_reply, split_headers
from providers.http.token_counting import TokenCounter, require_count
from providers.http.upstream import Upstream
from providers.http.upstream_reply import END_GRACE_S, UpstreamReply
from providers.relayed_paths import Form, RelayedPathName
from translation.chat.upstream.lower_thinking import find_thinking_off
from translation.decoding.surrogates import SurrogateJoiner
from translation.errors import ProtocolViolation
from translation.framing.reply_weight import LIGHT_BYTES
from translation.framing.sse import DONE_PAYLOAD
from translation.representation.events import Event, Failed, Finished
from translation.representation.json_types import Json
from translation.representation.loss import Loss
from translation.representation.param_names import find_turn_param
from translation.representation.profile import Profile
from translation.representation.turn import Turn

_TERMINAL_EVENTS = (Finished, Failed)

BodyCheck = Callable[[Json], Awaitable[None]]
"""Checks a body before it is sent. Raises ProviderError or Unrepresentable for a body that the upstream would answer
wrongly."""


class HttpProvider:
    """One configured upstream. Turns are sent in `dialect`, relays in any dialect of its capabilities."""

    _base_url_has_version = True
    """Whether the base URL ends with the version of the API that OpenAI's clients use."""

    def __init__(self, upstream: Upstream, capabilities: Capabilities, dialect: WireDialect) -> None:
        self.name = upstream.name
        self.capabilities = capabilities
        self._upstream = upstream
        self._dialect = DIALECTS[dialect]

    def prepare(self, turn: Turn, profile: Profile) -> Exchange:
        body, losses = self._dialect.lower(turn, profile)
        if unenforced := self._unenforced_losses(turn, profile):
            losses = (*losses, *unenforced)
        if profile.think_open is not False:
            off = "switch" if body.get("think") is False else find_thinking_off(body)
            if off == "switch":
                profile = replace(profile, think_open=False)
            elif off == "effort" and profile.think_open:
                profile = replace(profile, think_open=None)  # the server may ignore it: the first tag decides
        dialect = self._dialect
        check = self._find_body_check(turn)
        headers: Mapping[str, str] | None = None
        if not body.keys().isdisjoint(dialect.header_params):
            headers, body = split_headers(body, dialect.header_params, self._upstream.configured_headers)
        request = ExchangeRequest(
            dialect.path_of(turn), body, losses, turn.stream, check, dialect.turn_params, turn.credentials, headers
        )
        return HttpExchange(self._upstream, request, dialect.new_decoder(turn, profile), dialect.framing)

    def prepare_relay(self, dialect: Dialect, body: Json, credentials: Sequence[str] = ()) -> "HttpRelay":
        return HttpRelay(self._upstream, RELAY_DIALECTS[dialect], body, credentials=credentials)

    async def relay_path(self, name: RelayedPathName, content: Json | Form, *, streams: bool) -> UpstreamReply:
        return await relay_path(self._upstream, name, content, streams=streams, has_version=self._base_url_has_version)

    def _find_body_check(self, _turn: Turn) -> BodyCheck | None:
        """Returns the check for the body of a turn. Subclasses override it."""
        return None

    def _unenforced_losses(self, _turn: Turn, _profile: Profile) -> Sequence[Loss]:
        """Returns the losses of what is sent to the upstream but ignored by it. Subclasses override it."""
        return ()

    async def count_tokens(self, turn: Turn, profile: Profile, method: CountMethod) -> int:
        return await TokenCounter(self._upstream, self.prepare, self._dialect.build_count_request).count_tokens(
            turn, profile, method
        )

    async def count_relayed_tokens(self, dialect: Dialect, body: Json, credentials: Sequence[str] = ()) -> int:
        spec = RELAY_DIALECTS[dialect]
        relay = HttpRelay(self._upstream, replace(spec, path=spec.count_path), body, credentials=credentials)
        answer = await relay.fetch_body()
        return require_count(answer.get("input_tokens") if isinstance(answer, dict) else None, self.name)

    async def list_models(self) -> Sequence[str]:
        if not self.capabilities.models:
            return []
        path, parse_names = self._dialect.model_list
        names = parse_names(await self._upstream.get_json(path))
        if names is None:
            raise UpstreamGarbled("the upstream's list of models is malformed", provider=self.name)
        return names

    def share(self, observe_head: HeadObserver, headers: Mapping[str, str]) -> Provider:
        view = copy(self)
        view._upstream = self._upstream.share(observe_head, headers)
        return view

    async def probe(self, path: str) -> bytes | None:
        return await self._upstream.probe(path)

    def redact(self, message: str) -> str:
        return self._upstream.redact(message)

    async def aclose(self) -> None:
        await self._upstream.aclose()


class ExchangeRequest(NamedTuple):
    """A turn as the request of an upstream."""

    path: str
    body: Json
    losses: Sequence[Loss]
    """What the upstream is not sent of the turn, or ignores."""
    stream: bool
    check: BodyCheck | None = None
    turn_params: Mapping[str, str] = {}
    """The upstream's parameters -> those of a turn."""
    credentials: Sequence[str] = ()
    """The credentials in the body, which no error may quote."""
    headers: Mapping[str, str] | None = None
    """The headers that the request has beside the upstream's."""


class HttpExchange(Source[Batch]):
    """One lowered turn. Its pieces are the events of each upstream read, and end with Finished or Failed.

    It raises ProviderError.
    """

    ended = False
    _splitter: PayloadSplitter
    _characters: SurrogateJoiner
    """Both are set if the reply is a stream."""
    _whole_batch: list[Event]
    """The events of the reply; set if it is one JSON object."""

    def __init__(self, upstream: Upstream, request: ExchangeRequest, decoder: Decoder, framing: Framing) -> None:
        self.losses = request.losses
        self._upstream = upstream
        self._request = request
        self._decoder = decoder
        self._framing = framing
        # Attributes of the class alone would be slower to find.
        self.is_draining = False
        self.delta_run: DecodedDeltaRun | None = None
        """The delta run that the next read belongs to, if the read consists of whole chunks that only continue one
        text. A caller that parses a read by it must not pass that read to `take_read`."""
        self._reply: UpstreamReply | None = None
        self._late_deadline: float | None = None
        self._failure: ProviderError | None = None
        """The failure behind the events that were returned last. The next `take` raises it."""
        self._end_of_body: EndOfBodyDecoder | None = None
        """The decoder, if only the end of the body ends the stream."""
        self._is_complete = False

    def batches(self) -> AsyncGenerator[Batch, None]:
        return self.iterate()

    async def open(self) -> None:
        path, body, _, stream, check, turn_params, credentials, headers = self._request
        if check is not None:
            await check(body)
        try:
            reply = await self._upstream.post(path, body, stream=stream, credentials=credentials, headers=headers)
        except UpstreamRejected as rejection:
            if rejection.param is not None:
                rejection.param = find_turn_param(rejection.param, turn_params)
            raise
        if is_json_reply(reply, self._framing, requested_stream=stream):
            whole = await reply.read_body(self._upstream.max_frame_bytes)
            if len(whole) <= LIGHT_BYTES:
                self._whole_batch = self._decode_whole(whole)
            else:
                self._whole_batch = await run_in_pool(self._decode_whole, whole)
        else:
            self._reply = reply
            self._splitter = self._framing.new_splitter(self._upstream.max_frame_bytes)
            self._characters = SurrogateJoiner()
            if self._framing.ends_with_body:
                self._end_of_body = cast("EndOfBodyDecoder", self._decoder)

    def take(self) -> Batch:
        if self._failure is not None:
            raise self._failure
        reply = self._reply
        if reply is None:
            return self._end_with(self._whole_batch)
        if self._late_deadline is not None:
            return self._take_late_chunks(reply, self._late_deadline)
        read = reply.take()
        return self._decode_read(reply, read) if read or reply.ended else ()

    def take_read(self, read: bytes) -> Batch:
        if (reply := self._reply) is None:
            raise RuntimeError("a JSON reply pushes nothing to a sink")
        return self._decode_read(reply, reply.take_read(read))

    def wait_for_read(self, sink: Sink | None = None) -> Awaitable[None]:
        if self._reply is None:
            raise RuntimeError("a JSON reply ends with the first take")
        if self._failure is not None:
            return _wait_for_nothing()
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
            events = run.take_texts(texts)
            return self._end_with([*events, *self._finish_without_done()]) if reply.ended else events
        splitter = self._splitter
        try:
            payloads = splitter.parse_payloads(read)
        except ProtocolViolation as violation:
            raise self._build_garbled_error(str(violation)) from violation
        end = payloads.index(DONE_PAYLOAD) if DONE_PAYLOAD in payloads else -1
        done, characters = end >= 0, self._characters
        batch: list[Event] = []
        try:
            self._decode(payloads[:end] if done else payloads, batch)
            if characters.has_halves and (done or reply.ended):
                raise self._build_garbled_error("the upstream's text ends within a character")
        except UpstreamGarbled as failure:
            # What follows the end of the turn changes nothing, even if it cannot be read.
            if not (batch and isinstance(batch[-1], _TERMINAL_EVENTS)):
                return self._fail_after(batch, failure)
        if done and end + 1 < len(payloads):
            self._decode_after_done(payloads[end + 1 :], batch)
        # Within a frame or a character the next read does not begin with a chunk, so that no delta run can parse it.
        at_run = splitter.at_boundary and not characters.has_halves
        self.delta_run = self._decoder.delta_run if at_run else None
        if batch and isinstance(batch[-1], _TERMINAL_EVENTS):
            self._is_complete = done or isinstance(batch[-1], Finished)
            return self._end_with(batch)
        if done:
            self._is_complete = True
            # Some upstreams send the token counts after the end.
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

    def _fail_after(self, batch: list[Event], failure: UpstreamGarbled) -> Batch:
        """Returns the events before a chunk that cannot be decoded, so that it does not matter how reads are cut.

        The next `take` raises the failure. Raises it at once if there are no events.
        """
        if not batch:
            raise failure
        self._failure = failure
        self.delta_run = None
        self.is_draining = True
        return batch

    def _decode(self, payloads: list[bytes], batch: list[Event] | None = None) -> list[Event]:
        """Decodes chunks, and appends their events to `batch`, if given. Raises UpstreamGarbled."""
        try:
            return self._decoder.decode_payloads(self._characters.rewrite_all(payloads), batch)
        except orjson.JSONDecodeError as error:
            raise self._build_garbled_error("an event of the upstream's stream is not JSON") from error
        except PROTOCOL_ERRORS as error:
            raise self._build_garbled_error(NO_PROTOCOL) from error

    def _decode_after_done(self, payloads: list[bytes], batch: list[Event]) -> None:
        """Decodes what follows [DONE] in the same read. The answer was complete before, so no failure counts."""
        if not (batch and isinstance(batch[-1], _TERMINAL_EVENTS)):
            with suppress(UpstreamGarbled):
                batch += self._decode_late(payloads)

    def _decode_whole(self, body: bytes) -> list[Event]:
        answer = self._upstream.parse_json(body, limits_parts=True)
        try:
            return [*self._decoder.feed(answer), *self._decoder.finish()]
        except PROTOCOL_ERRORS as error:
            raise self._build_garbled_error(NO_PROTOCOL) from error

    def _decode_late(self, payloads: list[bytes]) -> list[Event]:
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

        The last frame may be complete, or cut off.
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
            failed.redact(self._upstream.make_redactor(self._request.credentials))
            if failed.param is not None:
                failed.param = find_turn_param(failed.param, self._request.turn_params)
        return batch

    def _build_garbled_error(self, message: str) -> UpstreamGarbled:
        return UpstreamGarbled(message, provider=self._upstream.name)


async def _wait_for_nothing() -> None:
    """Returns at once."""


async def _wait_with_deadline(deadline: float, wait: Awaitable[None]) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout_at(deadline):
            await wait


def _now() -> float:
    return asyncio.get_running_loop().time()
