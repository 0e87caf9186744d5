"""Stores the key that seals values which clients carry. It is used if the configuration sets no key."""

from typing import Final

from sqlalchemy import select
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway.sealing.sealer import new_key
from gateway.state.database.tables import sealing_keys

_KEY_ID: Final = "first"


async def load_or_create_sealing_key(connection: AsyncConnection) -> bytes:
    """Return the key that all users of the database share. The first call creates it.

    The connection is in a transaction that can write.
    """
    select_key = select(sealing_keys.c.key).where(sealing_keys.c.id == _KEY_ID)
    key: bytes | None = await connection.scalar(select_key)
    if key is None:
        insert = sqlite.insert if connection.dialect.name == "sqlite" else postgresql.insert
        insert_key = insert(sealing_keys).values(id=_KEY_ID, key=new_key())
        # If several processes insert at once, one succeeds; the others wait for it and then read its key.
        await connection.execute(insert_key.on_conflict_do_nothing())
        key = (await connection.execute(select_key)).scalar_one()
    return key
