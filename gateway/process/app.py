"""Assembles the ASGI application from settings and providers. Has no global state."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Final, NamedTuple

from fastapi import APIRouter, FastAPI
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match, Route
from starlette.types import ASGIApp

from gateway import errors
from gateway.config.settings import CorsSettings, Settings
from gateway.dialects.table import CLIENT_DIALECTS, ClientDialect, RouteFactory
from gateway.http.cross_site import CrossSiteCheck
from gateway.http.direct_routes import DirectRouter
from gateway.http.error_forms import ErrorReplyBuilder, build_error_reply
from gateway.http.guard import CLIENT_LEFT, ClientDisconnected, DrainState
from gateway.http.headers import ATTEMPTS_HEADER, UPSTREAM_HEADER
from gateway.http.middleware import RequestMiddleware
from gateway.http.path_suggestions import suggest_path
from gateway.http.request_docs import FAILURE_RESPONSES, DocumentedApp
from gateway.metrics.labels import RouteLabels
from gateway.metrics.place import MetricsPlace
from gateway.process.reload import Reloader
from gateway.process.sweeper import run_sweeper
from gateway.relayed_paths.relays import RELAYED_PATHS
from gateway.replies.endpoints import Endpoint, ResponseForm
from gateway.replies.request_figures import RequestWatch
from gateway.routes.files import build_files_routes
from gateway.routes.health import build_health_routes
from gateway.routes.mcp_servers import build_mcp_servers_routes
from gateway.routes.models import build_models_routes
from gateway.routes.own_paths import build_own_routes
from gateway.routes.pages import build_pages_routes
from gateway.routes.relayed import build_relayed_routes
from gateway.routes.uploads import build_uploads_routes
from gateway.routes.vector_stores import build_vector_stores_routes
from gateway.service.provider_lifetimes import ProviderLifetimes, build_providers
from gateway.service.service import Service
from gateway.state.store import Store
from gateway.websocket.handshake import WebSocketApp
from providers.base import Provider
from providers.errors import ProviderError
from translation.errors import TranslationError

_MODEL_PARAMETER: Final = "{model:path}"

_ONLY_WORKER: Final = MetricsPlace()

_OTHER_ROUTES: Sequence[RouteFactory] = (
    build_relayed_routes,
    build_uploads_routes,
    build_vector_stores_routes,
    build_own_routes,
    build_mcp_servers_routes,
    build_health_routes,
    build_pages_routes,
)
"""The routes that belong to no API of `gateway/dialects/`."""


class Application(NamedTuple):
    """The application, and the reloader that replaces its configuration while it runs."""

    asgi: ASGIApp
    reloader: Reloader


def create_app(settings: Settings, drain: DrainState, providers: Mapping[str, Provider] | None = None) -> ASGIApp:
    """Builds an application whose configuration cannot be replaced. Takes the arguments of `build_app`."""
    return build_app(settings, drain, build_providers(settings, providers)).asgi


def build_app(
    settings: Settings,
    drain: DrainState,
    providers: Mapping[str, Provider],
    dialects: Sequence[ClientDialect] = CLIENT_DIALECTS,
    metrics_place: MetricsPlace = _ONLY_WORKER,
) -> Application:
    """Builds the application. `providers` are the configured providers, by name; `dialects` are the APIs of clients.

    All providers are closed when the application stops.
    """
    store = _build_store(settings)
    direct_endpoints = [dialect.direct for dialect in dialects if dialect.direct is not None]
    job_endpoints: dict[str, Endpoint] = {
        row.endpoint.name: row.endpoint
        for row in direct_endpoints
        if isinstance(form := row.endpoint.storage, ResponseForm) and form.allows_jobs
    }
    metrics = None
    if settings.metrics.enabled:
        from gateway.metrics.worker_metrics import WorkerMetrics  # not needed without metrics

        metrics = WorkerMetrics(lambda: service, metrics_place)
    traces = None
    if settings.tracing is not None:
        from gateway.tracing.worker_traces import WorkerTraces  # imports OpenTelemetry

        traces = WorkerTraces(settings.tracing, lambda: service.settings)
    watch = RequestWatch(
        None if metrics is None else metrics.reader,
        None if traces is None else traces.tracer,
        {row.endpoint.name: row.path for row in direct_endpoints},
    )
    service = Service(settings, providers, drain, store, job_endpoints, watch)
    lifetimes = ProviderLifetimes(providers)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncGenerator[None, None]:
        async with AsyncExitStack() as closing:
            if store is not None:
                await store.open()
                closing.push_async_callback(store.aclose)
                await closing.enter_async_context(
                    run_sweeper(store.retention, settings.store, service.state.require_blob_keeper())
                )
            # The traces and metrics end last: jobs run on for a while after the last request.
            if traces is not None:
                closing.push_async_callback(traces.aclose)
            await closing.enter_async_context(lifetimes.lifespan())
            if metrics is not None:
                await closing.enter_async_context(metrics.lifespan(build_reply))
            await closing.enter_async_context(service.lifespan())
            yield

    model_forms = [dialect.models_form for dialect in dialects if dialect.models_form is not None]
    error_forms = [dialect.error_form for dialect in dialects if dialect.error_form is not None]
    build_reply: ErrorReplyBuilder = partial(
        build_error_reply, forms=error_forms, names_upstream=lambda: service.settings.routing.reply_headers
    )
    factories = [factory for dialect in dialects for factory in dialect.routes]
    models_routes: RouteFactory = partial(build_models_routes, model_forms)
    files_routes: RouteFactory = partial(build_files_routes, error_forms)
    routers = [build_routes(service) for build_routes in (*factories, models_routes, files_routes, *_OTHER_ROUTES)]
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
        app.add_exception_handler(kind, partial(_reply_to_failure, build_reply))
    route_list = [route for router in routers for route in router.routes if isinstance(route, Route)]
    app.add_exception_handler(HTTPException, partial(_reply_to_routing_failure, build_reply, route_list))
    direct = DirectRouter(
        app,
        {row.path: partial(service.serve_create, row.endpoint) for row in direct_endpoints},
        {row.path: WebSocketApp(service, row.endpoint, settings) for row in direct_endpoints if row.has_socket},
        build_reply,
    )
    reloader = Reloader(service, lifetimes)
    check = CrossSiteCheck(settings.server, lambda: service.settings.auth is not None, build_reply)
    inner: ASGIApp = direct
    if settings.server.cors is not None:
        inner = _allow_origins(direct, settings.server.cors)
    labels = _label_routes(routers, [row.path for row in direct_endpoints])
    if traces is not None:
        traces.routes = labels
    if metrics is None:
        return Application(RequestMiddleware(inner, check.find_refusal, watch), reloader)
    metrics.reader.routes = labels
    unlogged = metrics.build_main_port_apps(service, check.find_refusal, build_reply)
    return Application(RequestMiddleware(inner, check.find_refusal, watch, unlogged), reloader)


def _allow_origins(app: ASGIApp, cors: CorsSettings) -> ASGIApp:
    return CORSMiddleware(
        app,
        allow_origins=list(cors.origins),
        allow_methods=["*"],
        allow_headers=["*"],
        expose_headers=[
            "x-request-id",
            "x-upstream-request-id",
            "request-id",
            "x-gateway-loss",
            UPSTREAM_HEADER,
            ATTEMPTS_HEADER,
        ],
    )


def _label_routes(routers: Sequence[APIRouter], direct_paths: Sequence[str]) -> RouteLabels:
    """Returns the labels that requests to routes for POST are counted by."""
    templates = [
        route.path
        for router in routers
        for route in router.routes
        if isinstance(route, APIRoute) and "POST" in (route.methods or ())
    ]
    of_models = [path for path in templates if _MODEL_PARAMETER in path]
    return RouteLabels(templates, [*direct_paths, *of_models, *(row.path for row in RELAYED_PATHS)])


def _build_store(settings: Settings) -> Store | None:
    if settings.store.url is None:
        return None
    from gateway.state.sql.store import SqlStore  # imports SQLAlchemy, a quarter of an idle process's memory

    needs_vectors = settings.tools.file_search.embeddings is not None
    return SqlStore(settings.store, settings.background, needs_vectors=needs_vectors)


async def _reply_to_failure(build_reply: ErrorReplyBuilder, request: Request, error: Exception) -> Response:
    if isinstance(error, ClientDisconnected):
        return Response(status_code=CLIENT_LEFT)
    return build_reply(error, request.scope)


async def _reply_to_routing_failure(
    build_reply: ErrorReplyBuilder, routes: Sequence[Route], request: Request, error: Exception
) -> Response:
    if not isinstance(error, HTTPException):
        raise error
    path = request.url.path
    where = f"{request.method} {path:.200}"
    if error.status_code == 404:
        suggestion = _suggest_path(routes, path)
        hint = f": did you mean {suggestion}?" if suggestion is not None else ""
        return build_reply(errors.NotFound(f"there is no {where}{hint}"), request.scope)
    if error.status_code == 405:
        allowed = {"allow": ", ".join(sorted(_allowed_methods(routes, request)))}
        return build_reply(errors.MethodNotAllowed(f"there is no {where}", headers=allowed), request.scope)
    return build_reply(errors.NotJson(str(error.detail)), request.scope)


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
    return methods | {"HEAD"} if "GET" in methods else methods
