"""The connections of one owner to MCP servers are bounded, and do not count for others."""

import asyncio
import time

import pytest

from gateway.tools.mcp.errors import McpFault
from gateway.tools.mcp_tools import session_limits
from gateway.tools.mcp_tools.session_limits import SessionLimits

TURN_S = 0.3
"""Longer than what a busy machine takes for the turns of the loop in which the first connections are opened."""


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


async def test_connections_of_one_owner_are_opened_in_turns_and_do_not_wait_for_those_of_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(session_limits, "_TURN_S", TURN_S)
    limits = SessionLimits(100)
    opened: list[str] = []

    async def open_connection(owner: str) -> None:
        limits.begin(owner)
        await limits.take_turn(owner, 5)
        opened.append(owner)

    began = time.monotonic()
    async with asyncio.TaskGroup() as tasks:
        for owner in ["one"] * 40 + ["two"]:
            tasks.create_task(open_connection(owner))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert opened == ["one"] * 8 + ["two"]
    assert len(opened) == 41
    assert time.monotonic() - began >= 4 * TURN_S - 0.05, "five turns have four pauses between them"


async def test_a_connection_that_waits_too_long_for_its_turn_is_a_timeout() -> None:
    limits = SessionLimits(100)
    limits.begin("one")
    for _ in range(8):
        await limits.take_turn("one", 5)
    with pytest.raises(McpFault, match=r"for 0\.001 s"):
        await limits.take_turn("one", 0.001)
