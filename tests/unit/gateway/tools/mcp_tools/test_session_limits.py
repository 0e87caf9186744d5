"""The connections of one owner to MCP servers are bounded, and do not count for others."""

import asyncio

import pytest

from gateway.tools.mcp.errors import McpFault
from gateway.tools.mcp_tools.session_limits import SessionLimits


def test_an_owner_with_too_many_connections_gets_no_further_one() -> None:
    limits = SessionLimits(2)
    limits.begin("one")
    limits.begin("one")
    with pytest.raises(McpFault, match=r"2 connections .*tools\.mcp\.max_sessions") as refused:
        limits.begin("one")
    assert refused.value.kind == "too_many_sessions"
    limits.begin("two")
    limits.end("one")
    limits.begin("one")


async def test_lists_of_one_owner_wait_for_each_other_and_not_for_those_of_others() -> None:
    limits = SessionLimits(100)
    running: list[str] = []
    most = 0
    released = asyncio.Event()

    async def list_tools(owner: str) -> None:
        nonlocal most
        limits.begin(owner)
        async with limits.listing(owner, 5):
            running.append(owner)
            most = max(most, running.count("one"))
            if owner == "one":
                await released.wait()
            running.remove(owner)
        limits.end(owner)

    ours = [asyncio.create_task(list_tools("one")) for _ in range(40)]
    await asyncio.wait_for(list_tools("two"), 5)
    released.set()
    await asyncio.gather(*ours)
    assert most == 16


async def test_a_list_that_waits_too_long_is_a_timeout() -> None:
    limits = SessionLimits(100)
    async with asyncio.TaskGroup() as tasks:
        limits.begin("one")
        held = [tasks.create_task(_hold(limits)) for _ in range(16)]
        await asyncio.sleep(0)
        with pytest.raises(McpFault, match=r"did not answer within 0\.01 s"):
            async with limits.listing("one", 0.01):
                raise AssertionError("there was no place")
        for task in held:
            task.cancel()


async def _hold(limits: SessionLimits) -> None:
    async with limits.listing("one", 5):
        await asyncio.Event().wait()
