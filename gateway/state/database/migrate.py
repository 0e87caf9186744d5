"""Migrates the schema of a database to this version of the gateway, or checks it.

Alembic is imported only if there is something to migrate: a server whose schema is current starts without it.
"""

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from sqlalchemy import Column, Connection, MetaData, String, Table, inspect, select
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway.errors import StoreUnavailable
from gateway.state.database.database import Database
from gateway.state.database.sqlite_file import create_database_file, sqlite_path_of
from gateway.state.database.vector_table import ensure_vector_table, require_vector_table
from gateway.state.values import SchemaMismatch

if TYPE_CHECKING:
    from alembic.config import Config

MIGRATION_DEADLINE_S: Final = 3600.0
"""The deadline of a whole migration: building an index over many rows takes long."""

_MIGRATION_LOCK: Final = "responses-gateway migrate"

_MIGRATIONS_DIR: Final = Path(__file__).parents[1] / "migrations"

_VERSION_TABLE: Final = Table("alembic_version", MetaData(), Column("version_num", String(32), primary_key=True))
"""The table in which Alembic stores the schema version."""


async def migrate_database(url: str) -> str:
    """Migrates the schema to the latest version, in one transaction. Returns that version.

    What the extensions of the database allow beside the schema is made in a second transaction: it may copy much, and
    the first one has locks that keep out servers of the older version. If it fails, the next call makes it.

    Raises SchemaMismatch if the schema is newer than this gateway, and StoreUnavailable.
    """
    if (file := sqlite_path_of(url)) is not None:
        create_database_file(file)
    database = Database(url, deadline_s=MIGRATION_DEADLINE_S)
    try:
        for migrate in (migrate_in_transaction, ensure_vector_table):
            async with database.write_transaction() as connection:
                # If several processes migrate at once, one does it, and the others then have nothing to do.
                await database.acquire_advisory_lock(connection, _MIGRATION_LOCK)
                await migrate(connection)
    finally:
        await database.aclose()
    return read_latest_schema_version()


async def validate_database_schema(url: str, *, deadline_s: float, needs_vectors: bool = False) -> None:
    """Checks that a server could use the database. Raises SchemaMismatch if it could not.

    An unreachable database is no error, because it may be reachable later. A missing SQLite file is no error either:
    the server creates it. On SQLite an older schema is accepted too: the server migrates it.
    """
    if (file := sqlite_path_of(url)) is not None and not file.exists():
        return
    database = Database(url, deadline_s=deadline_s)
    try:
        with suppress(StoreUnavailable):
            async with database.read_transaction() as connection:
                await (_refuse_newer_schema if database.is_sqlite else require_current_schema)(connection)
                if needs_vectors:
                    await require_vector_table(connection)
    finally:
        await database.aclose()


async def migrate_in_transaction(connection: AsyncConnection) -> None:
    """Migrates the schema in the connection's transaction. Raises SchemaMismatch if it is newer than this gateway.

    The caller makes sure that no other process migrates at the same time.
    """
    if await connection.run_sync(_read_schema_version) != read_latest_schema_version():
        await _refuse_newer_schema(connection)
        await connection.run_sync(_upgrade_schema)


async def require_current_schema(connection: AsyncConnection) -> None:
    """Raises SchemaMismatch unless the schema has the latest version."""
    version = await connection.run_sync(_read_schema_version)
    if version == read_latest_schema_version():
        return
    await _refuse_newer_schema(connection)
    reason = (
        "has no tables of the gateway"
        if version is None
        else f"is of version {version}, not {read_latest_schema_version()}"
    )
    raise SchemaMismatch(f"the database is unmigrated: it {reason}; run `responses-gateway migrate`")


def read_latest_schema_version() -> str:
    """Returns the schema version that this version of the gateway works with: the highest one in `versions/`."""
    return max(file.name.partition("_")[0] for file in (_MIGRATIONS_DIR / "versions").glob("[0-9]*_*.py"))


def make_alembic_config() -> "Config":
    """Builds Alembic's configuration, which names the folder of the migrations.

    It is built in code, because an installed gateway has no configuration file for Alembic.
    """
    from alembic.config import Config

    alembic = Config()
    alembic.set_main_option("script_location", str(_MIGRATIONS_DIR).replace("%", "%%"))
    alembic.set_main_option("path_separator", "os")
    return alembic


async def _refuse_newer_schema(connection: AsyncConnection) -> None:
    version = await connection.run_sync(_read_schema_version)
    if version in (None, read_latest_schema_version()):
        return
    from alembic.script import ScriptDirectory

    known_versions = {script.revision for script in ScriptDirectory.from_config(make_alembic_config()).walk_revisions()}
    if version not in known_versions:
        raise SchemaMismatch(
            f"the database is newer than this version: its tables are of version {version}, which this version of the "
            f"gateway, of {read_latest_schema_version()}, does not know; run the newer gateway"
        )


def _read_schema_version(connection: Connection) -> str | None:
    if not inspect(connection).has_table(_VERSION_TABLE.name):
        return None
    return connection.scalar(select(_VERSION_TABLE.c.version_num))


def _upgrade_schema(connection: Connection) -> None:
    from alembic import command

    alembic = make_alembic_config()
    alembic.attributes["connection"] = connection
    command.upgrade(alembic, "head")
