"""How responses go: at once to their owner, and from the tables when nothing needs them as history any more."""

from sqlalchemy import delete, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway.state.database.database import Database
from gateway.state.database.tables import events, items, jobs, responses
from gateway.state.sql.lineage import select_unreferenced
from gateway.state.store import ACTIVE_STATUSES


async def delete_response_rows(connection: AsyncConnection, database: Database, owner: str, response_id: str) -> bool:
    """Delete a response within a transaction; whether there was one. What a later response builds on stays unreadable,
    with its items only, and goes with the last of those."""
    await database.acquire_advisory_lock(connection, owner)
    marked = await connection.execute(
        update(responses)
        .where(responses.c.owner == owner, responses.c.id == response_id, ~responses.c.deleted)
        .values(deleted=True, worker=None, body="{}")
        .returning(responses.c.status)
    )
    status = marked.scalar_one_or_none()
    if status is None:
        return False
    if status in ACTIVE_STATUSES:
        await connection.execute(
            update(responses)
            .where(responses.c.owner == owner, responses.c.id == response_id)
            .values(status="cancelled")
        )
    for table in (events, jobs):
        await connection.execute(delete(table).where(table.c.owner == owner, table.c.response_id == response_id))
    child = select(responses.c.id).where(responses.c.owner == owner, responses.c.parent_id == response_id).limit(1)
    if (await connection.execute(child)).one_or_none() is None:
        unreferenced_ids = (
            (await connection.execute(select(select_unreferenced(owner, response_id).c.id))).scalars().all()
        )
        for start in range(0, len(unreferenced_ids), _IDS_PER_STATEMENT):
            part = unreferenced_ids[start : start + _IDS_PER_STATEMENT]
            await connection.execute(delete(items).where(items.c.owner == owner, items.c.response_id.in_(part)))
            await connection.execute(delete(responses).where(responses.c.owner == owner, responses.c.id.in_(part)))
    return True


_IDS_PER_STATEMENT = 1000
