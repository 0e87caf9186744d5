"""Forgets what has been kept for its time, again and again, as long as the server runs."""

import asyncio
import random
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Final

import structlog

from gateway.config.settings import StoreSettings as StoreSettings
from gateway.errors import StoreUnavailable
from gateway.state.store import Retention

_log = structlog.get_logger(__name__)

_DAY_S: Final = 86_400
_JITTER: Final = 0.5
"""Replicas that started together do not sweep together: each wait is up to this part shorter or longer."""


async def sweep_forever(store: Retention, settings: StoreSettings) -> None:
    """Sweep every `sweep_s`, more or less. Outlives the database being down; ends by being cancelled."""
    while True:
        await asyncio.sleep(settings.sweep_s * random.uniform(1 - _JITTER, 1 + _JITTER))
        try:
            deleted = await store.delete_expired(before=int(time.time() - settings.ttl_days * _DAY_S))
        except StoreUnavailable:
            # The store has said so in the log; what is old can wait.
            continue
        except Exception:  # the next sweep may go well, and requests have nothing to do with it
            _log.exception("sweep_failed")
            continue
        if deleted:
            _log.info("swept", count=deleted)


@asynccontextmanager
async def run_sweeper(store: Retention, settings: StoreSettings) -> AsyncGenerator[None, None]:
    """Sweep as long as the block lasts."""
    async with asyncio.TaskGroup() as group:
        task = group.create_task(sweep_forever(store, settings))
        try:
            yield
        finally:
            task.cancel()
