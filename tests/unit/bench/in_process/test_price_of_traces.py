"""The price of traces is measured with traces and without them."""

import asyncio

from bench.in_process.no_sockets import UpstreamLoop
from bench.in_process.price_of_traces import measure_price


def test_a_request_is_measured_with_traces_and_without() -> None:
    with asyncio.Runner(loop_factory=UpstreamLoop) as runner:
        ratio = runner.run(measure_price("bench-4", stream=True, sample=1, blocks=2, requests=2))
    assert 0 < ratio < 100
