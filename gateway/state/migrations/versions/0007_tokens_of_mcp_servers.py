"""Tokens of MCP servers"""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    op.create_table(
        "mcp_grants",
        sa.Column(
            "id", sa.String(length=255), nullable=False, comment="The name of the MCP server in the configuration."
        ),
        sa.Column("sealed", sa.Text(), nullable=False, comment="The tokens, encrypted."),
        sa.Column("version", sa.BigInteger(), nullable=False, comment="Increases with each change of the tokens."),
        sa.Column("locked_until_us", sa.BigInteger(), comment="Until when one replica alone may refresh the tokens."),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_mcp_grants")),
    )
