"""Waiting for what has no event to wait for."""

import asyncio
from collections.abc import Callable

DEADLINE_S = 10.0
_POLL_S = 0.01


async def eventually(claim: Callable[[], bool]) -> None:
    """Returns once the claim is true; fails when it does not become so."""
    async with asyncio.timeout(DEADLINE_S):
        while not claim():  # noqa: ASYNC110  # the claim is about what tells nobody
            await asyncio.sleep(_POLL_S)
