"""Faster searches

How often the indexing of a file was tried, and an index of terms for PostgreSQL that is searched for each store by
itself: each term has letters of its store in front. It is of an expression, so that replicas of an older version fill
it. Until they are replaced they search without an index.
"""

import sqlalchemy as sa
from alembic import op

revision = "0019"
down_revision = "0018"

_PREFIX = "translate(substr(md5(store_id), 1, 8), '0123456789', 'ghijklmnop')"
_TERMS = f"array_to_tsvector(string_to_array({_PREFIX} || replace(terms, ' ', ' ' || {_PREFIX}), ' '))"

_POSTGRESQL = (
    # Searches read the rows of many chunks, and the texts of few: these are kept apart from the rows.
    "ALTER TABLE vector_chunks SET (toast_tuple_target = 128)",
    # With a short list of pending rows, which each search reads.
    f"CREATE INDEX ix_vector_chunks_terms ON vector_chunks USING gin ({_TERMS}) WITH (gin_pending_list_limit = 512)",
)


def upgrade() -> None:
    # The index is built before the statements whose locks keep out all readers until the transaction ends: to build it
    # takes minutes in a large database, and servers of the older version go on searching meanwhile.
    if op.get_bind().dialect.name == "postgresql":
        for statement in _POSTGRESQL:
            op.execute(statement)
    op.add_column(
        "vector_store_files",
        sa.Column(
            "tries",
            sa.Integer(),
            nullable=False,
            server_default="0",
            comment="How often its indexing was put off.",
        ),
    )
    op.drop_index("ix_vector_chunks_vector", "vector_chunks")
