"""Every step of a request that bench.inside measures is in its result, and takes some time."""

import asyncio

from bench.inside import measure_steps
from bench.no_sockets import Loop


def test_each_step_is_measured() -> None:
    with asyncio.Runner(loop_factory=Loop) as runner:
        steps = runner.run(measure_steps(times=2))
    assert len(steps) == 8
    assert all(cost > 0 for name, cost in steps.items() if "delta," not in name)
