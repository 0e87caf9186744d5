"""Samples the values that other parts of a worker hold: upstreams and their turns, the process, the configuration."""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from gateway.metrics.families import PROCESS_FAMILIES
from gateway.metrics.reader import MetricsReader
from gateway.metrics.samples import Sample, WorkerSamples, sample_histogram
from gateway.service.service import Service
from gateway.upstreams.health import HealthState
from gateway.version import read_installed_version

_PERIOD_S: Final = 1.0

_STATE_VALUES: Final[dict[HealthState, int]] = {"available": 0, "parked": 1, "ejected": 2, "trial": 2}


_VERSION: Final = read_installed_version()


class WorkerFigures(NamedTuple):
    """All figures of one worker."""

    find_service: Callable[[], Service]
    reader: MetricsReader

    async def take_snapshot(self) -> WorkerSamples:
        """Returns all values as they are now."""
        self.reader.add_up()
        return await asyncio.to_thread(self._collect)  # it may take some milliseconds

    def _collect(self) -> WorkerSamples:
        service = self.find_service()
        return [
            *self.reader.series.take_samples(),
            *_sample_turns(service),
            *_sample_upstreams(service),
            *self._sample_loads(service),
            *self._sample_worker(service),
            *_sample_process(),
        ]

    def _sample_loads(self, service: Service) -> Iterator[Sample]:
        in_flight = self.reader.count_in_flight()
        for upstream, load in list(service.upstreams.loads.items()):
            in_flight[upstream] = in_flight.get(upstream, 0) + load.in_flight
        for upstream, count in in_flight.items():
            if count or upstream in service.settings.providers:  # others have left the configuration
                yield Sample("gateway_in_flight", (upstream,), count)

    def _sample_worker(self, service: Service) -> Iterator[Sample]:
        yield Sample("gateway_streams_open", (), self.reader.open_streams)
        for op, times in service.state.times.items():
            yield sample_histogram("gateway_store_seconds", (op,), times)
        yield Sample("gateway_draining", (), int(service.drain.stopping))
        yield Sample("gateway_workers", (), 1)
        yield Sample("gateway_build_info", (_VERSION,), 1)
        yield Sample("gateway_config_loaded_timestamp_seconds", (), service.loaded_at)
        yield Sample("gateway_config_stale", (), int(service.configuration_problem is not None))


def _sample_turns(service: Service) -> Iterator[Sample]:
    for model, state in list(service.upstreams.names.items()):
        counts = state.counts
        if len(state.waiting) or model in service.settings.models:
            yield Sample("gateway_queued", (model,), len(state.waiting))
        yield Sample("gateway_retry_budget_empty_total", (model,), counts.empty_budgets)
        yield sample_histogram("gateway_queue_seconds", (model,), counts.waits)
        for kind, count in list(counts.repetitions.items()):
            yield Sample("gateway_retries_total", (model, kind), count)
        for (upstream, result), attempts in list(counts.attempts.items()):
            yield Sample("gateway_attempts_total", (model, upstream, result), attempts.count)
            kind_of_end = "ok" if result == "ok" else "failed"
            yield sample_histogram("gateway_attempt_seconds", (upstream, kind_of_end), attempts.seconds)


def _sample_upstreams(service: Service) -> Iterator[Sample]:
    now = service.upstreams.clock()
    for model, upstreams in service.current.routing.list_healths().items():
        for upstream, healths in upstreams:
            states = [_STATE_VALUES[health.find_state(now)] for health in healths]
            # Clients choose the names of a pattern, so one that the upstream does not have must not stand for all.
            yield Sample("gateway_upstream_state", (model, upstream), min(states, default=_STATE_VALUES["available"]))
            ejections: Counter[str] = Counter()
            for health in healths:
                ejections.update(health.ejection_reasons)
            for reason, count in ejections.items():
                yield Sample("gateway_ejections_total", (model, upstream, reason), count)


def _sample_process() -> Iterator[Sample]:
    from prometheus_client import ProcessCollector  # at the first scrape: it takes memory

    for family in ProcessCollector(registry=None).collect():
        for sample in family.samples:
            if sample.name in PROCESS_FAMILIES:
                yield Sample(sample.name, (), sample.value)


async def add_up_regularly(reader: MetricsReader, clock: Callable[[], float] = time.monotonic) -> None:
    """Once a second, for ever, adds up new values, and measures by how much the event loop is late."""
    histogram = reader.series.histogram("gateway_event_loop_lag_seconds")
    while True:
        due = clock() + _PERIOD_S
        await asyncio.sleep(_PERIOD_S)
        histogram.observe(max(0.0, clock() - due))
        reader.add_up()
