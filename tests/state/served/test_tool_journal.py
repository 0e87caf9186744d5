"""The journal of tool calls behind a server: clients that leave, and a database that is away before or after a call."""

import asyncio
import json
from collections.abc import Callable, Coroutine
from typing import Any

import httpx
import pytest
from sqlalchemy import select

from gateway.config.settings import BackgroundSettings, StoreSettings
from gateway.state.database.tables import tool_calls
from gateway.state.sql.store import SqlStore
from tests.integration.mcp.tool_gateway import LOOK_UP, hosting, items_of, mcp_tool
from tests.mcp_script import answer, scripted_mcp, text_result
from tests.polling import comes_before_end, reach, read_until, wait_briefly, wait_until
from tests.state.conftest import DEADLINE_S
from tests.state.processes import database_observer
from tests.upstream import chat_calls, chat_text
from tests.upstream.builders import Json
from tests.upstream.script import Exchange, silence

SHORT_S, LONG_S = 2.0, 60.0
"""The deadlines of a store that a test holds, and of one that has to answer on a busy machine too."""


def sections(store_url: str, lease_s: float = 60.0, deadline_s: float = LONG_S) -> Json:
    store = {"url": store_url, "poll_s": 0.05, "deadline_s": deadline_s}
    return {"store": store, "background": {"lease_s": lease_s}}


async def journal_of(store_url: str, response_id: str) -> list[str]:
    """The states of the calls of a response, as the database has them."""
    store = SqlStore(StoreSettings(url=store_url, deadline_s=DEADLINE_S), BackgroundSettings())
    await store.open()
    states: list[str] = [call.state for call in await store.call_journal.load_calls("anonymous", response_id)]
    await store.aclose()
    return states


async def stored_responses(http: httpx.AsyncClient) -> list[Json]:
    """Waits until the store is available: on a busy machine its short deadline may pass without a fault."""
    reply = await read_until(lambda: http.get("/responses"), lambda reply: reply.status_code == 200)
    listed: list[Json] = reply.json()["data"]
    return listed


async def has_ended(http: httpx.AsyncClient) -> bool:
    listed = await stored_responses(http)
    return bool(listed) and listed[0]["status"] != "in_progress"


async def ask_until(asked: asyncio.Event, ask: Callable[[], Coroutine[Any, Any, Any]]) -> "asyncio.Task[Any]":
    """Asks until a request has got as far as the event.

    On a busy machine the short deadline of the store may pass before, although nothing holds it.
    """
    async with asyncio.timeout(LONG_S):
        while not await comes_before_end(asked, asking := asyncio.create_task(ask())):
            failure = asking.exception()
            assert "store_unavailable" in (asking.result().text if failure is None else str(failure))
    return asking


async def is_degraded(http: httpx.AsyncClient) -> bool:
    return "degraded" in (await http.get(http.base_url.join("/readyz"))).json()


@pytest.mark.parametrize("streams", [True, False], ids=["stream", "json"])
async def test_fault_44_a_client_that_leaves_in_a_call_leaves_a_cancelled_response_with_an_unknown_call(
    streams: bool, store_url: str
) -> None:
    body = {"model": "m", "input": "Hi", "stream": streams}
    async with (
        scripted_mcp(silence) as server,
        hosting(**sections(store_url)) as gateway,
        httpx.AsyncClient(base_url=gateway.url, timeout=60) as http,
    ):
        asking = asyncio.create_task(http.post("/responses", json={**body, "tools": [mcp_tool(server.url)]}))
        await wait_until(lambda: bool(server.calls))
        asking.cancel()
        await wait_briefly(server.calls[0].closed.done)
        await wait_until(has_ended, http)
        (response,) = await stored_responses(http)
        assert response["status"] == "cancelled"
        assert [call["status"] for call in items_of(response, "mcp_call")] == ["incomplete"]
        assert await journal_of(store_url, response["id"]) == ["unknown"]


async def test_a_cancelled_call_is_unknown_and_its_late_result_is_not_sent(store_url: str) -> None:
    cancelled = asyncio.Event()

    async def late(exchange: Exchange) -> None:
        await cancelled.wait()
        await answer(text_result("late"))(exchange)

    async with scripted_mcp(late) as server, hosting(**sections(store_url)) as gateway:
        created = await gateway.ask(mcp_tool(server.url), background=True)
        await wait_until(lambda: bool(server.calls))
        response = (await gateway.client.responses.cancel(created["id"])).model_dump(mode="json")
        cancelled.set()
        await wait_until(lambda: server.upstream.open_connections == 0)
        (call,) = items_of(response, "mcp_call")
        assert (response["status"], call["status"], call["output"]) == ("cancelled", "incomplete", None)
        assert (await gateway.client.responses.retrieve(created["id"])).model_dump(mode="json") == response
        assert await journal_of(store_url, created["id"]) == ["unknown"]


@pytest.mark.parametrize("streams", [True, False], ids=["stream", "json"])
async def test_fault_50_a_call_that_cannot_be_written_down_is_not_sent(streams: bool, store_url: str) -> None:
    asked, held = asyncio.Event(), asyncio.Event()

    async def call_later(exchange: Exchange) -> None:
        asked.set()
        await held.wait()
        await chat_calls(LOOK_UP)(exchange)

    async with (
        scripted_mcp(answer(text_result("found"))) as server,
        hosting(call_later, **sections(store_url, lease_s=2 * SHORT_S, deadline_s=SHORT_S)) as gateway,
        httpx.AsyncClient(base_url=gateway.url, timeout=60) as http,
    ):
        body: Json = {"model": "m", "input": "Hi", "stream": streams, "tools": [mcp_tool(server.url)]}
        asking = await ask_until(asked, lambda: http.post("/responses", json=body))
        async with database_observer.held(store_url, "ACCESS EXCLUSIVE"):
            held.set()
            reply = await asking
        assert "store_unavailable" in reply.text
        assert reply.status_code == (200 if streams else 503)
        assert server.calls == []


async def test_fault_49_a_result_waits_for_the_database_and_the_call_is_not_repeated(store_url: str) -> None:
    asked, held = asyncio.Event(), asyncio.Event()

    async def slow(exchange: Exchange) -> None:
        asked.set()
        await held.wait()
        await answer(text_result("found"))(exchange)

    async with scripted_mcp(slow) as server, hosting(**sections(store_url, deadline_s=SHORT_S)) as gateway:
        asking = await ask_until(asked, lambda: gateway.ask(mcp_tool(server.url)))
        async with (
            database_observer.held(store_url, "ACCESS EXCLUSIVE"),
            httpx.AsyncClient(base_url=gateway.url, timeout=60) as http,
        ):
            held.set()
            await wait_until(is_degraded, http)
        response = await asking
        assert [call["output"] for call in items_of(response, "mcp_call")] == ["found"]
        assert len(server.calls) == 1


async def test_fault_49_a_result_that_cannot_be_written_down_in_time_fails_the_response(
    store_url: str,
) -> None:
    asked, held = asyncio.Event(), asyncio.Event()

    async def slow(exchange: Exchange) -> None:
        asked.set()
        await held.wait()
        await answer(text_result("found"))(exchange)

    async with (
        scripted_mcp(slow) as server,
        hosting(**sections(store_url, lease_s=2 * SHORT_S, deadline_s=SHORT_S)) as gateway,
        httpx.AsyncClient(base_url=gateway.url, timeout=60) as http,
    ):
        body: Json = {"model": "m", "input": "Hi", "stream": True, "tools": [mcp_tool(server.url)]}
        asking = await ask_until(asked, lambda: http.post("/responses", json=body))
        async with database_observer.held(store_url, "ACCESS EXCLUSIVE"):
            held.set()
            reply = await asking
        assert "store_unavailable" in reply.text
        await wait_until(is_unknown, store_url)
        (response,) = [each for each in await stored_responses(http) if items_of(each, "mcp_call")]
        assert (response["status"], response["error"]["code"]) == ("failed", "interrupted")
        assert [call["status"] for call in items_of(response, "mcp_call")] == ["incomplete"]
        assert len(server.calls) == 1


async def is_unknown(store_url: str) -> bool:
    return [row.state for row in await database_observer.rows(store_url, select(tool_calls))] == ["unknown"]


def chat_sections(store_url: str, url: str, **more: Any) -> Json:
    server = {"url": url, "approval": "never"}
    model = {"provider": "up", "tools": {"mcp": ["lookup"]}}
    return {**sections(store_url, **more), "mcp": {"servers": {"lookup": server}}, "models": {"m": model}}


QUESTION: Json = {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}
UNSTORED: Any = pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/chat/completions", QUESTION),
        ("/v1/messages", {**QUESTION, "max_tokens": 100}),
        ("/generate", QUESTION),
        ("/v1/responses", {"model": "m", "input": "Hi", "store": False}),
    ],
    ids=["chat", "messages", "generate", "responses"],
)
"""Requests whose replies are not stored, of each API."""


@UNSTORED
async def test_a_call_of_an_unstored_reply_is_written_down_while_it_runs_and_unknown_if_its_client_leaves(
    path: str, body: Json, store_url: str
) -> None:
    held, left = asyncio.Event(), asyncio.Event()

    async def slow(exchange: Exchange) -> None:
        if held.is_set():
            left.set()
            await silence(exchange)
        held.set()
        await wait_until(lambda: has_states(store_url, ["started"]))
        await answer(text_result("found"))(exchange)

    model = (chat_calls(("lookup_look_up", "{}")), chat_text("Done."), chat_calls(("lookup_look_up", "{}")))
    async with (
        scripted_mcp(slow) as server,
        hosting(*model, **chat_sections(store_url, server.url)) as gateway,
        httpx.AsyncClient(base_url=gateway.url.removesuffix("/v1"), timeout=60) as http,
    ):
        done = await http.post(path, json={**body, "stream": True})
        assert "Done." in done.text
        assert await open_states(store_url) == []
        asking = asyncio.create_task(http.post(path, json={**body, "stream": True}))
        await reach(left, asking)
        asking.cancel()
        await wait_briefly(server.calls[1].closed.done)
        await wait_until(lambda: has_states(store_url, ["unknown"]))


@UNSTORED
async def test_a_call_of_an_unstored_reply_that_cannot_be_written_down_is_not_sent(
    path: str, body: Json, store_url: str
) -> None:
    asked, held = asyncio.Event(), asyncio.Event()

    async def call_later(exchange: Exchange) -> None:
        asked.set()
        await held.wait()
        await chat_calls(LOOK_UP)(exchange)

    async with scripted_mcp(answer(text_result("found"))) as server:
        config = chat_sections(store_url, server.url, lease_s=2 * SHORT_S, deadline_s=SHORT_S)
        async with (
            hosting(call_later, **config) as gateway,
            httpx.AsyncClient(base_url=gateway.url.removesuffix("/v1"), timeout=60) as http,
        ):
            asking = await ask_until(asked, lambda: http.post(path, json=body))
            async with database_observer.held(store_url, "ACCESS EXCLUSIVE"):
                held.set()
                reply = await asking
            assert "the tool call was not sent" in reply.text
            assert reply.status_code == (529 if path == "/v1/messages" else 503)
            assert server.calls == []


async def open_states(store_url: str) -> list[str]:
    """Returns the states of the calls in the journal, after checking that they have no arguments."""
    rows = await database_observer.rows(store_url, select(tool_calls))
    assert all(json.loads(row.item) == {"server_label": "lookup", "name": "look_up"} for row in rows)
    return [row.state for row in rows]


async def has_states(store_url: str, states: list[str]) -> bool:
    return await open_states(store_url) == states


async def test_only_a_stored_response_has_a_journal_after_its_end(store_url: str) -> None:
    scripts = (chat_calls(LOOK_UP), chat_text("Done."))
    async with (
        scripted_mcp(answer(text_result("found"))) as server,
        hosting(*scripts, *scripts, **sections(store_url)) as gateway,
    ):
        unstored = await gateway.ask(mcp_tool(server.url), store=False)
        stored = await gateway.ask(mcp_tool(server.url))
        assert await journal_of(store_url, unstored["id"]) == []
        assert await journal_of(store_url, stored["id"]) == ["finished"]
        assert len(server.calls) == 2
