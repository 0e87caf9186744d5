"""Assembles the ASGI application from settings and providers. Has no global state."""

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import NamedTuple

from fastapi import APIRouter, FastAPI
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match, Route
from starlette.types import ASGIApp

from gateway import errors
from gateway.config.settings import Settings
from gateway.http.direct_routes import DirectRouter
from gateway.http.guard import ClientDisconnected, DrainState
from gateway.http.json_reply import build_error_reply
from gateway.http.middleware import RequestMiddleware
from gateway.http.path_suggestions import suggest_path
from gateway.process.reload import Reloader
from gateway.replies.dialects.messages_endpoint import MESSAGES
from gateway.replies.endpoints import CHAT, RESPONSES
from gateway.routes.chat import build_chat_routes
from gateway.routes.completions import build_completions_routes
from gateway.routes.contexts import build_contexts_routes
from gateway.routes.conversations import build_conversations_routes
from gateway.routes.dialects.agui import build_agui_routes
from gateway.routes.dialects.gemini import build_gemini_routes
from gateway.routes.dialects.messages import build_messages_routes
from gateway.routes.dialects.ollama import build_ollama_routes
from gateway.routes.dialects.ollama_embeddings import build_ollama_embeddings_routes
from gateway.routes.generate import build_generate_routes
from gateway.routes.health import build_health_routes
from gateway.routes.mcp_servers import build_mcp_servers_routes
from gateway.routes.models import build_models_routes
from gateway.routes.owner_data import build_owner_data_routes
from gateway.routes.pages import build_pages_routes
from gateway.routes.relayed import build_relayed_routes
from gateway.routes.request_docs import FAILURE_RESPONSES, DocumentedApp
from gateway.routes.responses import build_responses_routes
from gateway.service.provider_lifetimes import ProviderLifetimes, build_providers
from gateway.service.service import Service
from gateway.service.sweeper import run_sweeper
from gateway.state.store import Store
from gateway.websocket.handshake import WebSocketApp
from providers.base import Provider
from providers.errors import ProviderError
from translation.errors import TranslationError

ROUTER_FACTORIES: Sequence[Callable[[Service], APIRouter]] = (
    build_responses_routes,
    build_contexts_routes,
    build_conversations_routes,
    build_chat_routes,
    build_completions_routes,
    build_generate_routes,
    build_messages_routes,
    build_gemini_routes,
    build_relayed_routes,
    build_agui_routes,
    build_ollama_routes,
    build_ollama_embeddings_routes,
    build_models_routes,
    build_owner_data_routes,
    build_mcp_servers_routes,
    build_health_routes,
    build_pages_routes,
)


class Application(NamedTuple):
    """The application, and the reloader that replaces its configuration while it runs."""

    asgi: ASGIApp
    reloader: Reloader


def create_app(settings: Settings, drain: DrainState, providers: Mapping[str, Provider] | None = None) -> ASGIApp:
    """Builds an application whose configuration cannot be replaced. Takes the arguments of `build_app`."""
    return build_app(settings, drain, build_providers(settings, providers)).asgi


def build_app(settings: Settings, drain: DrainState, providers: Mapping[str, Provider]) -> Application:
    """Builds the application. `providers` are the configured providers, by name.

    All providers are closed when the application stops.
    """
    store = _build_store(settings)
    service = Service(settings, providers, drain, store)
    lifetimes = ProviderLifetimes(providers)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncGenerator[None, None]:
        async with AsyncExitStack() as closing:
            if store is not None:
                await store.open()
                closing.push_async_callback(store.aclose)
                await closing.enter_async_context(run_sweeper(store.retention, settings.store))
            await closing.enter_async_context(lifetimes.lifespan())
            await closing.enter_async_context(service.lifespan())
            yield

    routers = [routes(service) for routes in ROUTER_FACTORIES]
    app = DocumentedApp(
        routers,
        title="responses-gateway",
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        responses=FAILURE_RESPONSES,
    )
    for kind in (errors.GatewayError, ProviderError, TranslationError, ClientDisconnected, Exception):
        app.add_exception_handler(kind, _reply_to_failure)
    route_list = [route for router in routers for route in router.routes if isinstance(route, Route)]
    app.add_exception_handler(HTTPException, partial(_reply_to_routing_failure, route_list))
    direct = DirectRouter(
        app,
        {
            "/v1/responses": partial(service.serve_create, RESPONSES),
            "/v1/chat/completions": partial(service.serve_create, CHAT),
            "/v1/messages": partial(service.serve_create, MESSAGES),
        },
        {"/v1/responses": WebSocketApp(service, settings, drain)},
    )
    reloader = Reloader(service, lifetimes)
    if settings.server.cors is None:
        return Application(RequestMiddleware(direct), reloader)
    with_cors = CORSMiddleware(
        direct,
        allow_origins=list(settings.server.cors.origins),
        allow_methods=["*"],
        allow_headers=["*"],
        expose_headers=["x-request-id", "request-id", "x-gateway-loss"],
    )
    return Application(RequestMiddleware(with_cors), reloader)


def _build_store(settings: Settings) -> Store | None:
    if settings.store.url is None:
        return None
    from gateway.state.sql.store import SqlStore  # imports SQLAlchemy, a quarter of an idle process's memory

    return SqlStore(settings.store, settings.background)


async def _reply_to_failure(request: Request, error: Exception) -> Response:
    if isinstance(error, ClientDisconnected):
        return Response(status_code=499)
    return build_error_reply(error, request.scope)


async def _reply_to_routing_failure(routes: Sequence[Route], request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    path = request.url.path
    where = f"{request.method} {path:.200}"
    if error.status_code == 404:
        suggestion = _suggest_path(routes, path)
        hint = f": did you mean {suggestion}?" if suggestion is not None else ""
        return build_error_reply(errors.NotFound(f"there is no {where}{hint}"), request.scope)
    if error.status_code == 405:
        allowed = {"allow": ", ".join(sorted(_allowed_methods(routes, request)))}
        return build_error_reply(errors.MethodNotAllowed(f"there is no {where}", headers=allowed), request.scope)
    return build_error_reply(errors.NotJson(str(error.detail)), request.scope)


def _suggest_path(routes: Sequence[Route], path: str) -> str | None:
    return suggest_path(
        path,
        lambda candidate: any(route.path_regex.match(candidate) for route in routes),
        [route.path for route in routes if not route.param_convertors],
    )


def _allowed_methods(routes: Sequence[Route], request: Request) -> set[str]:
    """Returns all methods of the path. The framework reports only the methods of the first route that matches it.

    `routes` come from the routers, not from the application, because versions of FastAPI differ in where an application
    stores included routes, and vLLM requires an old version.
    """
    methods: set[str] = set()
    for route in routes:
        if route.matches(request.scope)[0] is not Match.NONE:
            methods |= route.methods or set()
    return methods
