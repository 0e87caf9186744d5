"""Responses that outlive their requests, their clients and their servers, through real processes."""

import asyncio
import json
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import pytest
from openai import AsyncOpenAI

from gateway.state.store import ACTIVE_STATUSES
from tests import databases
from tests.databases import Postgres
from tests.polling import read_until
from tests.serving import Command, Gateway, serving
from tests.state.replicas import Client, Stream, client, kill, replica, text
from tests.upstream import Exchange, Hang, Pause, Request, ScriptedUpstream
from tests.upstream.builders import DONE, chat_sse, chat_text, data_frame, sse_reply, text_chunks

Json = dict[str, Any]
T = TypeVar("T")

PATIENCE_S = 20.0
CLOSED_S = 2.0
LEASE: Json = {"lease_s": 1.0}

FAST: Json = {"background": LEASE}
PIECES = [f"piece {number}, " for number in range(12)]


@pytest.fixture
async def upstream() -> AsyncIterator[ScriptedUpstream]:
    async with ScriptedUpstream() as up:
        yield up


@contextmanager
def served(store_url: str, upstream_url: str, **sections: Any) -> Iterator[Gateway]:
    """One server in a thread of this process, for what needs no process to stop or kill."""
    config: Json = {
        "server": {"drain_s": 0.2},
        "store": {"url": store_url, "poll_s": 0.05},
        "providers": {"chat": {"type": "openai_compatible", "base_url": upstream_url, "retries": 0}},
        "models": {"lasting": {"provider": "chat", "resumable": True}, "*": {"provider": "chat"}},
    }
    with serving({name: {**config.get(name, {}), **sections.get(name, {})} for name in config | sections}) as server:
        yield server


def in_halves(gate: asyncio.Event, *pieces: str) -> Any:
    """A text, of which the second half comes when the gate opens."""
    chunks = [data_frame(chunk) for chunk in text_chunks(*pieces)]
    half = 1 + len(pieces) // 2
    return sse_reply(*chunks[:half], Pause(gate), *chunks[half:], DONE)


def hanging(*pieces: str) -> Any:
    """A text that never ends."""
    return sse_reply(*(data_frame(chunk) for chunk in text_chunks(*pieces)[: 1 + len(pieces)]), Hang())


async def ended(asking: Client, response_id: str) -> Json:
    return await read_until(lambda: asking.read(response_id), lambda read: read["status"] not in ACTIVE_STATUSES)


async def is_closed(request: Request) -> None:
    async with asyncio.timeout(CLOSED_S):
        await request.closed


def is_whole(events: list[Json], first: int = 0) -> bool:
    """Every number once, in order, and one end."""
    return [event["sequence_number"] for event in events] == list(range(first, first + len(events)))


async def resumed(asking: Client, response_id: str, after: int | None = None) -> Stream:
    """The rest of a stream, to its end."""
    place = "" if after is None else f"&starting_after={after}"
    async with asking.stream("GET", f"/responses/{response_id}?stream=true{place}") as stream:
        assert stream.answer.status_code == 200, await stream.answer.aread()
        await stream.read_all()
    return stream


async def raw(asking: Client, response_id: str, after: int | None = None) -> bytes:
    place = "" if after is None else f"&starting_after={after}"
    answer = await asking.http.get(f"/responses/{response_id}?stream=true{place}")
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"].startswith("text/event-stream")
    return answer.content


async def test_a_background_response_is_answered_at_once_and_ends_by_itself(
    store_url: str, upstream: ScriptedUpstream
) -> None:
    gate = asyncio.Event()
    upstream.on("/chat/completions", in_halves(gate, *PIECES))
    with served(store_url, upstream.url) as server:
        async with client(server) as asking:
            queued = await asking.create(input="hello", background=True)
            assert (queued["status"], queued["background"], queued["output"]) == ("queued", True, [])
            await upstream.received(1)
            assert (await asking.read(queued["id"]))["status"] == "in_progress"
            gate.set()
            response = await ended(asking, queued["id"])
            assert (response["status"], text(response)) == ("completed", "".join(PIECES))
            assert {key: response[key] for key in ("id", "created_at")} == {
                key: queued[key] for key in ("id", "created_at")
            }
            follow_up = await asking.create(input="and?", previous_response_id=queued["id"])
            assert follow_up["status"] == "completed"


async def test_a_stream_is_replayed_byte_for_byte_from_any_of_its_events(
    store_url: str, upstream: ScriptedUpstream
) -> None:
    upstream.on("/chat/completions", chat_text(*PIECES))
    with served(store_url, upstream.url) as server:
        async with client(server) as asking:
            answer = await asking.post(input="hello", background=True, stream=True)
            response_id = json.loads(answer.content.partition(b"data: ")[2].partition(b"\n")[0])["response"]["id"]
            *frames, done, rest = answer.content.split(b"\n\n")
            assert (done, rest) == (b"data: [DONE]", b"")
            assert await raw(asking, response_id) == answer.content
            for number in range(len(frames)):
                later = b"".join(frame + b"\n\n" for frame in [*frames[number + 1 :], done])
                assert await raw(asking, response_id, number) == later
            events = [json.loads(frame.partition(b"\ndata: ")[2]) for frame in frames]
            assert is_whole(events)
            assert [event["type"] for event in events[:2]] == ["response.created", "response.in_progress"]
            assert events[-1]["response"] == await asking.read(response_id)


async def test_a_client_that_leaves_can_come_back_and_has_stopped_nothing(
    store_url: str, upstream: ScriptedUpstream
) -> None:
    gate = asyncio.Event()
    upstream.on("/chat/completions", in_halves(gate, *PIECES))
    kinds: list[Json] = [{"background": True}, {"resumable": True}, {"model": "lasting"}]
    with served(store_url, upstream.url) as server:
        async with client(server) as asking:
            for kind in kinds:
                gate.clear()
                async with asking.stream(input="hello", **kind) as left:
                    await left.read_to("response.output_text.delta")
                last = left.events[-1]["sequence_number"]
                following = asyncio.get_running_loop().create_task(resumed(asking, left.response_id, last))
                assert (await asking.read(left.response_id))["status"] == "in_progress"
                gate.set()
                rest = await following
                assert is_whole([*left.events, *rest.events])
                assert text(rest.events[-1]["response"]) == "".join(PIECES)
                assert [event["type"] for event in rest.events].count("response.completed") == 1
    assert len(upstream.requests) == len(kinds)


async def test_the_official_client_streams_resumes_polls_and_cancels(
    store_url: str, upstream: ScriptedUpstream
) -> None:
    upstream.on("/chat/completions", chat_text(*PIECES), chat_text(*PIECES), hanging("never"))
    with served(store_url, upstream.url) as server:
        async with AsyncOpenAI(base_url=server.v1, api_key="none", max_retries=0, timeout=PATIENCE_S) as sdk:
            stream = await sdk.responses.create(model="m", input="hello", background=True, stream=True)
            events = [event async for event in stream]
            response_id = events[0].response.id  # type: ignore[union-attr]
            again = await sdk.responses.retrieve(response_id, stream=True, starting_after=4)
            assert [event async for event in again] == events[5:]
            whole = await sdk.responses.retrieve(response_id)
            assert whole == events[-1].response  # type: ignore[union-attr]

            queued = await sdk.responses.create(model="m", input="hello", background=True)
            assert queued.status == "queued"
            polled = await read_until(
                lambda: sdk.responses.retrieve(queued.id), lambda read: read.status not in ACTIVE_STATUSES
            )
            assert (polled.status, polled.output_text) == ("completed", "".join(PIECES))
            assert (await sdk.responses.cancel(queued.id)).status == "completed"

            endless = await sdk.responses.create(model="m", input="hello", background=True)
            await upstream.received(3)
            assert (await sdk.responses.cancel(endless.id)).status == "cancelled"
            assert (await sdk.responses.retrieve(endless.id)).status == "cancelled"


async def test_cancelling_ends_the_stream_and_the_upstream_on_another_replica(
    postgres: Postgres, upstream: ScriptedUpstream
) -> None:
    url = postgres.lease()
    upstream.on("/chat/completions", hanging(*PIECES))
    with (
        served(url, upstream.url) as one,
        served(url, upstream.url) as other,
    ):
        async with client(one) as here, client(other) as there:
            async with here.stream(input="hello", background=True) as stream:
                while stream.events[-1:] == [] or stream.events[-1].get("delta") != PIECES[-1]:
                    await stream.read_to("response.output_text.delta")
                cancelled = (await there.http.post(f"/responses/{stream.response_id}/cancel")).json()
                await is_closed(await upstream.received(1))
                end = await stream.read_all()
            assert is_whole(stream.events)
            assert (end["type"], end["response"]) == ("response.incomplete", cancelled)
            assert (cancelled["status"], text(cancelled)) == ("cancelled", "".join(PIECES))
            assert await here.read(stream.response_id) == cancelled
            again = await here.http.post(f"/responses/{stream.response_id}/cancel")
            assert (again.status_code, again.json()) == (200, cancelled)

            quiet = await here.create(input="hello", background=True)
            request = await upstream.received(2)
            assert (await there.http.post(f"/responses/{quiet['id']}/cancel")).json()["status"] == "cancelled"
            await is_closed(request)
    postgres.give_back(url)


async def test_a_deleted_response_runs_no_longer_and_tells_its_followers(
    postgres: Postgres, upstream: ScriptedUpstream
) -> None:
    url = postgres.lease()
    upstream.on("/chat/completions", hanging(*PIECES))
    with (
        served(url, upstream.url) as one,
        served(url, upstream.url) as other,
    ):
        async with client(one) as here, client(other) as there, here.stream(input="hi", background=True) as stream:
            await stream.read_to("response.output_text.delta")
            assert (await there.http.delete(f"/responses/{stream.response_id}")).status_code == 200
            await is_closed(await upstream.received(1))
            error = await stream.read_all()
            assert (error["type"], "deleted" in error["message"]) == ("error", True)
    postgres.give_back(url)


async def test_a_stream_whose_server_is_killed_goes_on_elsewhere_and_says_that_it_failed(
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
            # What was told stays told; the upstream's pieces may have come in several reads, and the last not at all.
            told = "".join(event.get("delta", "") for event in [*heard, *rest.events])
            assert text(failed["response"]) == told
            assert "".join(PIECES).startswith(told)
            item = next(event for event in heard if event["type"] == "response.output_item.added")["item"]
            assert failed["response"]["output"][0]["id"] == item["id"]
            assert await there.read(stream.response_id) == failed["response"]
            assert (await resumed(there, stream.response_id)).events == [*heard, *rest.events]
    assert len(upstream.requests) == 1
    postgres.give_back(url)


@pytest.mark.parametrize("streamed", [True, False])
async def test_a_job_that_has_told_nothing_is_finished_by_another_replica(
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


async def test_a_job_that_kills_every_server_is_given_up(tmp_path: Path, upstream: ScriptedUpstream) -> None:
    store_url = databases.ready_sqlite(tmp_path / "state.db")
    upstream.on("/chat/completions", sse_reply(Hang()))
    sections: Json = {"background": {"lease_s": 0.5, "max_attempts": 2}}
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


async def test_a_job_the_server_had_no_time_for_is_run_by_the_next(
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


async def test_followers_of_a_server_that_stops_are_told_to_go_on_elsewhere(
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


async def test_what_cannot_be_streamed_resumed_or_cancelled_is_refused_by_name(
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


async def test_a_log_that_is_no_longer_kept_is_refused_by_name(store_url: str, upstream: ScriptedUpstream) -> None:
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
