"""An index of jobs by owner

Jobs are claimed in an order that is fair to their owners. The index has all that the order needs, so that the requests
of jobs that wait are not read.
"""

from alembic import op

revision = "0013"
down_revision = "0012"


def upgrade() -> None:
    op.create_index("ix_jobs_owner_created_us", "jobs", ["owner", "created_us", "response_id", "worker"])
