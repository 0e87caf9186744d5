"""pgvector without the gateway: the same vectors in a table of nothing else, compared exactly by SQL."""

from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import asyncpg  # type: ignore[import-untyped]
from sqlalchemy.engine import make_url

from bench.retrieval.speed import Load
from gateway.retrieval.embedding import Vector, unpack_vector

_FOUND = 200
"""What a search of the gateway fetches as candidates."""

_ROWS_AT_ONCE = 1000


async def settle(url: str) -> None:
    """Lets PostgreSQL count its rows and clean its tables at once, which it does by itself within minutes."""
    connection = await _connect(url)
    try:
        await connection.execute("VACUUM ANALYZE")
    finally:
        await connection.close()


@asynccontextmanager
async def open_pgvector(url: str, load: Load) -> AsyncIterator[Callable[[int], Coroutine[Any, Any, object]]]:
    """Yields the search for the vector of the query with a number, in a table of the vectors alone."""
    connection = await _connect(url)
    try:
        await connection.execute("CREATE TEMPORARY TABLE alone (number bigint PRIMARY KEY, embedding vector)")
        await connection.execute("ALTER TABLE alone ALTER embedding SET STORAGE PLAIN")
        rows = [(number, _write_vector(vector)) for number, vector in enumerate(load.chunk_vectors)]
        for start in range(0, len(rows), _ROWS_AT_ONCE):
            insert = "INSERT INTO alone VALUES ($1, $2::text::vector)"
            await connection.executemany(insert, rows[start : start + _ROWS_AT_ONCE])
        await connection.execute("ANALYZE alone")
        query = "SELECT number FROM alone ORDER BY embedding <=> $1::text::vector LIMIT $2"

        async def search(number: int) -> object:
            return await connection.fetch(query, _write_vector(load.query_vectors[number]), _FOUND)

        yield search
    finally:
        await connection.close()


async def _connect(url: str) -> asyncpg.Connection:
    parts = make_url(url)
    host = parts.query.get("host", parts.host)
    return await asyncpg.connect(
        user=parts.username, password=parts.password, database=parts.database, host=host, port=parts.port or 5432
    )


def _write_vector(vector: Vector) -> str:
    return str(unpack_vector(vector))
