"""A request's path in order: who asks, what is asked, open it, answer."""

from collections.abc import Mapping
from functools import partial

from starlette.requests import HTTPConnection, Request
from starlette.responses import Response
from structlog.contextvars import bind_contextvars

from gateway.answers import json_answer
from gateway.auth import Authenticator, Principal
from gateway.body import read_json
from gateway.catalogue import Catalogue
from gateway.endpoints import Endpoint
from gateway.errors import NotFound
from gateway.guard import Drain, Guard
from gateway.opening import Opening
from gateway.recording import Lease
from gateway.resolve import Resolver
from gateway.settings import Settings
from gateway.state.store import Store
from gateway.streaming import EventStream
from providers.base import Provider
from translation.errors import InvalidRequest

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
        lease: Lease | None = None,
    ) -> None:
        resolver = Resolver(settings, providers)
        opening = Opening(settings, resolver, store, lease)
        self.settings = settings
        self.drain = drain
        self.store = store
        self.catalogue = Catalogue(resolver)
        self.open = opening.open
        self.reopen = opening.reopen
        self.read = partial(
            read_json,
            max_bytes=int(settings.server.max_body_mb * _MB),
            max_depth=settings.server.max_json_depth,
            deadline_s=_BODY_DEADLINE_S,
        )
        self._authenticator = Authenticator(settings.auth)

    async def answer(self, endpoint: Endpoint, request: Request) -> Response:
        """The reply to one create request, streamed or whole. Raises what `gateway/errors.py` has rows for."""
        principal = self.principal(request)
        strict = is_strict(request.headers)
        body = await self.read(request)
        opened = await self.open(endpoint, principal, body, strict=strict)
        if body.get("stream"):
            keepalive_s = self.settings.server.keepalive_s
            return EventStream(opened.wire(), self.drain, keepalive_s=keepalive_s, headers=opened.headers())
        async with Guard(request.receive, self.drain):
            return json_answer(await opened.result(), headers=opened.headers())

    def principal(self, request: HTTPConnection) -> Principal:
        """Who asks; what they own is under `name`. Raises NotAuthenticated."""
        principal = self._authenticator.authenticate(request.headers)
        bind_contextvars(client=principal.name)
        return principal

    def kept(self) -> Store:
        """Where things are kept. Raises NotFound where nothing is."""
        if self.store is None:
            raise NotFound("nothing is stored here: the server's config has no store.url")
        return self.store


def is_strict(headers: Mapping[str, str]) -> bool:
    """Whether the client wants losses refused. Raises InvalidRequest for what is neither true nor false."""
    said = headers.get("x-gateway-strict", "false").lower()
    if said not in ("true", "false"):
        raise InvalidRequest("x-gateway-strict is either true or false", param="x-gateway-strict")
    return said == "true"
