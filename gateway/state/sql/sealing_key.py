"""The key that seals what clients carry, where the configuration has none."""

from typing import Final

from sqlalchemy import select
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway.sealing.sealer import new_key
from gateway.state.database.tables import sealing_keys

_ID: Final = "first"


async def sealing_key(connection: AsyncConnection) -> bytes:
    """The same for whoever uses the database; made by the first who asks, in a transaction that writes."""
    kept = select(sealing_keys.c.key).where(sealing_keys.c.id == _ID)
    found: bytes | None = await connection.scalar(kept)
    if found is None:
        insert = sqlite.insert if connection.dialect.name == "sqlite" else postgresql.insert
        made = insert(sealing_keys).values(id=_ID, key=new_key())
        # Of several that come first at once one wins, and the others wait for it and read what it wrote.
        await connection.execute(made.on_conflict_do_nothing())
        found = (await connection.execute(kept)).scalar_one()
    return found
