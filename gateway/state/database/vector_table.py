"""PostgreSQL's table of the vectors of chunks.

It needs a type of the extension `vector` (pgvector), so only databases with the extension have it
(`gateway/state/migrations/vector_table.py`).
"""

from typing import Final

from sqlalchemy import Column, MetaData, String, Table, Text, cast, func, select
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway.state.values import SchemaMismatch

VECTOR_TABLE: Final = "vector_embeddings"

_EXTENSIONS: Final = Table("pg_extension", MetaData(), Column("extname", String))
"""PostgreSQL's list of the extensions in a database."""


async def require_vector_table(connection: AsyncConnection) -> None:
    """Raises SchemaMismatch if vectors cannot be compared in this database."""
    if connection.dialect.name == "sqlite" or await has_table(connection):
        return
    if await has_extension(connection):
        raise SchemaMismatch(
            "tools.file_search.embeddings needs a table for vectors, which the database can have now that it has the "
            "extension vector: run `responses-gateway migrate`"
        )
    raise SchemaMismatch(
        "tools.file_search.embeddings needs the extension vector (pgvector) in the database: install it on its "
        "server, run CREATE EXTENSION vector in this database, and then `responses-gateway migrate`"
    )


async def has_extension(connection: AsyncConnection) -> bool:
    """Whether the database has the extension `vector`."""
    name = _EXTENSIONS.c.extname
    return await connection.scalar(select(name).where(name == "vector")) is not None


async def has_table(connection: AsyncConnection) -> bool:
    """Whether the database has the table."""
    return await connection.scalar(select(cast(func.to_regclass(VECTOR_TABLE), Text))) is not None
