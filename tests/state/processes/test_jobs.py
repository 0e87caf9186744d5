"""Background responses of a killed server are started again, or fail if a client has read some output."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.integration.metrics.test_metrics import read_values, value_of
from tests.polling import wait_until
from tests.state.processes import database_observer
from tests.state.processes.killed_servers import Paused, background, check_interrupted, has_ended
from tests.state.replicas import Json, client, kill, replica, text
from tests.upstream import ScriptedUpstream, silence
from tests.upstream.builders import chat_text

pytestmark = pytest.mark.timeout(180)  # servers take long to start where every core is busy


@pytest.fixture
async def upstream() -> AsyncIterator[ScriptedUpstream]:
    async with ScriptedUpstream() as up:
        up.on("/chat/completions", silence)
        yield up


async def test_jobs_without_delivered_events_are_run_by_the_next_server(
    upstream: ScriptedUpstream, store_url: str, tmp_path: Path
) -> None:
    settings = {"background": background(store_url, max_running=2)}
    upstream.on("/chat/completions", Paused("Half an"))
    with replica(tmp_path / "first", store_url, upstream.url, **settings) as server:
        async with client(server) as asking:
            jobs = [await asking.create(input=str(number), background=True) for number in range(4)]
            await upstream.received(2)
            kill(server)
    upstream.on("/chat/completions", chat_text("Hi", " there"))
    with replica(tmp_path / "second", store_url, upstream.url, **settings) as server:
        async with client(server) as asking:
            for number, job in enumerate(jobs):
                await wait_until(has_ended, asking, job["id"])
                response = await asking.read(job["id"])
                assert (response["status"], text(response)) == ("completed", "Hi there")
                assert response["created_at"] == job["created_at"]
                assert await asking.input_texts(job["id"]) == [str(number)]
            await database_observer.check_whole(store_url)
        # Requests of another process are counted by the path of their API too.
        values = await read_values(server.url)
        assert value_of(values, "gateway_requests_total", route="/v1/responses", model="*", outcome="ok") == 4
        assert value_of(values, "gateway_requests_total") == 4
    input_items = [request.json["messages"][0]["content"] for request in upstream.requests]
    assert sorted(input_items) == ["0", "0", "1", "1", "2", "3"]


async def test_a_job_that_brought_down_too_many_servers_fails(
    upstream: ScriptedUpstream, store_url: str, tmp_path: Path
) -> None:
    settings = {"background": background(store_url, max_attempts=2)}
    with replica(tmp_path / "first", store_url, upstream.url, **settings) as server:
        async with client(server) as asking:
            job = await asking.create(input="Hello", background=True)
            await upstream.received(1)
            kill(server)
    with replica(tmp_path / "second", store_url, upstream.url, **settings) as server:
        await upstream.received(2)
        kill(server)
    with replica(tmp_path / "third", store_url, upstream.url, **settings) as server:
        async with client(server) as asking:
            await wait_until(has_ended, asking, job["id"])
            check_interrupted(await asking.read(job["id"]))
            await database_observer.check_whole(store_url)
    assert len(upstream.requests) == 2


@pytest.mark.parametrize("how", [{"background": True}, {"model": "lasting"}])
async def test_a_stream_killed_within_its_answer_ends_as_interrupted_in_its_log(
    upstream: ScriptedUpstream, store_url: str, tmp_path: Path, how: Json
) -> None:
    settings = {"background": background(store_url)}
    upstream.on("/chat/completions", Paused("Hello", " wor", after="ld"))
    with replica(tmp_path / "first", store_url, upstream.url, **settings) as server:
        async with client(server) as asking, asking.stream(input="Half", **how) as stream:
            await stream.read_to("response.output_text.delta")
            await stream.read_to("response.output_text.delta")
            kill(server)
            told = stream.events
    half = stream.response_id
    with replica(tmp_path / "second", store_url, upstream.url, **settings) as server:
        async with client(server) as asking:
            await wait_until(has_ended, asking, half)
            response = await asking.read(half)
            check_interrupted(response)
            assert (text(response), response["output"][0]["status"]) == ("Hello wor", "incomplete")
            async with asking.stream("GET", f"/responses/{half}?stream=true") as replayed:
                final = await replayed.read_all()
            assert replayed.events == [*told, final]
            assert [event["sequence_number"] for event in replayed.events] == list(range(len(told) + 1))
            assert (final["type"], final["response"]) == ("response.failed", response)
            last = told[-1]["sequence_number"]
            path = f"/responses/{half}?stream=true&starting_after={last}"
            async with asking.stream("GET", path) as followed:
                assert await followed.read_all() == final
            assert followed.events == [final]
            await database_observer.check_whole(store_url)
    assert len(upstream.requests) == 1


async def test_a_stream_killed_before_its_answer_is_continued_by_the_next_server(
    upstream: ScriptedUpstream, store_url: str, tmp_path: Path
) -> None:
    settings = {"background": background(store_url)}
    with replica(tmp_path / "first", store_url, upstream.url, **settings) as server:
        async with client(server) as asking, asking.stream(input="Hello", background=True) as stream:
            created = await stream.read_to("response.created")
            await upstream.received(1)
            kill(server)
    upstream.on("/chat/completions", chat_text("Hi", " there"))
    with replica(tmp_path / "second", store_url, upstream.url, **settings) as server:
        async with client(server) as asking:
            path = f"/responses/{stream.response_id}?stream=true&starting_after={created['sequence_number']}"
            async with asking.stream("GET", path) as followed:
                final = await followed.read_all()
            numbers = [event["sequence_number"] for event in [created, *followed.events]]
            assert numbers == list(range(len(numbers)))
            assert "response.created" not in followed.kinds
            assert (final["type"], text(final["response"])) == ("response.completed", "Hi there")
            assert final["response"] == await asking.read(stream.response_id)
            await database_observer.check_whole(store_url)
