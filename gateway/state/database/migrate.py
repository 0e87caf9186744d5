"""Brings a database's tables to this version, or says which version they are of.

Alembic is imported where there is something to bring: a server whose tables are right does without it.
"""

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from sqlalchemy import Column, Connection, MetaData, String, Table, inspect, select
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway.errors import StoreUnavailable
from gateway.state.database.database import Database
from gateway.state.database.sqlite_file import make_file, sqlite_file
from gateway.state.store import SchemaMismatch

if TYPE_CHECKING:
    from alembic.config import Config

_DEADLINE_S: Final = 3600.0
"""For everything there is to change: an index over many rows takes long."""

_LOCK: Final = "responses-gateway migrate"

_MIGRATIONS: Final = Path(__file__).parents[1] / "migrations"

_VERSIONS: Final = Table("alembic_version", MetaData(), Column("version_num", String(32), primary_key=True))
"""Where Alembic keeps the version."""


async def migrate(url: str) -> str:
    """Bring the tables to this version, in one transaction; which one that is. Raises SchemaMismatch when they are of a
    newer one, and StoreUnavailable."""
    if (file := sqlite_file(url)) is not None:
        make_file(file)
    database = Database(url, deadline_s=_DEADLINE_S)
    try:
        async with database.write() as connection:
            # Of several that migrate at once, one does, and the others then find nothing to do.
            await database.one_at_a_time(connection, _LOCK)
            await migrate_within(connection)
    finally:
        await database.aclose()
    return head()


async def refuse_mismatch(url: str, *, deadline_s: float) -> None:
    """Raises SchemaMismatch when a server could not use the tables. One that is down may be well later: no failure."""
    if (file := sqlite_file(url)) is not None and not file.exists():
        return
    database = Database(url, deadline_s=deadline_s)
    try:
        with suppress(StoreUnavailable):
            async with database.read() as connection:
                await (_refuse_newer if database.is_sqlite else check)(connection)
    finally:
        await database.aclose()


async def migrate_within(connection: AsyncConnection) -> None:
    """`migrate`, in the transaction of a connection that nobody else migrates in."""
    if await connection.run_sync(_version) != head():
        await _refuse_newer(connection)
        await connection.run_sync(_upgrade)


async def check(connection: AsyncConnection) -> None:
    """Raises SchemaMismatch unless the tables are of this version."""
    version = await connection.run_sync(_version)
    if version == head():
        return
    await _refuse_newer(connection)
    what = "has no tables of the gateway" if version is None else f"is of version {version}, not {head()}"
    raise SchemaMismatch(f"the database is unmigrated: it {what}; run `responses-gateway migrate`")


def head() -> str:
    """The version of the tables that this version of the gateway works with."""
    return max(file.name.partition("_")[0] for file in (_MIGRATIONS / "versions").glob("[0-9]*_*.py"))


def config() -> "Config":
    """Where Alembic finds the migrations. No file: an installed gateway has none."""
    from alembic.config import Config

    alembic = Config()
    alembic.set_main_option("script_location", str(_MIGRATIONS).replace("%", "%%"))
    alembic.set_main_option("path_separator", "os")
    return alembic


async def _refuse_newer(connection: AsyncConnection) -> None:
    version = await connection.run_sync(_version)
    if version in (None, head()):
        return
    from alembic.script import ScriptDirectory

    known = {script.revision for script in ScriptDirectory.from_config(config()).walk_revisions()}
    if version not in known:
        raise SchemaMismatch(
            f"the database is newer than this version: its tables are of version {version}, which this version of the "
            f"gateway, of {head()}, does not know; run the newer gateway"
        )


def _version(connection: Connection) -> str | None:
    if not inspect(connection).has_table(_VERSIONS.name):
        return None
    return connection.scalar(select(_VERSIONS.c.version_num))


def _upgrade(connection: Connection) -> None:
    from alembic import command

    with_connection = config()
    with_connection.attributes["connection"] = connection
    command.upgrade(with_connection, "head")
