"""An index of open calls

Sweeps look for calls of replies that are not stored. Without the index they read the calls of all stored responses.
"""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
    is_open = sa.column("position", sa.Integer()) == -1
    op.create_index("ix_tool_calls_open", "tool_calls", ["changed_us"], sqlite_where=is_open, postgresql_where=is_open)
