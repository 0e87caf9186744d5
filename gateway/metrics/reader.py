"""Counts requests and attempts by their figures: plain numbers, put into lists once at each end."""

from collections.abc import Callable, Mapping
from operator import attrgetter
from time import perf_counter_ns
from typing import Final, TypeAlias

from gateway.config.settings import Settings
from gateway.histograms import Histogram
from gateway.logs import FAILED_UPSTREAM
from gateway.metrics.labels import NONE, OTHER, ModelLabels, RouteLabels, find_first_part
from gateway.metrics.recent import RecentRequests, RequestLabels
from gateway.metrics.samples import Count, Series
from gateway.replies.request_figures import RequestFigures
from gateway.upstreams.outcomes import ResultName
from translation.representation.events import Usage

_NS: Final = 1e-9

_READ_INPUT: Final[Callable[[Usage], int | None]] = attrgetter("input")
_READ_OUTPUT: Final[Callable[[Usage], int | None]] = attrgetter("output")
_READ_CACHED: Final[Callable[[Usage], int | None]] = attrgetter("cache_read")
_READ_REASONING: Final[Callable[[Usage], int | None]] = attrgetter("reasoning")

_OVERLOADED: Final = "upstream_overloaded"

_OK: Final = 200
_TOO_MANY: Final = 429
_CLIENT_ERROR: Final = 400
_SERVER_ERROR: Final = 500
_CLIENT_LEFT: Final = 499


UpstreamLabels: TypeAlias = tuple[str, str, bool]
"""Model, upstream, and whether its turns are shared."""


_MAX_WAITING: Final = 64
"""So many values wait in a list at most. More would push what requests use out of the processor's caches."""


class RequestCell:
    """What requests with the same labels add to. New times wait in lists until `add_up`."""

    __slots__ = ("_count", "_overhead", "_seconds", "labels", "overheads", "times")

    def __init__(self, series: Series, labels: RequestLabels) -> None:
        self.labels = labels
        route, model, upstream, outcome, streams = labels
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

    def end_attempt(
        self,
        figures: RequestFigures,
        elapsed_ns: int,
        result: ResultName | None,
        usage: Usage | None,
        *,
        is_last: bool,
    ) -> None:
        self.in_flight -= 1
        if usage is not None:
            self.usages.append(usage)
        if result == "ok":
            self.times.append(elapsed_ns)
        elif result is not None:
            self.add_attempts(result, [elapsed_ns])
        if is_last and figures.first_content and figures.streams:
            self.first_content_times.append(figures.first_content - figures.began)
            if usage is not None and usage.output is not None and usage.output > 1:
                self.intervals.append((perf_counter_ns() - figures.first_content) // (usage.output - 1))
        if len(self.times) >= _MAX_WAITING or len(self.usages) >= _MAX_WAITING:
            self.add_up()

    def add_attempts(self, result: ResultName, times: list[int]) -> None:
        """Counts attempts that have ended with the same result, and empties the list of their times."""
        self._series.count("gateway_attempts_total", self.model, self.upstream, result).value += len(times)
        kind = "ok" if result == "ok" else "failed"
        add_times(self._series.histogram("gateway_attempt_seconds", self.upstream, kind), times)

    def add_up(self) -> None:
        if self.times:
            self.add_attempts("ok", self.times)
        if self.usages:
            # Without a step of the interpreter for each usage.
            self._input.value += sum(filter(None, map(_READ_INPUT, self.usages)))
            self._output.value += sum(filter(None, map(_READ_OUTPUT, self.usages)))
            self._cached.value += sum(filter(None, map(_READ_CACHED, self.usages)))
            self._reasoning.value += sum(filter(None, map(_READ_REASONING, self.usages)))
            self.usages.clear()
        add_times(self._first_content, self.first_content_times)
        add_times(self._interval, self.intervals)


def add_times(histogram: Histogram, times: list[int]) -> None:
    """Adds times in nanoseconds to a histogram of seconds, and empties their list."""
    if times:
        histogram.observe_all(list(map(_NS.__mul__, times)))
        times.clear()


class MetricsReader:
    """Counts the requests of one server process by their figures.

    A request only appends its values to lists, and `add_up` adds them to the series once a second. Adding many values
    at once costs a fraction of adding each.
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
        self._request_cells: dict[RequestLabels, RequestCell] = {}
        self._upstream_cells: dict[UpstreamLabels, UpstreamCell] = {}

    def begin_stream(self, figures: RequestFigures) -> None:
        self.open_streams += 1

    def begin_attempt(self, figures: RequestFigures) -> UpstreamCell:
        key = (figures.model or OTHER, figures.upstream, figures.is_shared)
        cell = self._upstream_cells.get(key)
        if cell is None:
            cell = self._upstream_cells[key] = UpstreamCell(self.series, *key)
        cell.in_flight += 1
        return cell

    def end_request(self, figures: RequestFigures, status: int, elapsed_ns: int, fields: Mapping[str, object]) -> None:
        """Counts a request, unless it was not for a model. A job is counted instead of the request that submitted
        it."""
        kind, model = figures.kind, figures.model
        if figures.streams and kind != "job":
            self.open_streams -= 1
        has_failed = "error_status" in fields
        if kind == "submission" and not has_failed:
            return
        if has_failed:
            self._count_refusal(fields)
        scope, routes = figures.scope, self.routes
        route = routes.labels.get(scope["path"]) or routes.find(scope)
        if model is None:
            if isinstance(named := fields.get("model"), str):
                model = self._label_model(named)
            elif routes.is_for_model(scope, route):
                model = OTHER
            else:
                return
        recent = self.recent.latest
        outcome: str = figures.outcome
        if status != _OK or has_failed:
            outcome = self._find_outcome(figures, status, fields)
            recent = self.recent.choose(outcome)
        key = (route, model, figures.upstream or NONE, outcome, figures.streams)
        cell = self._request_cells.get(key)
        if cell is None:
            cell = self._request_cells[key] = RequestCell(self.series, key)
        cell.times.append(elapsed_ns)
        recent.append((figures, elapsed_ns, status, cell.labels, fields))
        if figures.attempt_count:
            cell.overheads.append(figures.overhead_ns)
        if len(cell.times) >= _MAX_WAITING:
            cell.add_up()
        if "losses" in fields and isinstance(losses := fields["losses"], list):
            for loss in losses:
                self.series.count("gateway_losses_total", find_first_part(loss)).value += 1

    def end_socket(self, fields: Mapping[str, object]) -> None:
        """Connections are not counted; a limit that refused one is."""
        self._count_refusal(fields)

    def _count_refusal(self, fields: Mapping[str, object]) -> None:
        if isinstance(limit := fields.get("limit"), str):
            self.series.count("gateway_limit_refusals_total", limit).value += 1

    def add_up(self) -> None:
        """Adds all new values to the series. It is called once a second, so that the lists stay short, and before the
        series are read."""
        for request_cell in self._request_cells.values():
            request_cell.add_up()
        for upstream_cell in self._upstream_cells.values():
            upstream_cell.add_up()

    def count_in_flight(self) -> dict[str, int]:
        """Returns the number of attempts in progress of names that do not share their turns, by upstream."""
        counts: dict[str, int] = {}
        for cell in list(self._upstream_cells.values()):
            if not cell.is_shared:
                counts[cell.upstream] = counts.get(cell.upstream, 0) + cell.in_flight
        return counts

    def _label_model(self, model: str) -> str:
        """Returns the name or pattern of the configuration that a name belongs to."""
        if (settings := self._find_settings()) is not self._settings:
            self._settings, self._models = settings, ModelLabels(settings.models)
        return self._models.find(model)

    def _find_outcome(self, figures: RequestFigures, status: int, fields: Mapping[str, object]) -> str:
        """Returns the outcome of a request that has failed, or that has another status than 200."""
        if isinstance(error_status := fields.get("error_status"), int):
            if error_status == _TOO_MANY or (fields.get("error") == _OVERLOADED and not figures.upstream):
                return "limited"
            if error_status < _SERVER_ERROR:
                return "client_error"
            return "upstream_error" if FAILED_UPSTREAM in fields else "failed"
        if status in (0, _CLIENT_LEFT) or figures.outcome == "client_gone":
            return "client_gone"
        if status >= _SERVER_ERROR:
            return "failed"
        return "client_error" if status >= _CLIENT_ERROR else figures.outcome
