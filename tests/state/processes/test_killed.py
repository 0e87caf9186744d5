"""A server killed at any moment leaves no partial write: a response is stored, or is interrupted."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
from sqlalchemy import text as sql
from sqlalchemy.engine import make_url

from gateway.config.settings import BackgroundSettings, StoreSettings
from gateway.state.sql.store import SqlStore
from tests import databases
from tests.databases import Postgres
from tests.polling import wait_until
from tests.serving import Command
from tests.state.conftest import DEADLINE_S
from tests.state.processes import database_observer
from tests.state.processes.killed_servers import (
    Before,
    Paused,
    background,
    check_interrupted,
    is_stored,
    is_waiting,
    wait_until_orphaned,
)
from tests.state.replicas import Client, Json, client, kill, replica, text
from tests.upstream import ScriptedUpstream
from tests.upstream.builders import chat_text

pytestmark = pytest.mark.timeout(180)  # servers take long to start where every core is busy

HELD = {"deadline_s": 30.0}
"""For databases that are held: it is not the deadline that ends their transactions."""

CLIENTS = 12
KILLED_AFTER = (7, 40)

WAL_STEP = 1500
"""Cuts two or three times within every page that is written."""

WAIT_AT_COMMIT = """
CREATE FUNCTION wait_at_commit() RETURNS trigger LANGUAGE plpgsql
AS $$ BEGIN PERFORM pg_advisory_xact_lock_shared(1); RETURN NULL; END $$;
CREATE CONSTRAINT TRIGGER at_commit AFTER UPDATE ON responses DEFERRABLE INITIALLY DEFERRED
FOR EACH ROW EXECUTE FUNCTION wait_at_commit();
"""


@pytest.fixture
async def upstream() -> AsyncIterator[ScriptedUpstream]:
    async with ScriptedUpstream() as up:
        up.on("/chat/completions", chat_text("Hi", " there"))
        yield up


@pytest.mark.parametrize("moment", ["among its deltas", "after its last delta"])
async def test_a_killed_stream_is_interrupted_and_all_else_is_unchanged(
    upstream: ScriptedUpstream, store_url: str, tmp_path: Path, moment: str
) -> None:
    settings = {"store": HELD, "background": background(store_url)}
    before = Before()
    with replica(tmp_path / "first", store_url, upstream.url, **settings) as server:
        async with client(server) as asking:
            await before.fill(asking)
            stored = await before.bodies(asking)
            answer = Paused("Hello", " wor", after="ld" if moment == "among its deltas" else None)
            upstream.on("/chat/completions", answer)
            async with asking.stream(input="Half", previous_response_id=before.last) as stream:
                await stream.read_to("response.output_text.delta")
                await stream.read_to("response.output_text.delta")
                half = stream.response_id
                await wait_until(is_stored, asking, half)
                if moment == "after its last delta":
                    await kill_before_commit(server, store_url, answer)
                else:
                    kill(server)
    upstream.on("/chat/completions", chat_text("Hi", " there"))
    with replica(tmp_path / "second", store_url, upstream.url, **settings) as server:
        async with client(server) as asking:
            response = await wait_until_orphaned(asking, half, store_url)
            check_interrupted(response)
            assert response["output"] == []
            assert await asking.input_texts(half) == ["Half"]
            assert await before.bodies(asking) == stored
            await database_observer.check_whole(store_url)
            continued = await asking.create(input="On", previous_response_id=before.last)
            assert text(continued) == "Hi there"
    input_items = [
        message["content"] for message in upstream.requests[-1].json["messages"] if message["role"] == "user"
    ]
    assert input_items[1:] == ["Two", "On"]


async def kill_before_commit(server: Command, store_url: str, answer: Paused) -> None:
    """Kills the server after the upstream's reply, while nothing can be stored."""
    async with database_observer.held(store_url):
        answer.go_on.set()
        await answer.said.wait()
        if not store_url.startswith("sqlite"):
            await wait_until(is_waiting, store_url, "Lock")
        kill(server)


@pytest.mark.parametrize("commits", [True, False])
async def test_a_commit_in_progress_at_a_kill_is_whole_or_absent(
    upstream: ScriptedUpstream, postgres: Postgres, tmp_path: Path, commits: bool
) -> None:
    url = postgres.database()
    settings = {"store": HELD, "background": background(url)}
    with replica(tmp_path / "first", url, upstream.url, **settings) as server:
        async with client(server) as asking, database_observer.connected(url) as beside_it:
            answer = Paused("Hello")
            upstream.on("/chat/completions", answer)
            async with asking.stream(input="Half") as stream:
                await stream.read_to("response.output_text.delta")
                half = stream.response_id
                await wait_until(is_stored, asking, half)
                postgres.sql(WAIT_AT_COMMIT, make_url(url).database or "")
                await beside_it.execute(sql("SELECT pg_advisory_xact_lock(1)"))
                answer.go_on.set()
                await wait_until(is_waiting, url, "advisory")
                kill(server)
            if not commits:
                await beside_it.execute(
                    sql(
                        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                        " WHERE datname = current_database() AND wait_event = 'advisory'"
                    )
                )
            await beside_it.rollback()
    with replica(tmp_path / "second", url, upstream.url, **settings) as server:
        async with client(server) as asking:
            response = await wait_until_orphaned(asking, half, url)
            if commits:
                assert (response["status"], text(response)) == ("completed", "Hello")
            else:
                check_interrupted(response)
            await database_observer.check_whole(url)
    postgres.drop(url)


@pytest.mark.parametrize("model", ["some-model", "lasting"])
async def test_a_commit_interrupted_anywhere_is_absent(upstream: ScriptedUpstream, tmp_path: Path, model: str) -> None:
    url = databases.sqlite(tmp_path / "state.db")
    log = tmp_path / "state.db-wal"
    with replica(tmp_path / "first", url, upstream.url) as server:
        async with client(server) as asking:
            before = await asking.create(input="One")
            conversation = (await asking.http.post("/conversations", json={})).json()["id"]
            answer = Paused("Hello")
            upstream.on("/chat/completions", answer)
            async with asking.stream(input="Two", model=model, conversation=conversation) as stream:
                await stream.read_to("response.output_text.delta")
                await wait_until(is_stored, asking, stream.response_id)
                begun = log.stat().st_size
                answer.go_on.set()
                final = (await stream.read_to("response.completed"))["response"]
                kill(server)
    content, written = (tmp_path / "state.db").read_bytes(), log.read_bytes()
    assert len(written) > begun
    for cut in [*range(begun, len(written), WAL_STEP), len(written)]:
        copy = tmp_path / f"{cut}" / "state.db"
        copy.parent.mkdir()
        copy.write_bytes(content)
        copy.with_name("state.db-wal").write_bytes(written[:cut])
        store = SqlStore(StoreSettings(url=databases.sqlite(copy), deadline_s=DEADLINE_S), BackgroundSettings())
        await store.open()
        found = await store.responses.load_response("anonymous", final["id"])
        stored = await store.responses.load_response("anonymous", before["id"])
        turn = await store.history.load_conversation_history("anonymous", conversation)
        jobs = await store.jobs.claim_jobs("another", 10)
        await store.aclose()
        assert found is not None
        assert stored is not None
        assert stored.response == before
        await database_observer.check_whole(databases.sqlite(copy))
        if cut == len(written):
            assert (found.response, jobs) == (final, ())
            assert [item["role"] for item in turn or ()] == ["user", "assistant"]
            continue
        assert (found.response["output"], turn) == ([], [])
        if model == "lasting":
            # The next server ends it, with what its log has.
            assert (found.response["status"], [job.response_id for job in jobs]) == ("in_progress", [final["id"]])
        else:
            check_interrupted(found.response)


async def test_a_busy_server_killed_at_any_moment_has_stored_what_it_acknowledged(
    upstream: ScriptedUpstream, store_url: str, tmp_path: Path
) -> None:
    settings = {"background": background(store_url)}
    delivered: dict[str, Json] = {}
    begun: set[str] = set()
    for life, count in enumerate([*KILLED_AFTER, 0]):
        with replica(tmp_path / f"{life}", store_url, upstream.url, **settings) as server:
            async with client(server) as asking:
                await check_stored(asking, delivered, begun - delivered.keys(), store_url)
                lasts = len(delivered) + count
                async with asyncio.TaskGroup() as clients:
                    for _ in range(CLIENTS if count else 0):
                        clients.create_task(send_until_killed(asking, server, delivered, begun, lasts))
    assert len(delivered) >= sum(KILLED_AFTER)


async def check_stored(asking: Client, delivered: dict[str, Json], undelivered: set[str], store_url: str) -> None:
    for response_id, response in delivered.items():
        assert await asking.read(response_id) == response
    for response_id in undelivered:
        # Clients get the id first: if the server is killed before the beginning is stored, nothing is found.
        if await is_stored(asking, response_id):
            response = await wait_until_orphaned(asking, response_id, store_url)
            if response["status"] == "completed":
                assert text(response) == "Hi there"
            else:
                check_interrupted(response)
                assert response["output"] == []
    await database_observer.check_whole(store_url)


async def send_until_killed(
    asking: Client, server: Command, delivered: dict[str, Json], begun: set[str], lasts: int
) -> None:
    """Sends requests until the server is killed, which happens after the chosen number of ends."""
    previous: Json = {}
    while True:
        try:
            async with asking.stream(input="Hello", **previous) as stream:
                await stream.read_to("response.created")
                begun.add(stream.response_id)
                response = (await stream.read_to("response.completed"))["response"]
        except (httpx.TransportError, StopAsyncIteration, json.JSONDecodeError):
            return
        delivered[response["id"]] = response
        previous = {"previous_response_id": response["id"]}
        if len(delivered) >= lasts and server.process.poll() is None:
            kill(server)
