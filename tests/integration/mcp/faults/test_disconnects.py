"""Clients that leave or cancel while a tool runs, and what is left of a reply after it: nothing."""

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
from openai import APIStatusError

from gateway.tools.mcp import guarded_http, session
from gateway.tools.mcp.connection import McpConnection
from gateway.tools.mcp.errors import McpFault
from gateway.tools.mcp.server import McpServer
from providers.egress import EgressClient
from tests.databases import ready_sqlite
from tests.integration.mcp.tool_gateway import LOOK_UP, Hosting, hosting, items_of, mcp_tool
from tests.mcp_script import Era, answer, scripted_mcp, text_result
from tests.mcp_server import mcp_server
from tests.own_process import list_tasks
from tests.polling import wait_briefly, wait_until
from tests.upstream import Reply, chat_calls, chat_text
from tests.upstream.builders import Json
from tests.upstream.script import Exchange, reset, silence

ERAS = pytest.mark.parametrize("era", ["legacy", "modern"])
HANG = ("lookup_hang", "{}")


def body_of(*tools: Any, **more: Any) -> Json:
    return {"model": "m", "input": "Hi", "tools": [*tools], "stream": True, **more}


async def leave_when(gateway: Hosting, body: Json, arrived: Any) -> None:
    """Begins a response, and leaves as soon as the condition holds."""
    async with (
        httpx.AsyncClient(timeout=60) as client,
        client.stream("POST", f"{gateway.url}/responses", json=body) as reply,
    ):
        assert reply.status_code == 200
        await wait_until(arrived)


@pytest.mark.parametrize("streams", [True, False])
@ERAS
async def test_a_client_that_leaves_in_a_call_cancels_it_at_once(era: Era, streams: bool) -> None:
    async with scripted_mcp(silence, era=era) as server, hosting() as gateway, httpx.AsyncClient(timeout=60) as client:
        body = body_of(mcp_tool(server.url), stream=streams)
        asking = asyncio.create_task(client.post(f"{gateway.url}/responses", json=body))
        await wait_until(lambda: bool(server.calls))
        asking.cancel()
        await wait_briefly(server.calls[0].closed.done)
        if era == "legacy":
            await wait_until(lambda: bool(server.received("notifications/cancelled")))
        await wait_until(lambda: server.upstream.open_connections == 0)
        assert len(gateway.model.requests) == 1


@pytest.mark.parametrize("calls", [1, 3, 20])
async def test_a_session_does_not_end_before_its_cancellations_have_arrived(
    calls: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guarded_http, "_NOTICE_S", 20.0)
    monkeypatch.setattr(session, "_CLOSE_S", 20.0)
    ends_seen: list[int] = []

    def list_ends() -> list[Any]:
        return [request for request in server.upstream.requests if request.method == "DELETE"]

    async def answer_late(exchange: Exchange) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(0.5):
                await wait_until(list_ends)
        ends_seen.append(len(list_ends()))
        await Reply(202, framing="length")(exchange)

    methods = {"notifications/cancelled": answer_late}
    async with scripted_mcp(silence, era="legacy", methods=methods) as server:
        async with McpConnection(
            McpServer(label="lookup", url=server.url), EgressClient(allow=["127.0.0.1"])
        ) as connection:
            calling = [
                asyncio.create_task(connection.call_tool("look_up", {}, max_pages=1, deadline_s=60))
                for _ in range(calls)
            ]
            await wait_until(lambda: len(server.calls) == calls)
            for call in calling:
                call.cancel()
        assert ends_seen == [0] * calls
        assert len(list_ends()) == 1


async def test_a_real_server_cancels_the_call_of_a_client_that_left() -> None:
    with mcp_server() as server:
        async with hosting(chat_calls(HANG), chat_text("never")) as gateway:
            await leave_when(gateway, body_of(mcp_tool(server.url)), lambda: server.runs["hang"] == 1)
            await wait_briefly(lambda: server.cancelled["hang"] == 1)


async def test_a_client_that_leaves_in_a_later_round_closes_the_upstream() -> None:
    async with scripted_mcp(answer(text_result("found"))) as server, hosting(chat_calls(LOOK_UP), silence) as gateway:
        await leave_when(gateway, body_of(mcp_tool(server.url)), lambda: len(gateway.model.requests) == 2)
        await wait_briefly(gateway.model.requests[1].closed.done)
        await wait_until(lambda: server.upstream.open_connections == 0)


async def test_a_background_response_continues_when_its_client_leaves_in_a_call(tmp_path: Path) -> None:
    left = asyncio.Event()

    async def slow(exchange: Exchange) -> None:
        await left.wait()
        await answer(text_result("found"))(exchange)

    store = {"url": ready_sqlite(tmp_path / "state.db"), "poll_s": 0.05}
    async with scripted_mcp(slow) as server, hosting(store=store) as gateway:
        body = body_of(mcp_tool(server.url), model="m", background=True)
        stream: Any = await gateway.client.responses.create(**body)
        read: list[Any] = []
        async with stream:
            async for event in stream:
                read.append(event)
                if event.type == "response.mcp_call_arguments.done":
                    break
        left.set()
        rest: Any = await gateway.client.responses.retrieve(
            read[0].response.id, stream=True, starting_after=read[-1].sequence_number
        )
        read += [event async for event in rest]
    assert [event.sequence_number for event in read] == list(range(len(read)))
    assert read[-1].type == "response.completed"
    assert read[-1].response.output[1].output == "found"
    assert len(server.calls) == 1


async def test_a_cancelled_response_cancels_its_call(tmp_path: Path) -> None:
    async with scripted_mcp(silence) as server, hosting(store={"url": ready_sqlite(tmp_path / "state.db")}) as gateway:
        created = await gateway.ask(mcp_tool(server.url), background=True)
        await wait_until(lambda: bool(server.calls))
        cancelled = (await gateway.client.responses.cancel(created["id"])).model_dump()
        assert cancelled["status"] == "cancelled"
        await wait_briefly(server.calls[0].closed.done)
        stored = (await gateway.client.responses.retrieve(created["id"])).model_dump()
        assert stored["status"] == "cancelled"
        assert [call["status"] for call in items_of(stored, "mcp_call")] in ([], ["incomplete"])
        assert len(gateway.model.requests) == 1


async def test_calls_of_a_round_run_at_once_and_end_in_order() -> None:
    arrived: list[int] = []
    both, second_ended = asyncio.Event(), asyncio.Event()

    async def meet(exchange: Exchange) -> None:
        number = exchange.request.json["params"]["arguments"]["n"]
        arrived.append(number)
        if len(arrived) == 2:
            both.set()
        await both.wait()
        if number == 1:
            await second_ended.wait()
        await answer(text_result(str(number)))(exchange)
        if number == 2:
            second_ended.set()

    model = [chat_calls(("lookup_look_up", '{"n": 1}'), ("lookup_look_up", '{"n": 2}')), chat_text("Done.")]
    async with scripted_mcp(meet) as server, hosting(*model) as gateway:
        response = await gateway.ask(mcp_tool(server.url))
        assert [call["output"] for call in items_of(response, "mcp_call")] == ["1", "2"]
        outputs = [message for message in (await gateway.last_request())["messages"] if message["role"] == "tool"]
        assert [message["content"] for message in outputs] == ["1", "2"]


async def test_calls_run_one_after_another_without_parallel_tool_calls() -> None:
    running = 0
    most = 0

    async def count(exchange: Exchange) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        running -= 1
        await answer(text_result("found"))(exchange)

    calls = [("lookup_look_up", f'{{"n": {number}}}') for number in range(3)]
    async with scripted_mcp(count) as server, hosting(chat_calls(*calls), chat_text("Done.")) as gateway:
        await gateway.ask(mcp_tool(server.url), parallel_tool_calls=False)
        assert most == 1
        numbers = [call.json["params"]["arguments"]["n"] for call in server.calls]
        assert numbers == [0, 1, 2]


@ERAS
@pytest.mark.parametrize("ending", ["completed", "failed call", "failed model", "failed list"])
async def test_no_connection_is_left_after_a_reply(ending: str, era: Era) -> None:
    model = [chat_calls(LOOK_UP), reset if ending == "failed model" else chat_text("Done.")]
    call = reset if ending == "failed call" else answer(text_result("found"))
    methods = {"tools/list": reset} if ending == "failed list" else {}
    async with scripted_mcp(call, era=era, methods=methods) as server, hosting(*model) as gateway:
        with suppress(APIStatusError):
            await gateway.ask(mcp_tool(server.url))
        await wait_until(lambda: server.upstream.open_connections == 0)
        deletes = [request for request in server.upstream.requests if request.method == "DELETE"]
        assert len(deletes) == (1 if era == "legacy" else 0), "a session is ended at the server"


def find_own(tasks: set[asyncio.Task[Any]]) -> set[asyncio.Task[Any]]:
    """Returns the tasks that are none of the scripted server."""
    return {task for task in tasks if "_Connection" not in repr(task.get_coro())}


@ERAS
async def test_no_task_is_left_after_a_connection(era: Era) -> None:
    before = list_tasks()
    egress = EgressClient(allow=["127.0.0.1"])
    async with scripted_mcp(silence, era=era) as server:
        serving = list_tasks()
        async with McpConnection(McpServer(label="lookup", url=server.url), egress) as connection:
            listed = await connection.list_tools(max_pages=1, deadline_s=60)
            assert [tool.name for tool in listed.tools] == ["look_up"]
            with pytest.raises(McpFault, match=r"no answer within 1\.5 s"):
                await connection.call_tool("look_up", {}, max_pages=1, deadline_s=1.5)
            calling = asyncio.create_task(connection.call_tool("look_up", {}, max_pages=1, deadline_s=60))
            await wait_until(lambda: len(server.calls) == 2)
            calling.cancel()
        assert calling.cancelled() or calling.done()
        await wait_until(lambda: find_own(list_tasks() - serving) <= {calling})
    await wait_until(lambda: list_tasks() <= before | {calling})


@pytest.mark.parametrize("turns", range(1, 7))
async def test_no_connection_is_left_when_its_end_is_cancelled(turns: int) -> None:
    async with scripted_mcp(silence) as server:
        connection = McpConnection(McpServer(label="lookup", url=server.url), EgressClient(allow=["127.0.0.1"]))
        await connection.list_tools(max_pages=1, deadline_s=60)
        assert server.upstream.open_connections
        closing = asyncio.create_task(connection.__aexit__(None, None, None))
        for _ in range(turns):
            await asyncio.sleep(0)
        closing.cancel()
        with suppress(asyncio.CancelledError):
            await closing
        await wait_until(lambda: server.upstream.open_connections == 0)


async def test_a_server_that_answers_nothing_more_does_not_hold_up_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guarded_http, "_NOTICE_S", 0.2)
    methods = {"notifications/cancelled": silence}
    async with (
        scripted_mcp(silence, era="legacy", methods=methods) as server,
        McpConnection(McpServer(label="lookup", url=server.url), EgressClient(allow=["127.0.0.1"])) as connection,
    ):
        await connection.list_tools(max_pages=1, deadline_s=60)
        with pytest.raises(McpFault, match=r"no answer within 1\.5 s"):
            await connection.call_tool("look_up", {}, max_pages=1, deadline_s=1.5)
        listed = await connection.list_tools(max_pages=1, deadline_s=60)
        assert len(listed.tools) == 1, "the next request is not blocked"


async def test_requests_that_wait_for_slow_servers_do_not_hold_up_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guarded_http, "PROBE_S", 60.0)
    async with (
        scripted_mcp(methods={"server/discover": silence}) as slow,
        scripted_mcp() as quick,
        hosting(chat_text("Hi."), mcp={"list_deadline_s": 60}) as gateway,
    ):
        tools = [mcp_tool(slow.url, f"slow_{number}") for number in range(16)]
        waiting = [asyncio.create_task(gateway.ask(*tools)) for _ in range(4)]
        await wait_until(lambda: len(slow.received("server/discover")) == 4 * 16)
        assert items_of(await gateway.ask(mcp_tool(quick.url)), "message"), "another is answered meanwhile"
        assert not any(task.done() for task in waiting)
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        await wait_until(lambda: all(request.closed.done() for request in slow.received("server/discover")))
