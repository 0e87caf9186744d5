"""`store.on_failure: serve_unstored`: answers reach their clients while the database fails, and say that they do."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.databases import ready_sqlite
from tests.faults.client_view import CHAT, RESPONSES, frames
from tests.faults.config import config
from tests.polling import wait_until
from tests.serving import READY_S, Command, command
from tests.upstream import ScriptedUpstream
from tests.upstream.builders import chat_text, responses_text
from tests.upstream.script import Exchange, Script
from tests.websocket_client import talking

Json = dict[str, Any]

ASK: Json = {"model": "some-model", "input": "Hello"}
ASK_CHAT: Json = {"model": "some-model", "messages": [{"role": "user", "content": "Hello"}], "store": True}
TOOL: Json = {"type": "mcp", "server_label": "s", "server_url": "https://192.0.2.1/mcp", "require_approval": "never"}

ANSWERS: dict[str, Script] = {"chat": chat_text("Hi"), "responses": responses_text("Hi")}
ADDRESSES = {"chat": "/chat/completions", "responses": "/responses"}


class Store:
    """A SQLite file that can be made unwritable, as a full disk or a lost permission makes it."""

    def __init__(self, folder: Path) -> None:
        self.url = ready_sqlite(folder / "state.db")
        self._file = folder / "state.db"

    def fail(self) -> None:
        self._file.chmod(0o400)

    def recover(self) -> None:
        self._file.chmod(0o600)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = Store(tmp_path)
    yield store
    store.recover()


def settings(
    upstream: ScriptedUpstream, store: Store, dialect: str = "chat", on_failure: str = "serve_unstored"
) -> Json:
    return {**config(upstream.url, dialect), "store": {"url": store.url, "on_failure": on_failure}}


async def post(gateway: Command, path: str, body: Json, **headers: str) -> httpx.Response:
    async with httpx.AsyncClient(verify=False, trust_env=False, timeout=READY_S) as client:
        own = {name.replace("_", "-"): value for name, value in headers.items()}
        return await client.post(gateway.v1 + path, json=body, headers=own)


def read_end(reply: httpx.Response) -> Json:
    """Returns the response object of a reply: the JSON body, or that of the last event of a stream."""
    if reply.headers["content-type"].startswith("application/json"):
        body: Json = reply.json()
        return body
    last = [json.loads(data) for _, data in frames(reply.content) if data != "[DONE]"][-1]
    response: Json = last["response"]
    return response


SERVED: dict[str, tuple[str, Json]] = {
    "a response": (RESPONSES, ASK),
    "a response with store: true": (RESPONSES, {**ASK, "store": True}),
    "a stream": (RESPONSES, {**ASK, "stream": True}),
    "a completion": (CHAT, ASK_CHAT),
    "a streamed completion": (CHAT, {**ASK_CHAT, "stream": True}),
}

REFUSED: dict[str, tuple[str, Json, dict[str, str]]] = {
    "in the background": (RESPONSES, {**ASK, "background": True}, {}),
    "resumable": (RESPONSES, {**ASK, "stream": True, "resumable": True}, {}),
    "continuing a response": (RESPONSES, {**ASK, "previous_response_id": "{id}"}, {}),
    "continuing a conversation": (RESPONSES, {**ASK, "conversation": "{conversation}"}, {}),
    "referring to an item": (RESPONSES, {**ASK, "input": [{"type": "item_reference", "id": "{item}"}]}, {}),
    "strict": (RESPONSES, ASK, {"x_gateway_strict": "true"}),
    "with an idempotency key": (RESPONSES, ASK, {"idempotency_key": "k-1"}),
    "with tools that the gateway runs": (RESPONSES, {**ASK, "tools": [TOOL]}, {}),
    "a thread": (
        "/messages",
        {"model": "some-model", "max_tokens": 9, "messages": ASK_CHAT["messages"], "thread": {"type": "create"}},
        {},
    ),
}


async def test_while_the_database_fails_answers_are_served_unless_they_need_it(store: Store, tmp_path: Path) -> None:
    async with ScriptedUpstream() as upstream:
        upstream.script(ANSWERS["chat"])
        with command(settings(upstream, store), tmp_path, forked=True) as gateway:
            first = (await post(gateway, RESPONSES, ASK)).json()
            ids = {
                "{id}": first["id"],
                "{item}": first["output"][0]["id"],
                "{conversation}": (await post(gateway, "/conversations", {})).json()["id"],
            }
            store.fail()
            for name, (path, body) in SERVED.items():
                reply = await post(gateway, path, body)
                assert reply.status_code == 200, (name, reply.text)
                assert "store=unavailable" in reply.headers["x-gateway-loss"], name
                if path == RESPONSES:
                    response = read_end(reply)
                    assert (response["status"], response["store"]) == ("completed", False), name
            asked = len(upstream.requests)
            for name, (path, body, headers) in REFUSED.items():
                text = json.dumps(body)
                for word, value in ids.items():
                    text = text.replace(word, value)
                reply = await post(gateway, path, json.loads(text), **headers)
                assert reply.status_code in (503, 529), (name, reply.text)
                assert "x-gateway-loss" not in reply.headers
            assert len(upstream.requests) == asked
            async with httpx.AsyncClient(trust_env=False, timeout=60) as client:
                assert (await client.get(f"{gateway.url}/readyz")).json()["status"] == "degraded"

            store.recover()

            async def is_stored() -> bool:
                response = (await post(gateway, RESPONSES, ASK)).json()
                return bool(response["store"])

            await wait_until(is_stored)
        lines = gateway.read_log_lines()
    served = [line for line in lines if line["message"] == "request" and "store" in line.get("losses", ())]
    assert len(served) >= len(SERVED)


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("dialect", ["chat", "responses"])
async def test_a_response_whose_end_cannot_be_stored_reaches_its_client(
    dialect: str, store: Store, tmp_path: Path, *, stream: bool
) -> None:
    async def fail_and_answer(exchange: Exchange) -> None:
        store.fail()
        answer: Any = ANSWERS[dialect]
        await answer(exchange)

    async with ScriptedUpstream() as upstream:
        upstream.script(fail_and_answer)
        with command(settings(upstream, store, dialect), tmp_path, forked=True) as gateway:
            reply = await post(gateway, RESPONSES, {**ASK, "stream": stream})
        response = read_end(reply)
        line = json.loads(next(each for each in gateway.read_log().splitlines() if '"request"' in each))
    assert reply.status_code == 200
    assert (response["status"], response["store"]) == ("completed", False)
    assert response["output"][-1]["content"][0]["text"] == "Hi"
    assert "store" in line["losses"]
    if not stream:
        assert "store=unavailable" in reply.headers["x-gateway-loss"]


async def test_a_completion_is_served_only_where_its_client_can_learn_of_it(store: Store, tmp_path: Path) -> None:
    async def fail_and_answer(exchange: Exchange) -> None:
        store.fail()
        answer: Any = ANSWERS["chat"]
        await answer(exchange)

    async with ScriptedUpstream() as upstream:
        upstream.script(fail_and_answer)
        with command(settings(upstream, store), tmp_path, forked=True) as gateway:
            whole = await post(gateway, CHAT, ASK_CHAT)
            assert whole.headers["x-gateway-loss"] == "store=unavailable"
            store.recover()
            await wait_until(lambda: "store_available" in gateway.read_log())
            streamed = await post(gateway, CHAT, {**ASK_CHAT, "stream": True})
            assert "store_unavailable" in streamed.text


async def test_turns_of_a_websocket_continue_unstored(store: Store, tmp_path: Path) -> None:
    async with ScriptedUpstream() as upstream:
        upstream.script(ANSWERS["chat"])
        with command(settings(upstream, store), tmp_path, forked=True) as gateway:
            async with talking(gateway.v1) as talk:
                store.fail()
                first = await talk.turn(**ASK)
                assert "store=unavailable" in first[0]["headers"]["x-gateway-loss"]
                assert first[-1]["response"]["store"] is False
                second = await talk.turn(**ASK, previous_response_id=first[-1]["response"]["id"])
                assert second[-1]["response"]["status"] == "completed"
    assert [len(request.json["messages"]) for request in upstream.requests] == [1, 3]


async def test_by_default_such_requests_are_refused(store: Store, tmp_path: Path) -> None:
    async with ScriptedUpstream() as upstream:
        upstream.script(ANSWERS["chat"])
        with command(settings(upstream, store, on_failure="refuse"), tmp_path, forked=True) as gateway:
            store.fail()
            for name, (path, body) in SERVED.items():
                assert (await post(gateway, path, body)).status_code == 503, name
    assert upstream.requests == []
