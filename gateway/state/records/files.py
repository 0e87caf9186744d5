"""Stores files in SQL, and lists the blobs that no file has."""

from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from sqlalchemy import ColumnElement, Row, and_, delete, insert, or_, select, update
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway.state.database.database import RETENTION, Database
from gateway.state.database.tables import file_usage, files, unused_blobs
from gateway.state.file_records import BlobKey, BlobNotReserved, FileQuota, FileUsage, StoredFile, check_quota
from gateway.state.row_values import is_valid_id, read_clock_us
from gateway.state.values import Page, PageRequest, UnknownCursor

_SECOND_US: Final = 1_000_000
_IDS_PER_STATEMENT: Final = 500
_EXPIRED_PER_TRANSACTION: Final = 500

FileKeys: TypeAlias = Sequence[tuple[str, str]]
"""(owner, id) of files."""

FileDeletionHook: TypeAlias = Callable[[AsyncConnection, FileKeys], Awaitable[None]]
"""Deletes what refers to files, in the transaction that deletes them. The rows of the files are gone by then, so a
transaction that refers to one of them, and locks its row first, either came before or finds no file."""


class FileDeleter:
    """Deletes files within a transaction, with everything that refers to them.

    Every deletion of a file goes through one: on request, by expiry, and with all data of its owner.
    """

    def __init__(self, hooks: Sequence[FileDeletionHook] = ()) -> None:
        self._hooks = hooks

    async def delete_files(self, connection: AsyncConnection, keys: FileKeys) -> int:
        """Deletes the files with these keys. Returns how many existed."""
        deleted_count = 0
        ids: defaultdict[str, list[str]] = defaultdict(list)
        for owner, file_id in sorted(keys):
            ids[owner].append(file_id)
        for owner, file_ids in ids.items():
            is_one = and_(files.c.owner == owner, files.c.id.in_(file_ids))
            rows = (await connection.execute(delete(files).where(is_one).returning(files.c.id, files.c.bytes))).all()
            if not rows:
                continue
            deleted_count += len(rows)
            for hook in self._hooks:
                await hook(connection, [(owner, row.id) for row in rows])
            await list_as_unused(connection, owner, [row.id for row in rows])
            await reduce_usage(connection, owner, file_count=len(rows), size=sum(row.bytes for row in rows))
        return deleted_count


class SqlFileStore:
    """Implements `FileStore` over one database."""

    def __init__(self, database: Database, deleter: FileDeleter) -> None:
        self._database = database
        self._deleter = deleter

    async def reserve_blob(self, owner: str, blob_id: str, *, hold_s: float) -> None:
        async with self._database.write_transaction(owner) as connection:
            await list_as_unused(connection, owner, [blob_id], hold_s=hold_s)

    async def release_blob(self, owner: str, blob_id: str) -> bool:
        is_one = and_(unused_blobs.c.owner == owner, unused_blobs.c.id == blob_id)
        async with self._database.write_transaction(owner) as connection:
            released = await connection.execute(update(unused_blobs).where(is_one).values(remove_after_us=0))
            return bool(released.rowcount)

    async def create_file(self, owner: str, file: StoredFile, quota: FileQuota) -> None:
        async with self._database.write_transaction(owner) as connection:
            await add_file(connection, owner, file, quota, is_sqlite=self._database.is_sqlite)

    async def load_file(self, owner: str, file_id: str) -> StoredFile | None:
        return (await self.load_files(owner, [file_id])).get(file_id)

    async def load_files(self, owner: str, file_ids: Sequence[str]) -> Mapping[str, StoredFile]:
        valid_ids = sorted({file_id for file_id in file_ids if is_valid_id(file_id)})
        loaded: dict[str, StoredFile] = {}
        if not valid_ids:
            return loaded
        async with self._database.read_transaction(owner) as connection:
            for start in range(0, len(valid_ids), _IDS_PER_STATEMENT):
                batch = valid_ids[start : start + _IDS_PER_STATEMENT]
                query = select(files).where(files.c.owner == owner, files.c.id.in_(batch), has_not_expired())
                loaded |= {row.id: build_file(row) for row in await connection.execute(query)}
        return loaded

    async def list_files(self, owner: str, page: PageRequest, *, purpose: str | None = None) -> Page:
        is_listed = and_(files.c.owner == owner, has_not_expired())
        query = select(files).where(is_listed)
        if purpose is not None:
            query = query.where(files.c.purpose == purpose)
        async with self._database.read_transaction(owner) as connection:
            if page.after is not None:
                number = await _find_number(connection, is_listed, page.after)
                query = query.where(files.c.number > number if page.order == "asc" else files.c.number < number)
            order = files.c.number if page.order == "asc" else files.c.number.desc()
            rows = (await connection.execute(query.order_by(order).limit(page.limit + 1))).all()
        rendered = [build_file(row).render() for row in rows[: page.limit]]
        return Page(rendered, has_more=len(rows) > page.limit)

    async def delete_file(self, owner: str, file_id: str) -> bool:
        if not is_valid_id(file_id):
            return False
        async with self._database.write_transaction(owner) as connection:
            query = select(files.c.id).where(files.c.owner == owner, files.c.id == file_id, has_not_expired())
            if await connection.scalar(query) is None:
                return False
            return bool(await self._deleter.delete_files(connection, [(owner, file_id)]))

    async def delete_expired_files(self, owner: str) -> int:
        query = select(files.c.id).where(files.c.owner == owner, has_expired()).limit(_EXPIRED_PER_TRANSACTION)
        async with self._database.write_transaction(owner) as connection:
            ids = (await connection.scalars(query)).all()
            return await self._deleter.delete_files(connection, [(owner, file_id) for file_id in ids])

    async def measure_usage(self, owner: str) -> FileUsage:
        query = select(file_usage.c.files, file_usage.c.bytes).where(file_usage.c.owner == owner)
        async with self._database.read_transaction(owner) as connection:
            row = (await connection.execute(query)).one_or_none()
        return FileUsage(0, 0) if row is None else FileUsage(row.files, row.bytes)

    async def list_unused_blobs(self, limit: int, *, owner: str | None = None) -> Sequence[BlobKey]:
        query = select(unused_blobs.c.owner, unused_blobs.c.id).where(unused_blobs.c.remove_after_us <= read_clock_us())
        if owner is not None:
            query = query.where(unused_blobs.c.owner == owner)
        query = query.order_by(unused_blobs.c.remove_after_us).limit(limit)
        async with self._database.read_transaction(RETENTION if owner is None else owner) as connection:
            return [BlobKey(row.owner, row.id) for row in await connection.execute(query)]

    async def remove_unused_blobs(self, keys: Sequence[BlobKey]) -> None:
        ids: defaultdict[str, list[str]] = defaultdict(list)
        for key in keys:
            ids[key.owner].append(key.id)
        for owner, blob_ids in sorted(ids.items()):
            async with self._database.write_transaction(owner) as connection:
                await connection.execute(
                    delete(unused_blobs).where(unused_blobs.c.owner == owner, unused_blobs.c.id.in_(blob_ids))
                )


async def add_file(
    connection: AsyncConnection, owner: str, file: StoredFile, quota: FileQuota, *, is_sqlite: bool
) -> None:
    """Stores a file within a transaction, which has the quota's row locked from then on. Raises like `create_file`."""
    number = await raise_usage(connection, owner, quota, file_count=1, size=file.size, is_sqlite=is_sqlite)
    await claim_blob(connection, owner, file.id)
    await connection.execute(
        insert(files).values(
            owner=owner,
            id=file.id,
            number=number,
            created_us=file.created_at * _SECOND_US,
            bytes=file.size,
            filename=file.filename,
            purpose=file.purpose,
            expires_us=None if file.expires_at is None else file.expires_at * _SECOND_US,
        )
    )


async def claim_blob(connection: AsyncConnection, owner: str, blob_id: str) -> None:
    """Ends the list entry of a blob that gets a row, within a transaction. Raises BlobNotReserved if its hold has
    ended: the bytes may be removed at any time then."""
    is_one = and_(unused_blobs.c.owner == owner, unused_blobs.c.id == blob_id)
    is_held = unused_blobs.c.remove_after_us > read_clock_us()
    if not (await connection.execute(delete(unused_blobs).where(is_one, is_held))).rowcount:
        raise BlobNotReserved(blob_id)


async def release_blobs_of(database: Database, owner: str) -> None:
    """Ends the holds of all reserved blobs of an owner: no request that has begun can still make a file of one."""
    async with database.write_transaction(owner) as connection:
        await connection.execute(update(unused_blobs).where(unused_blobs.c.owner == owner).values(remove_after_us=0))


async def raise_usage(
    connection: AsyncConnection, owner: str, quota: FileQuota, *, file_count: int, size: int, is_sqlite: bool
) -> int:
    """Adds to the usage of an owner within a transaction, and returns the number of a new file.

    The row is locked first, so that of several transactions each sees what the others have added. Raises
    StorageQuotaExceeded.
    """
    new_row = (sqlite.insert if is_sqlite else postgresql.insert)(file_usage).values(
        owner=owner, files=0, bytes=0, last_number=0
    )
    await connection.execute(new_row.on_conflict_do_nothing())
    raised = (
        update(file_usage)
        .where(file_usage.c.owner == owner)
        .values(
            files=file_usage.c.files + file_count,
            bytes=file_usage.c.bytes + size,
            last_number=file_usage.c.last_number + 1,
        )
        .returning(file_usage.c.files, file_usage.c.bytes, file_usage.c.last_number)
    )
    row = (await connection.execute(raised)).one()
    check_quota(FileUsage(row.files, row.bytes), quota)
    number: int = row.last_number
    return number


async def reduce_usage(connection: AsyncConnection, owner: str, *, file_count: int, size: int) -> None:
    """Subtracts from the usage of an owner within a transaction."""
    await connection.execute(
        update(file_usage)
        .where(file_usage.c.owner == owner)
        .values(files=file_usage.c.files - file_count, bytes=file_usage.c.bytes - size)
    )


async def list_as_unused(
    connection: AsyncConnection, owner: str, blob_ids: Sequence[str], *, hold_s: float = 0.0
) -> None:
    """Lists blobs as unused within a transaction. They are removed after `hold_s` seconds."""
    now_us = read_clock_us()
    row = {"owner": owner, "created_us": now_us, "remove_after_us": now_us + int(hold_s * _SECOND_US)}
    if blob_ids:
        await connection.execute(insert(unused_blobs), [{**row, "id": blob_id} for blob_id in blob_ids])


def has_not_expired() -> ColumnElement[bool]:
    """Returns the condition that a file has not expired."""
    return or_(files.c.expires_us.is_(None), files.c.expires_us > read_clock_us())


def has_expired() -> ColumnElement[bool]:
    """Returns the condition that a file has expired."""
    return files.c.expires_us <= read_clock_us()


def build_file(row: Row[Any]) -> StoredFile:
    """Returns the file of a row of its table."""
    return StoredFile(
        id=row.id,
        size=row.bytes,
        created_at=row.created_us // _SECOND_US,
        filename=row.filename,
        purpose=row.purpose,
        expires_at=None if row.expires_us is None else row.expires_us // _SECOND_US,
    )


async def _find_number(connection: AsyncConnection, is_listed: ColumnElement[bool], file_id: str) -> int:
    number: int | None = None
    if is_valid_id(file_id):
        number = await connection.scalar(select(files.c.number).where(is_listed, files.c.id == file_id))
    if number is None:
        raise UnknownCursor
    return number
