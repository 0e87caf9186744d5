"""Files and uploads

Files of clients, with what they take of their owner's quota; uploads in parts; and the bytes that no file has yet, or
any more. The bytes are not in the database.
"""

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"


def upgrade() -> None:
    expires = sa.column("expires_us").is_not(None)
    op.create_table(
        "file_usage",
        sa.Column("owner", sa.String(length=255), nullable=False),
        sa.Column("files", sa.BigInteger(), nullable=False),
        sa.Column("bytes", sa.BigInteger(), nullable=False, comment="Of its files, and of the parts of its uploads."),
        sa.Column(
            "last_number", sa.BigInteger(), nullable=False, comment="Of its newest file; raising it locks the row."
        ),
        sa.PrimaryKeyConstraint("owner", name="pk_file_usage"),
    )
    op.create_table(
        "files",
        sa.Column("owner", sa.String(length=255), nullable=False),
        sa.Column(
            "id", sa.String(length=255), nullable=False, comment="Also the name of its bytes in the file storage."
        ),
        sa.Column(
            "number", sa.BigInteger(), nullable=False, comment="Counts the files of the owner: the order of lists."
        ),
        sa.Column("created_us", sa.BigInteger(), nullable=False),
        sa.Column("bytes", sa.BigInteger(), nullable=False),
        sa.Column("filename", sa.Text(), nullable=False),
        sa.Column("purpose", sa.String(length=32), nullable=False),
        sa.Column("expires_us", sa.BigInteger()),
        sa.PrimaryKeyConstraint("owner", "id", name="pk_files"),
    )
    op.create_index("ix_files_expires_us", "files", ["expires_us"], sqlite_where=expires, postgresql_where=expires)
    op.create_index("ix_files_owner_number", "files", ["owner", "number"], unique=True)
    op.create_table(
        "unused_blobs",
        sa.Column("owner", sa.String(length=255), nullable=False),
        sa.Column(
            "id",
            sa.String(length=255),
            nullable=False,
            comment="Of bytes in the file storage that no file and no part has.",
        ),
        sa.Column("created_us", sa.BigInteger(), nullable=False),
        sa.Column(
            "remove_after_us",
            sa.BigInteger(),
            nullable=False,
            comment="Until then a request may still make a file of it.",
        ),
        sa.PrimaryKeyConstraint("owner", "id", name="pk_unused_blobs"),
    )
    op.create_index("ix_unused_blobs_remove_after_us", "unused_blobs", ["remove_after_us"])
    op.create_table(
        "upload_parts",
        sa.Column("owner", sa.String(length=255), nullable=False),
        sa.Column("upload_id", sa.String(length=255), nullable=False),
        sa.Column(
            "id", sa.String(length=255), nullable=False, comment="Also the name of its bytes in the file storage."
        ),
        sa.Column("created_us", sa.BigInteger(), nullable=False),
        sa.Column("bytes", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("owner", "upload_id", "id", name="pk_upload_parts"),
    )
    op.create_index("ix_upload_parts_owner_id", "upload_parts", ["owner", "id"])
    op.create_table(
        "uploads",
        sa.Column("owner", sa.String(length=255), nullable=False),
        sa.Column("id", sa.String(length=255), nullable=False),
        sa.Column("created_us", sa.BigInteger(), nullable=False),
        sa.Column("expires_us", sa.BigInteger(), nullable=False, comment="From then on no part is added to it."),
        sa.Column("bytes", sa.BigInteger(), nullable=False, comment="Of the whole file, as its client declared them."),
        sa.Column("part_bytes", sa.BigInteger(), nullable=False, comment="Of all its parts; raising it locks the row."),
        sa.Column("part_count", sa.Integer(), nullable=False),
        sa.Column("filename", sa.Text(), nullable=False),
        sa.Column("purpose", sa.String(length=32), nullable=False),
        sa.Column("file_expires_s", sa.Integer(), comment="Seconds from the creation of its file until that expires."),
        sa.Column("status", sa.String(length=16), nullable=False, comment="pending, completed, cancelled or expired."),
        sa.Column("file_id", sa.String(length=255), comment="The file that it became."),
        sa.PrimaryKeyConstraint("owner", "id", name="pk_uploads"),
    )
    op.create_index("ix_uploads_expires_us", "uploads", ["expires_us"])
    op.create_index("ix_uploads_owner_created_us", "uploads", ["owner", "created_us", "id"])
