"""PostgreSQL's table of the vectors of chunks.

It needs a type of the extension `vector` (pgvector), so no migration can make it: `responses-gateway migrate` does, in
databases that have the extension.

The column `vector_chunks.embedding` remains, as numbers, and a trigger copies it. Read from there it would cost a
search several times as much: PostgreSQL stores it apart from the row, and has to convert it for each comparison.
"""

from typing import Any, Final

from sqlalchemy import BigInteger, Column, Connection, MetaData, String, Table, Text, cast, func, select
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlalchemy.types import UserDefinedType

from gateway.state.values import SchemaMismatch


class PgVector(UserDefinedType[Any]):
    """The type of pgvector."""

    cache_ok = True

    def get_col_spec(self, **_: object) -> str:
        return "vector"


vector_embeddings: Final = Table(
    "vector_embeddings",
    # Of its own, because migrations do not make it.
    MetaData(),
    Column("number", BigInteger),
    Column("owner", Text),
    Column("store_id", Text),
    Column("attempt", BigInteger),
    Column("embedding", PgVector()),
)

_EXTENSIONS: Final = Table("pg_extension", MetaData(), Column("extname", String))
"""PostgreSQL's list of the extensions in a database."""


_STATEMENTS: Final = (
    # A vector of up to 8 kB lies in its row, and is not compressed.
    """
    CREATE TABLE vector_embeddings (
        number bigint PRIMARY KEY REFERENCES vector_chunks ON DELETE CASCADE,
        owner varchar(255) NOT NULL,
        store_id varchar(255) NOT NULL,
        attempt bigint NOT NULL,
        embedding vector NOT NULL
    ) WITH (toast_tuple_target = 8160)
    """,
    "ALTER TABLE vector_embeddings ALTER embedding SET STORAGE EXTERNAL",
    # One execution for a statement, not for a row. Replicas of an older version, which do not know the table, fill it
    # too.
    """
    CREATE FUNCTION add_vector_embeddings() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        INSERT INTO vector_embeddings (number, owner, store_id, attempt, embedding)
            SELECT number, owner, store_id, attempt, embedding::vector FROM new_rows WHERE embedding IS NOT NULL;
        RETURN NULL;
    END $$
    """,
    """
    CREATE TRIGGER add_vector_embeddings AFTER INSERT ON vector_chunks REFERENCING NEW TABLE AS new_rows
        FOR EACH STATEMENT EXECUTE FUNCTION add_vector_embeddings()
    """,
    """
    INSERT INTO vector_embeddings (number, owner, store_id, attempt, embedding)
        SELECT number, owner, store_id, attempt, embedding::vector FROM vector_chunks WHERE embedding IS NOT NULL
        ORDER BY number
    """,
    "CREATE INDEX ix_vector_embeddings_store ON vector_embeddings (owner, store_id)",
)


async def ensure_vector_table(connection: AsyncConnection) -> None:
    """Makes the table within a transaction, if the database can have it and does not have it yet.

    The caller makes sure that no other process does the same at the same time.
    """
    if connection.dialect.name != "sqlite" and await _has_type(connection) and not await _has_table(connection):
        await connection.run_sync(_create_table)


def _create_table(connection: Connection) -> None:
    from alembic.operations import Operations
    from alembic.runtime.migration import MigrationContext

    operations = Operations(MigrationContext.configure(connection))
    for statement in _STATEMENTS:
        operations.execute(statement)


async def require_vector_table(connection: AsyncConnection) -> None:
    """Raises SchemaMismatch if vectors cannot be compared in this database."""
    if connection.dialect.name == "sqlite" or await _has_table(connection):
        return
    if await _has_type(connection):
        raise SchemaMismatch(
            "tools.file_search.embeddings needs a table for vectors, which the database can have now that it has the "
            "extension vector: run `responses-gateway migrate`"
        )
    if await _has_extension(connection):
        raise SchemaMismatch(
            "tools.file_search.embeddings needs the type vector, whose schema is not in the search_path of this "
            "database user: add it (ALTER ROLE ... SET search_path) or move it (ALTER EXTENSION vector SET SCHEMA "
            "public), and then run `responses-gateway migrate`"
        )
    raise SchemaMismatch(
        "tools.file_search.embeddings needs the extension vector (pgvector) in the database: install it on its "
        "server, run CREATE EXTENSION vector in this database, and then `responses-gateway migrate`"
    )


async def _has_extension(connection: AsyncConnection) -> bool:
    """Whether the database has the extension `vector`."""
    name = _EXTENSIONS.c.extname
    return await connection.scalar(select(name).where(name == "vector")) is not None


async def _has_type(connection: AsyncConnection) -> bool:
    """Whether the type `vector` is found without the name of its schema. The extension may be in another schema."""
    return await connection.scalar(select(cast(func.to_regtype("vector"), Text))) is not None


async def _has_table(connection: AsyncConnection) -> bool:
    """Whether the database has the table."""
    return await connection.scalar(select(cast(func.to_regclass(vector_embeddings.name), Text))) is not None
