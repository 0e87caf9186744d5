"""Losses of chat completions"""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    op.add_column(
        "completions",
        sa.Column(
            "losses",
            sa.Text(),
            nullable=True,
            comment="What the request lost on its way, as the reply's header had it.",
        ),
    )
