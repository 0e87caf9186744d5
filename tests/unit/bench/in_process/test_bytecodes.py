"""The bytecodes of a request are counted exactly, function by function."""

import asyncio

import pytest

from bench.in_process.bytecodes import COUNTED_REQUESTS, compare_bytecodes, count_bytecodes
from bench.in_process.no_sockets import InProcessClient, UpstreamLoop


@pytest.mark.parametrize("scenario", COUNTED_REQUESTS)
def test_a_request_of_each_scenario_is_counted(scenario: str) -> None:
    with asyncio.Runner(loop_factory=UpstreamLoop) as runner:
        counts = runner.run(count_bytecodes(scenario, requests=2, warm_up=2))
    names = {code.co_qualname for code in counts}
    assert "Service.serve_create" in names
    assert not {name for name in names if name.startswith(("InProcessClient", "_Upstream"))}


def test_what_a_part_of_the_server_adds_is_a_ratio() -> None:
    async def compare() -> str:
        clients = [InProcessClient("bench-4", stream=True, counts=counts) for counts in (True, False)]
        return await compare_bytecodes(clients, requests=2)

    with asyncio.Runner(loop_factory=UpstreamLoop) as runner:
        counts, ratio = runner.run(compare()).split(" = ")
    first, second = (int(count.replace(",", "")) for count in counts.split(" / "))
    assert first > second > 1000
    assert float(ratio) == pytest.approx(first / second, abs=0.001)
