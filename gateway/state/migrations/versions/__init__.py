"""The schema changes, in the order of their numbers. May import Alembic and SQLAlchemy only: a change must never depend
on code that is changed later.
"""
