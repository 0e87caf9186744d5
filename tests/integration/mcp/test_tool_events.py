"""Tool events: sent if requested, with the model's call ids, and bounded whatever a server sends."""

import asyncio
import time
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from gateway.tools.tool_events import ToolEvents
from tests.databases import ready_sqlite
from tests.integration.mcp.operator_servers.operator_gateway import CHILD, configured
from tests.integration.mcp.tool_gateway import hosting, mcp_tool
from tests.mcp_script import answer, scripted_mcp, sse_frame, text_result
from tests.mcp_server import mcp_server
from tests.polling import PROMPT_S
from tests.upstream import Hang, Reply, chat_calls, chat_text
from tests.upstream.builders import SSE, Json
from tests.upstream.script import Exchange
from translation.hosted.calls import HostedCall
from translation.hosted.outcomes import ToolOutcome
from translation.hosted.tools import ToolKey
from translation.representation.events import Opaque

TWO_CALLS = chat_calls(("lookup_look_up", '{"n": 1}'), ("lookup_look_up", '{"n": 2}'))
WATCHED: Json = {"extra_body": {"tool_events": True}}


async def events_of(stream: Any) -> list[Json]:
    return [event.model_dump(mode="json") async for event in stream]


def gateway_events(events: list[Json]) -> list[Json]:
    return [event for event in events if event["type"].startswith("gateway.")]


def progress_flood(count: int) -> Any:
    """The answer to a call after many reports of its progress."""

    async def play(exchange: Exchange) -> None:
        request = exchange.request.json
        token = request["params"].get("_meta", {}).get("progressToken")
        params = [{"progressToken": token, "progress": n, "total": count, "message": f"step {n}"} for n in range(count)]
        notes = [{"jsonrpc": "2.0", "method": "notifications/progress", "params": each} for each in params]
        result = {"jsonrpc": "2.0", "id": request["id"], "result": text_result("found")}
        await Reply(headers=SSE, body=[sse_frame(message) for message in [*notes, result]])(exchange)

    return play


async def report_and_wait(exchange: Exchange) -> None:
    """Reports progress of a call, and does not answer it."""
    token = exchange.request.json["params"]["_meta"]["progressToken"]
    params = {"progressToken": token, "progress": 1, "total": 4, "message": "began"}
    note = sse_frame({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})
    await Reply(headers=SSE, body=[note, Hang()])(exchange)


async def test_tool_events_report_the_loop_with_the_ids_of_the_model() -> None:
    model = (TWO_CALLS, chat_text("Done."))
    async with scripted_mcp(answer(text_result("found"))) as server, hosting(*model) as gateway:
        request: Json = {"model": "m", "input": "Hi", "tools": [mcp_tool(server.url)], "stream": True}
        events = await events_of(await gateway.client.responses.create(**request, **WATCHED))
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    watched = gateway_events(events)
    kinds = [event["type"] for event in watched]
    assert kinds[0] == "gateway.request.started"
    assert sorted(kinds) == [
        *["gateway.request.started"] * 2,
        *["gateway.tool.result"] * 2,
        *["gateway.tool.started"] * 2,
    ]
    assert [event["round"] for event in watched if event["type"] == "gateway.request.started"] == [1, 2]
    items = {event["item"]["id"] for event in events if event["type"] == "response.output_item.done"}
    for kind in ("gateway.tool.started", "gateway.tool.result"):
        found = [event for event in watched if event["type"] == kind]
        assert sorted(event["call_id"] for event in found) == ["call_0", "call_1"]
        assert {(event["server_label"], event["name"]) for event in found} == {("lookup", "look_up")}
        assert {event["item_id"] for event in found} <= items
    results = [event for event in watched if event["type"] == "gateway.tool.result"]
    assert {event["status"] for event in results} == {"completed"}
    assert all(event["duration_ms"] >= 0 for event in results)


async def test_without_the_option_no_tool_events_are_sent_and_no_progress_is_requested() -> None:
    async with scripted_mcp(answer(text_result("found"))) as server, hosting() as gateway:
        request: Json = {"model": "m", "input": "Hi", "tools": [mcp_tool(server.url)], "stream": True}
        events = await events_of(await gateway.client.responses.create(**request))
        assert gateway_events(events) == []
        assert "progressToken" not in str(server.calls[0].json)


@pytest.mark.parametrize("place", ["url", "legacy", "server", "sse", "stdio"])
async def test_progress_of_a_running_call_is_an_event_over_every_transport(place: str) -> None:
    async with AsyncExitStack() as stack:
        tools: list[Any] = [{"type": "mcp", "server_label": "calc"}]
        mcp: Json = {}
        if place == "stdio":
            mcp = configured(calc={"stdio": CHILD})
        elif place == "legacy":
            scripted = await stack.enter_async_context(scripted_mcp(report_and_wait, era="legacy"))
            tools = [mcp_tool(scripted.url, "calc")]
        else:
            server = stack.enter_context(mcp_server(sse=place == "sse"))
            mcp = {} if place == "url" else configured(calc={"sse" if place == "sse" else "url": server.url})
            tools = [mcp_tool(server.url, "calc")] if place == "url" else tools
        hang = ("calc_look_up" if place == "legacy" else "calc_hang", "{}")
        gateway = await stack.enter_async_context(hosting(chat_calls(hang), chat_text("never"), mcp=mcp))
        request: Json = {"model": "m", "input": "Hi", "tools": tools, "stream": True}
        stream: Any = await gateway.client.responses.create(**request, **WATCHED)
        async with asyncio.timeout(60), stream:
            async for event in stream:
                if event.type == "gateway.tool.progress":
                    break
        report = event.model_dump(mode="json")
        assert (report["progress"], report["total"], report["message"]) == (1, 4, "began")
        assert (report["call_id"], report["server_label"]) == ("call_0", "calc")


async def test_a_credential_in_a_report_of_progress_is_removed() -> None:
    async def quote(exchange: Exchange) -> None:
        token = exchange.request.json["params"]["_meta"]["progressToken"]
        params = {
            "progressToken": token,
            "progress": 1,
            "message": "x" * 490 + exchange.request.headers["authorization"],
        }
        note = sse_frame({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})
        await Reply(headers=SSE, body=[note, Hang()])(exchange)

    async with scripted_mcp(quote) as server, hosting() as gateway:
        tool = mcp_tool(server.url, authorization="token-of-the-client-1234")
        request: Json = {"model": "m", "input": "Hi", "tools": [tool], "stream": True}
        stream: Any = await gateway.client.responses.create(**request, **WATCHED)
        async with asyncio.timeout(60), stream:
            async for event in stream:
                if event.type == "gateway.tool.progress":
                    break
        assert event.model_dump()["message"] == "x" * 490 + "Bearer [hi"


async def test_tool_events_are_in_the_log_of_a_background_response(tmp_path: Path) -> None:
    store = {"url": ready_sqlite(tmp_path / "state.db"), "poll_s": 0.05}
    settings: Json = {"store": store, "tools": {"events": True}}
    async with scripted_mcp(answer(text_result("found"))) as server, hosting(**settings) as gateway:
        created = await gateway.ask(mcp_tool(server.url), background=True)
        events = await events_of(await gateway.client.responses.retrieve(created["id"], stream=True))
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    assert [event["type"] for event in gateway_events(events)] == [
        "gateway.request.started",
        "gateway.tool.started",
        "gateway.tool.result",
        "gateway.request.started",
    ]


@pytest.mark.parametrize("streams", [True, False], ids=["watched", "not watched"])
async def test_a_flood_of_progress_is_a_few_events(streams: bool) -> None:
    async with scripted_mcp(progress_flood(3000)) as server, hosting() as gateway:
        request: Json = {"model": "m", "input": "Hi", "tools": [mcp_tool(server.url)], "stream": True}
        began = time.monotonic()
        events = await events_of(await gateway.client.responses.create(**request, **(WATCHED if streams else {})))
        took_s = time.monotonic() - began
        assert events[-1]["type"] == "response.completed"
        progress = [event for event in events if event["type"] == "gateway.tool.progress"]
        assert len(progress) <= (2 + took_s * 4 if streams else 0)


def cut(text: str, chars: int) -> str:
    return text[:chars]


async def test_only_the_last_progress_of_a_call_waits_and_none_after_its_end() -> None:
    events = ToolEvents()
    call = HostedCall(item_id="mcp_1", call_id="c", key=ToolKey("calc", "add"), model_name="x", tool=None, index=0)
    events.report_progress(call, cut, 1.0, None, None)
    assert events.take() == []  # it has not started
    events.start_call(call)
    for step in range(1000):
        events.report_progress(call, cut, float(step), 1000.0, "x" * 10_000)
    await asyncio.wait_for(events.wait(), PROMPT_S)
    started, progress = events.take()
    assert isinstance(started, Opaque)
    assert isinstance(progress, Opaque)
    assert (started.payload["type"], progress.payload["progress"]) == ("gateway.tool.started", 999.0)
    assert len(progress.payload["message"]) == 500
    events.report_progress(call, cut, 1000.0, 1000.0, None)
    assert events.take() == []  # it is too soon
    await asyncio.wait_for(events.wait(), PROMPT_S)
    assert len(events.take()) == 1
    events.report_progress(call, cut, 1001.0, 1000.0, None)
    events.end_call(call, ToolOutcome("3"))
    (result,) = events.take()
    assert isinstance(result, Opaque)
    assert result.payload["type"] == "gateway.tool.result"
