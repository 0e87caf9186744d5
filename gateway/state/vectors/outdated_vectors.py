"""Finds indexed files whose vectors another model has made, or none, and replaces their vectors.

The chunks remain, so that a file is found by its words all the time. It is found by meaning again once all its vectors
are of one model: until then it has the name of none.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from sqlalchemy import (
    ColumnElement,
    Row,
    Select,
    and_,
    cast,
    delete,
    insert,
    or_,
    select,
    update,
)
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway.retrieval.embedding import Vector, build_signs, unpack_vector
from gateway.state.database.database import Database
from gateway.state.database.tables import vector_chunks, vector_store_files, vector_stores
from gateway.state.database.vector_table import PgVector, vector_embeddings
from gateway.state.row_values import read_clock_us
from gateway.state.vector_records import EmbeddingClaim, StoredText
from gateway.state.vectors.entries import SECOND_US, is_entry

_entries: Final = vector_store_files.c
_chunks: Final = vector_chunks.c
_stores: Final = vector_stores.c


class SqlEmbeddingQueue:
    """Implements `EmbeddingQueue` over one database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def claim_outdated(self, embedder: str, after: str, *, lease_s: float) -> EmbeddingClaim | None:
        query = _select_outdated(embedder).where(_entries.leased_us < self._database.now_us_expression())
        async with self._database.read_transaction() as connection:
            row = (await connection.execute(query.where(_entries.owner > after).limit(1))).one_or_none()
            if row is None:
                row = (await connection.execute(query.limit(1))).one_or_none()
        if row is None:
            return None
        is_same = and_(_is_indexed(row), _entries.leased_us == row.leased_us)
        return await self._change(row.owner, row, is_same, lease_s, embedder=None)

    async def load_texts(self, claim: EmbeddingClaim, first: int, limit: int) -> Sequence[StoredText]:
        query = (
            select(_chunks.number, _chunks.position, _chunks.text, _chunks.embedding)
            .where(
                _chunks.owner == claim.owner,
                _chunks.store_id == claim.store_id,
                _chunks.file_id == claim.file_id,
                _chunks.attempt == claim.attempt,
                _chunks.position >= first,
            )
            .order_by(_chunks.position)
            .limit(limit)
        )
        async with self._database.read_transaction(claim.owner) as connection:
            rows = (await connection.execute(query)).all()
        number_bytes = 1 if self._database.is_sqlite else 4
        return [StoredText(row.number, row.position, row.text, len(row.embedding or ()) * number_bytes) for row in rows]

    async def replace_vectors(
        self, claim: EmbeddingClaim, vectors: Mapping[int, Vector], growth: int, *, lease_s: float
    ) -> EmbeddingClaim | None:
        async with self._database.write_transaction(claim.owner) as connection:
            leased_us = await connection.scalar(
                update(vector_store_files)
                .where(_is_held(claim))
                .values(bytes=_entries.bytes + growth, leased_us=self._compute_end(lease_s))
                .returning(_entries.leased_us)
            )
            if leased_us is None:
                return None
            await (_replace_on_sqlite if self._database.is_sqlite else _replace_on_postgres)(connection, vectors)
            return claim._replace(leased_us=leased_us)

    async def complete_vectors(self, claim: EmbeddingClaim, embedder: str, *, rest_s: float) -> bool:
        changed = await self._change(claim.owner, claim, _is_held(claim), rest_s, embedder=embedder, tries=0)
        return changed is not None

    async def postpone_vectors(self, claim: EmbeddingClaim, wait_s: float, tries: int) -> bool:
        return await self._change(claim.owner, claim, _is_held(claim), wait_s, tries=tries) is not None

    def _compute_end(self, seconds: float) -> ColumnElement[int]:
        end: ColumnElement[int] = self._database.now_us_expression() + int(seconds * SECOND_US)
        return end

    async def _change(
        self, owner: str, row: Any, condition: ColumnElement[bool], seconds: float, **values: Any
    ) -> EmbeddingClaim | None:
        """Changes an entry, and leases it for some seconds. Returns None if the condition does not hold any more."""
        changed = (
            update(vector_store_files)
            .where(condition)
            .values(leased_us=self._compute_end(seconds), **values)
            .returning(_entries.leased_us, _entries.tries)
        )
        async with self._database.write_transaction(owner) as connection:
            after = (await connection.execute(changed)).one_or_none()
        if after is None:
            return None
        return EmbeddingClaim(owner, row.store_id, row.file_id, row.attempt, after.leased_us, after.tries)


async def _replace_on_sqlite(connection: AsyncConnection, vectors: Mapping[int, Vector]) -> None:
    for number, vector in vectors.items():
        values = {"embedding": vector, "signs": build_signs(vector)}
        await connection.execute(update(vector_chunks).where(_chunks.number == number).values(values))


async def _replace_on_postgres(connection: AsyncConnection, vectors: Mapping[int, Vector]) -> None:
    for number, vector in vectors.items():
        values = {"embedding": unpack_vector(vector)}
        await connection.execute(update(vector_chunks).where(_chunks.number == number).values(values))
    # The trigger copies new rows, and no changed ones.
    numbers = list(vectors)
    await connection.execute(delete(vector_embeddings).where(vector_embeddings.c.number.in_(numbers)))
    copied = select(
        _chunks.number, _chunks.owner, _chunks.store_id, _chunks.attempt, cast(_chunks.embedding, PgVector())
    ).where(_chunks.number.in_(numbers))
    names = ["number", "owner", "store_id", "attempt", "embedding"]
    await connection.execute(insert(vector_embeddings).from_select(names, copied))


async def has_outdated(connection: AsyncConnection, owner: str, store_id: str, embedder: str) -> bool:
    """Whether a store has indexed files whose vectors are not of this model, so that they are found by words alone."""
    query = select(_entries.file_id).where(
        is_entry(owner, store_id), _entries.status == "completed", _entries.embedder.is_distinct_from(embedder)
    )
    return await connection.scalar(query.limit(1)) is not None


def _select_outdated(embedder: str) -> Select[Any]:
    is_alive = and_(
        _stores.owner == _entries.owner,
        _stores.id == _entries.store_id,
        ~_stores.swept,
        or_(_stores.expires_us.is_(None), _stores.expires_us > read_clock_us()),
    )
    return (
        select(_entries.owner, _entries.store_id, _entries.file_id, _entries.attempt, _entries.leased_us)
        .join(vector_stores, is_alive)
        .where(_entries.status == "completed", _entries.embedder.is_distinct_from(embedder))
        .order_by(_entries.owner, _entries.store_id, _entries.number)
    )


def _is_indexed(row: Row[Any] | EmbeddingClaim) -> ColumnElement[bool]:
    return and_(
        is_entry(row.owner, row.store_id, row.file_id),
        _entries.status == "completed",
        _entries.attempt == row.attempt,
    )


def _is_held(claim: EmbeddingClaim) -> ColumnElement[bool]:
    # Who claimed it later, or renewed the lease, has written another time.
    return and_(_is_indexed(claim), _entries.leased_us == claim.leased_us)
