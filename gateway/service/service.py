"""A request's path in order: who asks, what is asked, open it, answer."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager

from starlette.requests import HTTPConnection, Request
from starlette.responses import Response
from starlette.types import Receive, Scope

from dataplane.http_protocol import CLIENT
from gateway.config.settings import Settings
from gateway.errors import NotFound
from gateway.http.auth import Authenticator, Principal
from gateway.http.body import parse_buffered_body, read_json
from gateway.http.guard import Drain, Guard
from gateway.http.headers import headers_of
from gateway.http.json_reply import build_json_reply
from gateway.jobs.runner import JobRunner
from gateway.logs import bind_fields
from gateway.planning.resolver import Resolver
from gateway.replies.endpoints import Endpoint
from gateway.replies.event_stream import EventStreamReply, ReplyStream
from gateway.replies.log_replay import LogReplay, open_log_replay
from gateway.replies.recorder import ReplyRecorder
from gateway.sealing.sealer import Sealer, new_key
from gateway.service.accepted_request import AcceptedRequest
from gateway.service.catalogue import Catalogue
from gateway.service.contexts import ContextService
from gateway.service.embedded_engines import EmbeddedEngines
from gateway.service.generate import GenerateIntake
from gateway.service.intake import Intake
from gateway.state.store import NewResponse, Store
from providers.base import Provider
from providers.new_id import new_id
from translation.errors import InvalidRequest
from translation.representation.json_types import Json

_BODY_DEADLINE_S = 60.0
_MB = 1024 * 1024


class Service:
    """What a route may ask for. One per server process. `store` is None where nothing is kept."""

    def __init__(
        self,
        settings: Settings,
        providers: Mapping[str, Provider],
        drain: Drain,
        store: Store | None = None,
    ) -> None:
        resolver = Resolver(settings, providers)
        self._runner = None
        if store is not None:
            worker, drain_s = new_id("worker"), settings.server.drain_s
            self._runner = JobRunner(store, settings.background, drain, worker=worker, drain_s=drain_s)
        sealer = _build_sealer(settings, store)
        intake = Intake(settings, resolver, store, self._runner, sealer)
        self.settings = settings
        self.engines = EmbeddedEngines(providers.values())
        self.drain = drain
        self.store = store
        self.catalogue = Catalogue(resolver)
        self.contexts = ContextService(resolver, store, sealer)
        self._generate_intake = GenerateIntake(settings, resolver)
        self.accept = intake.accept
        self.resume_job = intake.resume_job
        self._max_body_bytes = int(settings.server.max_body_mb * _MB)
        self._keepalive_s = settings.server.keepalive_s
        self._max_depth = settings.server.max_json_depth
        self._authenticator = Authenticator(settings.auth)

    async def serve_create(self, endpoint: Endpoint, scope: Scope, receive: Receive) -> Response:
        """The reply to one create request, streamed or whole. Raises what `gateway/errors.py` has rows for."""
        headers = headers_of(scope)
        principal = self._authenticate(headers)
        strict = is_strict(headers)
        body = parse_buffered_body(scope, max_bytes=self._max_body_bytes, max_depth=self._max_depth)
        if body is None:
            body = await self._read_json(scope, receive)
        accepted = await self.accept(endpoint, principal, body, strict=strict)
        if accepted.job is not None:
            return await self._reply_detached(accepted, accepted.job)
        if body.get("stream"):
            # What truncation leaves out is known once the upstream has accepted the rest.
            late_headers = accepted.loss_headers if body.get("truncation") == "auto" else None
            return self.build_event_stream(
                accepted.build_stream(), accepted.loss_headers(), accepted.recorder, late_headers
            )
        with Guard(receive, self.drain, scope.get(CLIENT)):
            return build_json_reply(await accepted.produce_reply(), headers=accepted.loss_headers())

    async def serve_generate(self, request: Request) -> Response:
        """The reply to one request of `/generate`, streamed or whole. Raises what `gateway/errors.py` has rows for."""
        principal = self.authenticate(request)
        strict = is_strict(headers_of(request.scope))
        body = await self.read_body(request)
        accepted = self._generate_intake.accept(principal, body, strict=strict)
        if body.get("stream"):
            return self.build_event_stream(accepted.build_stream(), accepted.loss_headers())
        with Guard(request.receive, self.drain, request.scope.get(CLIENT)):
            return build_json_reply(await accepted.produce_reply(), headers=accepted.loss_headers())

    def read_body(self, request: Request) -> Awaitable[Json]:
        """A request's body. Raises what `read_json` does."""
        return self._read_json(request.scope, request.receive)

    def _read_json(self, scope: Scope, receive: Receive) -> Awaitable[Json]:
        max_bytes, max_depth = self._max_body_bytes, self._max_depth
        return read_json(scope, receive, max_bytes=max_bytes, max_depth=max_depth, deadline_s=_BODY_DEADLINE_S)

    async def serve_log_replay(self, owner: str, response_id: str, *, after: int | None) -> Response:
        """The stream of a response out of the event log. Raises NotFound, InvalidRequest."""
        patience_s = self.settings.background.lease_s
        return self.build_event_stream(
            await open_log_replay(self.require_store(), owner, response_id, after=after, max_outage_s=patience_s), {}
        )

    def build_event_stream(
        self,
        stream: ReplyStream,
        headers: Mapping[str, str],
        recorder: ReplyRecorder | None = None,
        late_headers: Callable[[], Mapping[str, str]] | None = None,
    ) -> EventStreamReply:
        """A wire as the answer to a request."""
        return EventStreamReply(stream, self.drain, self._keepalive_s, headers, recorder, late_headers)

    @asynccontextmanager
    async def lifespan(self) -> AsyncGenerator[None, None]:
        """Do what goes on between requests, until the block ends."""
        if self._runner is None:
            yield
            return
        async with self._runner.lifespan(self.resume_job):
            yield

    async def _reply_detached(self, accepted: AcceptedRequest, new: NewResponse) -> Response:
        """The reply to what goes on without its client."""
        assert self._runner is not None
        await self._runner.submit_job(new, accepted)
        if not new.logged:
            return build_json_reply(new.response, headers=accepted.loss_headers())
        patience_s = self.settings.background.lease_s
        replay = LogReplay(self.require_store(), new.owner, accepted.response_id, max_outage_s=patience_s)
        return self.build_event_stream(replay, accepted.loss_headers())

    def authenticate(self, request: HTTPConnection) -> Principal:
        """Who asks; what they own is under `name`. Raises NotAuthenticated."""
        return self._authenticate(headers_of(request.scope))

    def _authenticate(self, headers: Mapping[bytes, bytes]) -> Principal:
        principal = self._authenticator.authenticate(headers)
        bind_fields(client=principal.name)
        return principal

    def require_store(self) -> Store:
        """Where things are kept. Raises NotFound where nothing is."""
        if self.store is None:
            raise NotFound("nothing is stored here: the server's config has no store.url")
        return self.store


def _build_sealer(settings: Settings, store: Store | None) -> Sealer:
    """The configured keys and the store's; without either one that ends with the process."""
    keys = settings.sealing.secrets
    if store is not None:
        return Sealer(keys, lambda: store.sealing_key)
    return Sealer(keys or (new_key(),))


def is_strict(headers: Mapping[bytes, bytes]) -> bool:
    """Whether the client wants losses refused. Raises InvalidRequest for what is neither true nor false."""
    given = headers.get(b"x-gateway-strict")
    if given is None:
        return False
    value = given.lower()
    if value not in (b"true", b"false"):
        raise InvalidRequest("x-gateway-strict is either true or false", param="x-gateway-strict")
    return value == b"true"
