"""Makes PostgreSQL's table of the vectors of chunks, in databases with the extension `vector` (pgvector).

It is no migration, because it can become possible at any time after the last one. The column `vector_chunks.embedding`
remains, as numbers, and a trigger copies it. Read from there it would cost a search several times as much: PostgreSQL
stores it apart from the row, and has to convert it for each comparison.
"""

from typing import Final

from alembic.operations import Operations
from alembic.runtime.migration import MigrationContext
from sqlalchemy import Connection

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


def create_vector_table(connection: Connection) -> None:
    """Makes the table within a transaction. The caller makes sure that nobody else does at the same time."""
    operations = Operations(MigrationContext.configure(connection))
    for statement in _STATEMENTS:
        operations.execute(statement)
