"""Connects the parts of tracing in one worker: the one that begins traces, and the one that sends them."""

import asyncio
from collections.abc import Callable
from typing import Final

from starlette.types import Scope

from gateway.config.settings import Settings
from gateway.config.telemetry_settings import TracingSettings
from gateway.replies.request_figures import RequestFigures, RequestTracer
from gateway.tracing.export import SpanExporter
from gateway.tracing.tracer import RouteFinder, Tracer

_OTHER: Final = "other"


class _NoRoutes:
    def find(self, scope: Scope) -> str:
        return _OTHER

    def is_for_model(self, scope: Scope, label: str) -> bool:
        return False


class WorkerTraces:
    """The traces of one worker."""

    def __init__(self, settings: TracingSettings, find_settings: Callable[[], Settings]) -> None:
        """`find_settings` returns the present settings."""
        self.routes: RouteFinder = _NoRoutes()
        """Finds the templates of paths. It is replaced once the routes are known."""
        self._find_settings = find_settings
        self._exporter = SpanExporter(settings, self._find_provider_type, self._find_route)
        self.tracer: RequestTracer = Tracer(settings, self._exporter, self._is_traced)

    async def aclose(self) -> None:
        """Sends what is queued, and stops."""
        await asyncio.to_thread(self._exporter.close)

    def _find_route(self, figures: RequestFigures) -> str:
        return self.routes.find(figures.scope)

    def _is_traced(self, figures: RequestFigures) -> bool:
        """Whether a request was for a model. Others, such as those for health, have no trace."""
        scope = figures.scope
        return bool(figures.model) or self.routes.is_for_model(scope, self.routes.find(scope))

    def _find_provider_type(self, upstream: str) -> str:
        """Returns the type of an upstream's provider. Its name may be followed by that of a model."""
        providers = self._find_settings().providers
        provider = providers.get(upstream) or providers.get(upstream.partition(":")[0])
        return _OTHER if provider is None else provider.type
