"""Files of vector stores as rows: conditions, counts and values, and their removal from the index."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

import orjson
from sqlalchemy import ColumnElement, Row, and_, delete, func, select
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway.retrieval.chunks import ChunkSizes
from gateway.state.database.tables import vector_batch_files, vector_removals, vector_store_files
from gateway.state.vector_records import FileCounts, StoreEntry

SECOND_US: Final = 1_000_000

NOT_INDEXED: Final = {"attempt": 0, "chunks": 0, "terms": 0, "bytes": 0, "leased_us": 0}
"""The values of an entry without chunks, which no process indexes: attempts that began before have another number."""

_IDS_PER_STATEMENT: Final = 500

_Id: TypeAlias = str | ColumnElement[str]

_entries: Final = vector_store_files.c


def is_entry(owner: _Id, store_id: _Id, file_id: str | None = None) -> ColumnElement[bool]:
    """Returns the condition for the entries of a store, or for one of them."""
    condition = and_(_entries.owner == owner, _entries.store_id == store_id)
    return condition if file_id is None else and_(condition, _entries.file_id == file_id)


def is_current(
    owner: _Id, store_id: _Id, file_id: ColumnElement[str], attempt: ColumnElement[int]
) -> ColumnElement[bool]:
    """Returns the condition that an attempt of indexing a file is the one that completed."""
    return (
        select(_entries.file_id)
        .where(
            _entries.owner == owner,
            _entries.store_id == store_id,
            _entries.file_id == file_id,
            _entries.attempt == attempt,
            _entries.status == "completed",
        )
        .exists()
    )


def build_entry(row: Row[Any]) -> StoreEntry:
    """Returns the entry of a row of `vector_store_files`."""
    return StoreEntry(
        file_id=row.file_id,
        store_id=row.store_id,
        created_at=row.created_us // SECOND_US,
        status=row.status,
        sizes=ChunkSizes(row.max_tokens, row.overlap),
        usage_bytes=row.bytes,
        error=None if row.error_code is None else (row.error_code, row.error_message),
        attributes=orjson.loads(row.attributes),
    )


async def count_entries(
    connection: AsyncConnection, owner: str, store_ids: Sequence[str]
) -> Mapping[str, tuple[FileCounts, int]]:
    """Returns, for each store with files, how many have each status, and the bytes of their chunks."""
    query = (
        select(_entries.store_id, _entries.status, func.count(), func.sum(_entries.bytes))
        .where(_entries.owner == owner, _entries.store_id.in_(store_ids))
        .group_by(_entries.store_id, _entries.status)
    )
    counts: defaultdict[str, dict[str, int]] = defaultdict(dict)
    sizes: defaultdict[str, int] = defaultdict(int)
    for store_id, status, count, size in await connection.execute(query):
        counts[store_id][status] = count
        sizes[store_id] += int(size)
    return {store_id: (FileCounts(**found_counts), sizes[store_id]) for store_id, found_counts in counts.items()}


async def count_batch(connection: AsyncConnection, owner: str, batch_id: str, store_id: str) -> FileCounts:
    """Returns how many files of a batch have each status. Files that were detached count no more."""
    query = (
        select(_entries.status, func.count())
        .join(
            vector_batch_files,
            and_(
                vector_batch_files.c.owner == _entries.owner,
                vector_batch_files.c.batch_id == batch_id,
                vector_batch_files.c.file_id == _entries.file_id,
            ),
        )
        .where(is_entry(owner, store_id))
        .group_by(_entries.status)
    )
    return FileCounts(**dict((await connection.execute(query)).all()))


async def list_for_removal(connection: AsyncConnection, rows: Iterable[Any]) -> None:
    """Lists the chunks of entries for removal within a transaction. `rows` have the keys and the attempt."""
    removed = [
        {"owner": row.owner, "store_id": row.store_id, "file_id": row.file_id, "attempt": row.attempt}
        for row in rows
        if row.attempt
    ]
    insert = sqlite.insert if connection.dialect.name == "sqlite" else postgresql.insert
    for start in range(0, len(removed), _IDS_PER_STATEMENT):
        batch = removed[start : start + _IDS_PER_STATEMENT]
        await connection.execute(insert(vector_removals).on_conflict_do_nothing(), batch)


async def lock_entries(connection: AsyncConnection, condition: ColumnElement[bool]) -> Sequence[Any]:
    """Locks entries within a transaction, in the order of their keys. Returns these and the attempts.

    Whoever locks a store too does that first.
    """
    keys = (_entries.owner, _entries.store_id, _entries.file_id)
    query = select(*keys, _entries.attempt).where(condition).order_by(*keys).with_for_update()
    return (await connection.execute(query)).all()


async def delete_entries(connection: AsyncConnection, condition: ColumnElement[bool]) -> int:
    """Deletes entries within a transaction. From then on no search finds their chunks. Returns how many existed."""
    if connection.dialect.name == "postgresql":
        await lock_entries(connection, condition)
    deleted = delete(vector_store_files).where(condition)
    rows = (
        await connection.execute(
            deleted.returning(_entries.owner, _entries.store_id, _entries.file_id, _entries.attempt)
        )
    ).all()
    await list_for_removal(connection, rows)
    return len(rows)


async def detach_deleted_files(connection: AsyncConnection, keys: Sequence[tuple[str, str]]) -> None:
    """Takes files that are deleted, by (owner, id), out of every vector store, in the same transaction."""
    ids: defaultdict[str, list[str]] = defaultdict(list)
    for owner, file_id in keys:
        ids[owner].append(file_id)
    for owner, file_ids in ids.items():
        for start in range(0, len(file_ids), _IDS_PER_STATEMENT):
            batch = file_ids[start : start + _IDS_PER_STATEMENT]
            await delete_entries(connection, and_(_entries.owner == owner, _entries.file_id.in_(batch)))
