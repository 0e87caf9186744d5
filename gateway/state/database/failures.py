"""Describes database errors for operators. The text never includes the statement or its values."""

import sqlite3
from typing import Final

from sqlalchemy.exc import DataError, DBAPIError, IntegrityError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from gateway.state.database.sqlite_file import DatabaseFileLost

TIMEOUT_MESSAGE: Final = "it does not answer in time"

_QUERY_CANCELED: Final = "57014"
"""The SQLSTATE of a statement that took longer than `statement_timeout`."""

_SQLSTATE_MESSAGES: Final = {
    "53100": "its disk is full",
    "53300": "it has too many connections",
    "25006": "it is read-only",
    "3D000": "there is no such database",
    "42P01": "its tables are missing: run `responses-gateway migrate`",
    "42703": "its tables are not those of this version: run `responses-gateway migrate`",
    "42501": "the gateway's user may not use its tables",
    _QUERY_CANCELED: TIMEOUT_MESSAGE,
    "57P01": "it was shut down",
    "57P03": "it is starting or stopping",
}
"""Keyed by PostgreSQL's SQLSTATE. Every message is a claim whose subject, "it", is the database."""

_SQLSTATE_CLASS_MESSAGES: Final = {
    "08": "it cannot be reached",
    "28": "it refuses the gateway's user",
}
"""Keyed by the class of a SQLSTATE, which is its first two characters."""

_SQLITE_MESSAGES: Final = (
    ("is full", "its disk is full"),
    ("readonly", "it is read-only"),
    ("read-only", "it is read-only"),
    ("is locked", "another process holds its lock"),
    ("unable to open", "its file cannot be opened"),
    ("disk i/o", "its disk fails"),
    ("malformed", "its file is damaged"),
    ("not a database", "its file is no database"),
    ("no such table", "its tables are missing: run `responses-gateway migrate`"),
    ("no such column", "its tables are not those of this version: run `responses-gateway migrate`"),
    ("closed", "it was shut down"),
)
"""Pairs of a part of SQLite's own message and the message to report. Not every error of SQLite has a code."""


def is_data_error(error: BaseException) -> bool:
    """Returns whether the statement's data is at fault and the database is healthy.

    SQLAlchemy reports some of PostgreSQL's data errors (SQLSTATE class 22) only as generic driver errors.
    """
    if isinstance(error, DataError | IntegrityError | sqlite3.DataError | sqlite3.IntegrityError):
        return True
    state = getattr(error.orig, "sqlstate", None) if isinstance(error, DBAPIError) else None
    return state is not None and state.startswith("22")


def may_be_own_fault(error: BaseException) -> bool:
    """Returns whether one use of the database may be the reason of its own failure: it took too long, or waited too
    long for its turn. Others may then use the database all the same."""
    if isinstance(error, TimeoutError | PoolTimeout):
        return True
    cause = error.orig if isinstance(error, DBAPIError) else error
    if isinstance(cause, sqlite3.OperationalError):
        return "is locked" in str(cause)
    return getattr(cause, "sqlstate", None) == _QUERY_CANCELED


def describe_error(error: BaseException) -> str:
    """Returns a short description of the failure for the operator, such as "its disk is full"."""
    if isinstance(error, PoolTimeout):
        return "all connections to it are in use"
    if isinstance(error, DatabaseFileLost):
        return str(error)
    if isinstance(error, TimeoutError):
        return TIMEOUT_MESSAGE
    if isinstance(error, OSError):
        return "it cannot be reached"
    cause = error.orig if isinstance(error, DBAPIError) else error
    state = getattr(cause, "sqlstate", None)
    if state is not None:
        return (
            _SQLSTATE_MESSAGES.get(state)
            or _SQLSTATE_CLASS_MESSAGES.get(state[:2])
            or f"it fails with SQLSTATE {state}"
        )
    message = str(cause).lower()
    return next((text for part, text in _SQLITE_MESSAGES if part in message), f"it fails with {type(cause).__name__}")
