"""Queues files that are to be indexed, stores their chunks, and deletes chunks that count no more."""

from collections.abc import Collection, Sequence
from typing import Any, Final

from sqlalchemy import ColumnElement, Select, and_, delete, func, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway.retrieval.chunks import ChunkSizes
from gateway.retrieval.parsing.parsed_text import ParsingFault
from gateway.state.database.database import RETENTION, Database
from gateway.state.database.tables import vector_chunks, vector_removals, vector_store_files, vector_stores
from gateway.state.row_values import read_clock_us
from gateway.state.vector_records import IndexingClaim, NewChunk
from gateway.state.vectors.entries import SECOND_US, is_entry, list_for_removal, lock_entries
from gateway.state.vectors.term_index import choose_term_index

_CLAIMS_LOCK: Final = "vector-indexing"
_CHUNKS_AT_ONCE: Final = 100

_entries: Final = vector_store_files.c


class SqlIndexingQueue:
    """Implements `IndexingQueue` over one database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def claim_entries(
        self, limit: int, *, lease_s: float, but_of: Collection[str] = ()
    ) -> Sequence[IndexingClaim]:
        now = self._database.now_us_expression()
        is_waiting = and_(_entries.status == "in_progress", _entries.leased_us < now)
        if but_of:
            is_waiting = and_(is_waiting, _entries.owner.not_in(sorted(but_of)))
        turn = func.row_number().over(partition_by=_entries.owner, order_by=(_entries.created_us, _entries.number))
        waiting = select(vector_store_files, turn.label("turn")).where(is_waiting).subquery()
        query = select(waiting).order_by(waiting.c.turn, waiting.c.created_us).limit(limit)
        if not await self._has_waiting(is_waiting):
            return []
        async with self._database.write_transaction() as connection:
            await self._database.acquire_advisory_lock(connection, _CLAIMS_LOCK)
            rows = (await connection.execute(query)).all()
            claimed_rows = []
            claims = []
            for attempt, row in enumerate(sorted(rows, key=_sort_key), read_clock_us()):
                # Whoever held it may have completed it meanwhile, although its lease had ended.
                is_same = and_(_entries.status == "in_progress", _entries.attempt == row.attempt)
                changed = await connection.execute(
                    update(vector_store_files)
                    .where(is_entry(row.owner, row.store_id, row.file_id), is_same)
                    .values(attempt=attempt, chunks=0, terms=0, bytes=0, leased_us=now + int(lease_s * SECOND_US))
                )
                if not changed.rowcount:
                    continue
                claimed_rows.append(row)
                sizes = ChunkSizes(row.max_tokens, row.overlap)
                claims.append(IndexingClaim(row.owner, row.store_id, row.file_id, attempt, sizes, row.tries))
            await list_for_removal(connection, claimed_rows)
            return claims

    async def renew_claims(self, claims: Collection[IndexingClaim], *, lease_s: float) -> Collection[IndexingClaim]:
        until = self._database.now_us_expression() + int(lease_s * SECOND_US)
        async with self._database.write_transaction() as connection:
            return [
                claim for claim in sorted(claims, key=_sort_key) if await _change(connection, claim, leased_us=until)
            ]

    async def add_chunks(self, claim: IndexingClaim, chunks: Sequence[NewChunk], embedder: str | None = None) -> bool:
        index = choose_term_index(claim.owner, claim.store_id, is_sqlite=self._database.is_sqlite)
        async with self._database.write_transaction(claim.owner) as connection:
            added = await connection.scalar(
                update(vector_store_files)
                .where(_is_held(claim))
                .values(
                    chunks=_entries.chunks + len(chunks),
                    terms=_entries.terms + sum(chunk.terms.count(" ") + bool(chunk.terms) for chunk in chunks),
                    bytes=_entries.bytes
                    + sum(len(chunk.text.encode()) + len(chunk.embedding or b"") for chunk in chunks),
                    embedder=embedder,
                )
                .returning(_entries.chunks)
            )
            if added is None:
                return False
            keys = {
                "owner": claim.owner,
                "store_id": claim.store_id,
                "file_id": claim.file_id,
                "attempt": claim.attempt,
            }
            await index.add(
                connection,
                [
                    {**keys, **chunk._asdict(), "position": position}
                    for position, chunk in enumerate(chunks, added - len(chunks))
                ],
            )
            return True

    async def complete_entry(self, claim: IndexingClaim) -> bool:
        async with self._database.write_transaction(claim.owner) as connection:
            return await _change(connection, claim, status="completed", leased_us=0)

    async def postpone_entry(self, claim: IndexingClaim, wait_s: float, tries: int) -> bool:
        until = self._database.now_us_expression() + int(wait_s * SECOND_US)
        async with self._database.write_transaction(claim.owner) as connection:
            return await _change(connection, claim, leased_us=until, tries=tries)

    async def fail_entry(self, claim: IndexingClaim, error: tuple[ParsingFault, str]) -> bool:
        code, message = error
        values = {"status": "failed", "error_code": code, "error_message": message}
        async with self._database.write_transaction(claim.owner) as connection:
            if not await _change(connection, claim, **values, leased_us=0, chunks=0, terms=0, bytes=0):
                return False
            query = select(vector_store_files).where(is_entry(claim.owner, claim.store_id, claim.file_id))
            await list_for_removal(connection, (await connection.execute(query)).all())
            return True

    async def release_claims(self, claims: Collection[IndexingClaim]) -> None:
        async with self._database.write_transaction() as connection:
            for claim in sorted(claims, key=_sort_key):
                await _change(connection, claim, leased_us=0)

    async def remove_chunks(self) -> int:
        await self._sweep_expired_stores()
        return await _remove_listed(self._database, select(vector_removals))

    async def _has_waiting(self, is_waiting: ColumnElement[bool]) -> bool:
        query = select(_entries.file_id).where(is_waiting).limit(1)
        async with self._database.read_transaction() as connection:
            return await connection.scalar(query) is not None

    async def _sweep_expired_stores(self) -> None:
        """Lists the chunks of stores that have expired for removal."""
        has_expired = and_(vector_stores.c.expires_us <= read_clock_us(), ~vector_stores.c.swept)
        query = select(vector_stores.c.owner, vector_stores.c.id).where(has_expired)
        async with self._database.read_transaction(RETENTION) as connection:
            expired = (await connection.execute(query.limit(_CHUNKS_AT_ONCE))).all()
        for owner, store_id in expired:
            async with self._database.write_transaction(owner) as connection:
                is_store = and_(vector_stores.c.owner == owner, vector_stores.c.id == store_id)
                # It may have been used at the last moment. Its row is locked before its entries, as by all others.
                locked = select(vector_stores.c.id).where(is_store, has_expired).with_for_update()
                if await connection.scalar(locked) is None:
                    continue
                is_own = is_entry(owner, store_id)
                await list_for_removal(connection, await lock_entries(connection, is_own))
                emptied = update(vector_store_files).where(is_own).values(chunks=0, terms=0, bytes=0)
                await connection.execute(emptied)
                await connection.execute(
                    update(vector_store_files)
                    .where(is_own, _entries.status == "in_progress")
                    .values(status="cancelled", leased_us=0)
                )
                await connection.execute(update(vector_stores).where(is_store).values(swept=True))


def _sort_key(claimed: Any) -> tuple[str, str, str]:
    """Returns the key in whose order entries of several stores are locked."""
    return (claimed.owner, claimed.store_id, claimed.file_id)


def _is_held(claim: IndexingClaim) -> ColumnElement[bool]:
    return and_(
        is_entry(claim.owner, claim.store_id, claim.file_id),
        _entries.attempt == claim.attempt,
        _entries.status == "in_progress",
    )


async def _change(connection: AsyncConnection, claim: IndexingClaim, **values: Any) -> bool:
    """Changes the entry of a claim. Returns False if the claim is no longer held."""
    changed = await connection.execute(update(vector_store_files).where(_is_held(claim)).values(values))
    return bool(changed.rowcount)


async def remove_chunks_of(database: Database, owner: str) -> int:
    """Deletes the chunks of an owner that count no more. Returns how many."""
    return await _remove_listed(database, select(vector_removals).where(vector_removals.c.owner == owner))


async def _remove_listed(database: Database, listed: Select[Any]) -> int:
    removed_count = 0
    while True:
        async with database.read_transaction(RETENTION) as connection:
            removal = (await connection.execute(listed.limit(1))).one_or_none()
        if removal is None:
            return removed_count
        removed_count += await _remove_attempt(database, removal.owner, removal)


async def _remove_attempt(database: Database, owner: str, removal: Any) -> int:
    """Deletes the chunks of one attempt, some at a time. Returns how many."""
    chunks = vector_chunks.c
    is_removed = and_(
        chunks.owner == owner,
        chunks.store_id == removal.store_id,
        chunks.file_id == removal.file_id,
        chunks.attempt == removal.attempt,
    )
    store = select(vector_stores.c.id).where(vector_stores.c.owner == owner, vector_stores.c.id == removal.store_id)
    index = choose_term_index(owner, removal.store_id, is_sqlite=database.is_sqlite)
    count = 0
    while True:
        async with database.write_transaction(owner) as connection:
            query = select(chunks.number, chunks.terms).where(is_removed).limit(_CHUNKS_AT_ONCE)
            rows = (await connection.execute(query)).all()
            if await connection.scalar(store) is not None:
                await index.remove(connection, rows)
            elif rows:
                numbers = [row.number for row in rows]
                await connection.execute(delete(vector_chunks).where(chunks.number.in_(numbers)))
            count += len(rows)
            if len(rows) < _CHUNKS_AT_ONCE:
                removals = vector_removals.c
                await connection.execute(
                    delete(vector_removals).where(
                        removals.owner == owner,
                        removals.store_id == removal.store_id,
                        removals.file_id == removal.file_id,
                        removals.attempt == removal.attempt,
                    )
                )
                return count
