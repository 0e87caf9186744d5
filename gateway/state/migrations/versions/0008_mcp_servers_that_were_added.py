"""MCP servers that were added"""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    op.create_table(
        "mcp_servers",
        sa.Column(
            "id", sa.String(length=255), nullable=False, comment="The label of a server that was added over the API."
        ),
        sa.Column(
            "prefix",
            sa.String(length=255),
            comment="That of the names of its tools, in lower case; null if they have none.",
        ),
        sa.Column("settings", sa.Text(), nullable=False, comment="As in the configuration, without credentials."),
        sa.Column("sealed", sa.Text(), comment="The settings with credentials, encrypted; null if there are none."),
        sa.Column("added_by", sa.String(length=255), nullable=False, comment="The name of the key."),
        sa.Column("changed_us", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_mcp_servers")),
    )
    op.create_index("ix_mcp_servers_prefix", "mcp_servers", ["prefix"], unique=True)
