"""Stores uploads in parts in SQL."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any, Final

from sqlalchemy import ColumnElement, Row, and_, delete, func, insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway.state.database.database import Database
from gateway.state.database.tables import file_usage, upload_parts, uploads
from gateway.state.file_records import FileQuota, FileUsage, StoredFile, check_quota
from gateway.state.records.files import add_file, claim_blob, list_as_unused, raise_usage, reduce_usage
from gateway.state.row_values import is_valid_id, read_clock_us
from gateway.state.upload_records import StoredPart, StoredUpload, UploadLimits, UploadNotPending, check_part

_SECOND_US: Final = 1_000_000
_PENDING: Final = "pending"


class SqlUploadStore:
    """Implements `UploadStore` over one database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def create_upload(self, owner: str, upload: StoredUpload, quota: FileQuota) -> None:
        pending = select(uploads.c.id).where(uploads.c.owner == owner, _is_pending()).limit(quota.files).subquery()
        usage = select(file_usage.c.files, file_usage.c.bytes).where(file_usage.c.owner == owner)
        async with self._database.write_transaction(owner) as connection:
            row = (await connection.execute(usage)).one_or_none()
            stored = FileUsage(0, 0) if row is None else FileUsage(row.files, row.bytes)
            pending_count = (await connection.execute(select(func.count()).select_from(pending))).scalar_one()
            check_quota(FileUsage(stored.files + pending_count + 1, stored.size + upload.size), quota)
            await connection.execute(
                insert(uploads).values(
                    owner=owner,
                    id=upload.id,
                    created_us=upload.created_at * _SECOND_US,
                    expires_us=upload.expires_at * _SECOND_US,
                    bytes=upload.size,
                    part_bytes=0,
                    part_count=0,
                    filename=upload.filename,
                    purpose=upload.purpose,
                    file_expires_s=upload.file_expires_s,
                    status=_PENDING,
                )
            )

    async def load_upload(self, owner: str, upload_id: str) -> StoredUpload | None:
        async with self._database.read_transaction(owner) as connection:
            return await _load_upload(connection, owner, upload_id)

    async def add_part(self, owner: str, part: StoredPart, limits: UploadLimits, quota: FileQuota) -> None:
        is_one = and_(uploads.c.owner == owner, uploads.c.id == part.upload_id)
        raised = (
            update(uploads)
            .where(is_one, _is_pending())
            .values(part_bytes=uploads.c.part_bytes + part.size, part_count=uploads.c.part_count + 1)
            .returning(uploads.c.bytes, uploads.c.part_bytes, uploads.c.part_count)
        )
        async with self._database.write_transaction(owner) as connection:
            row = (await connection.execute(raised)).one_or_none()
            if row is None:
                raise UploadNotPending(await _load_upload(connection, owner, part.upload_id))
            check_part(part.size, row.bytes, row.part_bytes, row.part_count, limits)
            is_sqlite = self._database.is_sqlite
            await raise_usage(connection, owner, quota, file_count=0, size=part.size, is_sqlite=is_sqlite)
            await claim_blob(connection, owner, part.id)
            await connection.execute(
                insert(upload_parts).values(
                    owner=owner,
                    upload_id=part.upload_id,
                    id=part.id,
                    created_us=part.created_at * _SECOND_US,
                    bytes=part.size,
                )
            )

    async def load_parts(self, owner: str, upload_id: str) -> Sequence[StoredPart]:
        query = select(upload_parts).where(upload_parts.c.owner == owner, upload_parts.c.upload_id == upload_id)
        async with self._database.read_transaction(owner) as connection:
            rows = (await connection.execute(query)).all()
        return [
            StoredPart(id=row.id, upload_id=upload_id, size=row.bytes, created_at=row.created_us // _SECOND_US)
            for row in rows
        ]

    async def complete_upload(self, owner: str, upload_id: str, file: StoredFile, quota: FileQuota) -> StoredUpload:
        async with self._database.write_transaction(owner) as connection:
            upload = await _end_upload(connection, owner, upload_id, status="completed", file_id=file.id)
            await add_file(connection, owner, file, quota, is_sqlite=self._database.is_sqlite)
            return upload

    async def cancel_upload(self, owner: str, upload_id: str) -> StoredUpload:
        if not is_valid_id(upload_id):
            raise UploadNotPending(None)
        async with self._database.write_transaction(owner) as connection:
            return await _end_upload(connection, owner, upload_id, status="cancelled", file_id=None)


async def delete_uploads(connection: AsyncConnection, keys: Sequence[tuple[str, str]]) -> int:
    """Deletes the uploads with these keys (owner, id) and their parts, within a transaction.

    The blobs of the parts are unused then. Returns how many uploads existed.
    """
    deleted_count = 0
    for owner, upload_ids in _group_keys(keys):
        # The uploads first: a transaction that adds a part waits for their rows and then finds none.
        deleted = await connection.execute(
            delete(uploads).where(uploads.c.owner == owner, uploads.c.id.in_(upload_ids))
        )
        deleted_count += deleted.rowcount
        await _delete_parts(connection, owner, upload_ids)
    return deleted_count


async def expire_uploads(connection: AsyncConnection, keys: Sequence[tuple[str, str]]) -> int:
    """Ends the uploads with these keys (owner, id) as expired, within a transaction. Their parts are deleted.

    Returns how many they are.
    """
    expired_count = 0
    for owner, upload_ids in _group_keys(keys):
        expired = await connection.execute(
            update(uploads)
            .where(uploads.c.owner == owner, uploads.c.id.in_(upload_ids), is_overdue())
            .values(status="expired", part_bytes=0, part_count=0)
        )
        expired_count += expired.rowcount
        await _delete_parts(connection, owner, upload_ids)
    return expired_count


def is_overdue() -> ColumnElement[bool]:
    """Returns the condition that an upload has expired, and that its parts are not deleted yet."""
    return and_(uploads.c.status == _PENDING, uploads.c.expires_us <= read_clock_us())


def _is_pending() -> ColumnElement[bool]:
    return and_(uploads.c.status == _PENDING, uploads.c.expires_us > read_clock_us())


def _group_keys(keys: Sequence[tuple[str, str]]) -> Sequence[tuple[str, Sequence[str]]]:
    """Returns the ids of each owner. Owners are sorted, so that transactions lock their rows in one order."""
    ids: defaultdict[str, list[str]] = defaultdict(list)
    for owner, upload_id in keys:
        ids[owner].append(upload_id)
    return sorted(ids.items())


async def _end_upload(
    connection: AsyncConnection, owner: str, upload_id: str, *, status: str, file_id: str | None
) -> StoredUpload:
    """Ends a pending upload within a transaction, and deletes its parts. Raises UploadNotPending."""
    is_one = and_(uploads.c.owner == owner, uploads.c.id == upload_id)
    ended = await connection.execute(
        update(uploads).where(is_one, _is_pending()).values(status=status, file_id=file_id, part_bytes=0, part_count=0)
    )
    upload = await _load_upload(connection, owner, upload_id)
    if not ended.rowcount or upload is None:
        raise UploadNotPending(upload)
    await _delete_parts(connection, owner, [upload_id])
    return upload


async def _delete_parts(connection: AsyncConnection, owner: str, upload_ids: Sequence[str]) -> None:
    """Deletes all parts of uploads within a transaction. Their blobs are unused then."""
    is_part = and_(upload_parts.c.owner == owner, upload_parts.c.upload_id.in_(upload_ids))
    parts = delete(upload_parts).where(is_part).returning(upload_parts.c.id, upload_parts.c.bytes)
    rows = (await connection.execute(parts)).all()
    if rows:
        await list_as_unused(connection, owner, [row.id for row in rows])
        await reduce_usage(connection, owner, file_count=0, size=sum(row.bytes for row in rows))


async def _load_upload(connection: AsyncConnection, owner: str, upload_id: str) -> StoredUpload | None:
    if not is_valid_id(upload_id):
        return None
    query = select(uploads).where(uploads.c.owner == owner, uploads.c.id == upload_id)
    row = (await connection.execute(query)).one_or_none()
    return None if row is None else _build_upload(row)


def _build_upload(row: Row[Any]) -> StoredUpload:
    has_ended_late = row.status == _PENDING and row.expires_us <= read_clock_us()
    return StoredUpload(
        id=row.id,
        size=row.bytes,
        created_at=row.created_us // _SECOND_US,
        expires_at=row.expires_us // _SECOND_US,
        filename=row.filename,
        purpose=row.purpose,
        file_expires_s=row.file_expires_s,
        status="expired" if has_ended_late else row.status,
    )
