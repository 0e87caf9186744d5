"""Writes to a store that may be unavailable for a while."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Final

from gateway.errors import StoreUnavailable

_DELAYS_S: Final = (0.05, 1.0)
"""The first delay between two attempts, and the longest."""


async def retry_write(write: Callable[[], Awaitable[None]], max_outage_s: float) -> None:
    """Writes, and retries while the store is unavailable. Raises StoreUnavailable once that has lasted so long."""
    deadline = time.monotonic() + max_outage_s
    delay_s, longest_s = _DELAYS_S
    while True:
        try:
            return await write()
        except StoreUnavailable:
            if time.monotonic() + delay_s > deadline:
                raise
        await asyncio.sleep(delay_s)
        delay_s = min(delay_s * 2, longest_s)
