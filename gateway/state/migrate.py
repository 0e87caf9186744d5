"""Brings a database's tables to this version, or says which version they are of."""

from contextlib import suppress
from pathlib import Path
from typing import Final

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway.errors import StoreUnavailable
from gateway.state.database import Database
from gateway.state.sqlite_file import make_file, sqlite_file
from gateway.state.store import SchemaMismatch

_DEADLINE_S: Final = 3600.0
"""For everything there is to change: an index over many rows takes long."""

_LOCK: Final = "responses-gateway migrate"


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
    version = _scripts().get_current_head()
    assert version is not None
    return version


def config() -> Config:
    """Where Alembic finds the migrations. No file: an installed gateway has none."""
    alembic = Config()
    alembic.set_main_option("script_location", str(Path(__file__).with_name("migrations")).replace("%", "%%"))
    alembic.set_main_option("path_separator", "os")
    return alembic


async def _refuse_newer(connection: AsyncConnection) -> None:
    version = await connection.run_sync(_version)
    known = {script.revision for script in _scripts().walk_revisions()}
    if version is not None and version not in known:
        raise SchemaMismatch(
            f"the database is newer than this version: its tables are of version {version}, which this version of the "
            f"gateway, of {head()}, does not know; run the newer gateway"
        )


def _scripts() -> ScriptDirectory:
    return ScriptDirectory.from_config(config())


def _version(connection: Connection) -> str | None:
    return MigrationContext.configure(connection).get_current_revision()


def _upgrade(connection: Connection) -> None:
    with_connection = config()
    with_connection.attributes["connection"] = connection
    command.upgrade(with_connection, "head")
