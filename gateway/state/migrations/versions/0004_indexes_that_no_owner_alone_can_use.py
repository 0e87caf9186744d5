"""Replace indexes that start with the owner

Until PostgreSQL has analyzed a table, it expects few rows per owner. With an index that starts with the owner, it then
scans all rows of the owner to look up one link of a chain.
"""

from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    op.drop_index("ix_items_owner_id", table_name="items")
    op.drop_index("ix_responses_owner_parent_id", table_name="responses")
    op.create_index("ix_items_id_owner", "items", ["id", "owner"])
    op.create_index("ix_responses_parent_id_owner", "responses", ["parent_id", "owner"])
