"""Counts requests and attempts from the moments of requests: plain numbers, recorded once at each end."""

import sys
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from time import perf_counter_ns
from typing import Final, TypeAlias

from starlette.types import Scope

from gateway.config.settings import Settings
from gateway.errors import TurnFailed
from gateway.histograms import Histogram
from gateway.http.guard import ClientDisconnected
from gateway.logs import FAILED_UPSTREAM
from gateway.metrics.labels import NONE, OTHER, ModelLabels, RouteLabels, find_first_part
from gateway.metrics.samples import Count, Series
from gateway.replies.observers import LOG_OBSERVER, ReplyEnd, RequestObserver
from gateway.upstreams.outcomes import ResultName, find_outcome
from translation.representation.events import Usage

_NS: Final = 1e-9

_LIMIT_KEYS: Final[Mapping[str, str]] = {
    "too_many_open_requests": "limits.open_requests",
    "too_many_websockets": "limits.websockets",
    "too_many_background_jobs": "limits.background_jobs",
    "event_log_full": "limits.event_log_mb",
    "too_many_idempotency_keys": "limits.idempotency_keys",
}
"""Code of a refusal by a limit of the gateway -> the limit's key in the configuration."""

_QUEUE_KEY: Final = "routing.queue_s"
_OVERLOADED: Final = "upstream_overloaded"

_TOO_MANY: Final = 429
_CLIENT_ERROR: Final = 400
_SERVER_ERROR: Final = 500
_CLIENT_LEFT: Final = 499

_CURRENT: ContextVar["RequestFigures | None"] = ContextVar("request_figures", default=None)


RequestLabels: TypeAlias = tuple[str, str, str, str, str]
"""Route, model, upstream, outcome, and whether it streams."""


class RequestCell:
    """What requests with the same labels add to."""

    __slots__ = ("count", "overhead", "seconds")

    def __init__(self, series: Series, route: str, model: str, upstream: str, outcome: str, stream: str) -> None:
        self.count: Count = series.count("gateway_requests_total", route, model, upstream, outcome)
        self.seconds: Histogram = series.histogram("gateway_request_seconds", model, stream)
        self.overhead: Histogram = series.histogram("gateway_overhead_seconds", route)


class UpstreamCell:
    """What replies of one upstream for one name add to."""

    __slots__ = ("cached", "first_content", "input", "interval", "output", "reasoning")

    def __init__(self, series: Series, model: str, upstream: str) -> None:
        def count(kind: str) -> Count:
            return series.count("gateway_tokens_total", model, upstream, kind)

        self.input, self.output = count("input"), count("output")
        self.cached, self.reasoning = count("cached"), count("reasoning")
        self.first_content = series.histogram("gateway_first_content_seconds", model, upstream)
        self.interval = series.histogram("gateway_output_interval_seconds", model, upstream)

    def add_usage(self, usage: Usage) -> None:
        if usage.input is not None:
            self.input.value += usage.input
        if usage.output is not None:
            self.output.value += usage.output
        if usage.cache_read is not None:
            self.cached.value += usage.cache_read
        if usage.reasoning is not None:
            self.reasoning.value += usage.reasoning


class AttemptCell:
    """What attempts with the same labels add to."""

    __slots__ = ("count", "seconds")

    def __init__(self, series: Series, model: str, upstream: str, result: ResultName) -> None:
        self.count = series.count("gateway_attempts_total", model, upstream, result)
        self.seconds = series.histogram("gateway_attempt_seconds", upstream, "ok" if result == "ok" else "failed")


class MetricsObserver:
    """Watches the requests of one server process, and counts them. The log gets what it had without it."""

    def __init__(self, series: Series, find_settings: Callable[[], Settings]) -> None:
        """`find_settings` returns the present settings."""
        self.series = series
        self.open_streams = 0
        self.in_flight: dict[str, int] = {}
        """Attempts in progress of names that do not share their turns, by upstream."""
        self.routes = RouteLabels()
        self._find_settings = find_settings
        self._settings: Settings | None = None
        self._models = ModelLabels(())
        self._request_cells: dict[RequestLabels, RequestCell] = {}
        self._upstream_cells: dict[tuple[str, str], UpstreamCell] = {}
        self._attempt_cells: dict[tuple[str, str, ResultName], AttemptCell] = {}

    def begin_request(self, began_ns: int) -> "RequestFigures":
        """Returns the figures of a request that has arrived, which its context has from now on."""
        figures = RequestFigures(self, began_ns)
        _CURRENT.set(figures)
        return figures

    def observe_request(self, endpoint: str, model: str, *, streams: bool, is_shared: bool) -> RequestObserver:
        figures = _CURRENT.get()
        if figures is None or figures.has_ended or figures.model is not None:
            figures = RequestFigures(self, perf_counter_ns())
        elif streams:
            self.open_streams += 1
        figures.model = self.label_model(model)
        figures.streams = streams
        figures.is_shared = is_shared
        return figures

    def label_model(self, model: str) -> str:
        """Returns the name or pattern of the configuration that a name belongs to."""
        if (settings := self._find_settings()) is not self._settings:
            self._settings, self._models = settings, ModelLabels(settings.models)
        return self._models.find(model)

    def find_request_cell(self, key: RequestLabels) -> RequestCell:
        if (cell := self._request_cells.get(key)) is None:
            cell = self._request_cells[key] = RequestCell(self.series, *key)
        return cell

    def find_upstream_cell(self, model: str, upstream: str) -> UpstreamCell:
        key = (model, upstream)
        if (cell := self._upstream_cells.get(key)) is None:
            cell = self._upstream_cells[key] = UpstreamCell(self.series, model, upstream)
        return cell

    def add_attempt(self, model: str, upstream: str, result: ResultName, seconds: float) -> None:
        key = (model, upstream, result)
        if (cell := self._attempt_cells.get(key)) is None:
            cell = self._attempt_cells[key] = AttemptCell(self.series, model, upstream, result)
        cell.count.value += 1
        cell.seconds.observe(seconds)

    def add_refusal(self, code: object, *, was_sent: bool) -> None:
        """Counts a refusal by one of the gateway's limits. Other failures are not counted."""
        key = _LIMIT_KEYS.get(code) if isinstance(code, str) else None
        if key is None and code == _OVERLOADED and not was_sent:
            key = _QUEUE_KEY
        if key is not None:
            self.series.count("gateway_limit_refusals_total", key).value += 1


class RequestFigures:
    """The numbers of one request, until its end. It observes the request too."""

    __slots__ = (
        "_attempt_began",
        "_first_content",
        "_meter",
        "_upstream_ns",
        "began",
        "has_ended",
        "has_left",
        "is_cut_off",
        "is_shared",
        "model",
        "streams",
        "upstream",
    )

    def __init__(self, meter: MetricsObserver, began_ns: int) -> None:
        self._meter = meter
        self.began = began_ns
        self.model: str | None = None
        self.upstream = ""
        self.streams = False
        self.is_shared = False
        self.is_cut_off = False
        self.has_left = False
        self.has_ended = False
        self._attempt_began = 0
        self._first_content = 0
        self._upstream_ns = 0

    def observe_attempt(self, provider: str, number: int) -> None:
        LOG_OBSERVER.observe_attempt(provider, number)
        self.upstream = provider
        self._attempt_began = perf_counter_ns()
        if not self.is_shared:
            in_flight = self._meter.in_flight
            in_flight[provider] = in_flight.get(provider, 0) + 1

    def observe_head(self) -> None:
        return

    def observe_model(self, model: str) -> None:
        LOG_OBSERVER.observe_model(model)

    def observe_content(self) -> None:
        self._first_content = perf_counter_ns()

    def observe_end(self, end: ReplyEnd) -> None:
        LOG_OBSERVER.observe_end(end)
        began, self._attempt_began = self._attempt_began, 0
        if not began or self.model is None:
            return
        now = perf_counter_ns()
        self._upstream_ns += now - began
        # Replies end in `finally` blocks, whose exception is the failure of the attempt. Nobody else has it there.
        error = sys.exception()
        self.has_left = isinstance(error, ClientDisconnected)
        self.is_cut_off = end.is_cut_off
        meter, upstream = self._meter, self.upstream
        if not self.is_shared:
            meter.in_flight[upstream] -= 1
            meter.add_attempt(self.model, upstream, self._find_result(error, end), (now - began) * _NS)
        cell = meter.find_upstream_cell(self.model, upstream)
        if end.usage is not None:
            cell.add_usage(end.usage)
        if self.streams and self._first_content:
            cell.first_content.observe((self._first_content - self.began) * _NS)
            if end.usage is not None and end.usage.output is not None and end.usage.output > 1:
                cell.interval.observe((now - self._first_content) * _NS / (end.usage.output - 1))
            self._first_content = 0

    def _find_result(self, error: BaseException | None, end: ReplyEnd) -> ResultName:
        """Returns the result of an attempt, by the exception that ended it or the failure in its reply."""
        if error is None:
            if end.failed is None:
                return "ok"
            error = TurnFailed(end.failed)
        outcome = find_outcome(error) if isinstance(error, Exception) else None
        if outcome is None:
            return "client_gone"
        return "cut" if self._first_content else outcome.result

    def end(self, scope: Scope, status: int, elapsed_ns: int, fields: Mapping[str, object]) -> None:
        """Records the request, whose log line has these fields. Requests that no model answers are not counted."""
        self.has_ended = True
        meter = self._meter
        route = meter.routes.find(scope)
        model = self.model
        if model is not None:
            if self.streams:
                meter.open_streams -= 1
        elif isinstance(named := fields.get("model"), str):
            model = meter.label_model(named)
        elif not meter.routes.is_for_model(scope, route):
            return
        error_status = fields.get("error_status")
        upstream = self.upstream
        if not upstream and (error_status is None or FAILED_UPSTREAM in fields) and self.model is None:
            provider = fields.get("provider")  # of a path that is only relayed
            upstream = provider if isinstance(provider, str) else ""
        outcome = self._find_outcome(status, error_status, fields)
        stream = "true" if self.streams else "false"
        cell = meter.find_request_cell((route, model or OTHER, upstream or NONE, outcome, stream))
        cell.count.value += 1
        cell.seconds.observe(elapsed_ns * _NS)
        queue_ms = fields.get("queue_ms")
        queue_ns = queue_ms * 1e6 if isinstance(queue_ms, float | int) else 0
        if self.upstream:
            cell.overhead.observe(max(0, elapsed_ns - self._upstream_ns - queue_ns) * _NS)
        if error_status is not None:
            meter.add_refusal(fields.get("error"), was_sent=bool(self.upstream))
        if isinstance(losses := fields.get("losses"), list):
            for loss in losses:
                meter.series.count("gateway_losses_total", find_first_part(loss)).value += 1

    def _find_outcome(self, status: int, error_status: object, fields: Mapping[str, object]) -> str:
        if isinstance(error_status, int):
            if error_status == _TOO_MANY or (fields.get("error") == _OVERLOADED and not self.upstream):
                return "limited"
            if error_status < _SERVER_ERROR:
                return "client_error"
            return "upstream_error" if FAILED_UPSTREAM in fields else "failed"
        if self.has_left or status in (0, _CLIENT_LEFT):
            return "client_gone"
        if status >= _SERVER_ERROR:
            return "failed"
        if status >= _CLIENT_ERROR:
            return "client_error"
        return "incomplete" if self.is_cut_off else "ok"
