"""Upstreams that answered

A name may have several upstreams. The reply says which of them answered, and so does what is stored of it.
"""

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"


def upgrade() -> None:
    for table in ("responses", "completions"):
        op.add_column(
            table,
            sa.Column(
                "upstream",
                sa.Text(),
                nullable=True,
                comment="The upstream that answered, as the reply's header names it.",
            ),
        )
