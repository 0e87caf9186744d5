"""What the commands `erase` and `export` do with everything of one owner."""

from contextlib import aclosing
from typing import BinaryIO

import orjson

from gateway.config.settings import Settings
from gateway.state.sql.store import SqlStore


async def erase_owner(settings: Settings, owner: str) -> int:
    """Delete everything of an owner; how many objects it was. Raises StoreUnavailable."""
    async with aclosing(SqlStore(settings.store, settings.background)) as store:
        await store.open()
        return await store.erase_owner(owner)


async def export_owner(settings: Settings, owner: str, output: BinaryIO) -> None:
    """Write everything of an owner, one JSON object a line. Raises StoreUnavailable."""
    async with aclosing(SqlStore(settings.store, settings.background)) as store:
        await store.open()
        async with aclosing(store.export_owner(owner)) as objects:
            async for one in objects:
                output.write(orjson.dumps(one) + b"\n")
        output.flush()
