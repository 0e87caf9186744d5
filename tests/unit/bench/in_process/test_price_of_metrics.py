"""The price of metrics is measured with metrics and without them, and for each way to record a request."""

import asyncio
from contextvars import copy_context

from bench.in_process.no_sockets import UpstreamLoop
from bench.in_process.price_of_metrics import measure_ratio, measure_recording


def test_a_request_is_measured_with_metrics_and_without() -> None:
    with asyncio.Runner(loop_factory=UpstreamLoop) as runner:
        ratio = runner.run(measure_ratio("bench-4", stream=True, blocks=2, requests=2))
    assert 0 < ratio < 100


def test_each_way_to_record_a_request_is_measured() -> None:
    costs = copy_context().run(measure_recording, requests=5, rounds=2)
    assert len(costs) == 3
    assert all(cost > 0 for name, cost in costs.items() if "library" in name)
