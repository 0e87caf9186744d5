"""What operators read about a database that cannot be used: where it is, why, and what to do."""

import sqlite3
from pathlib import Path

import pytest
from sqlalchemy.engine import make_url
from structlog.testing import capture_logs
from typer.testing import CliRunner

from gateway.cli.commands import app
from gateway.errors import StoreUnavailable
from gateway.state.database.database import Database
from gateway.state.database.failures import (
    _SQLITE_MESSAGES,
    _SQLSTATE_CLASS_MESSAGES,
    _SQLSTATE_MESSAGES,
    DatabasePlace,
    describe_unusable,
    suggest_remedy,
)
from tests.upstream import closed_port

SQLITE = "sqlite+aiosqlite:////data/state.db"
POSTGRESQL = "postgresql+asyncpg://gateway:s3cret@db.example.com:5432/gateway"


@pytest.mark.parametrize(
    ("url", "place"),
    [
        (SQLITE, "/data/state.db"),
        ("sqlite+aiosqlite:///state.db", str(Path("state.db").absolute())),
        (POSTGRESQL, "db.example.com:5432/gateway"),
        ("postgresql+asyncpg://u:p@/gateway", "localhost/gateway"),
    ],
)
def test_a_place_is_a_path_or_a_server_without_credentials(url: str, place: str) -> None:
    assert DatabasePlace.of(make_url(url)).text == place


@pytest.mark.parametrize("why", sorted({text for _, text in _SQLITE_MESSAGES}))
def test_every_failure_of_a_file_has_a_remedy(why: str) -> None:
    remedy = suggest_remedy(why, DatabasePlace.of(make_url(SQLITE)))
    assert remedy or "run `" in why
    assert "{" not in remedy


@pytest.mark.parametrize("why", sorted({*_SQLSTATE_MESSAGES.values(), *_SQLSTATE_CLASS_MESSAGES.values()}))
def test_every_failure_of_a_server_has_a_remedy(why: str) -> None:
    assert suggest_remedy(why, DatabasePlace.of(make_url(POSTGRESQL))) or "run `" in why


def test_a_failure_without_a_name_leads_to_the_databases_log() -> None:
    message = describe_unusable(sqlite3.OperationalError("something new"), SQLITE)
    assert message == (
        "the database /data/state.db cannot be used: it fails with OperationalError; read the log of the database"
    )


def test_full_disks_and_folders_that_cannot_be_written_are_named_with_their_paths() -> None:
    full = describe_unusable(sqlite3.OperationalError("database or disk is full"), SQLITE)
    assert full.endswith("its disk is full; free space on the disk of /data, or lower store.ttl_days")
    read_only = describe_unusable(sqlite3.OperationalError("attempt to write a readonly database"), SQLITE)
    assert "let the gateway's user write /data and /data/state.db" in read_only
    closed = describe_unusable(sqlite3.OperationalError("unable to open database file"), SQLITE)
    assert "let the gateway's user create and write /data" in closed


async def test_the_log_line_has_the_place_and_the_remedy() -> None:
    database = Database(f"postgresql+asyncpg://gateway:s3cret@127.0.0.1:{closed_port()}/gateway", deadline_s=5)
    with capture_logs() as lines:
        with pytest.raises(StoreUnavailable):
            async with database.write_transaction():
                pass
        await database.aclose()
    [line] = [line for line in lines if line["event"] == "store_unavailable"]
    assert line["database"].startswith("127.0.0.1:")
    assert line["remedy"] == "start the database, or correct store.url"
    assert "s3cret" not in str(line)


@pytest.mark.usefixtures("logs_unconfigured")
def test_commands_print_the_place_and_the_remedy(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("store: {url: 'sqlite+aiosqlite:////proc/no-such-folder/state.db'}\n")
    result = CliRunner().invoke(app, ["migrate", "--config", str(file)])
    assert result.exit_code == 1
    assert (
        "the database /proc/no-such-folder/state.db cannot be used: its file cannot be opened; let the" in result.output
    )
