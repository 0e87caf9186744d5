"""The schema changes, in the order of their numbers. A change must not depend on code that changes later.

May import `alembic` and `sqlalchemy`.
"""
