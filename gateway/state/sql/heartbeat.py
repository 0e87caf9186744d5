"""Writes the lease by which a replica shows that it is alive."""

from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway.state.database.database import Database
from gateway.state.database.tables import workers


async def upsert_lease(connection: AsyncConnection, database: Database, worker: str, *, lease_s: float) -> None:
    """Set the worker's lease to expire `lease_s` seconds from now, by the database's clock."""
    insert = sqlite.insert if database.is_sqlite else postgresql.insert
    alive_until = {"alive_until_us": database.now_us() + int(lease_s * 1_000_000)}
    await connection.execute(
        insert(workers)
        .values(id=worker, **alive_until)
        .on_conflict_do_update(index_elements=[workers.c.id], set_=alive_until)
    )
