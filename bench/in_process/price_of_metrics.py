"""Measures what metrics add to a short request: `python -m bench.in_process.price_of_metrics`.

The whole server runs without sockets, with metrics and without them, in alternating blocks of requests. Then the values
of one request are recorded alone, as the gateway does it and with the instruments of `prometheus-client`.
"""

import gc
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from contextvars import copy_context
from functools import partial
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Histogram
from starlette.types import Scope

from bench.in_process.bytecodes import compare_bytecodes
from bench.in_process.no_sockets import InProcessClient, run_upstream_loop
from gateway.config.settings import Settings
from gateway.histograms import OVERHEAD_BOUNDS, SECONDS_BOUNDS
from gateway.metrics.labels import RouteLabels
from gateway.metrics.reader import MetricsReader
from gateway.metrics.samples import Series
from gateway.replies.observers import ReplyEnd
from gateway.replies.request_figures import RequestWatch
from translation.representation.events import Usage

_SCENARIOS: Final = {"not streaming": ("bench-128", False), "4 deltas": ("bench-4", True)}

_PATH: Final = "/v1/responses"
_SCOPE: Final[Scope] = {"type": "http", "method": "POST", "path": _PATH}
_END: Final = ReplyEnd(Usage(input=5, output=128))


async def measure_ratio(model: str, *, stream: bool, blocks: int, requests: int) -> float:
    """Returns the CPU of a request with metrics, as a multiple of one without: the median of the pairs of blocks.

    It must run on an `UpstreamLoop`.
    """
    return await compare([InProcessClient(model, stream=stream, counts=on) for on in (True, False)], blocks, requests)


async def compare(clients: Sequence[InProcessClient], blocks: int, requests: int) -> float:
    """Returns the CPU of a request of the first client, as a multiple of one of the second: the median of the pairs of
    blocks. It must run on an `UpstreamLoop`."""
    for client in clients:
        for _ in range(requests):
            await client.ask()
        client.check()
    gc.collect()
    gc.freeze()  # as the server does after its start
    ratios: list[float] = []
    for block in range(blocks):
        costs = {client: await _measure_block(client, requests) for client in clients[:: 1 if block % 2 else -1]}
        ratios.append(costs[clients[0]] / costs[clients[1]])
    return statistics.median(ratios)


async def _measure_block(client: InProcessClient, requests: int) -> int:
    began = time.thread_time_ns()
    for _ in range(requests):
        await client.ask()
    return time.thread_time_ns() - began


def measure_recording(requests: int = 1000, rounds: int = 20) -> dict[str, float]:
    """Returns the µs of recording one request, without what its log line takes, by the way of recording it."""
    meter = MetricsReader(Series(), lambda: Settings.model_validate({"store": {"url": None}}))
    meter.routes = RouteLabels([_PATH], [_PATH])
    record_by_library = _build_library_recorder()

    def observe(watch: RequestWatch) -> None:
        figures = watch.begin_request(_SCOPE, time.perf_counter_ns())
        watch.observe_request("responses", "m", streams=False, is_shared=False)
        figures.observe_attempt("upstream", 1, "m")
        figures.observe_end(_END)
        figures.end(200, time.perf_counter_ns() - figures.began, {})

    record, log = partial(observe, RequestWatch(meter)), partial(observe, RequestWatch())

    recording = adding = logging = library = float("inf")
    for _ in range(rounds):
        recording = min(recording, _time_step(record, requests))
        adding = min(adding, _time_step(meter.add_up, 1) / requests)
        logging = min(logging, _time_step(log, requests))
        library = min(library, _time_step(record_by_library, requests))
    return {
        "values of a request put into lists": recording - logging,
        "the lists added up, for each request": adding,
        "the same values with the library's instruments, whose children are kept": library,
    }


def _time_step(step: Callable[[], None], times: int) -> float:
    """Returns the µs of a step that runs so many times."""
    began = time.thread_time_ns()
    for _ in range(times):
        step()
    return (time.thread_time_ns() - began) / times / 1e3


def _build_library_recorder() -> Callable[[], None]:
    """Returns a function that records the same values with instruments of the library, found by one lookup."""
    registry = CollectorRegistry()
    labels = (_PATH, "m", "upstream", "ok")
    count = Counter("requests", "-", ("route", "model", "upstream", "outcome"), registry=registry)
    attempts = Counter("attempts", "-", ("model", "upstream", "result"), registry=registry)
    tokens = Counter("tokens", "-", ("model", "upstream", "kind"), registry=registry)
    seconds = Histogram("seconds", "-", ("model", "stream"), buckets=SECONDS_BOUNDS, registry=registry)
    attempt_seconds = Histogram(
        "attempt_seconds", "-", ("upstream", "result"), buckets=SECONDS_BOUNDS, registry=registry
    )
    overhead = Histogram("overhead", "-", ("route",), buckets=OVERHEAD_BOUNDS, registry=registry)
    children = {
        labels: (
            count.labels(*labels),
            attempts.labels("m", "upstream", "ok"),
            tokens.labels("m", "upstream", "input"),
            tokens.labels("m", "upstream", "output"),
            seconds.labels("m", "false"),
            attempt_seconds.labels("upstream", "ok"),
            overhead.labels(_PATH),
        )
    }

    def record() -> None:
        began = time.perf_counter()
        counted, tried, read, written, whole, attempt, own = children[labels]
        attempt_began = time.perf_counter()
        tried.inc()
        read.inc(5)
        written.inc(128)
        took = time.perf_counter() - attempt_began
        attempt.observe(took)
        counted.inc()
        total = time.perf_counter() - began
        whole.observe(total)
        own.observe(total - took)

    return record


async def _print_ratios() -> None:
    for name, (model, stream) in _SCENARIOS.items():
        clients = [InProcessClient(model, stream=stream, counts=on) for on in (True, False)]
        print(f"{await compare_bytecodes(clients)} bytecodes, with metrics and without: a request, {name}")
        ratio = await measure_ratio(model, stream=stream, blocks=200, requests=60)
        print(f"{ratio:7.3f} x without metrics: a request, {name}")


def main() -> int:
    with run_upstream_loop() as runner:
        runner.run(_print_ratios())
        for step, cost in copy_context().run(measure_recording).items():
            print(f"{cost:7.2f} µs  {step}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
