"""A thread whose replica was killed in the middle of a message continues without that message."""

import asyncio
from pathlib import Path

import httpx
import pytest

from tests.polling import read_until
from tests.state.processes.killed_servers import Paused, background, check_interrupted, wait_until_orphaned
from tests.state.replicas import PATIENCE_S, Client, Json, client, kill, replica
from tests.upstream import ScriptedUpstream
from tests.upstream.builders import chat_text

pytestmark = pytest.mark.timeout(180)


def message_body(text: str, previous_id: str | None = None) -> Json:
    thread = {"type": "create"} if previous_id is None else {"type": "continue", "previous_message_id": previous_id}
    messages = [{"role": "user", "content": text}]
    return {"model": "some-model", "max_tokens": 50, "messages": messages, "thread": thread}


async def list_active(asking: Client) -> list[str]:
    responses = (await asking.http.get("/responses")).json()["data"]
    return [response["id"] for response in responses if response["status"] == "in_progress"]


async def continue_message(http: httpx.AsyncClient, message_id: str) -> httpx.Response:
    """Returns the reply to a request that continues a message, once the killed replica counts as dead."""
    in_flight = {"error_code": "thread_continue_in_flight"}
    async with asyncio.timeout(PATIENCE_S):
        while True:
            reply = await http.post("/messages", json=message_body("On", message_id))
            if reply.status_code == 200 or reply.json()["error"]["details"] != in_flight:
                return reply


async def test_a_thread_continues_from_the_message_before_the_interrupted_one(store_url: str, tmp_path: Path) -> None:
    """Two threads: a stream, of which the client has seen a part, and a message that is not streamed."""
    settings = {"background": background(store_url)}
    async with ScriptedUpstream() as upstream:
        upstream.on("/chat/completions", chat_text("Hi"), chat_text("Hi"), Paused("Half"), Paused("Half"))
        with replica(tmp_path / "first", store_url, upstream.url, **settings) as server:
            async with client(server) as asking:
                created = [await asking.http.post("/messages", json=message_body("I am Ada.")) for _ in range(2)]
                first, second = (reply.json()["id"] for reply in created)
                async with asking.stream(path="/messages", **message_body("Who?", first)) as stream:
                    await stream.read_to("content_block_delta")
                    whole = asyncio.create_task(asking.http.post("/messages", json=message_body("Who?", second)))
                    cut = await read_until(lambda: list_active(asking), lambda found: len(found) == 2)
                    kill(server)
                    with pytest.raises(httpx.TransportError):
                        await whole
        upstream.on("/chat/completions", chat_text("Ada"))
        with replica(tmp_path / "second", store_url, upstream.url, **settings) as server:
            async with client(server) as asking:
                for message_id in (first, second):
                    reply = (await continue_message(asking.http, message_id)).json()
                    assert (reply.get("stop_reason"), reply["content"][0]["text"]) == ("end_turn", "Ada")
                    sent = [message["content"] for message in upstream.requests[-1].json["messages"]]
                    assert sent == ["I am Ada.", "Hi", "On"]
                for message_id in cut:
                    check_interrupted(response := await wait_until_orphaned(asking, message_id, store_url))
                    assert response["output"] == []
                    lost = await continue_message(asking.http, message_id)
                    assert lost.status_code == 404
                    assert lost.json()["error"]["details"] == {"error_code": "thread_not_found"}
