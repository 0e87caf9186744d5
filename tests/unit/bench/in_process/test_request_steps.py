"""Every step of a request that bench.in_process.request_steps measures is in its result, and takes some time."""

import asyncio

from bench.in_process.no_sockets import UpstreamLoop
from bench.in_process.request_steps import measure_steps


def test_each_step_is_measured() -> None:
    with asyncio.Runner(loop_factory=UpstreamLoop) as runner:
        steps = runner.run(measure_steps(times=2))
    assert len(steps) == 8
    assert all(cost > 0 for name, cost in steps.items() if "delta," not in name)
