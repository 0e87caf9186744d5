"""The bytecodes of a request are counted exactly, function by function."""

import asyncio

import pytest

from bench.in_process.bytecodes import COUNTED_REQUESTS, count_bytecodes
from bench.in_process.no_sockets import UpstreamLoop


@pytest.mark.parametrize("scenario", COUNTED_REQUESTS)
def test_a_request_of_each_scenario_is_counted(scenario: str) -> None:
    with asyncio.Runner(loop_factory=UpstreamLoop) as runner:
        counts = runner.run(count_bytecodes(scenario, requests=2, warm_up=2))
    names = {code.co_qualname for code in counts}
    assert "Service.serve_create" in names
    assert not {name for name in names if name.startswith(("InProcessClient", "_Upstream"))}
