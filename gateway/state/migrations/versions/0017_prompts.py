"""Prompts

Prompts of clients, in versions. A version never changes.
"""

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"


def upgrade() -> None:
    op.create_table(
        "prompt_versions",
        sa.Column("owner", sa.String(length=255), nullable=False),
        sa.Column("prompt_id", sa.String(length=255), nullable=False),
        sa.Column("version", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("created_us", sa.BigInteger(), nullable=False),
        sa.Column("body", sa.Text(), nullable=False, comment="Its texts with variables, as the client wrote them."),
        sa.PrimaryKeyConstraint("owner", "prompt_id", "version", name="pk_prompt_versions"),
    )
    op.create_table(
        "prompts",
        sa.Column("owner", sa.String(length=255), nullable=False),
        sa.Column("id", sa.String(length=255), nullable=False),
        sa.Column("created_us", sa.BigInteger(), nullable=False),
        sa.Column("default_version", sa.Integer(), nullable=False),
        sa.Column(
            "last_version", sa.Integer(), nullable=False, comment="Of its newest version; raising it locks the row."
        ),
        sa.PrimaryKeyConstraint("owner", "id", name="pk_prompts"),
    )
    op.create_index("ix_prompts_owner_created_us", "prompts", ["owner", "created_us", "id"])
