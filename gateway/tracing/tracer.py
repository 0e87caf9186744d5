"""Decides which requests become traces, and hands those to the exporter at their end."""

import random
from collections.abc import Callable, Mapping
from typing import Final, Protocol

from starlette.types import Scope

from gateway.config.telemetry_settings import TracingSettings
from gateway.http.headers import headers_of
from gateway.replies.request_figures import RequestFigures
from gateway.tracing.request_trace import RequestTrace
from gateway.tracing.trace_context import make_trace_id, read_parent

_SERVER_ERROR: Final = 500
_OK: Final = 200

_NS: Final = 1e-9


class TraceExporter(Protocol):
    """Sends traces. It must neither wait nor raise."""

    def export(
        self, trace: RequestTrace, figures: RequestFigures, status: int, elapsed_ns: int, fields: Mapping[str, object]
    ) -> None: ...


class RouteFinder(Protocol):
    """Finds the templates of paths."""

    def find(self, scope: Scope) -> str:
        """Returns the template of a request's path."""
        ...

    def is_for_model(self, scope: Scope, label: str) -> bool:
        """Whether a request with this template is for a model."""
        ...


class Tracer:
    """Traces the requests of one server process."""

    def __init__(
        self,
        settings: TracingSettings,
        exporter: TraceExporter,
        is_traced: Callable[[RequestFigures], bool] = lambda _: True,
        draw: Callable[[], float] = random.random,
    ) -> None:
        """`is_traced` says whether requests with such figures have traces. `draw` returns a random number below 1."""
        self._is_traced = is_traced
        self._sample = settings.sample
        self._slow_ns = None if settings.slow_s is None else int(settings.slow_s / _NS)
        self._exporter = exporter
        self._draw = draw

    def begin_trace(self, scope: Scope) -> RequestTrace:
        """Returns the trace of a request that has arrived."""
        if b"traceparent" in (headers := headers_of(scope)) and (parent := read_parent(headers)) is not None:
            trace = RequestTrace(self, f"{parent.trace_id:032x}", is_sampled=parent.is_sampled)
            trace.parent, trace.has_remote_parent = parent, True
            return trace
        return RequestTrace(self, make_trace_id(), is_sampled=self._draw() < self._sample)

    def begin_job_trace(self) -> RequestTrace:
        """Returns the trace of a job whose request this process does not know."""
        return RequestTrace(self, make_trace_id(), is_sampled=self._draw() < self._sample)

    def end_trace(
        self, trace: RequestTrace, figures: RequestFigures, status: int, elapsed_ns: int, fields: Mapping[str, object]
    ) -> None:
        """Exports the trace, if it was sampled, or is kept because the request failed or was slow."""
        if not trace.is_sampled:
            is_usual = status == _OK and "error_status" not in fields
            if trace.has_remote_parent or (is_usual and (self._slow_ns is None or elapsed_ns <= self._slow_ns)):
                return
            if not self._is_notable(status, elapsed_ns, fields):
                return
        if self._is_traced(figures):
            self._exporter.export(trace, figures, status, elapsed_ns, fields)

    def _is_notable(self, status: int, elapsed_ns: int, fields: Mapping[str, object]) -> bool:
        if self._slow_ns is not None and elapsed_ns > self._slow_ns:
            return True
        return is_failure(status, fields) or (status == _OK and "error_status" in fields)


def is_failure(status: int, fields: Mapping[str, object]) -> bool:
    """Whether a request ended with an error from 500 on, or had one after its reply began."""
    error_status = fields.get("error_status")
    return status >= _SERVER_ERROR or (isinstance(error_status, int) and error_status >= _SERVER_ERROR)
