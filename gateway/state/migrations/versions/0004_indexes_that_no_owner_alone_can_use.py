"""Indexes that no owner alone can use

Until PostgreSQL has counted a table it takes an owner's rows for few, and looks a link of a chain up among all of them
if an index lets it.
"""

from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    op.drop_index("ix_items_owner_id", table_name="items")
    op.drop_index("ix_responses_owner_parent_id", table_name="responses")
    op.create_index("ix_items_id_owner", "items", ["id", "owner"])
    op.create_index("ix_responses_parent_id_owner", "responses", ["parent_id", "owner"])
