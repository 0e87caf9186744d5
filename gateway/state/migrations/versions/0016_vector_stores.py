"""Vector stores

Stores of files that can be searched: their files and batches, the chunks of the files with their index of terms, and
chunks that are to be deleted. On SQLite each store has another table for its terms, which its creation makes.
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import TSVECTOR

revision = "0016"
down_revision = "0015"


def upgrade() -> None:
    is_waiting = sa.column("status") == "in_progress"
    op.create_table(
        "vector_store_usage",
        sa.Column("owner", sa.String(length=255), nullable=False),
        sa.Column("stores", sa.BigInteger(), nullable=False),
        sa.Column(
            "last_number", sa.BigInteger(), nullable=False, comment="Of its newest store; raising it locks the row."
        ),
        sa.PrimaryKeyConstraint("owner", name="pk_vector_store_usage"),
    )
    op.create_table(
        "vector_stores",
        sa.Column("owner", sa.String(length=255), nullable=False),
        sa.Column("id", sa.String(length=255), nullable=False),
        sa.Column(
            "number", sa.BigInteger(), nullable=False, comment="Counts the stores of the owner: the order of lists."
        ),
        sa.Column("created_us", sa.BigInteger(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("description", sa.Text()),
        sa.Column("metadata", sa.Text()),
        sa.Column("expires_days", sa.Integer()),
        sa.Column("used_us", sa.BigInteger(), nullable=False, comment="When it was searched or changed last."),
        sa.Column("expires_us", sa.BigInteger(), comment="From then on it has expired for good."),
        sa.Column(
            "last_number", sa.BigInteger(), nullable=False, comment="Of its newest file; raising it locks the row."
        ),
        sa.Column(
            "swept",
            sa.Boolean(),
            nullable=False,
            comment="Expired, and its chunks are removed.",
        ),
        sa.PrimaryKeyConstraint("owner", "id", name="pk_vector_stores"),
    )
    op.create_index("ix_vector_stores_expires_us", "vector_stores", ["expires_us"])
    op.create_index("ix_vector_stores_owner_number", "vector_stores", ["owner", "number"], unique=True)
    op.create_table(
        "vector_store_files",
        sa.Column("owner", sa.String(length=255), nullable=False),
        sa.Column("store_id", sa.String(length=255), nullable=False),
        sa.Column("file_id", sa.String(length=255), nullable=False),
        sa.Column(
            "number", sa.BigInteger(), nullable=False, comment="Counts the files of the store: the order of lists."
        ),
        sa.Column("created_us", sa.BigInteger(), nullable=False),
        sa.Column(
            "status", sa.String(length=16), nullable=False, comment="in_progress, completed, failed or cancelled."
        ),
        sa.Column("error_code", sa.String(length=32)),
        sa.Column("error_message", sa.Text()),
        sa.Column("attributes", sa.Text(), nullable=False),
        sa.Column("max_tokens", sa.Integer(), nullable=False),
        sa.Column("overlap", sa.Integer(), nullable=False),
        sa.Column("chunks", sa.Integer(), nullable=False),
        sa.Column("terms", sa.BigInteger(), nullable=False, comment="Of all its chunks."),
        sa.Column("bytes", sa.BigInteger(), nullable=False, comment="Of the texts of its chunks."),
        sa.Column(
            "attempt",
            sa.BigInteger(),
            nullable=False,
            comment="Of its indexing, whose chunks count; 0 before the first.",
        ),
        sa.Column("leased_us", sa.BigInteger(), nullable=False, comment="Until then a process indexes it."),
        sa.PrimaryKeyConstraint("owner", "store_id", "file_id", name="pk_vector_store_files"),
    )
    op.create_index("ix_vector_store_files_file_id", "vector_store_files", ["file_id", "owner"])
    op.create_index(
        "ix_vector_store_files_owner_number", "vector_store_files", ["owner", "store_id", "number"], unique=True
    )
    op.create_index(
        "ix_vector_store_files_waiting",
        "vector_store_files",
        ["leased_us"],
        sqlite_where=is_waiting,
        postgresql_where=is_waiting,
    )
    op.create_table(
        "vector_store_batches",
        sa.Column("owner", sa.String(length=255), nullable=False),
        sa.Column("id", sa.String(length=255), nullable=False),
        sa.Column("store_id", sa.String(length=255), nullable=False),
        sa.Column("created_us", sa.BigInteger(), nullable=False),
        sa.Column("cancelled", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("owner", "id", name="pk_vector_store_batches"),
    )
    op.create_index("ix_vector_store_batches_created_us", "vector_store_batches", ["created_us"])
    op.create_index("ix_vector_store_batches_store_id", "vector_store_batches", ["store_id", "owner"])
    op.create_table(
        "vector_batch_files",
        sa.Column("owner", sa.String(length=255), nullable=False),
        sa.Column("batch_id", sa.String(length=255), nullable=False),
        sa.Column("file_id", sa.String(length=255), nullable=False),
        sa.PrimaryKeyConstraint("owner", "batch_id", "file_id", name="pk_vector_batch_files"),
    )
    op.create_table(
        "vector_chunks",
        sa.Column("number", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False, autoincrement=True),
        sa.Column("owner", sa.String(length=255), nullable=False),
        sa.Column("store_id", sa.String(length=255), nullable=False),
        sa.Column("file_id", sa.String(length=255), nullable=False),
        sa.Column("attempt", sa.BigInteger(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column(
            "fresh", sa.Integer(), nullable=False, comment="The first character that the chunk before does not have."
        ),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("terms", sa.Text(), nullable=False, comment="The terms of the text, with blanks between them."),
        sa.Column("vector", sa.Text().with_variant(TSVECTOR(), "postgresql"), comment="PostgreSQL's index of terms."),
        sa.PrimaryKeyConstraint("number", name="pk_vector_chunks"),
    )
    op.create_index("ix_vector_chunks_file", "vector_chunks", ["owner", "store_id", "file_id", "attempt", "position"])
    op.create_table(
        "vector_removals",
        sa.Column("owner", sa.String(length=255), nullable=False),
        sa.Column("store_id", sa.String(length=255), nullable=False),
        sa.Column("file_id", sa.String(length=255), nullable=False),
        sa.Column(
            "attempt", sa.BigInteger(), nullable=False, comment="Its chunks count no more, and are to be deleted."
        ),
        sa.PrimaryKeyConstraint("owner", "store_id", "file_id", "attempt", name="pk_vector_removals"),
    )
    op.create_index(
        "ix_vector_chunks_vector",
        "vector_chunks",
        ["vector"],
        postgresql_using="gin",
        sqlite_where=sa.column("vector").is_not(None),
    )
