"""The last requests of one worker, and its figures of the last minutes, for the home page."""

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, NamedTuple, Protocol, TypeAlias

from gateway.metrics.labels import NONE
from gateway.metrics.samples import Sample, WorkerSamples
from gateway.pages.activity_page import RequestEntry

_MAX_REQUESTS: Final = 100
"""So many of the latest requests are kept, and so many of those that failed."""

_MARK_PERIOD_S: Final = 30.0
_MAX_MARKS: Final = 10
"""The figures of earlier times that are kept: those of the last five minutes."""

_MAX_SAMPLES: Final = 2000
"""The most samples of one time."""

_PAGE_FAMILIES: Final = frozenset(
    {
        "gateway_requests_total",
        "gateway_request_seconds",
        "gateway_first_content_seconds",
        "gateway_attempts_total",
        "gateway_in_flight",
        "gateway_upstream_state",
        "gateway_queued",
        "gateway_streams_open",
        "gateway_draining",
        "gateway_workers",
        "gateway_series_dropped_total",
    }
)

_SUCCESSES: Final = frozenset({"ok", "incomplete", "client_gone"})

_NS: Final = 1e-9
_MS: Final = 1e-6


RequestLabels: TypeAlias = tuple[str, str, str, str, bool]
"""Route, model, upstream, outcome, and whether it streams."""


class RequestTimes(Protocol):
    """Times of one request, in nanoseconds."""

    @property
    def began(self) -> int: ...
    @property
    def upstream_ns(self) -> int: ...
    @property
    def content_ns(self) -> int: ...


RecentRequest: TypeAlias = tuple[RequestTimes, int, int, RequestLabels, Mapping[str, object]]
"""One request that has ended: its times, its nanoseconds in all, its status, its labels, and the fields of its log
line, which have no content. It is a plain tuple, because one is made for each request."""


class RecentRequests:
    """The latest requests, and the latest that failed. Successes cannot push failures out."""

    def __init__(self) -> None:
        self.latest: deque[RecentRequest] = deque(maxlen=_MAX_REQUESTS)
        self._failed: deque[RecentRequest] = deque(maxlen=_MAX_REQUESTS)

    def choose(self, outcome: str) -> deque[RecentRequest]:
        """Returns where a request with this outcome is kept."""
        return self.latest if outcome in _SUCCESSES else self._failed

    def list_entries(self) -> list[RequestEntry]:
        """Returns what the page shows of them."""
        offset = time.time() - time.perf_counter_ns() * _NS
        return [_describe_request(each, offset) for each in (*self.latest, *self._failed)]


class WorkerActivity(NamedTuple):
    """The activity of one worker, as the page needs it."""

    now: WorkerSamples
    before: WorkerSamples
    """The figures as they were `seconds` ago; empty if the worker did not run yet."""
    seconds: float
    entries: Sequence[RequestEntry]


class ActivityLog:
    """The requests and the figures of one worker in the last minutes."""

    def __init__(
        self,
        take_snapshot: Callable[[], Awaitable[WorkerSamples]],
        requests: RecentRequests,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`take_snapshot` returns all figures as they are now."""
        self._requests = requests
        self._take_snapshot = take_snapshot
        self._clock = clock
        self._marks: deque[tuple[float, WorkerSamples]] = deque([(clock(), ())], maxlen=_MAX_MARKS)

    async def take_activity(self) -> WorkerActivity:
        """Returns what is known now."""
        now = await self._take_samples()
        marked_at, before = self._marks[0]
        return WorkerActivity(now, before, self._clock() - marked_at, self._requests.list_entries())

    async def add_mark(self) -> None:
        """Remembers the figures as they are now."""
        samples = await self._take_samples()
        self._marks.append((self._clock(), samples))

    async def add_marks(self) -> None:
        """Adds a mark every 30 seconds, for ever."""
        while True:
            await asyncio.sleep(_MARK_PERIOD_S)
            await self.add_mark()

    async def _take_samples(self) -> list[Sample]:
        return [sample for sample in await self._take_snapshot() if sample.family in _PAGE_FAMILIES][:_MAX_SAMPLES]


def _describe_request(request: RecentRequest, offset: float) -> RequestEntry:
    times, elapsed, status, (route, _, upstream, outcome, _), fields = request
    queue = read_queue_ns(fields)
    return RequestEntry(
        ended_at=(times.began + elapsed) * _NS + offset,
        request_id=_read_text(fields, "request_id") or _read_text(fields, "response"),
        client=_read_text(fields, "client"),
        route=route,
        model=_read_text(fields, "model"),
        upstream="" if upstream == NONE else upstream,
        outcome=outcome,
        status=_read_count(fields, "error_status") or status,
        error=_read_text(fields, "error"),
        attempts=_read_count(fields, "attempts") or 0,
        tried=_describe_tried(fields.get("tried")),
        total_ms=elapsed * _MS,
        upstream_ms=times.upstream_ns * _MS,
        queue_ms=queue * _MS,
        own_ms=max(0, elapsed - times.upstream_ns - queue) * _MS,
        first_content_ms=times.content_ns * _MS or None,
        input_tokens=_read_count(fields, "input_tokens"),
        output_tokens=_read_count(fields, "output_tokens"),
    )


def read_queue_ns(fields: Mapping[str, object]) -> int:
    """Returns the nanoseconds in the queue, by the log line of a request."""
    queue_ms = fields.get("queue_ms")
    return int(queue_ms * 1e6) if isinstance(queue_ms, float | int) else 0


def _describe_tried(tried: object) -> str:
    """Returns the upstreams that were tried before the last attempt, with the results."""
    if not isinstance(tried, list):
        return ""
    return ", ".join(f"{each.get('upstream')}: {each.get('result')}" for each in tried[:-1] if isinstance(each, dict))


def _read_text(fields: Mapping[str, object], name: str) -> str:
    value = fields.get(name)
    return value if isinstance(value, str) else ""


def _read_count(fields: Mapping[str, object], name: str) -> int | None:
    value = fields.get(name)
    return value if isinstance(value, int) else None
