"""Implements the commands `erase` and `export`, which handle all stored objects of one owner."""

from contextlib import aclosing
from typing import BinaryIO

import orjson

from gateway.config.settings import Settings
from gateway.state.sql.store import SqlStore


async def erase_owner(settings: Settings, owner: str) -> int:
    """Deletes everything of an owner. Returns how many objects were deleted. Raises StoreUnavailable."""
    async with aclosing(SqlStore(settings.store, settings.background)) as store:
        await store.open()
        return await store.owner_data.erase_owner(owner)


async def export_owner(settings: Settings, owner: str, output: BinaryIO) -> None:
    """Writes everything of an owner to `output`, one JSON object per line. Raises StoreUnavailable."""
    async with aclosing(SqlStore(settings.store, settings.background)) as store:
        await store.open()
        async with aclosing(store.owner_data.export_owner(owner)) as objects:
            async for stored_object in objects:
                output.write(orjson.dumps(stored_object) + b"\n")
        output.flush()
