"""The journal of tool calls"""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    op.create_table(
        "tool_calls",
        sa.Column("owner", sa.String(length=255), nullable=False),
        sa.Column("response_id", sa.String(length=255), nullable=False),
        sa.Column("id", sa.String(length=255), nullable=False, comment="The id of the item."),
        sa.Column("position", sa.Integer(), nullable=False, comment="The item's place in the output."),
        sa.Column("state", sa.String(length=16), nullable=False, comment="intended, started, finished or unknown."),
        sa.Column(
            "repeatable",
            sa.Boolean(),
            nullable=False,
            comment="Whether it may be sent again if its outcome is not known.",
        ),
        sa.Column("item", sa.Text(), comment="The item; null once the response has ended, whose output has it."),
        sa.Column("media", sa.Text(), comment="Parts of the result that the item does not have."),
        sa.Column("changed_us", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("owner", "response_id", "id", name=op.f("pk_tool_calls")),
    )
    op.add_column(
        "jobs",
        sa.Column(
            "progress",
            sa.Text(),
            nullable=True,
            comment="How far its loop of a model and tools has come; null before the first round.",
        ),
    )
