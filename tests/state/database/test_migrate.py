"""The tables of a database and their versions."""

import asyncio
import json
import re
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.operations import Operations
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import (
    Column,
    Connection,
    Engine,
    String,
    Table,
    column,
    delete,
    event,
    insert,
    inspect,
    select,
    table,
    text,
    update,
)
from sqlalchemy.schema import MetaData

from gateway.config.settings import BackgroundSettings, StoreSettings
from gateway.state.database.database import Database
from gateway.state.database.migrate import make_alembic_config, migrate_database, read_latest_schema_version
from gateway.state.database.sqlite_file import create_database_file, sqlite_path_of
from gateway.state.database.tables import events, metadata, owner_usage
from gateway.state.sql.store import SqlStore
from gateway.state.values import PageRequest, SchemaMismatch, StoredCompletion, StoredHeaders
from tests import databases
from tests.databases import Postgres
from tests.forking import run_forked
from tests.state.conftest import DEADLINE_S
from tests.state.responses import turn
from tests.state.sql.test_lineage import queries_that_contain

VERSIONS = Table("alembic_version", MetaData(), Column("version_num", String(32), primary_key=True))


def connect(url: str) -> SqlStore:
    return SqlStore(StoreSettings(url=url, deadline_s=DEADLINE_S), BackgroundSettings())


def upgrade(connection: Connection, version: str) -> None:
    alembic = make_alembic_config()
    alembic.attributes["connection"] = connection
    command.upgrade(alembic, version)


async def set_version(url: str, version: str) -> None:
    database = Database(url, deadline_s=60)
    async with database.write_transaction() as connection:
        await connection.execute(update(VERSIONS).values(version_num=version))
    await database.aclose()


@pytest.fixture
def empty_postgres(postgres: Postgres) -> str:
    return postgres.database(empty=True)


@pytest.fixture(params=["sqlite", "postgresql"])
def empty_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of a database without tables."""
    if request.param == "sqlite":
        return databases.sqlite(tmp_path / "state.db")
    return str(request.getfixturevalue("empty_postgres"))


def test_the_version_is_that_of_the_last_migration() -> None:
    assert read_latest_schema_version() == ScriptDirectory.from_config(make_alembic_config()).get_current_head()


# SQLite has no index of an expression: only PostgreSQL's is compared.
@pytest.mark.filterwarnings("ignore:autogenerate skipping metadata-specified expression-based index:UserWarning")
async def test_the_migrations_make_the_tables_the_code_has(database: Database) -> None:
    def differences(connection: Connection) -> list[object]:
        return list(compare_metadata(MigrationContext.configure(connection, opts={"compare_type": True}), metadata))

    async with database.read_transaction() as connection:
        assert await connection.run_sync(differences) == []


def test_migrations_only_add() -> None:
    """Columns that older replicas use while newer ones run do not change. Indexes may change."""
    refused = ("drop_table", "drop_c", "alter_column", "rename_", "batch_alter_table")
    for script in ScriptDirectory.from_config(make_alembic_config()).walk_revisions():
        source = Path(script.path).read_text()
        assert [word for word in refused if word in source] == []
        if script.down_revision is not None:
            assert source.count("add_column(") == source.count("nullable=True") + source.count("server_default=")


async def test_all_statements_of_migrations_add(empty_url: str) -> None:
    """Also those that a migration has as text: for triggers, which have no operation."""
    adding = ("CREATE ", "ALTER TABLE ", "INSERT INTO ", "COMMENT ON ", "UPDATE alembic_version ", "DROP INDEX ")
    reading = ("SELECT ", "PRAGMA ")
    with queries_that_contain("") as sent:
        await migrate_database(empty_url)
    statements = [" ".join(text.split()) for text, _ in sent]
    assert [text for text in statements if not text.startswith((*adding, *reading))] == []
    # A parameter of storage changes how later rows are stored, and nothing that a replica reads or writes.
    altering = [text for text in statements if text.startswith("ALTER TABLE ") and " SET (" not in text]
    assert [text for text in altering if " ADD " not in text] == []


async def test_no_migration_keeps_readers_out_while_it_reads_all_rows(
    postgres: Postgres, request: pytest.FixtureRequest
) -> None:
    """Servers of the older version go on working. What reads all rows of a table takes minutes in a large database, so
    the transaction may have no lock by then that readers of a table wait for, but those of tables that it has made."""
    url = postgres.database(empty=True)
    own_locks = text(
        "SELECT c.relname FROM pg_locks l JOIN pg_class c ON c.oid = l.relation WHERE l.pid = pg_backend_pid() "
        "AND l.mode = 'AccessExclusiveLock' AND c.relkind = 'r' AND c.relname = ANY(:readable)"
    )
    kept_out: dict[str, set[str]] = {}
    readable: list[str] = []

    def note(connection: Connection, _cursor: object, statement: str, *_: object) -> None:
        if re.match(r"\s*(CREATE (UNIQUE )?INDEX|INSERT INTO \w+ .*SELECT)", statement, re.DOTALL):
            locked = set(connection.scalars(own_locks, {"readable": readable}))
            kept_out.update({" ".join(statement.split())[:60]: locked} if locked else {})

    database = Database(url, deadline_s=DEADLINE_S)
    async with database.write_transaction() as connection:
        await connection.execute(text("CREATE EXTENSION IF NOT EXISTS vector"))
        await connection.run_sync(upgrade, "0018")
        readable += await connection.run_sync(lambda each: inspect(each).get_table_names())
    await database.aclose()
    event.listen(Engine, "before_cursor_execute", note)
    request.addfinalizer(lambda: event.remove(Engine, "before_cursor_execute", note))
    await migrate_database(url)
    assert kept_out == {}


async def test_a_running_store_works_with_tables_of_a_later_version(store_url: str, database: Database) -> None:
    store = connect(store_url)
    await store.open()
    before = await turn(store, "before")

    def add_column(connection: Connection) -> None:
        operations = Operations(MigrationContext.configure(connection))
        for name in ("responses", "items", "jobs", "events"):
            operations.add_column(name, Column("newer", String(10), nullable=True))

    async with database.write_transaction() as connection:
        await connection.run_sync(add_column)
    after = await turn(store, "after", before)
    page = await store.responses.list_responses("ann", PageRequest())
    assert list(page.rows) == [after, before]
    assert await store.responses.delete_response("ann", before["id"])
    await store.aclose()


async def test_the_embedded_file_migrates_itself_and_is_its_owners_alone(tmp_path: Path) -> None:
    file = tmp_path / "folder" / "state.db"
    store = connect(databases.sqlite(file))
    await store.open()
    stored = await turn(store, "a")
    await store.aclose()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    again = connect(databases.sqlite(file))
    await again.open()
    assert (await again.responses.list_responses("ann", PageRequest())).rows == [stored]
    await again.aclose()


@pytest.mark.parametrize("arguments", [["list"], ["try", "crm", "search"], ["pin", "crm"]])
def test_commands_for_mcp_servers_report_an_unmigrated_database(
    empty_postgres: str, tmp_path: Path, arguments: list[str]
) -> None:
    login = {"url": "https://mcp.example.com/mcp", "auth": {"oauth": {"grant": "login", "client_id": "gateway"}}}
    file = tmp_path / "config.yaml"
    tree = {"store": {"url": empty_postgres}, "tools": {"mcp": {"servers": {"crm": login}}}}
    file.write_text(yaml.safe_dump(tree))
    done = run_forked("mcp", *arguments, "--config", str(file), folder=tmp_path, timeout=50)
    assert (done.returncode, done.stdout) == (2, "")
    assert "run `responses-gateway migrate`" in done.stderr
    assert "Traceback" not in done.stderr


async def test_postgresql_is_migrated_only_by_the_command(empty_postgres: str) -> None:
    store = connect(empty_postgres)
    with pytest.raises(SchemaMismatch, match=r"unmigrated.*run `responses-gateway migrate`"):
        await store.open()
    await store.aclose()
    assert await migrate_database(empty_postgres) == read_latest_schema_version()
    assert await migrate_database(empty_postgres) == read_latest_schema_version()
    migrated = connect(empty_postgres)
    await migrated.open()
    await turn(migrated, "a")
    await migrated.aclose()


async def test_a_newer_database_is_refused_and_left_alone(store_url: str, database: Database) -> None:
    await set_version(store_url, "9999")
    for use in (connect(store_url).open, lambda: migrate_database(store_url)):
        with pytest.raises(SchemaMismatch, match=r"newer than this version.*9999"):
            await use()
    async with database.read_transaction() as connection:
        assert await connection.scalar(select(VERSIONS)) == "9999"


async def test_an_older_database_is_reported_as_unmigrated(postgres: Postgres, monkeypatch: pytest.MonkeyPatch) -> None:
    url, current = postgres.database(), read_latest_schema_version()
    monkeypatch.setattr("gateway.state.database.migrate.read_latest_schema_version", lambda: "0999")
    with pytest.raises(SchemaMismatch, match=f"unmigrated: it is of version {current}, not 0999"):
        await connect(url).open()


async def test_a_new_file_is_waited_for_while_another_process_has_it(tmp_path: Path) -> None:
    url = databases.sqlite(tmp_path / "state.db")
    other = sqlite3.connect(tmp_path / "state.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    asyncio.get_running_loop().call_later(0.3, other.close)
    assert await migrate_database(url) == read_latest_schema_version()


async def test_replicas_that_migrate_at_once_do_not_collide(empty_url: str) -> None:
    assert await asyncio.gather(*(migrate_database(empty_url) for _ in range(4))) == [read_latest_schema_version()] * 4


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., "subprocess.CompletedProcess[str]"]:
    def command(url: str | None, *arguments: str) -> "subprocess.CompletedProcess[str]":
        file = tmp_path / "config.yaml"
        file.write_text(yaml.safe_dump({"store": {"url": url}, "providers": {"demo": {"type": "scripted"}}}))
        return run_forked(*arguments, "--config", str(file), folder=tmp_path, timeout=50)

    return command


def test_the_command_migrates_and_the_server_refuses_unmigrated_databases(
    empty_postgres: str, run: Callable[..., "subprocess.CompletedProcess[str]"]
) -> None:
    refused = run(empty_postgres, "serve", "--port", "0")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr.count("\n") == 1
    assert "unmigrated" in refused.stderr
    migrated = run(empty_postgres, "migrate")
    assert (migrated.returncode, migrated.stdout) == (0, f"the database is of version {read_latest_schema_version()}\n")


async def test_completions_of_an_older_version_are_read(empty_url: str) -> None:
    """Before migration 0003 losses were not stored."""
    database = Database(empty_url, deadline_s=60)
    if (file := sqlite_path_of(empty_url)) is not None:
        create_database_file(file)
    completion = {"id": "c", "object": "chat.completion", "model": "m", "choices": [], "metadata": {}}
    older = {"owner": "ann", "id": "c", "created_us": 1, "model": "m", "body": json.dumps(completion), "messages": "[]"}
    async with database.write_transaction() as connection:
        await connection.run_sync(upgrade, "0002")
        await connection.execute(insert(table("completions", *map(column, older))).values(**older))
    assert await migrate_database(empty_url) == read_latest_schema_version()
    async with database.write_transaction() as connection:
        await connection.execute(insert(table("completions", *map(column, older))).values({**older, "id": "d"}))
    await database.aclose()
    store = connect(empty_url)
    await store.open()
    for completion_id in ("c", "d"):
        found = await store.completions.load_completion("ann", completion_id)
        assert found == StoredCompletion(completion=completion)
    await store.completions.store_completion("ann", completion | {"id": "e"}, [], StoredHeaders("n=dropped"))
    page = await store.completions.list_completions("ann", PageRequest(order="asc"))
    assert len(page.rows) == 3
    await store.aclose()


async def test_bytes_of_event_logs_of_an_older_version_are_counted(empty_url: str) -> None:
    """Before migration 0012 they were summed for each job. Replicas of that version may go on to write."""
    database = Database(empty_url, deadline_s=60)
    if (file := sqlite_path_of(empty_url)) is not None:
        create_database_file(file)

    def entry(owner: str, number: int) -> dict[str, object]:
        return {"owner": owner, "response_id": "r", "first": number, "last": number, "frames": b"x" * 10}

    async with database.write_transaction() as connection:
        await connection.run_sync(upgrade, "0011")
        await connection.execute(insert(events), [entry("ann", 0), entry("ann", 1), entry("bob", 0)])
    assert await migrate_database(empty_url) == read_latest_schema_version()
    async with database.write_transaction() as connection:
        await connection.execute(insert(events), entry("ann", 2))
        await connection.execute(delete(events).where(events.c.owner == "bob"))
    async with database.read_transaction() as connection:
        kept = await connection.execute(select(owner_usage).order_by(owner_usage.c.owner))
        assert [tuple(row) for row in kept] == [("ann", 30), ("bob", 0)]
    await database.aclose()


def test_two_processes_that_migrate_one_file_do_not_collide(tmp_path: Path) -> None:
    file = tmp_path / "state.db"
    program = (
        "import asyncio; from gateway.state.database.migrate import migrate_database; "
        f"asyncio.run(migrate_database('{databases.sqlite(file)}'))"
    )
    running = [subprocess.Popen([sys.executable, "-c", program], stderr=subprocess.PIPE) for _ in range(3)]
    for process in running:
        _, errors = process.communicate(timeout=50)
        assert (process.returncode, errors) == (0, b"")
    with sqlite3.connect(file) as connection:
        assert connection.execute("SELECT version_num FROM alembic_version").fetchall() == [
            (read_latest_schema_version(),)
        ]
    connection.close()


def test_a_newer_file_is_refused_by_name(
    tmp_path: Path, run: Callable[..., "subprocess.CompletedProcess[str]"]
) -> None:
    url = databases.migrated(databases.sqlite(tmp_path / "state.db"))
    asyncio.run(set_version(url, "9999"))
    refused = run(url, "serve", "--port", "0")
    assert refused.returncode == 2
    assert "newer than this version" in refused.stderr


def test_without_a_store_there_is_nothing_to_migrate(run: Callable[..., "subprocess.CompletedProcess[str]"]) -> None:
    assert run(None, "migrate").returncode == 2


async def test_the_version_is_found_where_alembic_writes_it(database: Database) -> None:
    async with database.write_transaction() as connection:
        await connection.execute(insert(VERSIONS).values(version_num="other"))
        await connection.rollback()
    async with database.read_transaction() as connection:
        assert list(await connection.scalars(select(VERSIONS))) == [read_latest_schema_version()]
