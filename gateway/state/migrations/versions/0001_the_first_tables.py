"""The first tables"""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    op.create_table(
        "completion_metadata",
        sa.Column("owner", sa.String(length=255), nullable=False),
        sa.Column("completion_id", sa.String(length=255), nullable=False),
        sa.Column(
            "entry", sa.String(length=64), nullable=False, comment="Hash of key and value: what lists are filtered by."
        ),
        sa.PrimaryKeyConstraint("owner", "completion_id", "entry", name=op.f("pk_completion_metadata")),
    )
    op.create_index("ix_completion_metadata_owner_entry", "completion_metadata", ["owner", "entry"], unique=False)
    op.create_table(
        "completions",
        sa.Column("owner", sa.String(length=255), nullable=False),
        sa.Column("id", sa.String(length=255), nullable=False),
        sa.Column("created_us", sa.BigInteger(), nullable=False),
        sa.Column("model", sa.Text(), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.Column("messages", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("owner", "id", name=op.f("pk_completions")),
    )
    op.create_index("ix_completions_created_us", "completions", ["created_us"], unique=False)
    op.create_index("ix_completions_owner_created_us", "completions", ["owner", "created_us", "id"], unique=False)
    op.create_table(
        "conversation_items",
        sa.Column("owner", sa.String(length=255), nullable=False),
        sa.Column("conversation_id", sa.String(length=255), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("id", sa.String(length=255), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("owner", "conversation_id", "position", name=op.f("pk_conversation_items")),
    )
    op.create_index("ix_conversation_items_owner_id", "conversation_items", ["owner", "id"], unique=False)
    op.create_table(
        "conversations",
        sa.Column("owner", sa.String(length=255), nullable=False),
        sa.Column("id", sa.String(length=255), nullable=False),
        sa.Column("created_us", sa.BigInteger(), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.Column(
            "used_us", sa.BigInteger(), nullable=False, comment="When something was last added: its age for retention."
        ),
        sa.Column("next_position", sa.Integer(), nullable=False, comment="Of the next item; raising it locks the row."),
        sa.PrimaryKeyConstraint("owner", "id", name=op.f("pk_conversations")),
    )
    op.create_index("ix_conversations_owner_created_us", "conversations", ["owner", "created_us", "id"], unique=False)
    op.create_index("ix_conversations_used_us", "conversations", ["used_us"], unique=False)
    op.create_table(
        "events",
        sa.Column("owner", sa.String(length=255), nullable=False),
        sa.Column("response_id", sa.String(length=255), nullable=False),
        sa.Column("first", sa.Integer(), nullable=False, comment="Sequence number of the first event in `frames`."),
        sa.Column("last", sa.Integer(), nullable=False),
        sa.Column("frames", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("owner", "response_id", "first", name=op.f("pk_events")),
    )
    op.create_table(
        "items",
        sa.Column("owner", sa.String(length=255), nullable=False),
        sa.Column("response_id", sa.String(length=255), nullable=False),
        sa.Column("place", sa.SmallInteger(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("id", sa.String(length=255), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("owner", "response_id", "place", "position", name=op.f("pk_items")),
    )
    op.create_index("ix_items_owner_id", "items", ["owner", "id"], unique=False)
    op.create_table(
        "jobs",
        sa.Column("owner", sa.String(length=255), nullable=False),
        sa.Column("response_id", sa.String(length=255), nullable=False),
        sa.Column("created_us", sa.BigInteger(), nullable=False),
        sa.Column("request", sa.Text(), nullable=False),
        sa.Column("worker", sa.String(length=255), nullable=True, comment="Who has it leased; null while nobody does."),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("owner", "response_id", name=op.f("pk_jobs")),
    )
    op.create_index("ix_jobs_created_us", "jobs", ["created_us"], unique=False)
    op.create_table(
        "responses",
        sa.Column("owner", sa.String(length=255), nullable=False),
        sa.Column("id", sa.String(length=255), nullable=False),
        sa.Column("created_us", sa.BigInteger(), nullable=False),
        sa.Column("status", sa.String(length=32), nullable=False),
        sa.Column("parent_id", sa.String(length=255), nullable=True),
        sa.Column("conversation_id", sa.String(length=255), nullable=True),
        sa.Column("body", sa.Text(), nullable=False, comment="The response object with an empty output."),
        sa.Column("background", sa.Boolean(), nullable=False),
        sa.Column("logged", sa.Boolean(), nullable=False, comment="Its events are in the log."),
        sa.Column(
            "losses",
            sa.Text(),
            nullable=True,
            comment="What the request lost on its way, as the reply's header had it.",
        ),
        sa.Column(
            "worker", sa.String(length=255), nullable=True, comment="The replica that runs it; null when nobody does."
        ),
        sa.Column(
            "deleted",
            sa.Boolean(),
            server_default=sa.false(),
            nullable=False,
            comment="Gone, except as history of others.",
        ),
        sa.PrimaryKeyConstraint("owner", "id", name=op.f("pk_responses")),
    )
    op.create_index("ix_responses_created_us", "responses", ["created_us"], unique=False)
    op.create_index("ix_responses_owner_created_us", "responses", ["owner", "created_us", "id"], unique=False)
    op.create_index("ix_responses_owner_parent_id", "responses", ["owner", "parent_id"], unique=False)
    op.create_index("ix_responses_worker", "responses", ["worker"], unique=False)
    op.create_table(
        "workers",
        sa.Column("id", sa.String(length=255), nullable=False),
        sa.Column("alive_until_us", sa.BigInteger(), nullable=False, comment="By the database's clock."),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_workers")),
    )
