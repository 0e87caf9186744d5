"""A response has one id in every event, row and log, and nobody can guess it."""

import re
from collections.abc import AsyncIterator
from functools import reduce
from itertools import product
from operator import or_
from pathlib import Path
from typing import Any

import orjson
import pytest
from sqlalchemy import select

from gateway.state.database.tables import OUTPUT_PLACE, events, items, jobs, responses
from tests.databases import ready_sqlite
from tests.state.processes import database_observer
from tests.state.replicas import Client, Json, client, replica
from tests.upstream import ScriptedUpstream
from tests.upstream.builders import chat_text, responses_text

pytestmark = pytest.mark.timeout(180)  # servers take long to start where every core is busy

RANDOM_BITS = 128
SAMPLES = 64

_RESPONSE_ID = re.compile(rb"resp_[^\"' ]*")


@pytest.fixture
async def upstream() -> AsyncIterator[ScriptedUpstream]:
    async with ScriptedUpstream() as up:
        up.on("/chat/completions", chat_text("Hi", " there"))
        up.on("/responses", responses_text("Hi", " there"))
        yield up


def config(upstream: ScriptedUpstream) -> Json:
    provider = {"type": "openai_compatible", "base_url": upstream.url}
    return {
        "providers": {"chat": provider, "both": {**provider, "dialects": ["chat", "responses"]}},
        "models": {"relayed": {"provider": "both"}, "*": {"provider": "chat"}},
    }


HOW: list[Json] = [{}, {"background": True}, {"resumable": True}]


async def test_an_id_is_the_same_in_every_event_row_and_log(
    upstream: ScriptedUpstream, store_url: str, tmp_path: Path
) -> None:
    with replica(tmp_path / "a", store_url, upstream.url, **config(upstream)) as server:
        async with client(server) as asking:
            asking.http.headers["x-request-id"] = "asked-by-me"
            before: set[str] = set()
            for model, how in product(["translated", "relayed"], HOW):
                before.add(await check_id(asking, store_url, before, model=model, **how))


async def check_id(asking: Client, store_url: str, before: set[str], **params: Any) -> str:
    """The id of one more response, whose it is wherever an id is."""
    async with asking.stream(input="Hello", **params) as stream:
        assert stream.answer.headers["x-request-id"] == "asked-by-me"
        final = await stream.read_all()
    response_id = stream.response_id
    assert {event["response"]["id"] for event in stream.events if "response" in event} == {response_id}, params
    output = final["response"]["output"]
    told = {event["item_id"] for event in stream.events if "item_id" in event}
    told |= {event["item"]["id"] for event in stream.events if "item" in event}
    assert told == {item["id"] for item in output}, params
    read = await asking.read(response_id)
    assert read == final["response"], params
    (row,) = await database_observer.rows(store_url, select(responses).where(responses.c.id.not_in(before)))
    assert (row.id, orjson.loads(row.body)["id"]) == (response_id, response_id), params
    of_output = select(items).where(items.c.place == OUTPUT_PLACE, items.c.response_id.not_in(before))
    kept = await database_observer.rows(store_url, of_output)
    assert [(item.response_id, item.id) for item in kept] == [(response_id, item["id"]) for item in output], params
    log = await database_observer.rows(store_url, select(events).where(events.c.response_id.not_in(before)))
    is_logged = "background" in params or "resumable" in params
    assert {entry.response_id for entry in log} == ({response_id} if is_logged else set()), params
    assert set(_RESPONSE_ID.findall(b"".join(entry.frames for entry in log))) <= {response_id.encode()}, params
    assert await database_observer.rows(store_url, select(jobs)) == []
    return response_id


async def test_ids_cannot_be_guessed(upstream: ScriptedUpstream, tmp_path: Path) -> None:
    made: dict[str, list[str]] = {"resp": [], "msg": [], "conv": [], "chatcmpl": []}
    with replica(tmp_path / "a", ready_sqlite(tmp_path / "state.db"), upstream.url) as server:
        async with client(server) as asking:
            body = {"model": "m", "messages": [{"role": "user", "content": "Hello"}], "store": True}
            for _ in range(SAMPLES):
                response = await asking.create(input="Hello")
                made["resp"].append(response["id"])
                made["msg"].append(response["output"][0]["id"])
                made["conv"].append((await asking.http.post("/conversations", json={})).json()["id"])
                made["chatcmpl"].append((await asking.http.post("/chat/completions", json=body)).json()["id"])
    for prefix, ids in made.items():
        numbers = [int(one.removeprefix(f"{prefix}_"), 16) for one in ids]
        # A bit that is the same in all ids has no entropy.
        assert reduce(or_, (number ^ numbers[0] for number in numbers)).bit_count() >= RANDOM_BITS
