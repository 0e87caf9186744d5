"""Sends HTTP requests to one upstream, and raises its failures as ProviderError. Knows no dialect.

Only this module sends HTTP to upstreams, and only it maps HTTP failures to errors.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from copy import copy
from dataclasses import asdict, dataclass
from typing import NoReturn, TypeVar
from urllib.parse import urlsplit

import httpx
import orjson

from dataplane.connection import ClosedWhileIdle, NotHttp
from dataplane.sharing.descriptors import is_lack_of_descriptors
from dataplane.sharing.work_pool import run_in_pool
from dataplane.transport import DescriptorsExhausted, PooledTransport, RequestDeadlines, RequestTarget
from providers.base import HeadObserver
from providers.config import PROVIDER_DEFAULTS, ProviderConfig
from providers.errors import (
    ConnectionsExhausted,
    ContextLengthExceeded,
    ProviderError,
    UpstreamBroken,
    UpstreamGarbled,
    UpstreamRejected,
    UpstreamTimeout,
    UpstreamUnreachable,
)
from providers.http.transports import HttpxBody, build_transport, build_upload_transport
from providers.http.upstream_errors import (
    ERRORS_BY_STATUS,
    STATUS_BY_ERROR_CODE,
    build_retry_headers,
    describe_system_refusal,
    find_error_object,
    is_template_error,
    parse_details,
    parse_error_object,
    resolve_status,
)
from providers.http.upstream_reply import HTTP_FAILURES, RawReply, UpstreamReply
from providers.redaction import SECRET_PATTERN, Redactor
from providers.request_ids import CURRENT_IDS, REQUEST_ID_HEADER, RequestIds, split_header_lines
from translation.decoding.context_overflow import is_context_overflow
from translation.errors import ProtocolViolation
from translation.exact_numbers import parse_with_tool_data
from translation.framing.reply_weight import LIGHT_BYTES, require_few_parts, require_few_values
from translation.representation.json_types import Json
from translation.representation.shared_tools import write_json

_T = TypeVar("_T")

_MAX_ERROR_BYTES = 64 * 1024
_RETRY_DELAY_S = 0.1

_EVENT_STREAM = "text/event-stream"

_MAX_REQUEST_TEMPLATES = 256
"""The most request templates that are cached. There is a limit because some paths contain model names of clients."""

_ROOT_PREFIX = "^"
"""Marks a path that is not below the API's `/v1`."""

_RETRY_HEADERS = ("retry-after", "retry-after-ms", "x-should-retry")
"""Headers of an error reply that say when to retry. The official SDKs obey them."""


@dataclass(frozen=True, slots=True)
class _RequestTemplate:
    """The common part of all requests with the same method, path and accepted type."""

    method: str
    url: str
    headers: dict[str, str]
    silence_s: float
    deadlines: RequestDeadlines
    target: RequestTarget


class Upstream:
    """One configured server: its address, credentials, deadlines and pooled connections."""

    def __init__(
        self, name: str, config: ProviderConfig, base_url: str, transport: httpx.AsyncBaseTransport | None = None
    ) -> None:
        self.name = name
        self._config = config
        self._retries = config.retries
        self._stale_retries = config.retries
        """How often a request is sent again because its connection was closed while it was idle."""
        self.max_frame_bytes = int(config.max_line_mb * 1024 * 1024)
        self._base_url = base_url.rstrip("/")
        self._key = config.api_key.get_secret_value() if config.api_key else ""
        self._redactor = Redactor([self._key, urlsplit(base_url).netloc, *config.headers.values()])
        kind = PROVIDER_DEFAULTS[config.type]
        headers = {"content-type": "application/json", "accept-encoding": "identity", **kind.headers}
        self.configured_headers = {name.lower(): value for name, value in config.headers.items()}
        headers |= self.configured_headers
        self._has_configured_id = REQUEST_ID_HEADER in self.configured_headers
        self._sends_trace_context = config.find_trace_context()
        if self._key:
            headers[kind.key_header] = f"Bearer {self._key}" if kind.key_header == "authorization" else self._key
        self._headers = headers
        # Without httpx.AsyncClient: its redirects, cookies and proxies are not needed, and take half of a request's
        # time.
        self._transport = transport or build_transport(config, base_url)
        self._pooled = self._transport if isinstance(self._transport, PooledTransport) else None
        self._uploads: httpx.AsyncBaseTransport | None = None
        """Sends bodies while they arrive, which the pooled transport cannot. Built by the first such request."""
        self._request_templates: dict[tuple[str, str, str], _RequestTemplate] = {}
        self._observe_head: HeadObserver | None = None
        """A callback that gets the headers of each reply. It is set if this upstream is one of several of a name."""
        self.find_context_window: Callable[[str], Awaitable[int | None]] | None = None
        """Returns the context window of a model in tokens, or None. Set if the server reports it. It is called when the
        server has refused a prompt as too long."""

    def share(self, observe_head: HeadObserver, headers: Mapping[str, str]) -> "Upstream":
        """Returns a view with the same connections. It sends each request once, because whoever shares turns repeats
        them; only a connection that was closed while it was idle is replaced by a new one. `headers` are added to each
        request."""
        view = copy(self)
        view._retries = 0
        view._stale_retries = 1
        view._headers = {**self._headers, **headers}
        view._request_templates = {}
        view._observe_head = observe_head
        return view

    async def probe(self, path: str) -> bytes | None:
        """Returns the body at a path of the server's root; None if it does not reply with status 200 in time."""
        kind = ("GET", f"{_ROOT_PREFIX}{path}", "*/*")
        template = self._request_templates.get(kind) or self._build_request_template(*kind, self._config.connect_s)
        try:
            reply = await self._send(template, b"")
            return await reply.read_body(self.max_frame_bytes)
        except ProviderError:
            return None

    def post(
        self,
        path: str,
        body: Json,
        *,
        stream: bool,
        at_root: bool = False,
        headers: Mapping[str, str] | None = None,
        accept: str | None = None,
        credentials: Sequence[str] = (),
    ) -> Awaitable[UpstreamReply]:
        """Sends a JSON body and returns the reply once it has a success status. With `at_root` the path is not below
        the API's `/v1`. `headers` replace configured headers. `accept` is JSON or an event stream by default. Errors
        lose the `credentials` of the body, which the upstream may quote.

        Raises ProviderError. If the connection fails before the reply begins, the request is retried up to `retries`
        times.
        """
        if accept is None:
            accept = _EVENT_STREAM if stream else "application/json"
        kind = ("POST", f"{_ROOT_PREFIX}{path}" if at_root else path, accept)
        template = None if headers else self._request_templates.get(kind)
        if template is None:
            read_s = self._config.silence_s if stream else self._config.answer_s
            template = self._build_request_template(*kind, read_s, headers)
        sending = self._send(template, write_json(body), body.get("model"))
        return self._redact_failures_of(sending, credentials) if credentials else sending

    async def upload(
        self, path: str, pieces: AsyncIterator[bytes], *, content_type: str, at_root: bool = False
    ) -> UpstreamReply:
        """Sends a body in chunks while it arrives, and returns the reply once it has a success status.

        It is sent once, on a connection of its own, because its bytes are not kept for a second attempt. Raises
        ProviderError, and the exceptions of `pieces`.
        """
        path = f"{_ROOT_PREFIX}{path}" if at_root else path
        template = self._build_request_template(
            "POST", path, "*/*", self._config.answer_s, {"content-type": content_type}
        )
        ids = CURRENT_IDS.get()
        headers = self._add_own_id(template.headers, ids)
        trace = None if ids is None else ids.trace
        if trace is not None:
            lines = trace.begin_http(template.url, sends_context=self._sends_trace_context)
            headers = {**headers, **split_header_lines(lines)}
        request = httpx.Request("POST", template.url, headers=headers, content=pieces)
        request.extensions["timeout"] = {**asdict(template.deadlines), "write": self._config.silence_s}
        if self._uploads is None:
            self._uploads = self._transport if self._pooled is None else build_upload_transport(self._config)
        try:
            reply = HttpxBody(await self._uploads.handle_async_request(request))
        except httpx.WriteTimeout as failure:
            if trace is not None:
                trace.end_http(None)
            raise UpstreamTimeout("the upstream did not read the request in time", provider=self.name) from failure
        except HTTP_FAILURES as failure:
            if trace is not None:
                trace.end_http(None)
            self.raise_provider_error(failure, reply_started=False)
        if trace is not None:
            trace.end_http(reply.status)
        if ids is not None:
            ids.read_upstream_id(reply.headers)
        if reply.status >= 300:
            raise await self._read_rejection(reply)
        return UpstreamReply(self, reply, template.silence_s)

    async def _redact_failures_of(self, sending: Awaitable[UpstreamReply], credentials: Sequence[str]) -> UpstreamReply:
        try:
            return await sending
        except UpstreamRejected as error:
            error.redact(self.make_redactor(credentials))
            raise

    async def post_json(
        self, path: str, body: Json, *, at_root: bool = False, headers: Mapping[str, str] | None = None
    ) -> Json:
        """Sends a JSON body and returns the JSON object of the reply. With `at_root` the path is not below the API's
        `/v1`. `headers` replace configured headers. Raises ProviderError, which may quote the body."""
        reply = await self.post(path, body, stream=False, at_root=at_root, headers=headers)
        parsed = await self.read_json(reply)
        if rejection := self.find_error(parsed):
            raise rejection
        return parsed

    async def get_json(self, path: str, *, at_root: bool = False) -> Json:
        """Returns the JSON object at a path. Raises ProviderError."""
        path = f"{_ROOT_PREFIX}{path}" if at_root else path
        kind = ("GET", path, "application/json")
        template = self._request_templates.get(kind) or self._build_request_template(*kind, self._config.connect_s)
        reply = await self._send(template, b"")
        return await self.read_json(reply)

    async def read_json(self, reply: UpstreamReply) -> Json:
        """Returns a reply that is one JSON object. Raises ProviderError."""
        return await self.call_weighed(self.parse_json, await reply.read_body(self.max_frame_bytes))

    async def call_weighed(self, function: Callable[[bytes], _T], body: bytes) -> _T:
        """Calls a function that parses a body: here if it is short, else in a thread."""
        return function(body) if len(body) <= LIGHT_BYTES else await run_in_pool(function, body)

    def parse_json(self, body: bytes, *, limits_parts: bool = False) -> Json:
        """Parses a body. Raises UpstreamGarbled if it is not a JSON object, or has too many values.

        With `limits_parts`, which is for whole replies to turns, it may not have too many parts either.
        """
        is_heavy = len(body) > LIGHT_BYTES
        try:
            if is_heavy:
                require_few_values(body, self.max_frame_bytes)
            parsed = parse_with_tool_data(body)
            if not isinstance(parsed, dict):
                raise UpstreamGarbled("the upstream's reply is not a JSON object", provider=self.name)
            if is_heavy and limits_parts:
                require_few_parts(parsed, self.max_frame_bytes)
        except orjson.JSONDecodeError as error:
            raise UpstreamGarbled("the upstream's reply is not JSON", provider=self.name) from error
        except ProtocolViolation as violation:
            raise UpstreamGarbled(str(violation), provider=self.name) from violation
        return parsed

    async def aclose(self) -> None:
        await self._transport.aclose()
        if self._uploads is not None:
            await self._uploads.aclose()

    def _build_request_template(
        self, method: str, path: str, accept: str, read_s: float, own_headers: Mapping[str, str] | None = None
    ) -> _RequestTemplate:
        """Builds the template. It is cached unless the request has headers of its own. `read_s`, the wait for a read of
        the reply, follows from the other parameters."""
        url = self._base_url.removesuffix("/v1") if path.startswith(_ROOT_PREFIX) else self._base_url
        url += path.removeprefix(_ROOT_PREFIX)
        headers = {**self._headers, **(own_headers or {}), "accept": accept}
        if accept == _EVENT_STREAM and PROVIDER_DEFAULTS[self._config.type].closes_after_streams:
            headers["connection"] = "close"
        deadlines = RequestDeadlines(connect=self._config.connect_s, pool=self._config.connect_s, read=read_s)
        request = httpx.Request(method, url, headers=headers)
        target = RequestTarget.of(method, request.url, request.headers.raw)
        template = _RequestTemplate(method, url, headers, read_s, deadlines, target)
        if own_headers:
            return template
        if len(self._request_templates) >= _MAX_REQUEST_TEMPLATES:
            self._request_templates.clear()
        return self._request_templates.setdefault((method, path, accept), template)

    async def _send(self, template: _RequestTemplate, content: bytes, model: object = None) -> UpstreamReply:
        """Sends a request. `model` is the model that it names, for the message of a rejection.

        A POST carries the id of the client's request, and the id of its reply is read. Lists of models are fetched for
        all requests.
        """
        ids = CURRENT_IDS.get() if content else None
        own_lines = b"" if ids is None or self._has_configured_id else ids.build_header_line()
        trace = None if ids is None else ids.trace
        trace_lines = b""
        if trace is not None:
            trace_lines = trace.begin_http(template.url, sends_context=self._sends_trace_context)
        attempt = 0
        while True:
            try:
                if self._pooled is None:
                    reply: RawReply = await self._send_with_httpx(template, content, ids, trace_lines)
                else:
                    reply = await self._pooled.send(
                        template.target, content, template.deadlines, attempt > 0, own_lines + trace_lines
                    )
                    if reply.headers.get(b"content-encoding", b"identity") != b"identity":
                        reply = HttpxBody(reply.response())
                break
            except HTTP_FAILURES as failure:
                is_stale = isinstance(failure, ClosedWhileIdle)
                if trace is not None and not is_stale:
                    trace.end_http(None)
                is_last = attempt >= (self._stale_retries if is_stale else self._retries)
                # After a read timeout the upstream may still work on the request, and a full pool stays full.
                if isinstance(failure, httpx.ReadTimeout | httpx.PoolTimeout) or is_last:
                    self.raise_provider_error(failure, reply_started=False)
                # A connection that was closed while it was idle says nothing about the upstream: try a new one at once.
                if not is_stale:
                    await asyncio.sleep(_RETRY_DELAY_S * 2**attempt)
                    if trace is not None:
                        trace_lines = trace.begin_http(template.url, sends_context=self._sends_trace_context)
                attempt += 1
        if trace is not None:
            trace.end_http(reply.status)
        if ids is not None:
            ids.read_upstream_id(reply.headers)
        if self._observe_head is not None:
            self._observe_head(reply.headers)
        if reply.status < 300:
            return UpstreamReply(self, reply, template.silence_s)
        rejection = await self._read_rejection(reply)
        if isinstance(rejection, ContextLengthExceeded) and self.find_context_window and isinstance(model, str):
            window = await self.find_context_window(model)
            if window is not None:
                rejection.name_window(window)
        raise rejection

    def _add_own_id(self, headers: dict[str, str], ids: RequestIds | None) -> dict[str, str]:
        return headers if ids is None or self._has_configured_id else {**headers, REQUEST_ID_HEADER: ids.own}

    async def _send_with_httpx(
        self, template: _RequestTemplate, content: bytes, ids: RequestIds | None, trace_lines: bytes
    ) -> HttpxBody:
        headers = self._add_own_id(template.headers, ids)
        if trace_lines:
            headers = {**headers, **split_header_lines(trace_lines)}
        request = httpx.Request(template.method, template.url, headers=headers, content=content)
        request.extensions["timeout"] = asdict(template.deadlines)
        return HttpxBody(await self._transport.handle_async_request(request))

    async def _read_rejection(self, reply: RawReply) -> UpstreamRejected:
        body = bytearray()
        try:
            async for read in reply.iterate():
                body += read
                if len(body) > _MAX_ERROR_BYTES:
                    break
        except HTTP_FAILURES:
            body.clear()  # the status alone is enough
        finally:
            await reply.close()
        headers = {name: reply.headers.get(name.encode(), b"").decode("latin-1") for name in _RETRY_HEADERS}
        rejection = self._build_rejection(reply.status, headers, parse_error_object(bytes(body)))
        rejection.raw_headers = reply.headers
        return rejection

    def raise_provider_error(self, failure: Exception, *, reply_started: bool) -> NoReturn:
        """Raises the ProviderError for a failure of the transport. `reply_started`: some of the reply had arrived."""
        # httpx's own transport does not wait for a descriptor.
        lacks_descriptor = isinstance(failure, DescriptorsExhausted) or (
            isinstance(failure, httpx.ConnectError) and is_lack_of_descriptors(failure)
        )
        if lacks_descriptor or isinstance(failure, httpx.PoolTimeout):
            # Not retried here, because the request has already waited for a connection.
            message = "every connection to the upstream is in use"
            if lacks_descriptor:
                message = "the gateway has no free file descriptor for a connection to the upstream: try again later"
            headers = {"retry-after": "1"}
            raise ConnectionsExhausted(message, provider=self.name, status=503, headers=headers) from failure
        if isinstance(failure, httpx.ReadTimeout):
            raise UpstreamTimeout("the upstream sent no data in time", provider=self.name) from failure
        if isinstance(failure, NotHttp) and not reply_started:
            raise UpstreamGarbled("the upstream does not speak HTTP", provider=self.name) from failure
        if reply_started:
            raise UpstreamBroken("the upstream broke off its reply", provider=self.name) from failure
        was_sent = not isinstance(failure, httpx.ConnectError | httpx.ConnectTimeout)
        raise UpstreamUnreachable("the upstream cannot be reached", provider=self.name, was_sent=was_sent) from failure

    def find_error(self, body: Json, credentials: Sequence[str] = ()) -> ProviderError | None:
        """Returns the error of a reply with a success status whose body is an error object, else None.

        The error does not quote the `credentials` of the request.
        """
        error = body.get("error")
        if not error:
            return None
        codes = [error.get("code"), error.get("type")] if isinstance(error, dict) else []
        statuses = [STATUS_BY_ERROR_CODE.get(str(code), code) for code in codes if isinstance(code, str | int)]
        status = next((status for status in statuses if isinstance(status, int) and 400 <= status < 600), 502)
        rejection = self._build_rejection(status, {}, find_error_object(body))
        if credentials:
            rejection.redact(self.make_redactor(credentials))
        return rejection

    def _build_rejection(self, status: int, headers: Mapping[str, str], error: Json) -> UpstreamRejected:
        status = resolve_status(status, error)
        message = self.redact(str(error.get("message") or f"the upstream replied with status {status}"))
        refusal = describe_system_refusal(message) if status in (400, 422, 500) else None
        if refusal is not None:
            status, message = 400, refusal
        elif status == 500 and is_template_error(message):
            status = 400
        code, error_type, param = (self._redact_optional(error.get(name)) for name in ("code", "type", "param"))
        kind = ERRORS_BY_STATUS.get(status, UpstreamRejected)
        if status in (400, 413, 422, 500) and is_context_overflow(message, code or error_type):
            kind = ContextLengthExceeded
        rejection = kind(
            message,
            provider=self.name,
            status=status,
            code=code,
            kind=error_type,
            param=param,
            headers=build_retry_headers(error) | {name: value for name, value in headers.items() if value},
        )
        rejection.details = parse_details(error, self.redact)
        return rejection

    def redact(self, message: str) -> str:
        """Returns a message without the upstream's key, addresses, and anything that looks like a credential. It is cut
        at 2,000 characters."""
        return self._redactor.redact(SECRET_PATTERN.sub("[hidden]", message))[:2000]

    def make_redactor(self, credentials: Sequence[str]) -> Callable[[str], str]:
        """Returns a function like `redact` for messages about one request, whose own credentials it hides too."""
        if not credentials:
            return self.redact
        redactor = Redactor(credentials)
        return lambda message: redactor.redact(self.redact(message))

    def _redact_optional(self, value: object) -> str | None:
        """Returns a field of an error as redacted text; None if it is neither text nor a number."""
        if isinstance(value, str | int) and not isinstance(value, bool):
            return self.redact(str(value))
        return None
