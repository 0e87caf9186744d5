"""Counts requests and attempts from the moments of requests: plain numbers, put into lists once at each end."""

import sys
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from functools import partial
from time import perf_counter_ns
from typing import Final, TypeAlias

from starlette.types import Scope

from gateway.config.settings import Settings
from gateway.errors import TurnFailed
from gateway.histograms import Histogram
from gateway.http.guard import ClientDisconnected
from gateway.logs import FAILED_UPSTREAM, bind_fields, bind_usage
from gateway.metrics.labels import NONE, OTHER, ModelLabels, RouteLabels, find_first_part
from gateway.metrics.recent import RecentRequests, RequestLabels, read_queue_ns
from gateway.metrics.samples import Count, Series
from gateway.replies.observers import LogObserver, ReplyEnd, RequestObserver, bind_problems
from gateway.upstreams.outcomes import ResultName, find_outcome
from translation.representation.events import Failed, Usage

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

_OK: Final = 200
_TOO_MANY: Final = 429
_CLIENT_ERROR: Final = 400
_SERVER_ERROR: Final = 500
_CLIENT_LEFT: Final = 499

_CURRENT: ContextVar["RequestFigures | None"] = ContextVar("request_figures", default=None)


UpstreamLabels: TypeAlias = tuple[str, str, bool]
"""Model, upstream, and whether its turns are shared."""


class RequestCell:
    """What requests with the same labels add to. New times wait in lists until `add_up`."""

    __slots__ = ("_count", "_overhead", "_seconds", "overheads", "times")

    def __init__(self, series: Series, route: str, model: str, upstream: str, outcome: str, streams: bool) -> None:
        self._count: Count = series.count("gateway_requests_total", route, model, upstream, outcome)
        self._seconds: Histogram = series.histogram("gateway_request_seconds", model, "true" if streams else "false")
        self._overhead: Histogram = series.histogram("gateway_overhead_seconds", route)
        self.times: list[int] = []
        self.overheads: list[int] = []

    def add_up(self) -> None:
        if self.times:
            self._count.value += len(self.times)
            add_times(self._seconds, self.times)
            add_times(self._overhead, self.overheads)


class UpstreamCell:
    """What replies of one upstream for one name add to. New values wait in lists until `add_up`."""

    __slots__ = (
        "_cached",
        "_first_content",
        "_input",
        "_interval",
        "_output",
        "_reasoning",
        "_series",
        "first_content_times",
        "in_flight",
        "intervals",
        "is_shared",
        "model",
        "times",
        "upstream",
        "usages",
    )

    def __init__(self, series: Series, model: str, upstream: str, is_shared: bool) -> None:
        def count(kind: str) -> Count:
            return series.count("gateway_tokens_total", model, upstream, kind)

        self.model, self.upstream = model, upstream
        self.is_shared = is_shared
        """Whether turns are shared between upstreams. They count their attempts themselves."""
        self.in_flight = 0
        self.times: list[int] = []
        """The times of attempts that succeeded."""
        self.usages: list[Usage] = []
        self.first_content_times: list[int] = []
        self.intervals: list[int] = []
        self._series = series
        self._input, self._output = count("input"), count("output")
        self._cached, self._reasoning = count("cached"), count("reasoning")
        self._first_content = series.histogram("gateway_first_content_seconds", model, upstream)
        self._interval = series.histogram("gateway_output_interval_seconds", model, upstream)

    def add_attempts(self, result: ResultName, times: list[int]) -> None:
        """Counts attempts that have ended with the same result, and empties the list of their times."""
        self._series.count("gateway_attempts_total", self.model, self.upstream, result).value += len(times)
        kind = "ok" if result == "ok" else "failed"
        add_times(self._series.histogram("gateway_attempt_seconds", self.upstream, kind), times)

    def add_up(self) -> None:
        if self.is_shared:
            self.times.clear()
        elif self.times:
            self.add_attempts("ok", self.times)
        if self.usages:
            self._input.value += sum(usage.input or 0 for usage in self.usages)
            self._output.value += sum(usage.output or 0 for usage in self.usages)
            self._cached.value += sum(usage.cache_read or 0 for usage in self.usages)
            self._reasoning.value += sum(usage.reasoning or 0 for usage in self.usages)
            self.usages.clear()
        add_times(self._first_content, self.first_content_times)
        add_times(self._interval, self.intervals)


def add_times(histogram: Histogram, times: list[int]) -> None:
    """Adds times in nanoseconds to a histogram of seconds, and empties their list."""
    if times:
        histogram.observe_all([time * _NS for time in times])
        times.clear()


class MetricsObserver:
    """Watches the requests of one server process, and counts them. The log gets what it had without it.

    A request only puts its values into lists, and `add_up` adds them to the series: of many at once, that costs a
    fraction.
    """

    def __init__(self, series: Series, find_settings: Callable[[], Settings]) -> None:
        """`find_settings` returns the present settings."""
        self.series = series
        self.open_streams = 0
        self.routes = RouteLabels()
        self.recent = RecentRequests()
        self._find_settings = find_settings
        self._settings: Settings | None = None
        self._models = ModelLabels(())
        self.request_cells: dict[RequestLabels, RequestCell] = {}
        self.upstream_cells: dict[UpstreamLabels, UpstreamCell] = {}
        self.begin_request = partial(RequestFigures, self)
        """Returns the figures of a request that has arrived."""

    def observe_request(self, endpoint: str, model: str, *, streams: bool, is_shared: bool) -> RequestObserver:
        figures = _CURRENT.get()
        if figures is None or figures.model is not None:
            figures = RequestFigures(self, perf_counter_ns())
        elif streams:
            self.open_streams += 1
        figures.model = model
        figures.streams = streams
        figures.is_shared = is_shared
        return figures

    def label_model(self, model: str) -> str:
        """Returns the name or pattern of the configuration that a name belongs to."""
        if (settings := self._find_settings()) is not self._settings:
            self._settings, self._models = settings, ModelLabels(settings.models)
        return self._models.find(model)

    def add_request_cell(self, key: RequestLabels) -> RequestCell:
        """Makes a cell, and returns it."""
        cell = self.request_cells[key] = RequestCell(self.series, *key)
        return cell

    def add_upstream_cell(self, key: UpstreamLabels) -> UpstreamCell:
        """Makes a cell, and returns it."""
        cell = self.upstream_cells[key] = UpstreamCell(self.series, *key)
        return cell

    def add_up(self) -> None:
        """Adds all new values to the series. It is called once a second, so that the lists stay short, and before the
        series are read."""
        for request_cell in self.request_cells.values():
            request_cell.add_up()
        for upstream_cell in self.upstream_cells.values():
            upstream_cell.add_up()

    def count_in_flight(self) -> dict[str, int]:
        """Returns the number of attempts in progress of names that do not share their turns, by upstream."""
        counts: dict[str, int] = {}
        for cell in list(self.upstream_cells.values()):
            if not cell.is_shared:
                counts[cell.upstream] = counts.get(cell.upstream, 0) + cell.in_flight
        return counts

    def add_refusal(self, code: object, *, was_sent: bool) -> None:
        """Counts a refusal by one of the gateway's limits. Other failures are not counted."""
        key = _LIMIT_KEYS.get(code) if isinstance(code, str) else None
        if key is None and code == _OVERLOADED and not was_sent:
            key = _QUEUE_KEY
        if key is not None:
            self.series.count("gateway_limit_refusals_total", key).value += 1


class RequestFigures(LogObserver):
    """The numbers of one request, until its end, which its context has. It observes the request too.

    Fields that most requests do not have are attributes of the class until they are set.
    """

    model: str | None = None
    """The label of the model; None until the request is accepted."""
    upstream = ""
    streams = False
    is_shared = False
    outcome = "ok"
    """The outcome, as far as the end of the last attempt says it."""
    _cell: UpstreamCell | None = None
    _attempt_began = 0
    content_ns = 0
    """The time to first content of a stream, in nanoseconds; 0 if it had none."""
    upstream_ns = 0
    """The time of all attempts, in nanoseconds."""
    _first_content = 0

    def __init__(self, meter: MetricsObserver, began_ns: int) -> None:
        self._meter = meter
        self.began = began_ns
        _CURRENT.set(self)

    def observe_attempt(self, provider: str, number: int) -> None:
        bind_fields(provider=provider, attempts=number)
        self.upstream = provider
        if self.model is not None:
            key = (self.model, provider, self.is_shared)
            cell = self._meter.upstream_cells.get(key)
            if cell is None:
                cell = self._meter.add_upstream_cell(key)
            cell.in_flight += 1
            self._cell = cell
        self._attempt_began = perf_counter_ns()

    def observe_content(self) -> None:
        self._first_content = perf_counter_ns()

    def observe_end(self, end: ReplyEnd) -> None:
        usage, warnings, unreported, failed, is_cut_off = end
        if warnings or unreported or failed is not None:
            bind_problems(end)
        if usage is not None:
            bind_usage(usage)
        cell = self._cell
        if cell is None:
            return
        now = perf_counter_ns()
        took = now - self._attempt_began
        self._cell = None
        self.upstream_ns += took
        cell.in_flight -= 1
        if usage is not None:
            cell.usages.append(usage)
        # Replies end in `finally` blocks, whose exception is the failure of the attempt. Nobody else has it there.
        error = sys.exception()
        if error is None and failed is None:
            cell.times.append(took)
            self.outcome = "incomplete" if is_cut_off else "ok"
        else:
            self.outcome = "client_gone" if isinstance(error, ClientDisconnected) else "ok"
            if not cell.is_shared:
                cell.add_attempts(self._find_result(error, failed), [took])
        if self._first_content and self.streams:
            self.content_ns = content_ns = self._first_content - self.began
            cell.first_content_times.append(content_ns)
            if usage is not None and usage.output is not None and usage.output > 1:
                cell.intervals.append((now - self._first_content) // (usage.output - 1))
            self._first_content = 0

    def _find_result(self, error: BaseException | None, failed: Failed | None) -> ResultName:
        """Returns the result of an attempt that failed, by the exception that ended it or the failure in its reply."""
        if failed is not None and error is None:
            error = TurnFailed(failed)
        outcome = find_outcome(error) if isinstance(error, Exception) else None
        if outcome is None:
            return "client_gone"
        return "cut" if self._first_content else outcome.result

    def end(self, scope: Scope, status: int, elapsed_ns: int, fields: Mapping[str, object]) -> None:
        """Records the request, whose log line has these fields. Requests that no model answers are not counted."""
        meter, model, upstream = self._meter, self.model, self.upstream
        route = meter.routes.labels.get(scope["path"]) or meter.routes.find(scope)
        if model is None:
            self.model = OTHER  # what runs on in the context of this request is another one
            if isinstance(named := fields.get("model"), str):
                model = meter.label_model(named)
            elif meter.routes.is_for_model(scope, route):
                model = OTHER
            else:
                return
            provider = fields.get("provider")  # of a path that is only relayed
            if isinstance(provider, str) and ("error_status" not in fields or FAILED_UPSTREAM in fields):
                upstream = provider
        elif self.streams:
            meter.open_streams -= 1
        outcome, recent = self.outcome, meter.recent.latest
        if status != _OK or "error_status" in fields:
            outcome = self._find_outcome(status, fields)
            recent = meter.recent.choose(outcome)
        key = (route, model, upstream or NONE, outcome, self.streams)
        cell = meter.request_cells.get(key)
        if cell is None:
            cell = meter.add_request_cell(key)
        cell.times.append(elapsed_ns)
        recent.append((self, elapsed_ns, status, key, fields))
        if self.upstream:
            overhead = elapsed_ns - self.upstream_ns
            if "queue_ms" in fields:
                overhead -= read_queue_ns(fields)
            cell.overheads.append(overhead if overhead > 0 else 0)
        if "losses" in fields and isinstance(losses := fields["losses"], list):
            for loss in losses:
                meter.series.count("gateway_losses_total", find_first_part(loss)).value += 1

    def _find_outcome(self, status: int, fields: Mapping[str, object]) -> str:
        """Returns the outcome of a request that has failed, or that has another status than 200."""
        if isinstance(error_status := fields.get("error_status"), int):
            was_sent = bool(self.upstream)
            self._meter.add_refusal(fields.get("error"), was_sent=was_sent)
            if error_status == _TOO_MANY or (fields.get("error") == _OVERLOADED and not was_sent):
                return "limited"
            if error_status < _SERVER_ERROR:
                return "client_error"
            return "upstream_error" if FAILED_UPSTREAM in fields else "failed"
        if status in (0, _CLIENT_LEFT) or self.outcome == "client_gone":
            return "client_gone"
        if status >= _SERVER_ERROR:
            return "failed"
        return "client_error" if status >= _CLIENT_ERROR else self.outcome
