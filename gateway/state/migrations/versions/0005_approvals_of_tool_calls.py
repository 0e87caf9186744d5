"""Approvals of tool calls"""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    op.create_table(
        "approvals",
        sa.Column("owner", sa.String(length=255), nullable=False),
        sa.Column("id", sa.String(length=255), nullable=False, comment="Of the item `mcp_approval_request`."),
        sa.Column("created_us", sa.BigInteger(), nullable=False),
        sa.Column("expires_us", sa.BigInteger(), nullable=False),
        sa.Column("response_id", sa.String(length=255), nullable=False, comment="The response that asks for it."),
        sa.Column("server_label", sa.Text(), nullable=False),
        sa.Column("tool_name", sa.Text(), nullable=False),
        sa.Column("origin", sa.Text(), nullable=False, comment="Where the server is, without path and query."),
        sa.Column("arguments_digest", sa.String(length=64), nullable=False),
        sa.Column(
            "definition_digest",
            sa.String(length=64),
            nullable=False,
            comment="Of address, name, description and schema.",
        ),
        sa.Column("state", sa.String(length=16), nullable=False, comment="open, used, denied or void."),
        sa.Column("answered_by", sa.String(length=255), comment="The response that used or denied it."),
        sa.PrimaryKeyConstraint("owner", "id", name=op.f("pk_approvals")),
    )
    op.create_index("ix_approvals_expires_us", "approvals", ["expires_us"], unique=False)
    op.create_index("ix_approvals_response_id_owner", "approvals", ["response_id", "owner"], unique=False)
