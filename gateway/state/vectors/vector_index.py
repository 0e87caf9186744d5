"""Finds the chunks of one store whose vectors are closest to those of a query.

SQLite compares the signs of all vectors of the store, which are a few bytes each and lie together in an index, and then
the exact numbers of the best. PostgreSQL compares the numbers of all, in a table of their own, by the extension
`vector` (pgvector).
"""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple, Protocol

import orjson
from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Integer,
    LargeBinary,
    Select,
    Text,
    bindparam,
    case,
    cast,
    func,
    or_,
    select,
    tuple_,
)
from sqlalchemy.dialects import postgresql
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlalchemy.sql.operators import custom_op

from dataplane.sharing.work_pool import run_in_pool
from gateway.retrieval.embedding import (
    QueryVectors,
    SignScan,
    compute_closeness,
    count_numbers,
    print_numbers,
    unpack_vector,
)
from gateway.state.database.engines import get_driver
from gateway.state.database.sqlite_statements import CompiledStatement
from gateway.state.database.tables import vector_chunks, vector_store_files
from gateway.state.database.vector_table import PgVector, vector_embeddings
from gateway.state.vectors.entries import is_entry

_SIGNS_AT_ONCE: Final = 20_000
_EXAMINED: Final = 1000
"""So many vectors with the most signs in common are compared exactly. A store with fewer is compared whole."""

_DISTANCE: Final = custom_op[float]("<=>")
"""pgvector's cosine distance."""

_chunks: Final = vector_chunks.c
_vectors: Final = vector_embeddings.c


_entries: Final = vector_store_files.c


class CloseChunk(NamedTuple):
    """A chunk that is close to a query, by the number of its row."""

    number: int
    file_id: str
    position: int


class VectorIndex(Protocol):
    """The vectors of the chunks of one store, within a transaction."""

    async def find_closest(
        self, connection: AsyncConnection, queries: QueryVectors, files: Sequence[str] | None, limit: int
    ) -> Sequence[CloseChunk]:
        """Returns the chunks that are closest to one of the queries, closest first. Only vectors of the same embedder
        are compared, and with `files` only those of chunks of these files."""
        ...


def _build_scan() -> Select[Any]:
    """Returns SQLite's query for the signs of the next chunks, one behind the other, and for their numbers, of which it
    tells the last and how many they are."""
    owner, store_id, files = (bindparam(name, type_=Text) for name in ("owner", "store_id", "files"))
    current = select(_entries.file_id, _entries.attempt).where(
        is_entry(owner, store_id),
        _entries.status == "completed",
        _entries.embedder == bindparam("embedder", type_=Text),
        or_(files.is_(None), _entries.file_id.in_(select(func.json_each(files).table_valued("value").c.value))),
    )
    page = (
        select(_chunks.number, _chunks.signs)
        .where(
            _chunks.owner == owner,
            _chunks.store_id == store_id,
            _chunks.signs.is_not(None),
            func.length(_chunks.signs) == bindparam("size", type_=Integer),
            _chunks.number > bindparam("last", type_=BigInteger),
            tuple_(_chunks.file_id, _chunks.attempt).in_(current),
        )
        .order_by(_chunks.number)
        .limit(_SIGNS_AT_ONCE)
        .subquery()
    ).c
    signs = cast(func.group_concat(page.signs, ""), LargeBinary)
    return select(func.max(page.number), func.count(), func.json_group_array(page.number), signs)


_SCAN: Final = CompiledStatement(_build_scan())
_LOAD_VECTORS: Final = CompiledStatement(
    select(_chunks.number, _chunks.file_id, _chunks.position, _chunks.embedding).where(
        _chunks.number.in_(select(func.json_each(bindparam("numbers", type_=Text)).table_valued("value").c.value))
    )
)


class SqliteVectorIndex:
    """Implements `VectorIndex` without an extension."""

    def __init__(self, owner: str, store_id: str) -> None:
        self._owner = owner
        self._store_id = store_id

    async def find_closest(
        self, connection: AsyncConnection, queries: QueryVectors, files: Sequence[str] | None, limit: int
    ) -> Sequence[CloseChunk]:
        driver = get_driver(connection)
        scan = SignScan(queries.vectors, max(_EXAMINED, limit))
        values = {
            "owner": self._owner,
            "store_id": self._store_id,
            "embedder": queries.embedder,
            "files": None if files is None else orjson.dumps(files).decode(),
            "size": scan.size,
        }
        last, count = -1, _SIGNS_AT_ONCE
        while count == _SIGNS_AT_ONCE:
            [(last, count, numbers, signs)] = await driver.run_blocking(
                _SCAN.fetch_all, driver.raw_connection, {**values, "last": last}
            )
            if count:
                await run_in_pool(scan.add, orjson.loads(numbers), signs)
        listed = {"numbers": orjson.dumps(scan.numbers).decode()}
        rows = await driver.run_blocking(_LOAD_VECTORS.fetch_all, driver.raw_connection, listed)
        return await run_in_pool(_order_rows, rows, queries, limit)


def _order_rows(rows: Sequence[tuple[Any, ...]], queries: QueryVectors, limit: int) -> Sequence[CloseChunk]:
    size = len(queries.vectors[0])
    wanted = [unpack_vector(each) for each in queries.vectors]
    ordered = sorted(
        (-compute_closeness(vector, wanted), file_id, position, number)
        for number, file_id, position, vector in rows
        if len(vector) == size
    )
    return [CloseChunk(number, file_id, position) for _, file_id, position, number in ordered[:limit]]


class PostgresVectorIndex:
    """Implements `VectorIndex` with the extension `vector`."""

    def __init__(self, owner: str, store_id: str) -> None:
        self._owner = owner
        self._store_id = store_id

    async def find_closest(
        self, connection: AsyncConnection, queries: QueryVectors, files: Sequence[str] | None, limit: int
    ) -> Sequence[CloseChunk]:
        current = select(_entries.file_id, _entries.attempt).where(
            is_entry(self._owner, self._store_id),
            _entries.status == "completed",
            _entries.embedder == queries.embedder,
        )
        if files is not None:
            current = current.where(_entries.file_id == func.any(cast([*files], postgresql.ARRAY(Text))))
        attempts = {row.file_id: row.attempt for row in await connection.execute(current)}
        if not attempts:
            return []
        distances = [
            # As a text: the driver would examine each element of a list.
            _vectors.embedding.operate(_DISTANCE, cast(cast(f"[{print_numbers(query)}]", Text), PgVector()))
            for query in queries.vectors
        ]
        nearest: ColumnElement[Any] = distances[0] if len(distances) == 1 else func.least(*distances)
        # Vectors of another size cannot be compared, and the order of conditions is not certain.
        has_size = func.vector_dims(_vectors.embedding) == count_numbers(queries.vectors[0])
        # Of one array, because there may be thousands of files. A join would carry the vectors along.
        is_of_attempt = _vectors.attempt == func.any(cast(list(attempts.values()), postgresql.ARRAY(BigInteger)))
        distance = case((has_size, nearest)).label("distance")
        best = (
            select(_vectors.number, distance)
            .where(_vectors.owner == self._owner, _vectors.store_id == self._store_id, is_of_attempt)
            .order_by(distance.asc().nulls_last(), _vectors.number)
            .limit(limit)
            .subquery()
        )
        query = (
            select(_chunks.number, _chunks.file_id, _chunks.position, _chunks.attempt)
            .join(best, best.c.number == _chunks.number)
            .where(best.c.distance.is_not(None))
            .order_by(best.c.distance, _chunks.number)
        )
        rows = (await connection.execute(query)).all()
        return [CloseChunk(*row[:3]) for row in rows if attempts.get(row.file_id) == row.attempt]


def choose_vector_index(owner: str, store_id: str, *, is_sqlite: bool) -> VectorIndex:
    """Returns the vectors of a store for the kind of database."""
    return (SqliteVectorIndex if is_sqlite else PostgresVectorIndex)(owner, store_id)
