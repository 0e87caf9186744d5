"""The steps of a request that bench.inside tells of are there, and each takes some time."""

from bench.inside import measured


async def test_each_step_is_measured() -> None:
    steps = await measured(times=2)
    assert len(steps) == 4
    assert all(cost > 0 for cost in steps.values())
