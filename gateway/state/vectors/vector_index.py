"""Finds the chunks of one store whose vectors are closest to those of a query.

SQLite compares the signs of all vectors of the store, which are a few bytes each and lie together in an index, and then
the exact numbers of the best. PostgreSQL compares the numbers of all, in a table of their own, by the extension
`vector` (pgvector).
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol

from sqlalchemy import BigInteger, Column, ColumnElement, MetaData, Row, Table, Text, and_, case, cast, func, select
from sqlalchemy.dialects import postgresql
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlalchemy.sql.operators import custom_op
from sqlalchemy.types import UserDefinedType

from dataplane.sharing.work_pool import run_in_pool
from gateway.retrieval.embedding import SignScan, Vector, compute_closeness, count_numbers, unpack_vector
from gateway.state.database.database import fetch_rows
from gateway.state.database.tables import vector_chunks
from gateway.state.database.vector_table import VECTOR_TABLE

_SIGNS_AT_ONCE: Final = 20_000
_EXAMINED: Final = 1000
"""So many vectors with the most signs in common are compared exactly. A store with fewer is compared whole."""

_NUMBERS_PER_STATEMENT: Final = 500

_DISTANCE: Final = custom_op[float]("<=>")
"""pgvector's cosine distance."""

_chunks: Final = vector_chunks.c


class VectorIndex(Protocol):
    """The vectors of the chunks of one store, within a transaction."""

    async def find_closest(
        self, connection: AsyncConnection, queries: Sequence[Vector], attempts: Mapping[str, int], limit: int
    ) -> Sequence[Row[Any]]:
        """Returns the chunks that are closest to one of the queries, closest first, with `number`, `file_id` and
        `position`. `attempts` are the files that count, with their attempts of indexing."""
        ...


class SqliteVectorIndex:
    """Implements `VectorIndex` without an extension."""

    def __init__(self, owner: str, store_id: str) -> None:
        self._is_own = and_(_chunks.owner == owner, _chunks.store_id == store_id, _chunks.signs.is_not(None))

    async def find_closest(
        self, connection: AsyncConnection, queries: Sequence[Vector], attempts: Mapping[str, int], limit: int
    ) -> Sequence[Row[Any]]:
        scan = SignScan(queries, max(_EXAMINED, limit))
        page = (
            select(_chunks.number, _chunks.file_id, _chunks.attempt, _chunks.signs)
            .where(self._is_own)
            .order_by(_chunks.number)
            .limit(_SIGNS_AT_ONCE)
        )
        last = -1
        while rows := await fetch_rows(await connection.execute(page.where(_chunks.number > last))):
            last = rows[-1].number
            await run_in_pool(_scan_signs, scan, rows, attempts)
        rows_of_best: list[Row[Any]] = []
        for start in range(0, len(scan.numbers), _NUMBERS_PER_STATEMENT):
            numbers = scan.numbers[start : start + _NUMBERS_PER_STATEMENT]
            query = select(_chunks.number, _chunks.file_id, _chunks.position, _chunks.embedding)
            rows_of_best += await fetch_rows(await connection.execute(query.where(_chunks.number.in_(numbers))))
        return await run_in_pool(_order_rows, rows_of_best, queries, limit)


def _scan_signs(scan: SignScan, rows: Sequence[Any], attempts: Mapping[str, int]) -> None:
    # To unpack a row takes a sixth of the time of its attributes.
    scan.add((number, signs) for number, file_id, attempt, signs in rows if attempts.get(file_id) == attempt)


def _order_rows(rows: Sequence[Row[Any]], queries: Sequence[Vector], limit: int) -> Sequence[Row[Any]]:
    size = len(queries[0])
    comparable = [row for row in rows if len(row.embedding) == size]
    closeness = {id(row): compute_closeness(row.embedding, queries) for row in comparable}
    comparable.sort(key=lambda row: (-closeness[id(row)], row.file_id, row.position))
    return comparable[:limit]


class _PgVector(UserDefinedType[Any]):
    """The type of pgvector."""

    cache_ok = True

    def get_col_spec(self, **_: object) -> str:
        return "vector"


_vectors: Final = Table(
    VECTOR_TABLE,
    MetaData(),
    Column("number", BigInteger),
    Column("owner", Text),
    Column("store_id", Text),
    Column("attempt", BigInteger),
    Column("embedding", _PgVector()),
).c


class PostgresVectorIndex:
    """Implements `VectorIndex` with the extension `vector`."""

    def __init__(self, owner: str, store_id: str) -> None:
        self._is_own = and_(_vectors.owner == owner, _vectors.store_id == store_id)

    async def find_closest(
        self, connection: AsyncConnection, queries: Sequence[Vector], attempts: Mapping[str, int], limit: int
    ) -> Sequence[Row[Any]]:
        distances = [
            _vectors.embedding.operate(
                _DISTANCE, cast(cast(unpack_vector(query), postgresql.ARRAY(postgresql.REAL)), _PgVector())
            )
            for query in queries
        ]
        nearest: ColumnElement[Any] = distances[0] if len(distances) == 1 else func.least(*distances)
        # Vectors of another size cannot be compared, and the order of conditions is not certain.
        has_size = func.vector_dims(_vectors.embedding) == count_numbers(queries[0])
        # Of one array, because there may be thousands of files. A join would carry the vectors along.
        is_current = _vectors.attempt == func.any(cast(list(attempts.values()), postgresql.ARRAY(BigInteger)))
        distance = case((has_size, nearest)).label("distance")
        best = (
            select(_vectors.number, distance)
            .where(self._is_own, is_current)
            .order_by(distance.asc().nulls_last(), _vectors.number)
            .limit(limit)
            .subquery()
        )
        query = (
            select(_chunks.number, _chunks.file_id, _chunks.position, _chunks.attempt)
            .join(best, best.c.number == _chunks.number)
            .order_by(best.c.distance.asc().nulls_last(), _chunks.number)
        )
        rows = await fetch_rows(await connection.execute(query))
        return [row for row in rows if attempts.get(row.file_id) == row.attempt]


def choose_vector_index(owner: str, store_id: str, *, is_sqlite: bool) -> VectorIndex:
    """Returns the vectors of a store for the kind of database."""
    return (SqliteVectorIndex if is_sqlite else PostgresVectorIndex)(owner, store_id)
