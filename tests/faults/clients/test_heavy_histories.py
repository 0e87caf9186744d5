"""No history stalls the event loop: measures its longest stall while light requests continue heavy histories.

See tests/faults/clients/test_large_bodies.py for how a stall is measured.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from websockets.asyncio.client import connect

from tests import databases
from tests.agui_client import run_input, user
from tests.faults.fast_model import fast_model
from tests.own_process import StallWatch
from tests.serving import serving_here
from tests.upstream.builders import Json
from tests.websocket_client import Talk

ITEMS = 15_000
MAX_STALL_S = 0.05
ATTEMPTS = 3
MESSAGE = {"type": "message", "role": "user", "content": "hello"}
SERVER = {"max_items": 2 * ITEMS, "max_json_values": 20 * ITEMS}


@asynccontextmanager
async def served(folder: Path) -> AsyncIterator[httpx.AsyncClient]:
    async with fast_model() as model:
        config = {
            "providers": {"up": {"type": "vllm", "base_url": model.url, "dialects": ["chat"]}},
            "models": {"m": {"provider": "up"}},
            "server": SERVER,
            "store": {"url": databases.ready_sqlite(folder / "state.db")},
        }
        async with (
            serving_here(config) as port,
            httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=60) as http,
        ):
            yield http


async def send(http: httpx.AsyncClient, path: str, **body: Any) -> Json:
    reply = await http.post(path, json=body)
    assert reply.status_code == 200, reply.text[:500]
    return reply.json() if reply.headers["content-type"].startswith("application/json") else {}


async def begin_response(http: httpx.AsyncClient, **more: Any) -> str:
    return (await send(http, "/v1/responses", model="m", input=[MESSAGE] * ITEMS, **more))["id"]


async def begin_conversation(http: httpx.AsyncClient) -> str:
    conversation = (await send(http, "/v1/conversations"))["id"]
    await begin_response(http, conversation=conversation)
    return conversation


Go = Callable[[], Awaitable[Any]]


async def previous(http: httpx.AsyncClient) -> Go:
    first = await begin_response(http)
    return lambda: send(http, "/v1/responses", model="m", input="x", previous_response_id=first)


async def previous_streamed(http: httpx.AsyncClient) -> Go:
    first = await begin_response(http)
    return lambda: send(http, "/v1/responses", model="m", input="x", previous_response_id=first, stream=True)


async def previous_background(http: httpx.AsyncClient) -> Go:
    first = await begin_response(http)

    async def go() -> None:
        reply = await send(http, "/v1/responses", model="m", input="x", previous_response_id=first, background=True)
        while reply["status"] in ("queued", "in_progress"):
            reply = (await http.get(f"/v1/responses/{reply['id']}")).json()
        assert reply["status"] == "completed", reply

    return go


async def previous_truncated(http: httpx.AsyncClient) -> Go:
    first = await begin_response(http)
    return lambda: send(http, "/v1/responses", model="m", input="x", previous_response_id=first, truncation="auto")


async def previous_compacted(http: httpx.AsyncClient) -> Go:
    first = await begin_response(http)
    management = [{"type": "compaction", "compact_threshold": 1000}]
    return lambda: send(
        http, "/v1/responses", model="m", input="x", previous_response_id=first, context_management=management
    )


async def conversation(http: httpx.AsyncClient) -> Go:
    name = await begin_conversation(http)
    return lambda: send(http, "/v1/responses", model="m", input="x", conversation=name)


async def count(http: httpx.AsyncClient) -> Go:
    first = await begin_response(http)
    return lambda: send(http, "/v1/responses/input_tokens", model="m", input="x", previous_response_id=first)


async def count_conversation(http: httpx.AsyncClient) -> Go:
    name = await begin_conversation(http)
    return lambda: send(http, "/v1/responses/input_tokens", model="m", input="x", conversation=name)


async def compact(http: httpx.AsyncClient) -> Go:
    first = await begin_response(http)
    return lambda: send(http, "/v1/responses/compact", model="m", input="x", previous_response_id=first)


async def references(http: httpx.AsyncClient) -> Go:
    first = await begin_response(http)
    items = (await http.get(f"/v1/responses/{first}/input_items", params={"limit": 100})).json()["data"]
    given = [{"type": "item_reference", "id": item["id"]} for item in items]
    return lambda: send(http, "/v1/responses", model="m", input=given)


async def input_items(http: httpx.AsyncClient) -> Go:
    first = await begin_response(http)
    return lambda: http.get(f"/v1/responses/{first}/input_items", params={"limit": 100})


async def conversation_items(http: httpx.AsyncClient) -> Go:
    name = (await send(http, "/v1/conversations"))["id"]
    item = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "a"}] * 6_000}
    for _ in range(5):
        await send(http, f"/v1/conversations/{name}/items", items=[item] * 10)
    return lambda: http.get(f"/v1/conversations/{name}/items", params={"limit": 100})


async def completion_messages(http: httpx.AsyncClient) -> Go:
    messages = [{"role": "user", "content": "hello"}] * ITEMS
    stored = await send(http, "/v1/chat/completions", model="m", store=True, messages=messages)
    return lambda: http.get(f"/v1/chat/completions/{stored['id']}/messages", params={"limit": 100})


async def retrieve(http: httpx.AsyncClient) -> Go:
    first = await begin_response(http)
    return lambda: http.get(f"/v1/responses/{first}")


async def delete(http: httpx.AsyncClient) -> Go:
    firsts = [await begin_response(http) for _ in range(ATTEMPTS)]
    return lambda: http.delete(f"/v1/responses/{firsts.pop()}")


async def message_thread(http: httpx.AsyncClient) -> Go:
    body = {"model": "m", "max_tokens": 100}

    async def go() -> None:
        first = await send(
            http,
            "/v1/messages",
            **body,
            messages=[{"role": ("user", "assistant")[n % 2], "content": "hello"} for n in range(ITEMS + 1)],
            thread={"type": "create"},
        )
        firsts.append(first["id"])

    firsts: list[str] = []
    for _ in range(ATTEMPTS):
        await go()
    return lambda: send(
        http,
        "/v1/messages",
        **body,
        messages=[{"role": "user", "content": "x"}],
        thread={"type": "continue", "previous_message_id": firsts.pop()},
    )


async def agui_thread(http: httpx.AsyncClient) -> Go:
    messages = [user("hello", f"u{n}") for n in range(ITEMS)]
    runs = iter(range(100))

    async def run(*messages: Json) -> None:
        body = run_input(*messages, thread="t", run=f"r{next(runs)}", forwardedProps={"model": "m"})
        reply = await http.post("/v1/agui/m", json=body)
        assert reply.status_code == 200, reply.text[:300]
        assert "RUN_FINISHED" in reply.text, reply.text[:1000]

    await run(*messages)
    return lambda: run(user("x", "last"))


async def websocket(http: httpx.AsyncClient) -> Go:
    url = str(http.base_url).replace("http", "ws") + "/v1/responses"
    socket = await connect(url, max_size=None).__aenter__()
    talk = Talk(socket)
    first = await talk.response(model="m", input=[MESSAGE] * ITEMS, store=False)
    last = [first["id"]]

    async def go() -> None:
        last[0] = (await talk.response(model="m", input="x", previous_response_id=last[0], store=False))["id"]

    return go


WAYS = [
    previous,
    previous_streamed,
    previous_background,
    previous_truncated,
    previous_compacted,
    conversation,
    count,
    count_conversation,
    compact,
    references,
    input_items,
    conversation_items,
    completion_messages,
    retrieve,
    delete,
    message_thread,
    agui_thread,
    websocket,
]


@pytest.mark.parametrize("begin", WAYS, ids=lambda way: way.__name__)
async def test_no_history_stops_the_event_loop(
    begin: Callable[[httpx.AsyncClient], Awaitable[Go]], tmp_path: Path
) -> None:
    async with served(tmp_path) as http:
        go = await begin(http)
        stalls_s: list[float] = []
        while len(stalls_s) < ATTEMPTS and min(stalls_s, default=MAX_STALL_S) >= MAX_STALL_S:
            watch = StallWatch()
            await go()
            stalls_s.append(watch.longest_s)
    assert min(stalls_s) < MAX_STALL_S
