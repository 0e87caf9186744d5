"""The key that seals what clients carry, where the configuration has none."""

from typing import Final

from sqlalchemy import select
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway.sealing.sealer import new_key
from gateway.state.database.tables import sealing_keys

_KEY_ID: Final = "first"


async def load_or_create_sealing_key(connection: AsyncConnection) -> bytes:
    """The same for whoever uses the database; made by the first who asks, in a transaction that writes."""
    select_key = select(sealing_keys.c.key).where(sealing_keys.c.id == _KEY_ID)
    found: bytes | None = await connection.scalar(select_key)
    if found is None:
        insert = sqlite.insert if connection.dialect.name == "sqlite" else postgresql.insert
        insert_key = insert(sealing_keys).values(id=_KEY_ID, key=new_key())
        # Of several that come first at once one wins, and the others wait for it and read what it wrote.
        await connection.execute(insert_key.on_conflict_do_nothing())
        found = (await connection.execute(select_key)).scalar_one()
    return found
