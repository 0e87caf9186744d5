"""The commands `mcp list` and `mcp try`, with the server of notes that ships with the gateway."""

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog
import yaml
from typer.testing import CliRunner, Result

from gateway.cli import commands
from gateway.config.settings import BackgroundSettings, StoreSettings
from gateway.state.operator_records import StoredServer
from gateway.state.sql.store import SqlStore
from tests.databases import ready_sqlite
from tests.mcp_server import CountingServer

NOTES = {"stdio": [sys.executable, "-m", "gateway.demo_notes"], "trusted": True}


@pytest.fixture
def config(tmp_path: Path) -> Iterator[str]:
    program = "import sys; sys.stderr.write('no module named notes'); sys.exit(1)"
    servers = {
        "notes": {**NOTES, "approval": {"never": {"read_only": True}}},
        "broken": {"stdio": [sys.executable, "-c", program]},
    }
    file = tmp_path / "gateway.yaml"
    file.write_text(yaml.safe_dump({"tools": {"mcp": {"servers": servers}}}, sort_keys=False))
    with structlog.testing.capture_logs():
        yield str(file)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(commands.app, ["mcp", *arguments])


def test_the_tools_of_all_servers_are_listed_and_a_broken_one_is_named(config: str) -> None:
    done = run("list", "--config", config)
    assert done.exit_code == 1
    assert [line.split()[:4] for line in done.stdout.splitlines()] == [
        ["SERVER", "TOOL", "READ-ONLY", "APPROVAL"],
        ["notes", "notes_create_note", "no", "always"],
        ["notes", "notes_search", "yes", "never"],
        ["notes", "notes_list_notes", "yes", "never"],
    ]
    assert "broken: the connection closed" in done.stderr
    assert "broken: its output: no module named notes" in done.stderr


def test_a_tool_is_tried_by_either_of_its_names(config: str) -> None:
    done = run("try", "notes", "notes_create_note", '{"text": "green"}', "--config", config)
    assert (done.exit_code, done.stdout) == (0, "note 1\n")
    assert done.stderr.startswith("ok after ")


def test_the_definitions_that_tools_have_now_are_printed_as_pins(config: str) -> None:
    done = run("pin", "notes", "--config", config)
    pins = yaml.safe_load(done.stdout)["pins"]
    assert [*pins] == ["create_note", "search", "list_notes"]
    assert all(len(digest) == 32 for digest in pins.values())


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["try", "notes", "erase"], 1, "notes: notes has no tool erase; it has: create_note, search, list_notes"),
        (
            ["try", "notes", "search", '{"text": 1}'],
            1,
            "notes: the call was not sent: arguments.text: 1 is not of type",
        ),
        (["try", "notes", "search", "tiger"], 2, "the arguments are not a JSON object: tiger"),
        (["list", "nodes"], 2, "no MCP server is named 'nodes' in tools.mcp.servers; there are: notes, broken"),
    ],
)
def test_failures_are_reported_by_name(config: str, arguments: list[str], code: int, message: str) -> None:
    done = run(*arguments, "--config", config)
    assert done.exit_code == code
    assert message in done.stderr


def test_without_servers_the_list_is_empty(tmp_path: Path) -> None:
    file = tmp_path / "gateway.yaml"
    file.write_text("{}")
    done = run("list", "--config", str(file))
    assert (done.exit_code, done.stderr) == (2, "no MCP servers are configured: write tools.mcp.servers\n")


def test_servers_that_were_added_are_known_where_a_key_may_add_some(tmp_path: Path, calc: CountingServer) -> None:
    url = ready_sqlite(tmp_path / "state.db")
    settings = f'{{"url": "{calc.url}", "allow": ["add"], "pins": {{"add": "another"}}}}'

    async def add() -> None:
        store = SqlStore(StoreSettings(url=url), BackgroundSettings())
        await store.added_servers.store_added_server(StoredServer("calc", "calc", settings, None, "ops"), 9)
        await store.aclose()

    asyncio.run(add())
    file = tmp_path / "gateway.yaml"
    for is_admin in (True, False):
        auth = {"keys": [{"name": "ops", "key": "k" * 20, "admin": is_admin}]}
        tools = {"mcp": {"admin": {"private_hosts": True}}}
        file.write_text(yaml.safe_dump({"store": {"url": url}, "auth": auth, "tools": tools}))
        with structlog.testing.capture_logs():
            listed = run("list", "--config", str(file))
            pinned = run("pin", "calc", "--config", str(file))
        if is_admin:
            assert "calc: left out: add: its definition is not the one that was accepted" in listed.stderr
            assert [*yaml.safe_load(pinned.stdout)["pins"]] == ["add"]
        else:
            assert (listed.exit_code, "no MCP servers are configured" in listed.stderr) == (2, True)
            assert (pinned.exit_code, "no MCP server is named 'calc'" in pinned.stderr) == (2, True)


def test_a_command_makes_no_database(tmp_path: Path) -> None:
    file = tmp_path / "gateway.yaml"
    keys = [{"name": "ops", "key": "k" * 20, "admin": True}]
    file.write_text(
        yaml.safe_dump({"store": {"url": f"sqlite+aiosqlite:///{tmp_path}/new.db"}, "auth": {"keys": keys}})
    )
    assert run("list", "--config", str(file)).exit_code == 2
    assert not (tmp_path / "new.db").exists()
