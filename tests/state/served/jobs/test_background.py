"""Responses that outlive their requests and their clients, through real servers."""

import asyncio
import json
from typing import TypeVar

from openai import AsyncOpenAI

from gateway.state.values import ACTIVE_STATUSES
from tests.databases import Postgres
from tests.polling import read_until
from tests.state.replicas import client, text
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
from tests.upstream import ScriptedUpstream
from tests.upstream.builders import chat_text

T = TypeVar("T")


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


async def test_a_client_that_leaves_stops_nothing_and_can_return(store_url: str, upstream: ScriptedUpstream) -> None:
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


async def test_a_deleted_response_stops_and_its_followers_are_notified(
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
            last = await stream.read_all()
            # A response is cancelled before it is deleted. Followers read the end of its log, or find it gone.
            if last["type"] == "error":
                assert "deleted" in last["message"]
            else:
                assert (last["type"], last["response"]["status"]) == ("response.incomplete", "cancelled")
    postgres.give_back(url)
