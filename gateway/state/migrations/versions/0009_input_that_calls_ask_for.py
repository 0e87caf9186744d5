"""Input that calls ask for"""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    op.add_column(
        "approvals",
        sa.Column(
            "sealed_input",
            sa.Text(),
            nullable=True,
            comment="What the call asks the user for, sealed; null for an approval.",
        ),
    )
