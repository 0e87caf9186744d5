"""A request's path in order: check, route, plan, run, answer."""

import time
from collections.abc import Callable, Mapping
from functools import partial

from starlette.requests import Request
from starlette.responses import Response
from structlog.contextvars import bind_contextvars

from gateway.answers import json_answer
from gateway.auth import Authenticator
from gateway.body import read_json
from gateway.catalogue import Catalogue
from gateway.defaults import with_defaults
from gateway.endpoints import Endpoint, Identity, Presentation
from gateway.guard import Drain, Guard
from gateway.plan import make_plan
from gateway.resolve import Resolver, Route
from gateway.run import Run
from gateway.settings import Settings
from gateway.streaming import EventStream
from providers.base import Provider
from providers.new_id import new_id
from translation.errors import InvalidRequest
from translation.json_types import Json
from translation.sse import DEFAULT_MAX_FRAME_BYTES

_BODY_DEADLINE_S = 60.0
_MB = 1024 * 1024
_MAX_LOGGED_CHARS = 200


class Service:
    """What a route may ask for. One per server process."""

    def __init__(self, settings: Settings, providers: Mapping[str, Provider], drain: Drain) -> None:
        self._settings = settings
        self._drain = drain
        self._authenticator = Authenticator(settings.auth)
        self._resolver = Resolver(settings, providers)
        self._clock: Callable[[], int] = lambda: int(time.time())
        self._max_frame_bytes = {name: int(config.max_line_mb * _MB) for name, config in settings.providers.items()}
        self._reasoning_fields = frozenset(settings.server.reasoning_fields)
        self.catalogue = Catalogue(self._resolver)
        self._read = partial(
            read_json,
            max_bytes=int(settings.server.max_body_mb * _MB),
            max_depth=settings.server.max_json_depth,
            deadline_s=_BODY_DEADLINE_S,
        )

    async def answer(self, endpoint: Endpoint, request: Request) -> Response:
        """The reply to one create request, streamed or whole. Raises what `gateway/errors.py` has rows for."""
        principal = self._authenticator.authenticate(request.headers)
        bind_contextvars(client=principal.name)
        strict = _is_strict(request.headers.get("x-gateway-strict", "false"))
        body = await self._read(request)
        run = self.start(endpoint, body, principal.models, strict=strict)
        if body.get("stream"):
            keepalive_s = self._settings.server.keepalive_s
            return EventStream(run.wire(), self._drain, keepalive_s=keepalive_s, headers=run.headers())
        async with Guard(request.receive, self._drain):
            return json_answer(await run.result(), headers=run.headers())

    def start(self, endpoint: Endpoint, body: Json, allowed: tuple[str, ...], *, strict: bool) -> Run:
        """Check, route and plan a body; nothing is sent. Raises InvalidRequest, UnknownModel."""
        endpoint.validate(body)
        if not body.get("model"):
            raise InvalidRequest("model is required", param="model", code="missing_required_parameter")
        route = self._resolver.resolve(body["model"], allowed)
        bind_contextvars(model=route.name[:_MAX_LOGGED_CHARS], provider=route.provider.name)
        if route.request_defaults:
            body = with_defaults(body, route.request_defaults, endpoint.dialect)
            endpoint.validate(body)
        plan = make_plan(endpoint, body, route, strict=strict)
        identity = Identity(id=new_id(endpoint.id_prefix), created=self._clock(), model=route.name)
        return Run(endpoint, body, identity, self._presentation(route), plan)

    def authenticate(self, request: Request) -> tuple[str, ...]:
        """The model patterns this request's key may use. Raises NotAuthenticated."""
        return self._authenticator.authenticate(request.headers).models

    def _presentation(self, route: Route) -> Presentation:
        return Presentation(
            reasoning_fields=self._reasoning_fields,
            max_frame_bytes=self._max_frame_bytes.get(route.provider.name, DEFAULT_MAX_FRAME_BYTES),
            clock=self._clock,
            relay_model=None if route.name == route.upstream_model else route.name,
            scrub=route.provider.scrub,
        )


def _is_strict(said: str) -> bool:
    if said.lower() not in ("true", "false"):
        raise InvalidRequest("x-gateway-strict is either true or false", param="x-gateway-strict")
    return said.lower() == "true"
