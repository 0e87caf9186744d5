"""Stored responses on WebSockets: stored before their terminal event, continued anywhere, visible to their owner."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack
from typing import Any

import httpx
import pytest

from tests.polling import TIMEOUT_S
from tests.serving import Gateway, serving
from tests.upstream import Hang, Reply, ScriptedUpstream
from tests.upstream.builders import SSE, chat_text, error_reply, responses_text
from tests.upstream.faults import CHAT as CHAT_ANSWER
from tests.websocket_client import Json, talking, text

StartGateway = Callable[..., Gateway]

AUTH = {"keys": [{"name": "ada", "key": "key-of-ada"}, {"name": "bob", "key": "key-of-bob"}]}
CHAINED = 20


@pytest.fixture
async def upstream() -> AsyncIterator[ScriptedUpstream]:
    async with ScriptedUpstream() as upstream:
        upstream.on("/chat/completions", chat_text("Good day."))
        upstream.on("/responses", responses_text("Good day."))
        yield upstream


@pytest.fixture
async def start(upstream: ScriptedUpstream, store_url: str) -> AsyncIterator[StartGateway]:
    """Returns a function that starts a server on the database. `sections` extend its configuration."""
    provider = {"type": "openai_compatible", "base_url": upstream.url, "retries": 0}
    config = {
        "server": {"drain_s": 0.2},
        "store": {"url": store_url, "deadline_s": 60},
        "providers": {"chat": provider, "both": {**provider, "dialects": ["chat", "responses"]}},
        "models": {
            "relayed": {"provider": "both"},
            "lasting": {"provider": "chat", "resumable": True},
            "*": {"provider": "chat"},
        },
    }
    with ExitStack() as running:
        yield lambda **sections: running.enter_context(serving({**config, **sections}))


def http(gateway: Gateway, key: str = "none") -> httpx.AsyncClient:
    headers = {"authorization": f"Bearer {key}"}
    return httpx.AsyncClient(base_url=gateway.v1, headers=headers, timeout=60, verify=False, trust_env=False)


def bearer(key: str) -> Json:
    return {"additional_headers": {"authorization": f"Bearer {key}"}}


def sent_messages(upstream: ScriptedUpstream) -> list[tuple[str, Any]]:
    body = upstream.requests[-1].json
    return [(message["role"], message["content"]) for message in body["messages"]]


@pytest.mark.parametrize("model", ["translated", "relayed", "lasting"])
async def test_a_response_is_stored_before_its_terminal_event(model: str, start: StartGateway) -> None:
    gateway = start()
    async with talking(gateway.v1) as talk, http(gateway) as client:
        previous = None
        for _ in range(CHAINED):
            response = await talk.response(model=model, previous_response_id=previous)
            stored = await client.get(f"/responses/{response['id']}")
            assert stored.json() == response
            assert (response["store"], response["previous_response_id"]) == (True, previous)
            previous = response["id"]


async def test_a_stored_response_is_continued_from_anywhere(start: StartGateway, upstream: ScriptedUpstream) -> None:
    gateway = start()
    async with http(gateway) as client:
        first = (await client.post("/responses", json={"model": "m", "input": "I am Ada."})).json()
        async with talking(gateway.v1) as talk:
            second = await talk.response(input="He is Bob.", previous_response_id=first["id"])
        async with talking(gateway.v1) as talk:
            await talk.response(input="Who?", previous_response_id=second["id"], stream_id="a")
        await client.post("/responses", json={"model": "m", "input": "Who?", "previous_response_id": second["id"]})
    expected = [("user", "I am Ada."), ("assistant", "Good day."), ("user", "He is Bob."), ("assistant", "Good day.")]
    assert sent_messages(upstream) == [*expected, ("user", "Who?")]


async def test_unstored_responses_exist_on_their_connection_only(
    start: StartGateway, upstream: ScriptedUpstream
) -> None:
    gateway = start()
    async with http(gateway) as client, talking(gateway.v1) as talk:
        response = await talk.response(input="I am Ada.", store=False)
        assert (await client.get(f"/responses/{response['id']}")).status_code == 404
        assert (await client.get("/responses")).json()["data"] == []
        await talk.response(input="Who?", previous_response_id=response["id"], store=False)
        assert sent_messages(upstream) == [("user", "I am Ada."), ("assistant", "Good day."), ("user", "Who?")]


async def test_a_stored_response_may_continue_one_that_is_not(start: StartGateway, upstream: ScriptedUpstream) -> None:
    gateway = start()
    async with http(gateway) as client, talking(gateway.v1) as talk:
        first = await talk.response(input="I am Ada.", store=False)
        second = await talk.response(input="He is Bob.", previous_response_id=first["id"])
        await client.post("/responses", json={"model": "m", "input": "Who?", "previous_response_id": second["id"]})
    assert sent_messages(upstream)[0] == ("user", "I am Ada.")
    assert len(sent_messages(upstream)) == 5


async def test_a_failed_continuation_leaves_a_stored_response_alone(
    start: StartGateway, upstream: ScriptedUpstream
) -> None:
    async with talking(start().v1) as talk:
        first = await talk.response()
        upstream.on("/chat/completions", error_reply(500, "No."), chat_text("Good day."))
        assert (await talk.error(previous_response_id=first["id"]))["status"] == 502
        await talk.response(previous_response_id=first["id"])


async def test_prepared_state_is_stored_too(start: StartGateway, upstream: ScriptedUpstream) -> None:
    gateway = start()
    async with talking(gateway.v1) as talk:
        prepared = (await talk.turn(input="I am Ada.", generate=False))[-1]["response"]
    async with http(gateway) as client:
        assert (await client.get(f"/responses/{prepared['id']}")).json() == prepared
        await client.post("/responses", json={"model": "m", "input": "Who?", "previous_response_id": prepared["id"]})
    assert sent_messages(upstream) == [("user", "I am Ada."), ("user", "Who?")]
    assert len(upstream.requests) == 1


async def test_responses_of_another_owner_are_unknown(start: StartGateway) -> None:
    gateway = start(auth=AUTH)
    async with talking(gateway.v1, **bearer("key-of-ada")) as ada, talking(gateway.v1, **bearer("key-of-bob")) as bob:
        response = await ada.response()
        foreign = await bob.error(previous_response_id=response["id"])
        unknown = await bob.error(previous_response_id="resp_unknown")
        assert foreign["error"].pop("message").replace(response["id"], "resp_unknown") == unknown["error"].pop(
            "message"
        )
        assert foreign == unknown
        assert foreign["error"]["code"] == "previous_response_not_found"


async def test_a_response_whose_client_left_is_cancelled_with_its_delivered_output(
    start: StartGateway, upstream: ScriptedUpstream
) -> None:
    upstream.on("/chat/completions", Reply(headers=SSE, body=[CHAT_ANSWER.opening, Hang()]))
    gateway = start()
    async with http(gateway) as client:
        async with talking(gateway.v1) as talk:
            await talk.create()
            events = await talk.read_to("response.output_text.delta")
            talk.socket.transport.abort()
        path = f"/responses/{events[0]['response']['id']}"
        async with asyncio.timeout(60):
            # Its beginning is stored while the upstream works, its end once the server notices that the client left.
            while (stored := (await client.get(path)).json()).get("status") in (None, "in_progress"):
                continue
    assert stored["status"] == "cancelled"
    assert text(stored) == "Grüße from upstream"


async def test_a_failure_before_content_leaves_nothing_in_the_store(
    start: StartGateway, upstream: ScriptedUpstream
) -> None:
    upstream.on("/chat/completions", error_reply(400, "No."))
    gateway = start()
    async with http(gateway) as client, talking(gateway.v1) as talk:
        assert (await talk.error())["status"] == 400
        # The error is sent first; the response is deleted after it.
        async with asyncio.timeout(TIMEOUT_S):
            while (await client.get("/responses")).json()["data"]:
                continue
