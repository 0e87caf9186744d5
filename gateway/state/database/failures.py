"""Describes database errors for operators. The text never includes the statement or its values."""

import sqlite3
from pathlib import Path
from typing import Final, NamedTuple

from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import DataError, DBAPIError, IntegrityError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from dataplane.sharing.descriptors import has_free_descriptor, is_lack_of_descriptors
from gateway.state.database.sqlite_file import DatabaseFileLost

TIMEOUT_MESSAGE: Final = "it does not answer in time"

_UNKNOWN: Final = "it fails with"

_QUERY_CANCELED: Final = "57014"
"""The SQLSTATE of a statement that took longer than `statement_timeout`."""

_CONFLICTS: Final = frozenset(["40001", "40P01"])
"""The SQLSTATEs of transactions that were given up for others: serialization failures and deadlocks."""

_SQLSTATE_MESSAGES: Final = {
    "53100": "its disk is full",
    "53300": "it has too many connections",
    "25006": "it is read-only",
    "3D000": "there is no such database",
    "42P01": "its tables are missing: run `responses-gateway migrate`",
    "42703": "its tables are not those of this version: run `responses-gateway migrate`",
    "42501": "the gateway's user may not use its tables",
    _QUERY_CANCELED: TIMEOUT_MESSAGE,
    "40001": "another transaction changed the same rows",
    "40P01": "another transaction held rows that it needed, and needed its own",
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


_FILE_REMEDIES: Final = {
    "it is read-only": "let the gateway's user write {folder} and {file}, or set store.url to a file elsewhere",
    "its file is read-only": "let the gateway's user write {file}",
    "its file cannot be opened": "let the gateway's user create and write {folder}, or set store.url to a file "
    "elsewhere",
    "its disk is full": "free space on the disk of {folder}, or lower store.ttl_days",
    "its disk fails": "check the disk of {folder}",
    "its file is damaged": "stop the server, and restore {file} from a backup",
    "its file is no database": "set store.url to another file: {file} is something else",
    "another process holds its lock": "end the process that has {file} open, such as a backup",
}
"""The description of a failure of a SQLite file -> what to do."""

_CANNOT_OPEN: Final = "unable to open"
_NO_DESCRIPTOR: Final = "the gateway has no free file descriptor"

_REMEDIES: Final = {
    _NO_DESCRIPTOR: "raise the limit of open files (ulimit -n), or lower limits.open_requests",
    "it cannot be reached": "start the database, or correct store.url",
    "it refuses the gateway's user": "correct user and password in store.url",
    "its disk is full": "free space on the database server, or lower store.ttl_days",
    "it has too many connections": "raise max_connections of the database server, or run fewer workers",
    "it is read-only": "set store.url to the primary server",
    "there is no such database": "create it, or correct store.url",
    "the gateway's user may not use its tables": "grant it the rights on all tables of the schema",
    TIMEOUT_MESSAGE: "find out what slows it down, or raise store.deadline_s",
    "all connections to it are in use": "find out what slows it down, or run more workers",
    "it was shut down": "start it again",
    "another transaction changed the same rows": "none is needed: the use may be repeated",
    "another transaction held rows that it needed, and needed its own": "none is needed: the use may be repeated",
    "it is starting or stopping": "wait until it accepts connections",
}
"""The description of any other failure -> what to do."""


def is_data_error(error: BaseException) -> bool:
    """Returns whether the statement's data is at fault and the database is healthy.

    SQLAlchemy reports some of PostgreSQL's data errors (SQLSTATE class 22) only as generic driver errors.
    """
    if isinstance(error, DataError | IntegrityError | sqlite3.DataError | sqlite3.IntegrityError):
        return True
    state = getattr(error.orig, "sqlstate", None) if isinstance(error, DBAPIError) else None
    return state is not None and state.startswith("22")


def is_conflict(error: BaseException) -> bool:
    """Returns whether a transaction was given up because it and another one waited for each other."""
    return isinstance(error, DBAPIError) and getattr(error.orig, "sqlstate", None) in _CONFLICTS


def may_be_own_fault(error: BaseException) -> bool:
    """Returns whether one use of the database may be the reason of its own failure: it took too long, waited too long
    for its turn or for another that waited for it, or needed one more descriptor. Others may then use the database all
    the same."""
    if isinstance(error, TimeoutError | PoolTimeout) or is_conflict(error):
        return True
    if describe_error(error) == _NO_DESCRIPTOR:
        return True
    cause = error.orig if isinstance(error, DBAPIError) else error
    if isinstance(cause, sqlite3.OperationalError):
        return "is locked" in str(cause)
    return getattr(cause, "sqlstate", None) == _QUERY_CANCELED


class DatabasePlace(NamedTuple):
    """Where a database is, for messages to operators: a file, or a server without its user and password."""

    text: str
    is_file: bool

    @classmethod
    def of(cls, url: URL) -> "DatabasePlace":
        if url.get_backend_name() == "sqlite":
            return cls(str(Path(url.database or "").absolute()) if url.database else ":memory:", True)
        port = "" if url.port is None else f":{url.port}"
        return cls(f"{url.host or 'localhost'}{port}/{url.database or ''}", False)


def suggest_remedy(why: str, place: DatabasePlace) -> str:
    """Returns what the operator can do about a failure that `describe_error` has described.

    It is empty if the description says so itself.
    """
    if place.is_file and why in _FILE_REMEDIES:
        return _FILE_REMEDIES[why].format(folder=Path(place.text).parent, file=place.text)
    return _REMEDIES.get(why, "read the log of the database" if why.startswith(_UNKNOWN) else "")


def describe_unusable(error: BaseException, url: str) -> str:
    """Returns a sentence about the database at `url` that cannot be used: where it is, why, and what to do."""
    place, why = DatabasePlace.of(make_url(url)), describe_error(error)
    remedy = suggest_remedy(why, place)
    return f"the database {place.text} cannot be used: {why}" + (f"; {remedy}" if remedy else "")


def describe_error(error: BaseException) -> str:
    """Returns a short description of the failure for the operator, such as "its disk is full"."""
    if isinstance(error, PoolTimeout):
        return "all connections to it are in use"
    if isinstance(error, DatabaseFileLost):
        return str(error)
    if is_lack_of_descriptors(error):
        return _NO_DESCRIPTOR
    if isinstance(error, TimeoutError):
        return TIMEOUT_MESSAGE
    if isinstance(error, OSError):
        return "it cannot be reached"
    cause = error.orig if isinstance(error, DBAPIError) else error
    state = getattr(cause, "sqlstate", None)
    if state is not None:
        return (
            _SQLSTATE_MESSAGES.get(state) or _SQLSTATE_CLASS_MESSAGES.get(state[:2]) or f"{_UNKNOWN} SQLSTATE {state}"
        )
    message = str(cause).lower()
    if _CANNOT_OPEN in message and not has_free_descriptor():
        return _NO_DESCRIPTOR
    return next((text for part, text in _SQLITE_MESSAGES if part in message), f"{_UNKNOWN} {type(cause).__name__}")
