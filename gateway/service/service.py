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
from gateway.http.body import json_that_came, read_json
from gateway.http.guard import Drain, Guard
from gateway.http.headers import headers_of
from gateway.http.json_reply import json_answer
from gateway.jobs.runner import JobRunner
from gateway.logs import note
from gateway.planning.resolver import Resolver
from gateway.replies.endpoints import Endpoint
from gateway.replies.event_stream import EventStream, Wire
from gateway.replies.log_replay import Following, follow
from gateway.replies.recorder import Recording
from gateway.sealing.sealer import Sealer, new_key
from gateway.service.accepted_request import Opened
from gateway.service.catalogue import Catalogue
from gateway.service.contexts import Contexts
from gateway.service.embedded_engines import Engines
from gateway.service.generate import Generating
from gateway.service.intake import Opening
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
        sealer = _sealer(settings, store)
        opening = Opening(settings, resolver, store, self._runner, sealer)
        self.settings = settings
        self.engines = Engines(providers.values())
        self.drain = drain
        self.store = store
        self.catalogue = Catalogue(resolver)
        self.contexts = Contexts(resolver, store, sealer)
        self._generating = Generating(settings, resolver)
        self.open = opening.open
        self.reopen = opening.reopen
        self._max_body_bytes = int(settings.server.max_body_mb * _MB)
        self._keepalive_s = settings.server.keepalive_s
        self._max_depth = settings.server.max_json_depth
        self._authenticator = Authenticator(settings.auth)

    async def answer(self, endpoint: Endpoint, scope: Scope, receive: Receive) -> Response:
        """The reply to one create request, streamed or whole. Raises what `gateway/errors.py` has rows for."""
        headers = headers_of(scope)
        principal = self._asking(headers)
        strict = is_strict(headers)
        body = json_that_came(scope, max_bytes=self._max_body_bytes, max_depth=self._max_depth)
        if body is None:
            body = await self._read(scope, receive)
        opened = await self.open(endpoint, principal, body, strict=strict)
        if opened.job is not None:
            return await self._answer_ahead(opened, opened.job)
        if body.get("stream"):
            # What truncation leaves out is known once the upstream has accepted the rest.
            late = opened.headers if body.get("truncation") == "auto" else None
            return self.stream(opened.wire(), opened.headers(), opened.recording, late)
        with Guard(receive, self.drain, scope.get(CLIENT)):
            return json_answer(await opened.result(), headers=opened.headers())

    async def generate(self, request: Request) -> Response:
        """The reply to one request of `/generate`, streamed or whole. Raises what `gateway/errors.py` has rows for."""
        principal = self.principal(request)
        strict = is_strict(headers_of(request.scope))
        body = await self.read(request)
        opened = self._generating.open(principal, body, strict=strict)
        if body.get("stream"):
            return self.stream(opened.wire(), opened.headers())
        with Guard(request.receive, self.drain, request.scope.get(CLIENT)):
            return json_answer(await opened.result(), headers=opened.headers())

    def read(self, request: Request) -> Awaitable[Json]:
        """A request's body. Raises what `read_json` does."""
        return self._read(request.scope, request.receive)

    def _read(self, scope: Scope, receive: Receive) -> Awaitable[Json]:
        max_bytes, max_depth = self._max_body_bytes, self._max_depth
        return read_json(scope, receive, max_bytes=max_bytes, max_depth=max_depth, deadline_s=_BODY_DEADLINE_S)

    async def follow(self, owner: str, response_id: str, *, after: int | None) -> Response:
        """The stream of a response out of the event log. Raises NotFound, InvalidRequest."""
        patience_s = self.settings.background.lease_s
        return self.stream(await follow(self.kept(), owner, response_id, after=after, patience_s=patience_s), {})

    def stream(
        self,
        wire: Wire,
        headers: Mapping[str, str],
        recording: Recording | None = None,
        late_headers: Callable[[], Mapping[str, str]] | None = None,
    ) -> EventStream:
        """A wire as the answer to a request."""
        return EventStream(wire, self.drain, self._keepalive_s, headers, recording, late_headers)

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None, None]:
        """Do what goes on between requests, until the block ends."""
        if self._runner is None:
            yield
            return
        async with self._runner.running(self.reopen):
            yield

    async def _answer_ahead(self, opened: Opened, new: NewResponse) -> Response:
        """The reply to what goes on without its client."""
        assert self._runner is not None
        await self._runner.accept(new, opened)
        if not new.logged:
            return json_answer(new.response, headers=opened.headers())
        patience_s = self.settings.background.lease_s
        wire = Following(self.kept(), new.owner, opened.response_id, patience_s=patience_s)
        return self.stream(wire, opened.headers())

    def principal(self, request: HTTPConnection) -> Principal:
        """Who asks; what they own is under `name`. Raises NotAuthenticated."""
        return self._asking(headers_of(request.scope))

    def _asking(self, headers: Mapping[bytes, bytes]) -> Principal:
        principal = self._authenticator.authenticate(headers)
        note(client=principal.name)
        return principal

    def kept(self) -> Store:
        """Where things are kept. Raises NotFound where nothing is."""
        if self.store is None:
            raise NotFound("nothing is stored here: the server's config has no store.url")
        return self.store


def _sealer(settings: Settings, store: Store | None) -> Sealer:
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
    said = given.lower()
    if said not in (b"true", b"false"):
        raise InvalidRequest("x-gateway-strict is either true or false", param="x-gateway-strict")
    return said == b"true"
