"""What a server sends and what cannot be passed on is left out by itself: one tool of a list, or one result."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.databases import ready_sqlite
from tests.integration.mcp.tool_gateway import LOOK_UP, call_of, error_text, hosting, items_of, mcp_tool
from tests.mcp_script import LOOK_UP as LOOK_UP_TOOL
from tests.mcp_script import Era, rpc_error, scripted_mcp
from tests.upstream import Reply, chat_calls, chat_text
from tests.upstream.builders import JSON, SSE, Json
from tests.upstream.script import Exchange, Script

LONG = 12345678901234567890123
HALF = "half \ud83d of a pair"
ERAS = pytest.mark.parametrize("era", ["legacy", "modern"])
FORMS = pytest.mark.parametrize("as_stream", [False, True], ids=["json", "stream"])


def nested(levels: int) -> Json:
    schema: Json = {"type": "object"}
    for _ in range(levels):
        schema = {"type": "object", "properties": {"a": schema}}
    return schema


def listed(level: int) -> Any:
    value: Any = 1
    for _ in range(level):
        value = [value]
    return value


def raw_answer(result: Any, *, as_stream: bool = False) -> Script:
    """Answers with JSON as Python writes it: with all digits, and with halves of surrogate pairs."""

    async def play(exchange: Exchange) -> None:
        text = json.dumps({"jsonrpc": "2.0", "id": exchange.request.json["id"], "result": result})
        body = text.replace('"LONGEST"', "9" * 5_000).encode()
        await Reply(headers=SSE if as_stream else JSON, body=b"data: " + body + b"\n\n" if as_stream else body)(
            exchange
        )

    return play


TOOLS: dict[str, Json] = {
    "number in its schema": {"inputSchema": {"type": "object", "properties": {"a": {"maximum": LONG}}}},
    "number of five thousand digits": {"inputSchema": {"type": "object", "maxProperties": "LONGEST"}},
    "negative number": {"inputSchema": {"type": "object", "properties": {"a": {"minimum": -LONG}}}},
    "half a pair in its description": {"inputSchema": {"type": "object"}, "description": HALF},
    "half a pair in its schema": {"inputSchema": {"type": "object", "properties": {HALF: {}}}},
    "a hundred levels": {"inputSchema": nested(100)},
    "two hundred levels": {"inputSchema": nested(200)},
    "many lists": {"inputSchema": {"type": "object", "enum": listed(300)}},
    "a number in what it returns": {
        "inputSchema": {"type": "object"},
        "outputSchema": {"type": "object", "maxProperties": LONG},
    },
}


@ERAS
@FORMS
@pytest.mark.parametrize("more", TOOLS.values(), ids=TOOLS)
async def test_a_tool_that_cannot_be_passed_on_is_named_and_the_others_are_used(
    more: Json, as_stream: bool, era: Era
) -> None:
    tools = [{"name": "odd", **more}, LOOK_UP_TOOL]
    result = {"tools": tools, "resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
    methods = {"tools/list": raw_answer(result, as_stream=as_stream)}
    async with (
        scripted_mcp(raw_answer({"content": [], "resultType": "complete"}), methods=methods, era=era) as server,
        hosting() as gateway,
    ):
        response = await gateway.ask(mcp_tool(server.url))
    (item,) = items_of(response, "mcp_list_tools")
    assert [each["name"] for each in item["tools"]] == ["look_up"]
    assert item["error"].startswith("tools left out: odd: it")
    assert call_of(response)["status"] == "completed"


@FORMS
async def test_a_tool_without_a_readable_name_is_named_by_its_number(as_stream: bool) -> None:
    methods = {
        "tools/list": raw_answer({"tools": [{"name": HALF, "inputSchema": {}}, LOOK_UP_TOOL]}, as_stream=as_stream)
    }
    async with scripted_mcp(methods=methods, era="legacy") as server, hosting(chat_text("Hi.")) as gateway:
        (item,) = items_of(await gateway.ask(mcp_tool(server.url)), "mcp_list_tools")
    assert item["error"] == "tools left out: number 1: it has half a surrogate pair, which is no text"


@ERAS
@FORMS
async def test_the_digits_of_a_number_in_a_result_are_kept(as_stream: bool, era: Era, tmp_path: Path) -> None:
    result = {"content": [], "structuredContent": {"wei": LONG}, "resultType": "complete"}
    script = raw_answer(result, as_stream=as_stream)
    store = {"url": ready_sqlite(tmp_path / "state.db")}
    async with scripted_mcp(script, era=era) as server, hosting(store=store) as gateway:
        response = await gateway.ask(mcp_tool(server.url))
        assert call_of(response)["output"] == f'{{"wei":{LONG}}}'
        stored = await gateway.client.responses.retrieve(response["id"])
    assert call_of(stored.model_dump())["output"] == f'{{"wei":{LONG}}}'


RESULTS: dict[str, Json] = {
    "half a pair": {"content": [{"type": "text", "text": HALF}]},
    "half a pair in the structured content": {"content": [], "structuredContent": {"a": [HALF]}},
    "a hundred and fifty levels": {"content": [], "structuredContent": {"a": listed(150)}},
    "eight hundred levels": {"content": [], "structuredContent": {"a": listed(800)}},
}


@ERAS
@FORMS
@pytest.mark.parametrize("result", RESULTS.values(), ids=RESULTS)
async def test_a_result_that_cannot_be_passed_on_is_an_error_of_its_call(
    result: Json, as_stream: bool, era: Era
) -> None:
    script = raw_answer({**result, "resultType": "complete"}, as_stream=as_stream)
    async with scripted_mcp(script, era=era) as server, hosting() as gateway:
        call = call_of(await gateway.ask(mcp_tool(server.url)))
    assert error_text(call).startswith("invalid_result: the result was left out: it")


async def test_long_numbers_in_the_arguments_reach_the_server_with_all_digits() -> None:
    model = [chat_calls((LOOK_UP[0], f'{{"wei": {LONG}}}')), chat_text("Done.")]
    async with (
        scripted_mcp(raw_answer({"content": [], "resultType": "complete"}), era="legacy") as server,
        hosting(*model) as gateway,
    ):
        call = call_of(await gateway.ask(mcp_tool(server.url)))
        assert call["arguments"] == f'{{"wei": {LONG}}}'
        assert server.calls[0].json["params"]["arguments"] == {"wei": LONG}


BESIDE: dict[str, tuple[Json, str]] = {
    "a text that does not repeat it": (
        {"content": [{"type": "text", "text": "see the structured content"}], "structuredContent": {"left": 3}},
        'see the structured content\n{"left":3}',
    ),
    "the same JSON as text": (
        {"content": [{"type": "text", "text": '{ "left": 3 }'}], "structuredContent": {"left": 3}},
        '{ "left": 3 }',
    ),
    "a plain value in an object": (
        {"content": [{"type": "text", "text": "5"}], "structuredContent": {"result": 5}},
        "5",
    ),
    "a list in an object": (
        {
            "content": [{"type": "text", "text": each} for each in ("a", "b")],
            "structuredContent": {"result": ["a", "b"]},
        },
        "a\nb",
    ),
    "one of two values": (
        {"content": [{"type": "text", "text": "Rome"}], "structuredContent": {"city": "Rome", "size": "large"}},
        'Rome\n{"city":"Rome","size":"large"}',
    ),
    "an empty object": ({"content": [{"type": "text", "text": "x"}], "structuredContent": {}}, "x"),
}


@ERAS
@pytest.mark.parametrize(("result", "output"), BESIDE.values(), ids=BESIDE)
async def test_the_model_reads_structured_content_that_the_text_does_not_repeat(
    result: Json, output: str, era: Era
) -> None:
    async with scripted_mcp(raw_answer({**result, "resultType": "complete"}), era=era) as server, hosting() as gateway:
        response = await gateway.ask(mcp_tool(server.url))
        read = (await gateway.last_request())["messages"][-1]["content"]
    assert call_of(response)["output"] == output
    assert read == output


async def test_the_model_reads_what_a_link_says_besides_its_address() -> None:
    link = {
        "type": "resource_link",
        "uri": "https://files.example/1",
        "name": "report.csv",
        "description": "The sales of May",
        "mimeType": "text/csv",
        "size": 12,
    }
    async with scripted_mcp(raw_answer({"content": [link]}), era="legacy") as server, hosting() as gateway:
        call = call_of(await gateway.ask(mcp_tool(server.url)))
    assert call["output"] == (
        "[resource_link: https://files.example/1 report.csv (text/csv, 12 bytes): The sales of May]"
    )


@ERAS
async def test_an_error_with_a_code_of_more_than_64_bits_is_an_error_of_its_call(era: Era) -> None:
    async with scripted_mcp(rpc_error(LONG, "no"), era=era) as server, hosting() as gateway:
        call = call_of(await gateway.ask(mcp_tool(server.url)))
    assert call["error"] == {"type": "mcp_protocol_error", "code": -32603, "message": "no"}


async def test_a_form_with_a_number_of_more_than_64_bits_is_an_error_of_its_call(tmp_path: Path) -> None:
    form = {"type": "object", "properties": {"people": {"type": "integer", "maximum": LONG}}}
    asked = {
        "method": "elicitation/create",
        "params": {"mode": "form", "message": "How many?", "requestedSchema": form},
    }
    result = {"resultType": "input_required", "inputRequests": {"q": asked}, "requestState": "s"}
    store = {"url": ready_sqlite(tmp_path / "state.db")}
    async with scripted_mcp(raw_answer(result)) as server, hosting(store=store) as gateway:
        response = await gateway.ask(mcp_tool(server.url), extra_body={"elicitation": True})
    assert "number of more than 64 bits" in error_text(call_of(response))
