"""Relays of bodies to upstreams behind HTTP, in the dialect of the client."""

import re
from collections.abc import AsyncGenerator, Awaitable, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from dataplane.sharing.work_pool import run_in_pool
from dataplane.source import Sink, Source
from providers.errors import UpstreamGarbled, UpstreamRejected
from providers.http.dialects import NO_PROTOCOL, PROTOCOL_ERRORS, SSE, Framing, RelayDialectSpec
from providers.http.upstream import Upstream
from providers.http.upstream_reply import UpstreamReply, select_headers
from translation.errors import ProtocolViolation
from translation.framing.reply_weight import LIGHT_BYTES
from translation.representation.json_types import Json
from translation.representation.loss import Loss

_DONE_LINE = re.compile(rb"[\r\n]data: ?\[DONE\]")
_DONE_LINE_BYTES = len(b"\ndata: [DONE]")

_NO_HEADERS: Final[Mapping[str, str]] = MappingProxyType({})


class HttpRelay(Source[bytes]):
    """One body in the upstream's own dialect. Its pieces are the raw reads of the SSE reply, up to [DONE].

    It raises ProviderError.
    """

    ended = False

    def __init__(
        self,
        upstream: Upstream,
        dialect: RelayDialectSpec,
        body: Json,
        losses: Sequence[Loss] = (),
        credentials: Sequence[str] = (),
    ) -> None:
        """`credentials` are those in the body, which no error may quote."""
        self.losses = losses
        self._credentials = credentials
        self._upstream = upstream
        self._dialect = dialect
        self._body = body
        self.reply_headers: Mapping[str, str] = _NO_HEADERS
        """The headers of the reply that the client gets too, once the reply has begun."""
        self._headers: Mapping[str, str] = _NO_HEADERS
        self._reply: UpstreamReply | None = None
        self._whole_stream = b""
        self._read_tail = b"\n"
        """`[DONE]` counts only at the start of a line; within a line it is text of a model."""
        self._is_complete = False
        if dialect.header_params:
            self._headers, self._body = split_headers(body, dialect.header_params, upstream.configured_headers)

    def reads(self) -> AsyncGenerator[bytes, None]:
        return self.iterate()

    async def open(self) -> None:
        reply = await self._post(stream=True)
        if is_json_reply(reply, SSE, requested_stream=True):
            body = await reply.read_body(self._upstream.max_frame_bytes)
            self._whole_stream = await self._upstream.call_weighed(self._build_stream, body)
        else:
            self._reply = reply

    async def _post(self, *, stream: bool) -> UpstreamReply:
        prefix = self._dialect.limit_prefix
        try:
            reply = await self._upstream.post(
                self._dialect.path, self._body, stream=stream, credentials=self._credentials, headers=self._headers
            )
        except UpstreamRejected as rejection:
            if prefix:
                rejection.headers |= select_headers(rejection.raw_headers, prefix)
            raise
        if prefix:
            self.reply_headers = select_headers(reply.headers, prefix)
        return reply

    def take(self) -> bytes:
        if self._reply is None:
            self.ended = True
            return self._whole_stream
        return self._check_done(self._reply, self._reply.take())

    def take_read(self, read: bytes) -> bytes:
        if (reply := self._reply) is None:
            raise RuntimeError("a JSON reply pushes nothing to a sink")
        return self._check_done(reply, reply.take_read(read))

    def _check_done(self, reply: UpstreamReply, read: bytes) -> bytes:
        joined = self._read_tail + read
        if joined.find(b"[DONE]") >= 0 and _DONE_LINE.search(joined):
            self._is_complete = True
        self._read_tail = joined[-_DONE_LINE_BYTES:]
        self.ended = self._is_complete or reply.ended
        return read

    def wait_for_read(self, sink: Sink | None = None) -> Awaitable[None]:
        if self._reply is None:
            raise RuntimeError("a JSON reply ends with the first take")
        return self._reply.wait_for_read(sink)

    async def close(self, *, whole: bool = False) -> None:
        reply = self._reply
        if reply is not None and not reply.ended:
            await reply.close(whole=whole or self._is_complete)

    async def fetch_body(self) -> Json | bytes:
        reply = await self._post(stream=False)
        body = await reply.read_body(self._upstream.max_frame_bytes)
        if reply.content_type == SSE.media_type and not body.lstrip().startswith(b"{"):
            return body
        return self._parse(body) if len(body) <= LIGHT_BYTES else await run_in_pool(self._parse, body)

    def _build_stream(self, body: bytes) -> bytes:
        answer = self._parse(body)
        try:
            return self._dialect.to_stream(answer)
        except PROTOCOL_ERRORS as error:
            message = str(error) if isinstance(error, ProtocolViolation) else NO_PROTOCOL
            raise UpstreamGarbled(message, provider=self._upstream.name) from error

    def _parse(self, body: bytes) -> Json:
        answer = self._upstream.parse_json(body, limits_parts=True)
        # A response object has a member `error`, which may be set in a valid reply to this request.
        if answer.get("object") != "response" and (rejection := self._upstream.find_error(answer, self._credentials)):
            raise rejection
        return answer


def split_headers(
    body: Json, header_params: Mapping[str, str], configured: Mapping[str, str]
) -> tuple[Mapping[str, str], Json]:
    """Returns the headers that some parameters of a body are sent as, and the body without these parameters.

    `header_params` are the parameters and their headers, `configured` the headers that the operator configured.
    """
    headers = {
        header: _render_header(body[param], configured.get(header))
        for param, header in header_params.items()
        if body.get(param)
    }
    return headers, {key: value for key, value in body.items() if key not in header_params}


def _render_header(value: str | Sequence[str], configured: str | None) -> str:
    """Returns the value of a header. A list is added to what the operator configured, a text replaces it."""
    if isinstance(value, str):
        return value
    return ",".join(dict.fromkeys([configured, *value] if configured else value))


def is_json_reply(reply: UpstreamReply, framing: Framing, *, requested_stream: bool) -> bool:
    """Returns whether a reply is one JSON object and not a stream.

    Its media type decides, not the request. An unknown media type means that the upstream sent what was requested.
    """
    if reply.content_type == framing.media_type:
        return False
    return reply.content_type.endswith("json") or not requested_stream
