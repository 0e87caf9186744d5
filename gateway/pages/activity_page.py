"""What the home page shows of the server's work: upstreams, models, and requests of the last minutes, no content."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Final, TypeAlias

MAX_ENTRIES: Final = 200
"""The most requests on the page."""

_STATES: Final = {0: "available", 1: "parked", 2: "ejected"}
"""The states of upstreams by their numbers in the metrics. One on trial counts as ejected."""

_NEUTRAL_RESULTS: Final = frozenset({"ok", "client_gone", "rejected"})
"""Results of attempts that say nothing against an upstream."""

_FAILED_OUTCOMES: Final = frozenset({"upstream_error", "failed"})

FigureRow: TypeAlias = tuple[str, tuple[str, ...], float, Sequence[int]]
"""One figure of `/metrics`: its name, its labels, its value, and the counts of its buckets if it is a histogram."""


@dataclass(frozen=True, slots=True)
class Times:
    """How long something took, in seconds: the number of values, their median, and what 95 of 100 did not exceed.

    Both are estimates from the buckets of a histogram, and None without values.
    """

    count: int
    p50: float | None
    p95: float | None


@dataclass(frozen=True, slots=True)
class FailureCount:
    """The number of attempts with one result that is a failure."""

    result: str
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class UpstreamActivity:
    """What one upstream did, over all models."""

    name: str
    state: str
    """The worst state that any worker knows for any model; empty if its turns are not shared."""
    models: Sequence[str]
    """The models for which it is in that state, unless it is available."""
    in_flight: int
    attempts: int
    failed: int
    failures: Sequence[FailureCount]
    first_content: Times


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelActivity:
    """What became of the requests for one name or pattern."""

    name: str
    requests: int
    failed: int
    limited: int
    client_errors: int
    waiting: int
    """Turns that wait for a slot now."""
    first_content: Times
    seconds: Times


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestEntry:
    """One request that has ended. Times are in milliseconds, and None if they are not known."""

    ended_at: float
    """Seconds since 1970."""
    request_id: str
    client: str
    route: str
    model: str
    upstream: str
    outcome: str
    status: int
    error: str
    attempts: int
    tried: str
    """The results of the attempts before the last one."""
    total_ms: float
    upstream_ms: float
    queue_ms: float
    own_ms: float
    """The time that was neither an upstream's nor in the queue."""
    first_content_ms: float | None
    input_tokens: int | None
    output_tokens: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ActivityPage:
    """The read model. Counts are those of the last `seconds`; what is in progress is counted now."""

    seconds: float
    workers: int
    is_draining: bool
    streams_open: int
    waiting: int
    requests: int
    failed: int
    limited: int
    lost: bool
    """Whether figures are missing, because there are too many label sets."""
    upstreams: Sequence[UpstreamActivity]
    models: Sequence[ModelActivity]
    entries: Sequence[RequestEntry]
    """The newest first."""


def build_activity_page(
    now: Iterable[FigureRow],
    before: Iterable[FigureRow],
    entries: Iterable[RequestEntry],
    *,
    seconds: float,
    bounds: Sequence[float],
) -> ActivityPage:
    """Returns the read model of figures now and `seconds` earlier. `bounds` are those of the histograms, in seconds."""
    figures = _Figures(now, before)
    outcomes = figures.count_by("gateway_requests_total", 1, 3)
    every = sum(outcomes.values(), Counter[str]())
    waiting = figures.read_values("gateway_queued")
    return ActivityPage(
        seconds=seconds,
        workers=int(figures.read_values("gateway_workers").get((), 0)),
        is_draining=figures.read_values("gateway_draining").get((), 0) > 0,
        streams_open=int(figures.read_values("gateway_streams_open").get((), 0)),
        waiting=int(sum(waiting.values())),
        requests=every.total(),
        failed=_count_failed(every),
        limited=every["limited"],
        lost=figures.read_values("gateway_series_dropped_total").get((), 0) > 0,
        upstreams=_list_upstreams(figures, bounds),
        models=[
            _describe_model(name, outcomes.get(name, Counter()), int(waiting.get((name,), 0)), figures, bounds)
            for name in sorted(outcomes.keys() | {name for (name,), count in waiting.items() if count})
        ],
        entries=sorted(entries, key=lambda entry: -entry.ended_at)[:MAX_ENTRIES],
    )


class _Figures:
    """The figures of all workers, and how they have grown."""

    def __init__(self, now: Iterable[FigureRow], before: Iterable[FigureRow]) -> None:
        self._now: dict[str, dict[tuple[str, ...], tuple[float, Sequence[int]]]] = {}
        self._before = {(family, labels): (value, counts) for family, labels, value, counts in before}
        for family, labels, value, counts in now:
            self._now.setdefault(family, {})[labels] = value, counts

    def read_values(self, family: str) -> Mapping[tuple[str, ...], float]:
        """Returns the present values of a gauge, by labels."""
        return {labels: value for labels, (value, _) in self._now.get(family, {}).items()}

    def count_by(self, family: str, place: int, kind_place: int) -> dict[str, Counter[str]]:
        """Returns how a counter has grown: by the label at `place`, and then by the label at `kind_place`."""
        growth: dict[str, Counter[str]] = {}
        for labels, (value, _) in self._now.get(family, {}).items():
            grown = int(value - self._before.get((family, labels), (0.0, ()))[0])
            if grown > 0:  # a worker that died took its counts along
                growth.setdefault(labels[place], Counter())[labels[kind_place]] += grown
        return growth

    def measure(self, family: str, place: int, label: str, bounds: Sequence[float]) -> Times:
        """Returns the times that a histogram was given, of all its series with this label at `place`."""
        total = [0] * (len(bounds) + 1)
        for labels, (_, counts) in self._now.get(family, {}).items():
            if labels[place] == label:
                earlier = self._before.get((family, labels), (0.0, ()))[1] or [0] * len(counts)
                for index, (count, known) in enumerate(zip(counts, earlier, strict=True)):
                    total[index] += max(0, count - known)
        return Times(sum(total), estimate_quantile(bounds, total, 0.5), estimate_quantile(bounds, total, 0.95))


def estimate_quantile(bounds: Sequence[float], counts: Sequence[int], share: float) -> float | None:
    """Returns the value that `share` of all values do not exceed, as Prometheus estimates it; None without values.

    Values in one bucket count as spread evenly. Of those above all bounds only the last bound is known.
    """
    sums = list(accumulate(counts))
    if not sums[-1]:
        return None
    rank = share * sums[-1]
    index = next(index for index, known in enumerate(sums) if known >= rank)
    if index == len(bounds):
        return bounds[-1]
    lower, below = (bounds[index - 1], sums[index - 1]) if index else (0.0, 0)
    return lower + (bounds[index] - lower) * (rank - below) / counts[index]


def _list_upstreams(figures: _Figures, bounds: Sequence[float]) -> list[UpstreamActivity]:
    results = figures.count_by("gateway_attempts_total", 1, 2)
    states: dict[str, dict[str, int]] = {}
    for (model, upstream), state in figures.read_values("gateway_upstream_state").items():
        states.setdefault(upstream, {})[model] = int(state)
    in_flight = {upstream: int(count) for (upstream,), count in figures.read_values("gateway_in_flight").items()}
    upstreams = []
    for name in sorted(results.keys() | states.keys() | in_flight.keys()):
        counts = results.get(name, Counter())
        failures = [FailureCount(result, count) for result, count in counts.most_common()]
        failures = [each for each in failures if each.result not in _NEUTRAL_RESULTS]
        worst = max(states.get(name, {}).values(), default=None)
        upstreams.append(
            UpstreamActivity(
                name=name,
                state="" if worst is None else _STATES.get(worst, "ejected"),
                models=sorted(model for model, state in states.get(name, {}).items() if worst and state == worst),
                in_flight=in_flight.get(name, 0),
                attempts=counts.total(),
                failed=sum(each.count for each in failures),
                failures=failures,
                first_content=figures.measure("gateway_first_content_seconds", 1, name, bounds),
            )
        )
    return upstreams


def _describe_model(
    name: str, outcomes: Counter[str], waiting: int, figures: _Figures, bounds: Sequence[float]
) -> ModelActivity:
    return ModelActivity(
        name=name,
        requests=outcomes.total(),
        failed=_count_failed(outcomes),
        limited=outcomes["limited"],
        client_errors=outcomes["client_error"],
        waiting=waiting,
        first_content=figures.measure("gateway_first_content_seconds", 0, name, bounds),
        seconds=figures.measure("gateway_request_seconds", 0, name, bounds),
    )


def _count_failed(outcomes: Counter[str]) -> int:
    return sum(outcomes[outcome] for outcome in _FAILED_OUTCOMES)
