"""Bounds what the MCP servers that requests name may cost a process, for each owner of requests."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final

from gateway.tools.mcp.errors import McpFault

_LISTS_AT_ONCE: Final = 16
"""The number of servers whose tools are listed at once for one owner. The others wait."""


@dataclass(slots=True)
class _OwnerSessions:
    open_count: int = 0
    lists: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_LISTS_AT_ONCE))


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

    @asynccontextmanager
    async def listing(self, owner: str, deadline_s: float) -> AsyncGenerator[None, None]:
        """Waits until the owner may list the tools of one more server, so that a request with many of them does not
        hold up those of others. Raises McpFault after the deadline. The connection is counted."""
        lists = self._owners[owner].lists
        try:
            async with asyncio.timeout(deadline_s):
                await lists.acquire()
        except TimeoutError:
            raise McpFault("timeout", f"other servers of this key did not answer within {deadline_s:g} s") from None
        try:
            yield
        finally:
            lists.release()
