"""Writes the next migration, the difference between tables.py and the newest migration: `python -m scripts.migration
"add a column"`. Check the file: it may only add, and new columns must be nullable or have a default."""

import asyncio
import sys
import tempfile
from pathlib import Path

from alembic import command
from sqlalchemy import Connection

from gateway.state.database.database import Database
from gateway.state.database.migrate import make_alembic_config, migrate_database, read_latest_schema_version


def main() -> None:
    """Writes the file and prints its path."""
    message = " ".join(sys.argv[1:])
    if not message:
        raise SystemExit(__doc__)
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(_write(f"sqlite+aiosqlite:///{Path(folder) / 'state.db'}", message))


async def _write(url: str, message: str) -> None:
    await migrate_database(url)
    database = Database(url, deadline_s=60.0)
    async with database.write_transaction() as connection:
        await connection.run_sync(_generate, message)
    await database.aclose()


def _generate(connection: Connection, message: str) -> None:
    alembic = make_alembic_config()
    alembic.attributes["connection"] = connection
    next_version = f"{int(read_latest_schema_version()) + 1:04}"
    command.revision(alembic, message, autogenerate=True, rev_id=next_version)


if __name__ == "__main__":
    main()
