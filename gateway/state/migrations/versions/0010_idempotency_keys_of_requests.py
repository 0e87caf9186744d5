"""Idempotency keys of requests"""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    op.create_table(
        "idempotency_keys",
        sa.Column("owner", sa.String(length=255), nullable=False),
        sa.Column("id", sa.String(length=255), nullable=False, comment="The key, as the client wrote it."),
        sa.Column("created_us", sa.BigInteger(), nullable=False),
        sa.Column("digest", sa.String(length=64), nullable=False, comment="Of the body of the request."),
        sa.Column("response_id", sa.String(length=255), nullable=False, comment="The response to the request."),
        sa.PrimaryKeyConstraint("owner", "id", name=op.f("pk_idempotency_keys")),
    )
    op.create_index("ix_idempotency_keys_created_us", "idempotency_keys", ["created_us"], unique=False)
