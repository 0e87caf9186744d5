"""Deletes expired objects from the store, periodically, while the server runs."""

import asyncio
import random
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Final

import structlog

from gateway.config.settings import StoreSettings as StoreSettings
from gateway.files.blob_keeper import BlobKeeper
from gateway.logs import log_round_faults
from gateway.state.owner_data import Retention

_log = structlog.get_logger(__name__)

_DAY_S: Final = 86_400
_JITTER: Final = 0.5
"""Each wait is up to this share shorter or longer, so that replicas started together do not sweep together."""


async def sweep_forever(retention: Retention, settings: StoreSettings, blobs: BlobKeeper | None = None) -> None:
    """Deletes expired objects, and `blobs` that no file has, about every `settings.sweep_s` seconds, until
    cancelled. Survives a database outage."""
    while True:
        await asyncio.sleep(settings.sweep_s * random.uniform(1 - _JITTER, 1 + _JITTER))
        with log_round_faults(_log, "sweep_failed"):
            deleted = await retention.delete_expired(before=int(time.time() - settings.ttl_days * _DAY_S))
            if blobs is not None:
                await blobs.remove_unused()
            if deleted:
                _log.info("expired_objects_deleted", count=deleted)


@asynccontextmanager
async def run_sweeper(
    retention: Retention, settings: StoreSettings, blobs: BlobKeeper | None = None
) -> AsyncGenerator[None, None]:
    """Runs `sweep_forever` until the block ends. Before it, removes what uploads have left whose server died."""
    if blobs is not None:
        await blobs.remove_strays()
    async with asyncio.TaskGroup() as group:
        task = group.create_task(sweep_forever(retention, settings, blobs))
        try:
            yield
        finally:
            task.cancel()
