"""Background responses whose servers are killed, stop, are full or keep no log, through real processes."""

import asyncio
import signal
from functools import partial
from pathlib import Path

import pytest

from tests import databases
from tests.databases import Postgres
from tests.polling import read_until
from tests.serving import Command
from tests.state.replicas import client, kill, replica, text
from tests.state.served.jobs.background_gateway import (
    PATIENCE_S,
    PIECES,
    Json,
    ended,
    hanging,
    in_halves,
    is_closed,
    is_whole,
    raw,
    resumed,
    served,
)
from tests.upstream import Exchange, Hang, ScriptedUpstream
from tests.upstream.builders import DONE, chat_sse, chat_text, sse_reply, text_chunks

LEASE: Json = {"lease_s": 3.0}
"""Long enough for a server that lives to renew it on a busy machine."""

FAST: Json = {"background": LEASE}


async def test_a_stream_of_a_killed_server_ends_as_failed_on_another_replica(
    postgres: Postgres, tmp_path: Path, upstream: ScriptedUpstream
) -> None:
    url = postgres.lease()
    upstream.on("/chat/completions", hanging(*PIECES))
    with (
        replica(tmp_path / "a", url, upstream.url, **FAST) as one,
        replica(tmp_path / "b", url, upstream.url, **FAST) as other,
    ):
        async with client(one) as here, client(other) as there:
            async with here.stream(input="hello", background=True) as stream:
                while stream.events[-1:] == [] or stream.events[-1].get("delta") != PIECES[4]:
                    await stream.read_to("response.output_text.delta")
                heard = list(stream.events)
                following = asyncio.get_running_loop().create_task(resumed(there, stream.response_id))
                kill(one)
            rest = await resumed(there, stream.response_id, heard[-1]["sequence_number"])
            assert (await following).events == [*heard, *rest.events]
            assert is_whole([*heard, *rest.events])
            failed = rest.events[-1]
            assert failed["type"] == "response.failed"
            assert (failed["response"]["status"], failed["response"]["error"]["code"]) == ("failed", "interrupted")
            # Delivered text stays; the upstream's pieces may have arrived in several reads, and the last not at all.
            message = "".join(event.get("delta", "") for event in [*heard, *rest.events])
            assert text(failed["response"]) == message
            assert "".join(PIECES).startswith(message)
            item = next(event for event in heard if event["type"] == "response.output_item.added")["item"]
            assert failed["response"]["output"][0]["id"] == item["id"]
            assert await there.read(stream.response_id) == failed["response"]
            assert (await resumed(there, stream.response_id)).events == [*heard, *rest.events]
    assert len(upstream.requests) == 1
    postgres.give_back(url)


@pytest.mark.parametrize("streamed", [True, False])
async def test_a_job_without_delivered_events_is_finished_by_another_replica(
    postgres: Postgres, tmp_path: Path, upstream: ScriptedUpstream, streamed: bool
) -> None:
    url = postgres.lease()
    upstream.on("/chat/completions", sse_reply(Hang()), chat_text(*PIECES))
    with (
        replica(tmp_path / "a", url, upstream.url, **FAST) as one,
        replica(tmp_path / "b", url, upstream.url, **FAST) as other,
    ):
        async with client(one) as here, client(other) as there:
            if not streamed:
                response_id = (await here.create(input="hello", background=True))["id"]
                await upstream.received(1)
                kill(one)
            else:
                async with here.stream(input="hello", background=True) as stream:
                    await stream.read_to("response.created")
                    await upstream.received(1)
                    kill(one)
                response_id = stream.response_id
                rest = await resumed(there, response_id, stream.events[-1]["sequence_number"])
                assert is_whole([*stream.events, *rest.events])
                assert rest.events[-1]["type"] == "response.completed"
                ids = {event["response"]["id"] for event in [*stream.events, *rest.events] if "response" in event}
                assert ids == {response_id}
            response = await ended(there, response_id)
            assert (response["status"], text(response)) == ("completed", "".join(PIECES))
    assert len(upstream.requests) == 2
    postgres.give_back(url)


async def test_a_job_that_kills_every_server_is_abandoned(tmp_path: Path, upstream: ScriptedUpstream) -> None:
    store_url = databases.ready_sqlite(tmp_path / "state.db")
    upstream.on("/chat/completions", sse_reply(Hang()))
    sections: Json = {"background": {**LEASE, "max_attempts": 2}}
    response_id = ""
    for attempt in (1, 2):
        with replica(tmp_path / str(attempt), store_url, upstream.url, **sections) as server:
            async with client(server) as asking:
                if attempt == 1:
                    response_id = (await asking.create(input="hello", background=True))["id"]
                await upstream.received(attempt)
            kill(server)
    with replica(tmp_path / "last", store_url, upstream.url, **sections) as server:
        async with client(server) as asking:
            response = await ended(asking, response_id)
    assert (response["status"], response["error"]["code"]) == ("failed", "interrupted")
    assert len(upstream.requests) == 2


async def stopped(server: Command) -> int:
    server.process.send_signal(signal.SIGTERM)
    return await asyncio.to_thread(server.process.wait, PATIENCE_S)


async def test_jobs_that_end_in_time_are_finished_before_the_server_stops(
    tmp_path: Path, upstream: ScriptedUpstream
) -> None:
    gate = asyncio.Event()
    store_url = databases.ready_sqlite(tmp_path / "state.db")
    upstream.on("/chat/completions", in_halves(gate, *PIECES))
    with replica(tmp_path / "a", store_url, upstream.url, server={"drain_s": PATIENCE_S}) as server:
        async with client(server) as asking:
            response_id = (await asking.create(input="hello", background=True))["id"]
            await upstream.received(1)
        stopping = asyncio.get_running_loop().create_task(stopped(server))
        gate.set()
        assert await stopping == 0
    with replica(tmp_path / "b", store_url, upstream.url) as server:
        async with client(server) as asking:
            response = await asking.read(response_id)
    assert (response["status"], text(response)) == ("completed", "".join(PIECES))
    assert len(upstream.requests) == 1


async def test_a_job_that_a_stopping_server_did_not_finish_is_run_by_the_next(
    store_url: str, tmp_path: Path, upstream: ScriptedUpstream
) -> None:
    upstream.on("/chat/completions", sse_reply(Hang()), chat_text(*PIECES))
    patient: Json = {"background": {"lease_s": 3600, "max_attempts": 1}}
    with replica(tmp_path / "a", store_url, upstream.url, **patient) as server:
        async with client(server) as asking:
            response_id = (await asking.create(input="hello", background=True))["id"]
            request = await upstream.received(1)
        assert await stopped(server) == 0
        await is_closed(request)
    with replica(tmp_path / "b", store_url, upstream.url, **patient) as server:
        async with client(server) as asking:
            response = await ended(asking, response_id)
    assert (response["status"], text(response)) == ("completed", "".join(PIECES))


async def test_followers_of_a_stopping_server_are_told_to_reconnect(
    postgres: Postgres, tmp_path: Path, upstream: ScriptedUpstream
) -> None:
    url = postgres.lease()
    gate = asyncio.Event()
    upstream.on("/chat/completions", in_halves(gate, *PIECES))
    with (
        replica(tmp_path / "a", url, upstream.url, server={"drain_s": PATIENCE_S}) as one,
        replica(tmp_path / "b", url, upstream.url) as other,
    ):
        async with client(one) as here, client(other) as there:
            response_id = (await here.create(input="hello", model="lasting", background=True, stream=False))["id"]
            async with here.stream(input="hello", background=True) as stream:
                await stream.read_to("response.output_text.delta")
                followed = there.stream("GET", f"/responses/{stream.response_id}?stream=true")
                async with followed as follower:
                    await follower.read_to("response.output_text.delta")
                    assert await stopped(other) == 0
                    error = await follower.read_to("error")
                    assert error["code"] == "server_shutting_down"
                    heard = [event for event in follower.events if event["type"] != "error"]
                    assert error["sequence_number"] == heard[-1]["sequence_number"]
                gate.set()
                await stream.read_all()
            rest = await resumed(here, stream.response_id, error["sequence_number"])
            assert [*heard, *rest.events] == stream.events
            assert (await ended(here, response_id))["status"] == "completed"
    postgres.give_back(url)


async def test_more_jobs_than_may_run_wait_and_are_run(store_url: str, upstream: ScriptedUpstream) -> None:
    gate = asyncio.Event()
    upstream.on("/chat/completions", in_halves(gate, *PIECES))
    with served(store_url, upstream.url, background={"max_running": 1}) as server:
        async with client(server) as asking:
            first = await asking.create(input="hello", background=True)
            await upstream.received(1)
            waiting = [await asking.create(input="hello", background=True) for _ in range(3)]
            cancelled = await asking.http.post(f"/responses/{waiting[1]['id']}/cancel")
            assert cancelled.json()["status"] == "cancelled"
            assert [(await asking.read(job["id"]))["status"] for job in waiting] == ["queued", "cancelled", "queued"]
            gate.set()
            ends = [(await ended(asking, job["id"]))["status"] for job in (first, *waiting)]
    assert ends == ["completed", "completed", "cancelled", "completed"]
    assert len(upstream.requests) == 3


async def test_a_failure_of_the_upstream_ends_the_response_and_its_stream(
    store_url: str, upstream: ScriptedUpstream
) -> None:
    async def refuse(exchange: Exchange) -> None:
        exchange.reset()

    upstream.on("/chat/completions", refuse)
    with served(store_url, upstream.url) as server:
        async with client(server) as asking:
            quiet = await asking.create(input="hello", background=True)
            response = await ended(asking, quiet["id"])
            assert response["status"] == "failed"
            assert response["error"]["message"]
            kinds: list[Json] = [{"background": True}, {"resumable": True}]
            for kind in kinds:
                async with asking.stream(input="hello", **kind) as stream:
                    failed = await stream.read_all()
                assert is_whole(stream.events)
                assert failed["type"] == "response.failed"
                assert failed["response"] == await asking.read(stream.response_id)


async def test_unsupported_streams_resumptions_and_cancellations_are_refused_by_name(
    store_url: str, upstream: ScriptedUpstream
) -> None:
    upstream.on("/chat/completions", chat_text("a"))
    with served(store_url, upstream.url) as server:
        async with client(server) as asking:
            async with asking.stream(input="hello", background=True) as stream:
                end = await stream.read_all()
            logged, last = stream.response_id, end["sequence_number"]
            plain = (await asking.create(input="hello"))["id"]
            quiet = (await asking.create(input="hello", background=True))["id"]
            refusals = {
                f"GET {logged}?stream=true&starting_after={last + 1}": (400, "starting_after"),
                f"GET {logged}?stream=true&starting_after=-1": (400, "starting_after"),
                f"GET {logged}?stream=true&starting_after=x": (400, "starting_after"),
                f"GET {logged}?stream=true&starting_after=1.0": (400, "starting_after"),
                f"GET {logged}?starting_after=1": (400, "starting_after"),
                f"GET {logged}?stream=false&starting_after=1": (400, "starting_after"),
                f"GET {logged}?stream=perhaps": (400, "stream"),
                f"GET {plain}?stream=true": (400, "stream"),
                f"GET {quiet}?stream=true": (400, "stream"),
                "GET resp_unknown?stream=true": (404, None),
                "GET resp_%00?stream=true&starting_after=3": (404, None),
                f"POST {plain}/cancel": (400, "background"),
                "POST resp_unknown/cancel": (404, None),
                "POST resp_%00/cancel": (404, None),
            }
            for asked, (status, param) in refusals.items():
                method, _, path = asked.partition(" ")
                answer = await asking.http.request(method, f"/responses/{path}")
                assert (answer.status_code, answer.json()["error"]["param"]) == (status, param), asked
                assert answer.json()["error"]["type"] == "invalid_request_error"
            assert await raw(asking, logged, last) == DONE
            assert (await ended(asking, quiet))["status"] == "completed"


async def test_an_expired_log_is_refused_by_name(store_url: str, upstream: ScriptedUpstream) -> None:
    upstream.on("/chat/completions", chat_sse(text_chunks("a")))
    store = {"events_hours": 0.000001, "sweep_s": 0.1}
    with served(store_url, upstream.url, store=store) as server:
        async with client(server) as asking:
            async with asking.stream(input="hello", background=True) as stream:
                await stream.read_to("response.created")
            path = f"/responses/{stream.response_id}"
            assert (await ended(asking, stream.response_id))["status"] == "completed"
            replay = partial(asking.http.get, f"{path}?stream=true")
            answer = await read_until(replay, lambda read: read.status_code != 200)
            assert (answer.status_code, answer.json()["error"]["param"]) == (400, "stream")
            assert "no longer stored" in answer.json()["error"]["message"]
            assert (await asking.http.get(path)).status_code == 200


async def test_processes_of_one_server_share_streams_and_jobs_on_one_file(
    tmp_path: Path, upstream: ScriptedUpstream
) -> None:
    upstream.on("/chat/completions", chat_text(*PIECES))
    workers: Json = {"server": {"workers": 2, "drain_s": 0.2}, "background": {"max_running": 3}}
    with replica(tmp_path / "a", databases.ready_sqlite(tmp_path / "state.db"), upstream.url, **workers) as server:

        async def whole() -> None:
            # A client of its own has connections of its own, which either process may get.
            async with client(server) as asking:
                async with asking.stream(input="hello", background=True) as stream:
                    end = await stream.read_all()
                assert is_whole(stream.events)
                assert text(end["response"]) == "".join(PIECES)
            async with client(server) as asking:
                assert (await resumed(asking, stream.response_id)).events == stream.events
                quiet = await asking.create(input="hello", background=True)
            async with client(server) as asking:
                assert text(await ended(asking, quiet["id"])) == "".join(PIECES)

        async with asyncio.TaskGroup() as clients:
            for _ in range(16):
                clients.create_task(whole())
    assert len(upstream.requests) == 32
