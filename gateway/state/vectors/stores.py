"""Stores vector stores, their files and their batches in SQL."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from sqlalchemy import ColumnElement, Row, Select, and_, delete, func, insert, select, update
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway.errors import VectorStoreExpired, VectorStoreQuotaExceeded
from gateway.retrieval.attribute_filters import AttributeValue
from gateway.state.database.database import Database
from gateway.state.database.tables import (
    files,
    vector_batch_files,
    vector_chunks,
    vector_store_batches,
    vector_store_files,
    vector_store_usage,
    vector_stores,
)
from gateway.state.records.files import has_not_expired
from gateway.state.row_values import dump_json, is_valid_id, parse_json, read_clock_us
from gateway.state.values import Page, PageRequest, UnknownCursor
from gateway.state.vector_records import (
    ChunkQuery,
    EntryStatus,
    FileCounts,
    NewEntry,
    NewVectorStore,
    ScoredChunks,
    StoredBatch,
    StoredVectorStore,
    StoreEntry,
    build_file_limit_error,
)
from gateway.state.vectors.attachments import attach_entries
from gateway.state.vectors.entries import (
    NOT_INDEXED,
    SECOND_US,
    build_entry,
    count_batch,
    count_entries,
    delete_entries,
    is_entry,
    list_for_removal,
    lock_entries,
)
from gateway.state.vectors.outdated_vectors import has_outdated
from gateway.state.vectors.search import StoreSearch
from gateway.state.vectors.term_index import choose_term_index
from gateway.state.vectors.vector_index import choose_vector_index
from translation.representation.json_types import Json

_DAY_US: Final = 86_400 * SECOND_US


class SqlVectorStores:
    """Implements `VectorStores` over one database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def create_store(self, owner: str, new: NewVectorStore, *, most: int) -> StoredVectorStore:
        now_us = read_clock_us()
        async with self._database.write_transaction(owner) as connection:
            number = await self._count_new_store(connection, owner, most)
            await connection.execute(
                insert(vector_stores).values(
                    owner=owner,
                    id=new.id,
                    number=number,
                    created_us=now_us,
                    name=new.name,
                    description=new.description,
                    metadata=None if new.metadata is None else dump_json(new.metadata),
                    expires_days=new.expires_after_days,
                    used_us=now_us,
                    expires_us=_compute_expiry(new.expires_after_days, now_us),
                    last_number=0,
                    swept=False,
                )
            )
            await choose_term_index(owner, new.id, is_sqlite=self._database.is_sqlite).create(connection)
            await attach_entries(connection, owner, new.id, new.entries, None)
            return await _require_store(connection, owner, new.id)

    async def load_store(self, owner: str, store_id: str) -> StoredVectorStore | None:
        if not is_valid_id(store_id):
            return None
        async with self._database.read_transaction(owner) as connection:
            return await _load_store(connection, owner, store_id)

    async def find_owners(self, store_ids: Collection[str]) -> Mapping[str, str]:
        query = select(vector_stores.c.id, vector_stores.c.owner).where(vector_stores.c.id.in_(_filter_ids(store_ids)))
        async with self._database.read_transaction() as connection:
            return {row.id: row.owner for row in await connection.execute(query)}

    async def find_known(self, owner: str, store_ids: Collection[str]) -> Collection[str]:
        ids = _filter_ids(store_ids)
        if not ids:
            return []
        query = select(vector_stores.c.id).where(vector_stores.c.owner == owner, vector_stores.c.id.in_(ids))
        async with self._database.read_transaction(owner) as connection:
            return (await connection.scalars(query)).all()

    async def list_stores(self, owner: str, page: PageRequest) -> Page:
        query = select(vector_stores).where(vector_stores.c.owner == owner)
        async with self._database.read_transaction(owner) as connection:
            rows, has_more = await _fetch_page(connection, query, vector_stores.c.number, vector_stores.c.id, page)
            counts = await count_entries(connection, owner, [row.id for row in rows])
        return Page([build_vector_store(row, counts.get(row.id)).render() for row in rows], has_more)

    async def update_store(self, owner: str, store_id: str, changes: Json) -> StoredVectorStore | None:
        if not is_valid_id(store_id):
            return None
        async with self._database.write_transaction(owner) as connection:
            row = await _lock_store(connection, owner, store_id)
            if row is None:
                return None
            values: dict[str, Any] = {}
            if "name" in changes:
                values["name"] = changes["name"]
            if "metadata" in changes:
                values["metadata"] = None if changes["metadata"] is None else dump_json(changes["metadata"])
            days = changes.get("expires_after_days", row.expires_days)
            values["expires_days"] = days
            if not _has_expired(row):
                values["used_us"] = now_us = read_clock_us()
                values["expires_us"] = _compute_expiry(days, now_us)
            await connection.execute(update(vector_stores).where(_is_store(owner, store_id)).values(values))
            return await _require_store(connection, owner, store_id)

    async def delete_store(self, owner: str, store_id: str) -> bool:
        if not is_valid_id(store_id):
            return False
        async with self._database.write_transaction(owner) as connection:
            return bool(await delete_vector_stores(connection, [(owner, store_id)]))

    async def attach_files(
        self, owner: str, store_id: str, entries: Sequence[NewEntry], *, most: int, batch_id: str | None = None
    ) -> Sequence[StoreEntry] | None:
        if not is_valid_id(store_id):
            return None
        async with self._database.write_transaction(owner) as connection:
            row = await _lock_store(connection, owner, store_id)
            if row is None:
                return None
            if _has_expired(row):
                raise VectorStoreExpired(store_id)
            attached = await attach_entries(connection, owner, store_id, entries, batch_id)
            count = await connection.scalar(select(func.count()).where(is_entry(owner, store_id)))
            if (count or 0) > most:
                raise build_file_limit_error(most)
            await _touch(connection, row)
            return attached

    async def load_entry(self, owner: str, store_id: str, file_id: str) -> StoreEntry | None:
        if not (is_valid_id(store_id) and is_valid_id(file_id)):
            return None
        async with self._database.read_transaction(owner) as connection:
            return await _load_entry(connection, owner, store_id, file_id)

    async def list_entries(
        self,
        owner: str,
        store_id: str,
        page: PageRequest,
        *,
        status: EntryStatus | None = None,
        batch_id: str | None = None,
    ) -> Page | None:
        if not is_valid_id(store_id) or (batch_id is not None and not is_valid_id(batch_id)):
            return None
        query = select(vector_store_files).where(is_entry(owner, store_id))
        if status is not None:
            query = query.where(vector_store_files.c.status == status)
        if batch_id is not None:
            is_of_batch = and_(vector_batch_files.c.owner == owner, vector_batch_files.c.batch_id == batch_id)
            query = query.where(
                vector_store_files.c.file_id.in_(select(vector_batch_files.c.file_id).where(is_of_batch))
            )
        async with self._database.read_transaction(owner) as connection:
            whole = _is_store(owner, store_id) if batch_id is None else _is_batch(owner, store_id, batch_id)
            table = vector_stores if batch_id is None else vector_store_batches
            if await connection.scalar(select(table.c.id).where(whole)) is None:
                return None
            rows, has_more = await _fetch_page(
                connection, query, vector_store_files.c.number, vector_store_files.c.file_id, page
            )
        return Page([build_entry(row).render() for row in rows], has_more)

    async def set_attributes(
        self, owner: str, store_id: str, file_id: str, attributes: Mapping[str, AttributeValue]
    ) -> StoreEntry | None:
        if not (is_valid_id(store_id) and is_valid_id(file_id)):
            return None
        async with self._database.write_transaction(owner) as connection:
            row = await _lock_store(connection, owner, store_id)
            if row is None:
                return None
            await connection.execute(
                update(vector_store_files)
                .where(is_entry(owner, store_id, file_id))
                .values(attributes=dump_json(dict(attributes)))
            )
            await _touch(connection, row)
            return await _load_entry(connection, owner, store_id, file_id)

    async def detach_file(self, owner: str, store_id: str, file_id: str) -> bool:
        if not (is_valid_id(store_id) and is_valid_id(file_id)):
            return False
        async with self._database.write_transaction(owner) as connection:
            row = await _lock_store(connection, owner, store_id)
            if row is None or not await delete_entries(connection, is_entry(owner, store_id, file_id)):
                return False
            await _touch(connection, row)
            return True

    async def load_texts(self, owner: str, store_id: str, file_id: str, page: PageRequest) -> Page | None:
        if not (is_valid_id(store_id) and is_valid_id(file_id)):
            return None
        async with self._database.read_transaction(owner) as connection:
            row = (await connection.execute(select(vector_stores).where(_is_store(owner, store_id)))).one_or_none()
            if row is not None and _has_expired(row):
                raise VectorStoreExpired(store_id)
            is_one = is_entry(owner, store_id, file_id)
            exists = select(files.c.id).where(files.c.owner == owner, files.c.id == file_id, has_not_expired()).exists()
            entry = (await connection.execute(select(vector_store_files).where(is_one, exists))).one_or_none()
            if entry is None:
                return None
            if entry.status != "completed":
                return Page([], has_more=False)
            chunks = vector_chunks.c
            query = (
                select(chunks.position, chunks.fresh, chunks.text)
                .where(
                    chunks.owner == owner,
                    chunks.store_id == store_id,
                    chunks.file_id == file_id,
                    chunks.attempt == entry.attempt,
                    chunks.position >= int(page.after or 0),
                )
                .order_by(chunks.position)
                .limit(page.limit + 1)
            )
            rows = (await connection.execute(query)).all()
        parts = [{"type": "text", "text": row.text[row.fresh :]} for row in rows[: page.limit]]
        return Page(parts, has_more=len(rows) > page.limit)

    async def load_batch(self, owner: str, store_id: str, batch_id: str) -> StoredBatch | None:
        if not (is_valid_id(store_id) and is_valid_id(batch_id)):
            return None
        async with self._database.read_transaction(owner) as connection:
            return await _load_batch(connection, owner, store_id, batch_id)

    async def cancel_batch(self, owner: str, store_id: str, batch_id: str) -> StoredBatch | None:
        if not (is_valid_id(store_id) and is_valid_id(batch_id)):
            return None
        async with self._database.write_transaction(owner) as connection:
            await _lock_store(connection, owner, store_id)
            marked = await connection.execute(
                update(vector_store_batches).where(_is_batch(owner, store_id, batch_id)).values(cancelled=True)
            )
            if not marked.rowcount:
                return None
            is_of_batch = and_(vector_batch_files.c.owner == owner, vector_batch_files.c.batch_id == batch_id)
            is_cancelled = and_(
                is_entry(owner, store_id),
                vector_store_files.c.status == "in_progress",
                vector_store_files.c.file_id.in_(select(vector_batch_files.c.file_id).where(is_of_batch)),
            )
            await list_for_removal(connection, await lock_entries(connection, is_cancelled))
            await connection.execute(
                update(vector_store_files).where(is_cancelled).values(status="cancelled", **NOT_INDEXED)
            )
            return await _load_batch(connection, owner, store_id, batch_id)

    async def search(self, owner: str, store_id: str, query: ChunkQuery) -> ScoredChunks | None:
        if not is_valid_id(store_id):
            return None
        async with self._database.read_transaction(owner) as connection:
            is_sqlite = self._database.is_sqlite
            indexes = (
                choose_term_index(owner, store_id, is_sqlite=is_sqlite),
                choose_vector_index(owner, store_id, is_sqlite=is_sqlite),
            )
            search = StoreSearch(connection, owner, store_id, indexes)
            row = await search.load_store(query)
            if row is None:
                return None
            if _has_expired(row):
                raise VectorStoreExpired(store_id)
            chunks = await search.find_chunks(row, query)
            vectors = query.vectors
            by_words = vectors is not None and await has_outdated(connection, owner, store_id, vectors.embedder)
        if read_clock_us() // SECOND_US > row.used_us // SECOND_US:
            async with self._database.write_transaction(owner) as connection:
                if (row := await _lock_store(connection, owner, store_id)) is not None:
                    await _touch(connection, row)
        return ScoredChunks(chunks, by_words)

    async def _count_new_store(self, connection: AsyncConnection, owner: str, most: int) -> int:
        new_row = (sqlite.insert if self._database.is_sqlite else postgresql.insert)(vector_store_usage).values(
            owner=owner, stores=0, last_number=0
        )
        await connection.execute(new_row.on_conflict_do_nothing())
        usage = vector_store_usage.c
        raised = (
            update(vector_store_usage)
            .where(usage.owner == owner)
            .values(stores=usage.stores + 1, last_number=usage.last_number + 1)
            .returning(usage.stores, usage.last_number)
        )
        row = (await connection.execute(raised)).one()
        if row.stores > most:
            raise VectorStoreQuotaExceeded(
                f"{most} vector stores exist for this owner: delete some", limit="limits.vector_stores"
            )
        number: int = row.last_number
        return number


async def delete_vector_stores(connection: AsyncConnection, keys: Sequence[tuple[str, str]]) -> int:
    """Deletes the vector stores with these keys (owner, id) within a transaction. Returns how many existed."""
    deleted_count = 0
    for owner, store_id in sorted(keys):
        deleted = await connection.execute(delete(vector_stores).where(_is_store(owner, store_id)))
        if not deleted.rowcount:
            continue
        deleted_count += 1
        await delete_entries(connection, is_entry(owner, store_id))
        is_of_store = and_(vector_store_batches.c.owner == owner, vector_store_batches.c.store_id == store_id)
        batch_ids = select(vector_store_batches.c.id).where(is_of_store)
        await connection.execute(
            delete(vector_batch_files).where(
                vector_batch_files.c.owner == owner, vector_batch_files.c.batch_id.in_(batch_ids)
            )
        )
        await connection.execute(delete(vector_store_batches).where(is_of_store))
        is_sqlite = connection.dialect.name == "sqlite"
        await choose_term_index(owner, store_id, is_sqlite=is_sqlite).drop(connection)
        await connection.execute(
            update(vector_store_usage)
            .where(vector_store_usage.c.owner == owner)
            .values(stores=vector_store_usage.c.stores - 1)
        )
    return deleted_count


def _filter_ids(store_ids: Collection[str]) -> list[str]:
    return [store_id for store_id in store_ids if is_valid_id(store_id)]


def _compute_expiry(days: int | None, used_us: int) -> int | None:
    return None if days is None else used_us + days * _DAY_US


def _has_expired(row: Row[Any]) -> bool:
    return row.expires_us is not None and row.expires_us <= read_clock_us()


def _is_store(owner: str, store_id: str) -> ColumnElement[bool]:
    return and_(vector_stores.c.owner == owner, vector_stores.c.id == store_id)


def _is_batch(owner: str, store_id: str, batch_id: str) -> ColumnElement[bool]:
    batches = vector_store_batches.c
    return and_(batches.owner == owner, batches.id == batch_id, batches.store_id == store_id)


def build_vector_store(row: Row[Any], entries: tuple[FileCounts, int] | None) -> StoredVectorStore:
    """Returns the store of a row of `vector_stores`. `entries` are what `count_entries` returns for it."""
    counts, size = entries or (FileCounts(), 0)
    return StoredVectorStore(
        id=row.id,
        created_at=row.created_us // SECOND_US,
        name=row.name,
        description=row.description,
        metadata=None if row.metadata is None else parse_json(row.metadata),
        expires_after_days=row.expires_days,
        expires_at=None if row.expires_us is None else row.expires_us // SECOND_US,
        last_active_at=row.used_us // SECOND_US,
        usage_bytes=size,
        counts=counts,
        has_expired=_has_expired(row),
    )


async def _load_store(connection: AsyncConnection, owner: str, store_id: str) -> StoredVectorStore | None:
    row = (await connection.execute(select(vector_stores).where(_is_store(owner, store_id)))).one_or_none()
    if row is None:
        return None
    return build_vector_store(row, (await count_entries(connection, owner, [store_id])).get(store_id))


async def _require_store(connection: AsyncConnection, owner: str, store_id: str) -> StoredVectorStore:
    """Returns a store of which this transaction has locked the row."""
    row = (await connection.execute(select(vector_stores).where(_is_store(owner, store_id)))).one()
    return build_vector_store(row, (await count_entries(connection, owner, [store_id])).get(store_id))


async def _lock_store(connection: AsyncConnection, owner: str, store_id: str) -> Row[Any] | None:
    """Returns the row of a store, which nobody else changes until the transaction ends."""
    query = select(vector_stores).where(_is_store(owner, store_id)).with_for_update()
    return (await connection.execute(query)).one_or_none()


async def _touch(connection: AsyncConnection, row: Row[Any]) -> None:
    """Records that a store is in use, unless it has expired meanwhile. This transaction has locked its row."""
    if not _has_expired(row):
        now_us = read_clock_us()
        await connection.execute(
            update(vector_stores)
            .where(_is_store(row.owner, row.id))
            .values(used_us=now_us, expires_us=_compute_expiry(row.expires_days, now_us))
        )


async def _load_entry(connection: AsyncConnection, owner: str, store_id: str, file_id: str) -> StoreEntry | None:
    query = select(vector_store_files).where(is_entry(owner, store_id, file_id))
    row = (await connection.execute(query)).one_or_none()
    return None if row is None else build_entry(row)


async def _load_batch(connection: AsyncConnection, owner: str, store_id: str, batch_id: str) -> StoredBatch | None:
    query = select(vector_store_batches).where(_is_batch(owner, store_id, batch_id))
    row = (await connection.execute(query)).one_or_none()
    if row is None:
        return None
    return StoredBatch(
        id=row.id,
        store_id=row.store_id,
        created_at=row.created_us // SECOND_US,
        is_cancelled=row.cancelled,
        counts=await count_batch(connection, owner, batch_id, store_id),
    )


async def _fetch_page(
    connection: AsyncConnection,
    query: Select[Any],
    number: ColumnElement[int],
    key: ColumnElement[str],
    page: PageRequest,
) -> tuple[Sequence[Row[Any]], bool]:
    """Returns the rows of a page, and whether more follow. `number` orders the rows, and `key` is what a cursor names.

    With `before`, the page ends right before that row. Raises UnknownCursor.
    """
    is_ascending = page.order == "asc"
    bounded = query
    for cursor, is_after in ((page.after, True), (page.before, False)):
        if cursor is None:
            continue
        found_number = None
        if is_valid_id(cursor):
            found_number = await connection.scalar(query.with_only_columns(number).where(key == cursor))
        if found_number is None:
            raise UnknownCursor("after" if is_after else "before")
        bounded = bounded.where(number > found_number if is_ascending is is_after else number < found_number)
    from_end = page.before is not None and page.after is None
    order = number.asc() if is_ascending is not from_end else number.desc()
    rows = list((await connection.execute(bounded.order_by(order).limit(page.limit + 1))).all())
    has_more = len(rows) > page.limit
    del rows[page.limit :]
    return (rows[::-1] if from_end else rows), has_more


async def delete_file_batches(connection: AsyncConnection, keys: Sequence[tuple[str, str]]) -> int:
    """Deletes the batches with these keys (owner, id) within a transaction. Their files remain. Returns how many."""
    for owner, batch_id in keys:
        for table, column in ((vector_batch_files, "batch_id"), (vector_store_batches, "id")):
            await connection.execute(delete(table).where(table.c.owner == owner, table.c[column] == batch_id))
    return len(keys)
