"""Embeddings of chunks

Vectors of the chunks of vector stores, for searches by meaning, and which model made them.
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import ARRAY

revision = "0018"
down_revision = "0017"


def upgrade() -> None:
    op.add_column(
        "vector_store_files",
        sa.Column(
            "embedder", sa.String(length=255), nullable=True, comment="The model that made the vectors of its chunks."
        ),
    )
    op.add_column(
        "vector_chunks",
        sa.Column(
            "embedding",
            sa.LargeBinary().with_variant(ARRAY(sa.REAL()), "postgresql"),
            nullable=True,
            comment="The numbers of its vector, as 32-bit floats.",
        ),
    )
    op.add_column(
        "vector_chunks",
        sa.Column(
            "signs", sa.LargeBinary(), nullable=True, comment="A bit for the sign of each number; not on PostgreSQL."
        ),
    )
    has_signs = sa.column("signs").is_not(None)
    op.create_index(
        "ix_vector_chunks_signs",
        "vector_chunks",
        ["owner", "store_id", "number", "file_id", "attempt", "signs"],
        sqlite_where=has_signs,
        postgresql_where=has_signs,
    )
