"""MCP servers that do not list their tools, or list them in ways that they should not."""

from pathlib import Path
from typing import Any

import pytest
from openai import APIStatusError, BadRequestError

from gateway.tools.mcp import guarded_http
from tests.databases import ready_sqlite
from tests.integration.mcp.tool_gateway import LOOK_UP as CALL
from tests.integration.mcp.tool_gateway import hosting, items_of, mcp_tool
from tests.mcp_script import LOOK_UP, Era, answer, list_result, scripted_mcp, text_result
from tests.upstream import chat_calls, chat_text, closed_port
from tests.upstream.builders import Json, json_reply
from tests.upstream.script import Exchange, silence


def dead_tool(label: str = "dead") -> Any:
    return mcp_tool(f"http://127.0.0.1:{closed_port()}/mcp", label)


@pytest.mark.parametrize("streams", [True, False])
async def test_a_server_that_refuses_alone_fails_the_request_before_the_model_is_prompted(streams: bool) -> None:
    async with hosting(chat_text("never")) as gateway:
        with pytest.raises(APIStatusError, match="MCP server: 'dead': the server cannot be reached") as failed:
            await gateway.client.responses.create(model="m", input="Hi", tools=[dead_tool()], stream=streams)
        assert (failed.value.status_code, failed.value.code) == (424, "external_connector_error")
        assert gateway.model.requests == []


async def test_a_background_response_fails_with_the_reason_of_its_only_server(tmp_path: Path) -> None:
    async with hosting(chat_text("never"), store={"url": ready_sqlite(tmp_path / "state.db")}) as gateway:
        created = await gateway.ask(dead_tool(), background=True)
        while created["status"] in ("queued", "in_progress"):
            created = (await gateway.client.responses.retrieve(created["id"])).model_dump()
        assert created["status"] == "failed"
        assert "MCP server: 'dead': the server cannot be reached" in created["error"]["message"]


@pytest.mark.parametrize(
    "choice",
    [
        {"type": "mcp", "server_label": "dead"},
        {"type": "allowed_tools", "mode": "required", "tools": [{"type": "mcp", "server_label": "dead"}]},
    ],
)
async def test_a_server_that_refuses_and_is_forced_fails_the_request(choice: Json) -> None:
    async with scripted_mcp() as server, hosting(chat_text("never")) as gateway:
        with pytest.raises(APIStatusError, match="MCP server: 'dead'") as failed:
            await gateway.ask(mcp_tool(server.url), dead_tool(), tool_choice=choice)
        assert failed.value.status_code == 424
        assert gateway.model.requests == []


async def test_all_servers_that_refuse_fail_the_request() -> None:
    async with hosting(chat_text("never")) as gateway:
        with pytest.raises(APIStatusError, match="MCP server: 'one'") as failed:
            await gateway.ask(dead_tool("one"), dead_tool("two"))
        assert failed.value.status_code == 424


async def test_a_server_that_refuses_beside_another_is_a_failed_list() -> None:
    async with scripted_mcp() as server, hosting(chat_text("Hi.")) as gateway:
        response = await gateway.ask(mcp_tool(server.url), dead_tool())
        good, bad = items_of(response, "mcp_list_tools")
        assert [tool["name"] for tool in good["tools"]] == ["look_up"]
        assert (bad["tools"], bad["error"]) == ([], "the server cannot be reached")
        assert response["status"] == "completed"
        assert [tool["function"]["name"] for tool in (await gateway.last_request())["tools"]] == ["lookup_look_up"]


async def test_a_failed_list_is_streamed_as_such() -> None:
    async with scripted_mcp() as server, hosting(chat_text("Hi.")) as gateway:
        tools = [mcp_tool(server.url), dead_tool()]
        stream = await gateway.client.responses.create(model="m", input="Hi", tools=tools, stream=True)
        kinds = [event.type async for event in stream]
    assert kinds.count("response.mcp_list_tools.completed") == 1
    assert kinds.count("response.mcp_list_tools.failed") == 1
    assert kinds[-1] == "response.completed"


async def test_a_server_that_is_silent_is_waited_for_as_long_as_the_deadline() -> None:
    async with (
        scripted_mcp(methods={"server/discover": silence, "initialize": silence}) as server,
        hosting(mcp={"list_deadline_s": 0.3}) as gateway,
    ):
        with pytest.raises(APIStatusError, match=r"no (answer|connection) within 0.3 s"):
            await gateway.ask(mcp_tool(server.url))


async def test_an_older_server_that_ignores_the_new_handshake_is_served(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guarded_http, "PROBE_S", 0.2)
    async with (
        scripted_mcp(answer({"content": []}), era="legacy", methods={"server/discover": silence}) as server,
        hosting(chat_text("Hi.")) as gateway,
    ):
        response = await gateway.ask(mcp_tool(server.url))
    assert items_of(response, "mcp_list_tools")[0]["tools"][0]["name"] == "look_up"


async def test_an_http_error_has_its_status_in_the_message() -> None:
    page = json_reply({"detail": "no such page"}, 500)
    async with scripted_mcp(methods={"tools/list": page}) as server, hosting() as gateway:
        with pytest.raises(APIStatusError, match=r"HTTP status 500.*no such page") as failed:
            await gateway.ask(mcp_tool(server.url))
        assert failed.value.status_code == 424


async def test_a_list_that_is_too_large_is_not_read() -> None:
    tools = [{**LOOK_UP, "name": f"tool_{number}", "description": "x" * 50_000} for number in range(40)]
    async with (
        scripted_mcp(methods={"tools/list": answer(list_result(*tools))}) as server,
        hosting(mcp={"max_result_mb": 1}) as gateway,
    ):
        with pytest.raises(APIStatusError, match=r"larger than 1 MiB \(tools.mcp.max_result_mb\)"):
            await gateway.ask(mcp_tool(server.url))


async def _next_page(exchange: Exchange) -> None:
    cursor = int((exchange.request.json.get("params") or {}).get("cursor") or 0)
    await answer(list_result(LOOK_UP, nextCursor=str(cursor + 1)))(exchange)


async def test_a_list_without_an_end_stops_at_the_bound() -> None:
    async with scripted_mcp(methods={"tools/list": _next_page}) as server:
        async with hosting(mcp={"max_list_pages": 4}) as gateway:
            with pytest.raises(APIStatusError, match="list_too_long: its list of tools has more than 4 pages"):
                await gateway.ask(mcp_tool(server.url))
        assert len(server.received("tools/list")) == 4


async def test_a_list_that_repeats_its_cursor_stops_at_once() -> None:
    async with scripted_mcp(methods={"tools/list": answer(list_result(LOOK_UP, nextCursor="a"))}) as server:
        async with hosting() as gateway:
            with pytest.raises(APIStatusError, match="list_too_long: its list of tools repeats itself"):
                await gateway.ask(mcp_tool(server.url))
        assert len(server.received("tools/list")) == 2


async def test_too_many_tools_are_refused_with_their_number() -> None:
    tools = [{**LOOK_UP, "name": f"tool_{number}"} for number in range(10_000)]
    async with (
        scripted_mcp(methods={"tools/list": answer(list_result(*tools))}) as server,
        hosting(chat_text("Hi.")) as gateway,
    ):
        with pytest.raises(BadRequestError, match="10000 tools") as refused:
            await gateway.ask(mcp_tool(server.url))
        assert (refused.value.code, refused.value.param) == ("too_many_tools", "tools")
        assert gateway.model.requests == []
        narrowed = await gateway.ask(mcp_tool(server.url, allowed_tools=["tool_7"]))
    assert [tool["name"] for tool in items_of(narrowed, "mcp_list_tools")[0]["tools"]] == ["tool_7"]


def _tool(name: str, **schema: Any) -> Json:
    return {**LOOK_UP, "name": name, "inputSchema": {"type": "object", **schema}}


def _deep(levels: int) -> Json:
    schema: Json = {"type": "object"}
    for _ in range(levels):
        schema = {"type": "object", "properties": {"a": schema}}
    return schema


UNUSABLE: dict[str, tuple[Any, str]] = {
    "no object": ("nonsense", "number 1: it is not an object"),
    "no name": ({"inputSchema": {"type": "object"}}, "number 1: it is malformed in name"),
    "an empty name": (_tool(""), "number 1: it has no name"),
    "a number as its name": ({**LOOK_UP, "name": 5}, "number 1: it is malformed in name"),
    "a text as its schema": ({**LOOK_UP, "name": "bad", "inputSchema": "x"}, "bad: it is malformed in inputSchema"),
    "a schema that is invalid": (_tool("bad", properties={"a": {"type": "x"}}), "bad: its schema is invalid: "),
    "a schema that is too deep": (_tool("bad", **_deep(40)), "bad: its schema is nested deeper than 32 levels"),
    "a schema that is too large": (_tool("bad", description="x" * 70_000), "bad: its schema has more than 64 KiB"),
    "a reference to a URL": (
        _tool("bad", properties={"a": {"$ref": "http://127.0.0.1:1/x"}}),
        "bad: its schema refers to 'http://127.0.0.1:1/x', and nothing is fetched",
    ),
    "a circular reference": (
        _tool("bad", properties={"a": {"$ref": "#/properties/a"}}),
        "bad: its schema has a circular reference to '#/properties/a'",
    ),
    "a catastrophic pattern": (
        _tool("bad", properties={"a": {"type": "string", "pattern": "(x{2000}){2000}"}}),
        "bad: its schema is invalid: ",
    ),
}


@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_tools_that_cannot_be_used_are_left_out_and_named(era: Era) -> None:
    scripts = [answer(list_result(tool, LOOK_UP)) for tool, _ in UNUSABLE.values()]
    async with (
        scripted_mcp(answer(text_result("found")), methods={"tools/list": scripts}, era=era) as server,
        hosting(*(script for _ in UNUSABLE for script in (chat_calls(CALL), chat_text("Done.")))) as gateway,
    ):
        for case, (_, reason) in UNUSABLE.items():
            response = await gateway.ask(mcp_tool(server.url))
            (listed,) = items_of(response, "mcp_list_tools")
            assert [tool["name"] for tool in listed["tools"]] == ["look_up"], case
            assert listed["error"].startswith(f"tools left out: {reason}"), case
            assert items_of(response, "mcp_call")[0]["output"] == "found", "the others are used"


async def test_a_list_with_tools_that_were_left_out_is_a_list_to_later_turns() -> None:
    listed = {
        "type": "mcp_list_tools",
        "id": "mcpl_1",
        "server_label": "lookup",
        "tools": [{"name": "look_up", "input_schema": {"type": "object"}}],
        "error": "tools left out: bad: its schema is invalid",
    }
    async with scripted_mcp() as server, hosting(chat_text("Hi.")) as gateway:
        response = await gateway.ask(mcp_tool(server.url), input=[listed, {"role": "user", "content": "And?"}])
        assert (items_of(response, "mcp_list_tools"), server.upstream.requests) == ([], [])
        assert [tool["function"]["name"] for tool in (await gateway.last_request())["tools"]] == ["lookup_look_up"]


async def test_a_tool_that_is_left_out_and_not_allowed_anyway_is_not_named() -> None:
    page = answer(list_result(_tool("bad", properties={"a": {"type": "x"}}), {"name": "worse"}, LOOK_UP))
    async with scripted_mcp(methods={"tools/list": page}) as server, hosting(chat_text("Hi.")) as gateway:
        response = await gateway.ask(mcp_tool(server.url, allowed_tools=["look_up"]))
        assert items_of(response, "mcp_list_tools")[0]["error"] is None


async def test_a_server_of_the_configuration_loses_the_tool_alone() -> None:
    page = answer(list_result({"name": "bad"}, LOOK_UP))
    async with scripted_mcp(methods={"tools/list": page}) as server:
        config = {"servers": {"lookup": {"url": server.url, "approval": "never"}}}
        async with hosting(chat_text("Hi."), mcp=config) as gateway:
            response = await gateway.ask({"type": "mcp", "server_label": "lookup"})
    (listed,) = items_of(response, "mcp_list_tools")
    assert [tool["name"] for tool in listed["tools"]] == ["look_up"]
    assert listed["error"] == "tools left out: bad: it is malformed in inputSchema"


async def test_a_tool_with_an_invalid_header_is_left_out_and_named() -> None:
    bad = _tool("bad", properties={"city": {"type": "string", "x-mcp-header": "not a header!"}})
    async with (
        scripted_mcp(methods={"tools/list": answer(list_result(bad, LOOK_UP))}) as server,
        hosting(chat_text("Hi.")) as gateway,
    ):
        (listed,) = items_of(await gateway.ask(mcp_tool(server.url)), "mcp_list_tools")
    assert [tool["name"] for tool in listed["tools"]] == ["look_up"]
    assert listed["error"].startswith("tools left out: bad: its x-mcp-header is invalid: property 'city'")


async def test_of_a_tool_that_is_listed_twice_the_first_is_used_and_the_second_is_named() -> None:
    second = {**LOOK_UP, "description": "Another one."}
    async with (
        scripted_mcp(methods={"tools/list": answer(list_result(LOOK_UP, second))}) as server,
        hosting(chat_text("Hi.")) as gateway,
    ):
        (listed,) = items_of(await gateway.ask(mcp_tool(server.url)), "mcp_list_tools")
    assert [tool["description"] for tool in listed["tools"]] == ["Looks up."]
    assert listed["error"] == "tools left out: look_up: it is listed twice, and only the first of them is used"


async def test_two_servers_with_one_label_are_refused() -> None:
    async with scripted_mcp() as server, hosting() as gateway:
        with pytest.raises(BadRequestError, match="server_label 'lookup'") as refused:
            await gateway.ask(mcp_tool(server.url), mcp_tool(server.url))
        assert (refused.value.code, refused.value.param) == ("duplicate_server_label", "tools[1].server_label")
        assert server.upstream.requests == []


async def test_a_list_whose_token_is_not_accepted_fails_with_authorization_expired() -> None:
    async with scripted_mcp(methods={"tools/list": json_reply({}, 401)}) as server, hosting() as gateway:
        with pytest.raises(APIStatusError, match="authorization_expired") as failed:
            await gateway.ask(mcp_tool(server.url, authorization="a-token-of-mine"))
        assert failed.value.status_code == 424


async def test_the_tools_of_a_server_are_listed_if_the_history_has_its_call_and_no_list() -> None:
    past = {
        "type": "mcp_call",
        "id": "mcp_1",
        "server_label": "lookup",
        "name": "look_up",
        "arguments": "{}",
        "output": "found it",
    }
    async with scripted_mcp() as server, hosting(chat_text("Hi.")) as gateway:
        response = await gateway.ask(mcp_tool(server.url), input=[past, {"role": "user", "content": "And?"}])
        assert items_of(response, "mcp_list_tools")
        messages = (await gateway.last_request())["messages"]
        assert [message.get("content") for message in messages if message["role"] == "tool"] == ["found it"]
        assert server.calls == []


@pytest.mark.parametrize("is_alive", [True, False])
async def test_a_list_of_the_history_is_not_pulled_again_for_a_call(is_alive: bool) -> None:
    tools = [{"name": "look_up", "input_schema": {"type": "object"}, "annotations": None}]
    listed = {"type": "mcp_list_tools", "id": "mcpl_1", "server_label": "lookup", "tools": tools}
    async with scripted_mcp(answer(text_result("found"))) as server, hosting() as gateway:
        tool = mcp_tool(server.url) if is_alive else dead_tool("lookup")
        response = await gateway.ask(tool, input=[listed, {"role": "user", "content": "And?"}])
        (call,) = items_of(response, "mcp_call")
        assert (len(server.received("tools/list")), len(server.calls)) == (0, int(is_alive))
    if is_alive:
        assert call["output"] == "found"
    else:
        assert call["error"]["message"] == "the server cannot be reached"
    assert items_of(response, "mcp_list_tools") == []


async def test_a_key_with_too_many_connections_gets_a_failed_list() -> None:
    async with scripted_mcp() as server, hosting(chat_text("Hi."), mcp={"max_sessions": 1}) as gateway:
        for _ in range(2):  # the connection of the first response was closed
            response = await gateway.ask(mcp_tool(server.url), mcp_tool(server.url, "second"))
            good, bad = items_of(response, "mcp_list_tools")
            assert [tool["name"] for tool in good["tools"]] == ["look_up"]
            assert bad["error"].endswith("(tools.mcp.max_sessions)")
