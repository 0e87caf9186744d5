"""Stores uploads in parts in SQL."""

from collections import defaultdict
from collections.abc import Sequence

from sqlalchemy import and_, delete
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway.state.database.tables import upload_parts, uploads
from gateway.state.records.files import list_as_unused, reduce_usage


async def delete_uploads(connection: AsyncConnection, keys: Sequence[tuple[str, str]]) -> int:
    """Deletes the uploads with these keys (owner, id) and their parts, within a transaction.

    The blobs of the parts are unused then. Returns how many uploads existed.
    """
    deleted_count = 0
    ids: defaultdict[str, list[str]] = defaultdict(list)
    for owner, upload_id in sorted(keys):
        ids[owner].append(upload_id)
    for owner, upload_ids in ids.items():
        # The uploads first: a transaction that adds a part waits for their rows and then finds none.
        deleted = await connection.execute(
            delete(uploads).where(uploads.c.owner == owner, uploads.c.id.in_(upload_ids))
        )
        deleted_count += deleted.rowcount
        await delete_parts(connection, owner, upload_ids)
    return deleted_count


async def delete_parts(connection: AsyncConnection, owner: str, upload_ids: Sequence[str]) -> None:
    """Deletes all parts of uploads within a transaction. Their blobs are unused then."""
    is_part = and_(upload_parts.c.owner == owner, upload_parts.c.upload_id.in_(upload_ids))
    parts = delete(upload_parts).where(is_part).returning(upload_parts.c.id, upload_parts.c.bytes)
    rows = (await connection.execute(parts)).all()
    if rows:
        await list_as_unused(connection, owner, [row.id for row in rows])
        await reduce_usage(connection, owner, file_count=0, size=sum(row.bytes for row in rows))
