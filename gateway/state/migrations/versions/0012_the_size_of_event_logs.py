"""The size of event logs

The bytes of an owner's event logs were summed for each request that adds to them. Triggers update the sum, so it is
exact however entries are written and deleted: also by replicas of an older version, which do not know the table.
"""

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"

_SQLITE = (
    """
    CREATE TRIGGER add_log_bytes AFTER INSERT ON events BEGIN
        INSERT INTO owner_usage (owner, log_bytes) VALUES (new.owner, length(new.frames))
            ON CONFLICT (owner) DO UPDATE SET log_bytes = log_bytes + excluded.log_bytes;
    END
    """,
    """
    CREATE TRIGGER subtract_log_bytes AFTER DELETE ON events BEGIN
        UPDATE owner_usage SET log_bytes = log_bytes - length(old.frames) WHERE owner = old.owner;
    END
    """,
)

# One execution for a statement, not for a row. Owners are locked in order, so that no two statements wait for each
# other.
_POSTGRESQL = (
    """
    CREATE FUNCTION add_log_bytes() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        INSERT INTO owner_usage (owner, log_bytes)
            SELECT owner, sum(length(frames)) FROM new_rows GROUP BY owner ORDER BY owner
            ON CONFLICT (owner) DO UPDATE SET log_bytes = owner_usage.log_bytes + excluded.log_bytes;
        RETURN NULL;
    END $$
    """,
    """
    CREATE FUNCTION subtract_log_bytes() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        UPDATE owner_usage SET log_bytes = owner_usage.log_bytes - deleted.log_bytes
            FROM (SELECT owner, sum(length(frames)) AS log_bytes FROM old_rows GROUP BY owner) AS deleted
            WHERE owner_usage.owner = deleted.owner;
        RETURN NULL;
    END $$
    """,
    """
    CREATE TRIGGER add_log_bytes AFTER INSERT ON events REFERENCING NEW TABLE AS new_rows
        FOR EACH STATEMENT EXECUTE FUNCTION add_log_bytes()
    """,
    """
    CREATE TRIGGER subtract_log_bytes AFTER DELETE ON events REFERENCING OLD TABLE AS old_rows
        FOR EACH STATEMENT EXECUTE FUNCTION subtract_log_bytes()
    """,
)

_SUM = "INSERT INTO owner_usage (owner, log_bytes) SELECT owner, sum(length(frames)) FROM events GROUP BY owner"


def upgrade() -> None:
    op.create_table(
        "owner_usage",
        sa.Column("owner", sa.String(length=255), nullable=False),
        sa.Column("log_bytes", sa.BigInteger(), nullable=False, comment="Of its event logs; triggers keep it."),
        sa.PrimaryKeyConstraint("owner", name=op.f("pk_owner_usage")),
    )
    # First the triggers: on PostgreSQL they lock `events` against writers until the sum is committed.
    for statement in _SQLITE if op.get_bind().dialect.name == "sqlite" else _POSTGRESQL:
        op.execute(statement)
    op.execute(_SUM)
