"""The only code that talks HTTP to upstreams, and the only code that names its failures."""

import asyncio
import re
from collections.abc import AsyncGenerator, Awaitable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import NoReturn, TypeAlias, cast
from urllib.parse import urlsplit

import httpx
import orjson

from dataplane.connection import NotHttp
from dataplane.source import IteratedSource, Sink, Source
from dataplane.transport import Body, Limits, PooledTransport, Target
from providers.config import PROVIDER_DEFAULTS, ProviderConfig
from providers.errors import (
    ContextLengthExceeded,
    ProviderError,
    UpstreamBroken,
    UpstreamGarbled,
    UpstreamModelNotFound,
    UpstreamOverloaded,
    UpstreamRateLimited,
    UpstreamRejected,
    UpstreamTimeout,
    UpstreamUnauthorized,
    UpstreamUnreachable,
)
from providers.http.transports import build_transport
from providers.http.upstream_errors import effective_status, is_template_error, retry_after_headers
from translation.decoding.context_overflow import is_context_overflow
from translation.representation.json_types import Json

_MAX_ERROR_BYTES = 64 * 1024
_MIN_SECRET_CHARS = 8
"""Shorter keys and header values, such as EMPTY, are no secrets, and words of their own."""

_RETRY_DELAY_S = 0.1

_LF = 0x0A

END_GRACE_S = 0.25
"""How long a stream may go on after its end: enough for a late usage chunk and for the connection to be reusable."""

_MAX_REQUEST_TEMPLATES = 256
"""Paths remembered; where they hold names of models, clients write them."""

_ROOT_PREFIX = "^"
"""Before a path: it is not the API's own, but beside it."""

_ERRORS_BY_STATUS: dict[int, type[UpstreamRejected]] = {
    401: UpstreamUnauthorized,
    403: UpstreamUnauthorized,
    404: UpstreamModelNotFound,
    429: UpstreamRateLimited,
    503: UpstreamOverloaded,
    529: UpstreamOverloaded,
}

_STATUS_BY_ERROR_CODE = {
    "authentication_error": 401,
    "insufficient_quota": 429,
    "invalid_api_key": 401,
    "rate_limit_error": 429,
    "rate_limit_exceeded": 429,
    "overloaded_error": 503,
}
"""Words of an error object inside a good answer -> the status it should have had."""

_RETRY_HEADERS = ("retry-after", "retry-after-ms", "x-should-retry")
"""Headers of an error answer that help the client wait; the official SDKs obey them."""


@dataclass(frozen=True, slots=True)
class _RequestTemplate:
    """What requests of one kind have in common."""

    method: str
    url: str
    headers: dict[str, str]
    silence_s: float
    limits: Limits
    target: Target


class _HttpxBody(IteratedSource[bytes]):
    """A body that httpx reads, and decompresses: compression is not asked for, but it comes all the same."""

    def __init__(self, response: httpx.Response) -> None:
        super().__init__(cast("AsyncGenerator[bytes, None]", response.aiter_bytes()), b"")
        self.status = response.status_code
        self.headers = {name.lower(): value for name, value in response.headers.raw}
        self._response = response

    async def close(self, *, whole: bool = False) -> None:
        await super().close()
        await self._response.aclose()


RawReply: TypeAlias = Body | _HttpxBody
"""What came back, whatever its `status`; names of `headers` in lower case."""


class UpstreamReply(Source[bytes]):
    """An upstream's answer with a good status. `content_type` is its media type in lower case, without parameters.

    `take` raises UpstreamTimeout when nothing came for `silence_s`, or for as long only a drip that ends no line, and
    UpstreamBroken.
    """

    ended = False
    _partial_line_since: float | None = None

    def __init__(self, upstream: "Upstream", answer: RawReply, silence_s: float) -> None:
        self._upstream = upstream
        self._source = answer
        self._silence_s = silence_s
        self.content_type = _media_type(answer.headers.get(b"content-type", b""))

    def take(self) -> bytes:
        try:
            read = self._source.take()
        except _HTTP_FAILURES as failure:
            self._upstream.raise_provider_error(failure, reply_started=True)
        self.ended = self._source.ended
        return self.take_read(read) if read else read

    def take_read(self, read: bytes) -> bytes:
        if _LF in read:
            self._partial_line_since = None
        else:
            self._check_drip()
        return read

    def wait_for_read(self, sink: Sink | None = None) -> Awaitable[None]:
        return self._source.wait_for_read(sink)

    async def read_body(self, limit: int) -> bytes:
        """All of the body. Raises UpstreamGarbled when it is longer than `limit` bytes."""
        body = bytearray()
        try:
            while not self.ended:
                if read := self._take():
                    body += read
                    if len(body) > limit:
                        raise UpstreamGarbled(f"the answer is longer than {limit} bytes", provider=self._upstream.name)
                elif not self.ended:
                    await self._source.wait_for_read()
        finally:
            if not self._source.ended:
                await self.close()
        return bytes(body)

    async def close(self, *, whole: bool = False) -> None:
        """Give the connection back, or close it if the body was not read to its end."""
        try:
            if whole and not self.ended:
                await self._drain()
        finally:
            if not self._source.ended:
                with suppress(*_HTTP_FAILURES):  # it is closed either way
                    await self._source.close()

    def _take(self) -> bytes:
        try:
            read = self._source.take()
        except _HTTP_FAILURES as failure:
            self._upstream.raise_provider_error(failure, reply_started=True)
        self.ended = self._source.ended
        return read

    def _check_drip(self) -> None:
        now = asyncio.get_running_loop().time()
        if self._partial_line_since is None:
            self._partial_line_since = now
        elif now - self._partial_line_since > self._silence_s:
            raise UpstreamTimeout(
                f"the upstream sent no whole line for {self._silence_s:g} s", provider=self._upstream.name
            )

    async def _drain(self) -> None:
        """Read to the end of the body, if that comes at once, so that the connection can be used again."""
        with suppress(TimeoutError, ProviderError):
            async with asyncio.timeout(END_GRACE_S):
                while not self.ended:
                    if not self._take() and not self.ended:
                        await self._source.wait_for_read()


class Upstream:
    """One configured server: its address, credentials, deadlines and pooled connections."""

    def __init__(
        self, name: str, config: ProviderConfig, base_url: str, transport: httpx.AsyncBaseTransport | None = None
    ) -> None:
        self.name = name
        self._config = config
        self._retries = config.retries
        self.max_frame_bytes = int(config.max_line_mb * 1024 * 1024)
        self._base_url = base_url.rstrip("/")
        self._key = config.api_key.get_secret_value() if config.api_key else ""
        candidates = [self._key, urlsplit(base_url).netloc, *config.headers.values()]
        self._secrets = sorted((text for text in candidates if len(text) >= _MIN_SECRET_CHARS), key=len, reverse=True)
        kind = PROVIDER_DEFAULTS[config.type]
        headers = {"content-type": "application/json", "accept-encoding": "identity", **kind.headers}
        headers |= {name.lower(): value for name, value in config.headers.items()}
        if self._key:
            headers[kind.key_header] = f"Bearer {self._key}" if kind.key_header == "authorization" else self._key
        self._headers = headers
        # Not through httpx.AsyncClient: redirects, cookies and proxies are not wanted here, and cost half of a request.
        self._transport = transport or build_transport(config, base_url)
        self._pooled = self._transport if isinstance(self._transport, PooledTransport) else None
        self._request_templates: dict[tuple[str, str, str], _RequestTemplate] = {}

    def post(self, path: str, body: Json, *, stream: bool, at_root: bool = False) -> Awaitable[UpstreamReply]:
        """Send a JSON body; the reply, once its status is good. `at_root`: the path is beside the API's `/v1`.

        Raises ProviderError. A connection that could not be made, or broke before the reply began, is tried again
        `retries` times.
        """
        accept = "text/event-stream" if stream else "application/json"
        path = f"{_ROOT_PREFIX}{path}" if at_root else path
        kind = ("POST", path, accept)
        template = self._request_templates.get(kind)
        if template is None:
            template = self._build_request_template(*kind, self._config.silence_s if stream else self._config.answer_s)
        return self._send(template, orjson.dumps(body))

    async def post_json(self, path: str, body: Json, *, at_root: bool = False) -> Json:
        """Send a JSON body for a JSON object. `at_root`: the path is beside the API's `/v1`. Raises ProviderError."""
        reply = await self.post(path, body, stream=False, at_root=at_root)
        answer = self.parse_json(await reply.read_body(self.max_frame_bytes))
        if rejection := self.error_in_body(answer):
            raise rejection
        return answer

    async def get_json(self, path: str, *, at_root: bool = False) -> Json:
        """A JSON object. Raises ProviderError."""
        path = f"{_ROOT_PREFIX}{path}" if at_root else path
        kind = ("GET", path, "application/json")
        template = self._request_templates.get(kind) or self._build_request_template(*kind, self._config.connect_s)
        reply = await self._send(template, b"")
        return self.parse_json(await reply.read_body(self.max_frame_bytes))

    def parse_json(self, body: bytes) -> Json:
        """A JSON object, or UpstreamGarbled."""
        try:
            parsed = orjson.loads(body)
        except orjson.JSONDecodeError as error:
            raise UpstreamGarbled("the upstream's answer is not JSON", provider=self.name) from error
        if not isinstance(parsed, dict):
            raise UpstreamGarbled("the upstream's answer is not a JSON object", provider=self.name)
        return parsed

    async def aclose(self) -> None:
        await self._transport.aclose()

    def _build_request_template(self, method: str, path: str, accept: str, read_s: float) -> _RequestTemplate:
        """It is remembered by all but `read_s`, how long to wait for a piece of the reply: that follows from the
        others."""
        url = self._base_url.removesuffix("/v1") if path.startswith(_ROOT_PREFIX) else self._base_url
        url += path.removeprefix(_ROOT_PREFIX)
        headers = {**self._headers, "accept": accept}
        limits = Limits(connect=self._config.connect_s, pool=self._config.connect_s, read=read_s)
        request = httpx.Request(method, url, headers=headers)
        target = Target.of(method, request.url, request.headers.raw)
        if len(self._request_templates) >= _MAX_REQUEST_TEMPLATES:
            self._request_templates.clear()
        self._request_templates[method, path, accept] = template = _RequestTemplate(
            method, url, headers, read_s, limits, target
        )
        return template

    async def _send(self, template: _RequestTemplate, content: bytes) -> UpstreamReply:
        for attempt in range(self._retries + 1):
            try:
                if self._pooled is None:
                    answer: RawReply = await self._send_with_httpx(template, content)
                else:
                    answer = await self._pooled.send(template.target, content, template.limits)
                    if answer.headers.get(b"content-encoding", b"identity") != b"identity":
                        answer = _HttpxBody(answer.response())
                break
            except _HTTP_FAILURES as failure:
                if isinstance(failure, httpx.ReadTimeout | httpx.PoolTimeout) or attempt == self._retries:
                    self.raise_provider_error(failure, reply_started=False)
                await asyncio.sleep(_RETRY_DELAY_S * 2**attempt)
        if answer.status < 300:
            return UpstreamReply(self, answer, template.silence_s)
        raise await self._read_rejection(answer)

    async def _send_with_httpx(self, template: _RequestTemplate, content: bytes) -> _HttpxBody:
        request = httpx.Request(template.method, template.url, headers=template.headers, content=content)
        request.extensions["timeout"] = template.limits._asdict()
        return _HttpxBody(await self._transport.handle_async_request(request))

    async def _read_rejection(self, answer: RawReply) -> ProviderError:
        body = bytearray()
        try:
            async for read in answer.iterate():
                body += read
                if len(body) > _MAX_ERROR_BYTES:
                    break
        except _HTTP_FAILURES:
            body.clear()  # the status says enough
        finally:
            await answer.close()
        headers = {name: answer.headers.get(name.encode(), b"").decode("latin-1") for name in _RETRY_HEADERS}
        return self._build_rejection(answer.status, headers, bytes(body))

    def raise_provider_error(self, failure: Exception, *, reply_started: bool) -> NoReturn:
        """Raise what a transport failure means. `begun`: the reply had started."""
        if isinstance(failure, httpx.PoolTimeout):
            # No reason to try again at once: the request has waited in line already.
            busy = "every connection to the upstream is in use"
            raise UpstreamOverloaded(busy, provider=self.name, status=503, headers={"retry-after": "1"}) from failure
        if isinstance(failure, httpx.ReadTimeout):
            raise UpstreamTimeout("the upstream went silent", provider=self.name) from failure
        if isinstance(failure, NotHttp) and not reply_started:
            raise UpstreamGarbled("the upstream does not speak HTTP", provider=self.name) from failure
        if reply_started:
            raise UpstreamBroken("the upstream broke off its answer", provider=self.name) from failure
        raise UpstreamUnreachable("the upstream cannot be reached", provider=self.name) from failure

    def error_in_body(self, answer: Json) -> ProviderError | None:
        """The error a good status hides: an error object where an answer was due."""
        error = answer.get("error")
        if not error:
            return None
        codes = [error.get("code"), error.get("type")] if isinstance(error, dict) else []
        statuses = [_STATUS_BY_ERROR_CODE.get(str(word), word) for word in codes]
        status = next((status for status in statuses if isinstance(status, int) and status >= 400), 502)
        return self._build_rejection(status, {}, orjson.dumps(answer))

    def _build_rejection(self, status: int, headers: Mapping[str, str], body: bytes) -> ProviderError:
        error = _error_object(body)
        status = effective_status(status, error)
        message = self.redact(str(error.get("message") or f"the upstream answered with status {status}"))
        if status == 500 and is_template_error(message):
            status = 400
        code = _text_or_none(error.get("code"))
        kind = _ERRORS_BY_STATUS.get(status, UpstreamRejected)
        if status in (400, 413, 422, 500) and is_context_overflow(message, code or _text_or_none(error.get("type"))):
            kind = ContextLengthExceeded
        return kind(
            message,
            provider=self.name,
            status=status,
            code=code,
            kind=_text_or_none(error.get("type")),
            param=_text_or_none(error.get("param")),
            headers=retry_after_headers(error) | {name: value for name, value in headers.items() if value},
        )

    def redact(self, message: str) -> str:
        """The upstream's words without its key, addresses or anything that looks like a credential."""
        message = _SECRET_PATTERN.sub("[hidden]", message)
        for text in self._secrets:
            message = message.replace(text, "[hidden]")
        return message[:2000]


_SECRET_PATTERN = re.compile(
    r"(?:https?|wss?)://\S+|\b(?:sk|pk|rk|key|gsk|xai)-[\w*.-]{6,}|\bAIza[\w-]{6,}|Bearer\s+\S+"
)

_HTTP_FAILURES = (httpx.TransportError, httpx.StreamError, httpx.DecodingError)
"""Everything a transport may raise."""


def _error_object(body: bytes) -> Json:
    """The error as servers write it: {error: {...}}, {error: "text"}, {message: ...}, {detail: ...}."""
    try:
        parsed = orjson.loads(body)
    except orjson.JSONDecodeError:
        return {}
    if isinstance(parsed, list) and parsed:
        parsed = parsed[0]
    if not isinstance(parsed, dict):
        return {}
    error = parsed.get("error", parsed)
    if isinstance(error, dict):
        return error if "message" in error or "detail" not in error else {**error, "message": error["detail"]}
    return {"message": error}


@lru_cache(maxsize=64)
def _media_type(header: bytes) -> str:
    return header.partition(b";")[0].strip().lower().decode("latin-1")


def _text_or_none(value: object) -> str | None:
    return str(value) if isinstance(value, str | int) and not isinstance(value, bool) else None
