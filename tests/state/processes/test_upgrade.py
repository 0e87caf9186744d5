"""Servers of two versions on one database: the newer one is started first, then the older one goes."""

import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest
import yaml

import gateway
from tests.forking import run_forked
from tests.polling import wait_until
from tests.state.processes import database_observer
from tests.state.processes.killed_servers import has_ended
from tests.state.replicas import Client, client, replica, text
from tests.upstream import ScriptedUpstream, silence
from tests.upstream.builders import chat_text

pytestmark = pytest.mark.timeout(180)  # servers take long to start where every core is busy

MIGRATION = '''"""More"""

import sqlalchemy as sa
from alembic import op

revision = "9999"
down_revision = "{head}"


def upgrade() -> None:
    op.add_column("responses", sa.Column("newer", sa.String(10), server_default="more"))
    op.add_column("jobs", sa.Column("newer", sa.String(10), nullable=True))
    op.add_column("completions", sa.Column("newer", sa.String(10), nullable=True))
    op.create_table("newer", sa.Column("id", sa.String(255), primary_key=True))
'''
TABLES = """

responses.append_column(Column("newer", String(10), server_default="more"))
jobs.append_column(Column("newer", String(10), nullable=True))
completions.append_column(Column("newer", String(10), nullable=True))
Table("newer", metadata, Column("id", String(255), primary_key=True))
"""


@pytest.fixture
async def upstream() -> AsyncIterator[ScriptedUpstream]:
    async with ScriptedUpstream() as up:
        up.on("/chat/completions", chat_text("Hi", " there"))
        yield up


@pytest.fixture(scope="module")
def newer(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """A command that runs the next version of the gateway, which has an additional table and columns."""
    from gateway.state.database.migrate import read_latest_schema_version

    package = tmp_path_factory.mktemp("newer") / "gateway"
    shutil.copytree(Path(gateway.__file__).parent, package)
    (package / "state" / "migrations" / "versions" / "9999_more.py").write_text(
        MIGRATION.format(head=read_latest_schema_version())
    )
    with (package / "state" / "database" / "tables.py").open("a") as tables:
        tables.write(TABLES)
    return ["env", f"PYTHONPATH={package.parent}"]


def run(store_url: str, folder: Path, what: str, within: Sequence[str] = ()) -> "subprocess.CompletedProcess[str]":
    config = folder / "command.yaml"
    config.write_text(yaml.safe_dump({"store": {"url": store_url}, "providers": {"demo": {"type": "scripted"}}}))
    if not within:
        return run_forked(what, "--config", str(config), folder=folder, timeout=50)
    program = str(Path(sys.executable).with_name("responses-gateway"))
    return subprocess.run(
        [*within, program, what, "--config", str(config)], capture_output=True, text=True, timeout=50, check=False
    )


async def store_completion(server: Client) -> str:
    """The id of a stored chat completion that has lost something."""
    body = {"model": "m", "messages": [{"role": "user", "content": "Hello"}], "store": True, "thinking": True}
    answer = await server.http.post("/chat/completions", json=body)
    assert answer.status_code == 200, answer.text
    return str(answer.json()["id"])


async def losses(server: Client, completion_id: str) -> str | None:
    answer = await server.http.get(f"/chat/completions/{completion_id}")
    assert answer.status_code == 200, answer.text
    return answer.headers.get("x-gateway-loss")


async def test_old_and_new_servers_work_on_one_database(
    upstream: ScriptedUpstream, store_url: str, tmp_path: Path, newer: list[str]
) -> None:
    with replica(tmp_path / "old", store_url, upstream.url) as old_server:
        async with client(old_server) as old:
            first = await old.create(input="One")
            if not store_url.startswith("sqlite"):
                unmigrated = run(store_url, tmp_path, "serve", newer)
                assert (unmigrated.returncode, "responses-gateway migrate" in unmigrated.stderr) == (2, True), (
                    unmigrated
                )
            migrated = run(store_url, tmp_path, "migrate", newer)
            assert (migrated.returncode, migrated.stdout) == (0, "the database is of version 9999\n"), migrated.stderr
            with replica(tmp_path / "new", store_url, upstream.url, within=newer) as new_server:
                async with client(new_server) as new:
                    second = await old.create(input="Two", previous_response_id=first["id"])
                    third = await new.create(input="Three", previous_response_id=second["id"])
                    fourth = await old.create(input="Four", previous_response_id=third["id"])
                    for asking in (old, new):
                        for response in (first, second, third, fourth):
                            assert await asking.read(response["id"]) == response
                    async with old.stream(input="Five", background=True) as stream:
                        final = await stream.read_all()
                    async with new.stream("GET", f"/responses/{stream.response_id}?stream=true") as replayed:
                        assert await replayed.read_all() == final
                    assert replayed.events == stream.events
                    for keeping, asking in ((old, new), (new, old)):
                        kept = await store_completion(keeping)
                        assert await losses(asking, kept) == "thinking=dropped"
                    upstream.on("/chat/completions", silence)
                    job = await old.create(input="Six", background=True)
                    await upstream.received(8)
                    upstream.on("/chat/completions", chat_text("Hi", " there"))
                    old_server.process.terminate()
                    assert old_server.process.wait(20) == 0
                    await wait_until(has_ended, new, job["id"])
                    assert text(await new.read(job["id"])) == "Hi there"
                    await database_observer.check_whole(store_url)
    for what in ("serve", "migrate"):
        refused = run(store_url, tmp_path, what)
        assert (refused.returncode, refused.stdout) != (0, "")
        assert "newer than this version" in refused.stderr
