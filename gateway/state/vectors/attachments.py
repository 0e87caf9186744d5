"""Attaches files to vector stores, and to batches, as rows: as many at once as one request may name.

All of it is one transaction, in which no other owner writes on SQLite. So it takes a statement for some hundred files,
and not some for each.
"""

from collections.abc import Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any, Final

from sqlalchemy import Row, bindparam, insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway.errors import FileNotFound
from gateway.state.database.tables import (
    files,
    vector_batch_files,
    vector_store_batches,
    vector_store_files,
    vector_stores,
)
from gateway.state.records.files import has_not_expired
from gateway.state.row_values import dump_json, is_valid_id, read_clock_us
from gateway.state.vector_records import NewEntry, StoreEntry
from gateway.state.vectors.entries import NOT_INDEXED, build_entry, is_entry, list_for_removal

_IDS_PER_STATEMENT: Final = 500

_entries: Final = vector_store_files.c


async def attach_entries(
    connection: AsyncConnection, owner: str, store_id: str, entries: Sequence[NewEntry], batch_id: str | None
) -> Sequence[StoreEntry]:
    """Attaches files within a transaction that has locked the store, and returns their entries in the same order.

    A file that is attached already keeps its entry, unless its indexing had failed or was cancelled. Raises
    FileNotFound.
    """
    wanted = {entry.file_id: entry for entry in entries}
    await _require_files(connection, owner, list(wanted))
    attached: list[StoreEntry] = []
    if wanted:
        raised = (
            update(vector_stores)
            .where(vector_stores.c.owner == owner, vector_stores.c.id == store_id)
            .values(last_number=vector_stores.c.last_number + len(wanted))
            .returning(vector_stores.c.last_number)
        )
        first = (await connection.execute(raised)).scalar_one() - len(wanted) + 1
        numbers = {file_id: number for number, file_id in enumerate(wanted, first)}
        for file_ids in _cut(list(wanted)):
            before = await _load_rows(connection, owner, store_id, file_ids)
            await _write_entries(
                connection, owner, store_id, [wanted[file_id] for file_id in file_ids], before, numbers
            )
            after = await _load_rows(connection, owner, store_id, file_ids)
            attached += [build_entry(after[file_id]) for file_id in file_ids]
    if batch_id is not None:
        await connection.execute(
            insert(vector_store_batches).values(
                owner=owner, id=batch_id, store_id=store_id, created_us=read_clock_us(), cancelled=False
            )
        )
        rows = [{"owner": owner, "batch_id": batch_id, "file_id": file_id} for file_id in wanted]
        await connection.execute(insert(vector_batch_files), rows)
    return attached


async def _write_entries(
    connection: AsyncConnection,
    owner: str,
    store_id: str,
    entries: Sequence[NewEntry],
    before: Mapping[str, Row[Any]],
    numbers: Mapping[str, int],
) -> None:
    """Writes entries that do not exist, or whose indexing begins anew. `numbers` are those of new entries."""
    now_us = read_clock_us()
    new_rows: list[dict[str, Any]] = []
    restarted_rows: list[dict[str, Any]] = []
    for entry in entries:
        row = before.get(entry.file_id)
        values = _build_values(entry)
        if row is None:
            keys = {"owner": owner, "store_id": store_id, "file_id": entry.file_id}
            new_rows.append({**keys, **values, "number": numbers[entry.file_id], "created_us": now_us})
        elif row.status not in ("in_progress", "completed"):
            restarted_rows.append({**values, "restarted_id": entry.file_id})
    restarted_rows.sort(key=itemgetter("restarted_id"))  # in the order in which others lock them
    if new_rows:
        await connection.execute(insert(vector_store_files), new_rows)
    if restarted_rows:
        await list_for_removal(connection, [before[row["restarted_id"]] for row in restarted_rows])
        is_one = (is_entry(owner, store_id), _entries.file_id == bindparam("restarted_id"))
        await connection.execute(update(vector_store_files).where(*is_one), restarted_rows)


def _build_values(entry: NewEntry) -> dict[str, Any]:
    return {
        "status": "in_progress",
        "error_code": None,
        "error_message": None,
        "attributes": dump_json(dict(entry.attributes)),
        "max_tokens": entry.sizes.max_tokens,
        "overlap": entry.sizes.overlap,
        "tries": 0,
        **NOT_INDEXED,
    }


async def _load_rows(
    connection: AsyncConnection, owner: str, store_id: str, file_ids: Sequence[str]
) -> dict[str, Row[Any]]:
    query = select(vector_store_files).where(is_entry(owner, store_id), _entries.file_id.in_(file_ids))
    return {row.file_id: row for row in await connection.execute(query)}


async def _require_files(connection: AsyncConnection, owner: str, file_ids: Sequence[str]) -> None:
    """Raises FileNotFound for the first file that does not exist. The others cannot be deleted before this transaction
    ends."""
    existing: set[str] = set()
    for batch in _cut([file_id for file_id in file_ids if is_valid_id(file_id)]):
        query = select(files.c.id).where(files.c.owner == owner, files.c.id.in_(batch), has_not_expired())
        existing.update((await connection.scalars(query.with_for_update(read=True))).all())
    for file_id in file_ids:
        if file_id not in existing:
            raise FileNotFound(file_id)


def _cut(file_ids: Sequence[str]) -> Iterator[Sequence[str]]:
    for start in range(0, len(file_ids), _IDS_PER_STATEMENT):
        yield file_ids[start : start + _IDS_PER_STATEMENT]
