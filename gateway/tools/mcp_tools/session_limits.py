"""Bounds what the MCP servers that requests name may cost a process, for each owner of requests."""

import asyncio
from dataclasses import dataclass, field
from typing import Final

from gateway.tools.mcp.errors import McpFault

_AT_ONCE: Final = 8
_TURN_S: Final = 0.02
"""So many connections of one owner are opened in this time. The others wait."""


@dataclass(slots=True)
class _OwnerSessions:
    open_count: int = 0
    turns: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_AT_ONCE))


class SessionLimits:
    """Counts the connections that each owner has open to servers whose addresses requests give."""

    def __init__(self, max_open: int) -> None:
        self._max_open = max_open
        self._owners: dict[str, _OwnerSessions] = {}

    def begin(self, owner: str) -> None:
        """Counts a connection. Raises McpFault if the owner has too many."""
        sessions = self._owners.setdefault(owner, _OwnerSessions())
        if sessions.open_count >= self._max_open:
            raise McpFault(
                "too_many_sessions",
                f"{self._max_open} connections to MCP servers are open for this key (tools.mcp.max_sessions)",
            )
        sessions.open_count += 1

    def end(self, owner: str) -> None:
        """Counts the end of a connection that `begin` counted."""
        sessions = self._owners[owner]
        sessions.open_count -= 1
        if sessions.open_count == 0:
            del self._owners[owner]

    async def take_turn(self, owner: str, deadline_s: float) -> None:
        """Waits until the owner may open one more connection, which must be counted.

        Opening one takes milliseconds of the event loop, so that hundreds at once would hold up the requests of others.
        Slow servers hold up nobody: the next connection does not wait for their answers. Raises McpFault after the
        deadline.
        """
        turns = self._owners[owner].turns
        try:
            async with asyncio.timeout(deadline_s):
                await turns.acquire()
        except TimeoutError:
            raise McpFault("timeout", f"too many other connections were opened for {deadline_s:g} s") from None
        asyncio.get_running_loop().call_later(_TURN_S, turns.release)
