"""Code that a tool of an MCP server runs: clients get the items and events of a code interpreter."""

from pathlib import Path
from typing import Any, Final

import pytest
from mcp_types import CallToolResult, ImageContent, TextContent
from openai import APIStatusError

from tests.databases import ready_sqlite
from tests.integration.mapped_tools.mapped_gateway import (
    CODE,
    SECRET,
    Answer,
    MappedServer,
    call,
    mapping,
    text_result,
)
from tests.integration.mcp.tool_gateway import items_of
from tests.mcp_server import PIXEL
from tests.upstream import chat_calls, chat_text
from tests.upstream.builders import Json

ONE: Final = {"run_code": CODE}
MODEL: Final = (chat_calls(call("code_interpreter", code="print(1)\n2 * 3")), chat_text("It is 6."))
TOOL: Final[Any] = {"type": "code_interpreter", "container": {"type": "auto"}}
OUTPUTS: Final[Any] = ["code_interpreter_call.outputs"]


async def test_a_response_has_the_items_and_events_of_a_code_interpreter(server: MappedServer) -> None:
    async with mapping(*MODEL, server=server, mappings=ONE) as served:
        stream = await served.gateway.client.responses.create(
            model="m", input="Hi", tools=[TOOL], stream=True, include=OUTPUTS
        )
        events: list[Any] = [event async for event in stream]
        offered = served.gateway.model.requests[0].json["tools"]
        read = served.read_by_model()
    assert [each["function"]["name"] for each in offered] == ["code_interpreter"]
    assert server.calls == [("run_code", {"source": "print(1)\n2 * 3"})]
    assert read == "ran print(1)\n2 * 3"
    assert [event.type for event in events if "code_interpreter" in event.type] == [
        "response.code_interpreter_call.in_progress",
        "response.code_interpreter_call_code.delta",
        "response.code_interpreter_call_code.done",
        "response.code_interpreter_call.interpreting",
        "response.code_interpreter_call.completed",
    ]
    added = next(event.item for event in events if event.type == "response.output_item.added")
    assert (added.type, added.container_id, added.status) == (
        "code_interpreter_call",
        "cntr_mcp_finder",
        "in_progress",
    )
    run, message = events[-1].response.model_dump()["output"]
    assert (run["status"], run["code"], run["container_id"]) == ("completed", "print(1)\n2 * 3", "cntr_mcp_finder")
    assert run["outputs"] == [{"type": "logs", "logs": "ran print(1)\n2 * 3"}]
    assert run["id"].startswith("ci_")
    assert message["content"][0]["text"] == "It is 6."


async def test_outputs_are_shown_to_clients_that_include_them(server: MappedServer, tmp_path: Path) -> None:
    store = {"url": ready_sqlite(tmp_path / "state.db")}
    async with mapping(*MODEL, chat_text("Still 6."), server=server, mappings=ONE, store=store) as served:
        response = await served.gateway.ask(TOOL)
        shown = await served.gateway.client.responses.retrieve(response["id"], include=OUTPUTS)
        await served.gateway.ask(TOOL, previous_response_id=response["id"], input="Sure?")
        messages = served.gateway.model.requests[-1].json["messages"]
    assert items_of(response, "code_interpreter_call")[0]["outputs"] is None
    assert "details" not in items_of(response, "code_interpreter_call")[0]
    (run,) = items_of(shown.model_dump(), "code_interpreter_call")
    assert run["outputs"] == [{"type": "logs", "logs": "ran print(1)\n2 * 3"}]
    assert [message["role"] for message in messages] == ["user", "assistant", "tool", "assistant", "user"]
    assert messages[2]["content"] == "ran print(1)\n2 * 3", "a later turn reads what the code wrote"


@pytest.mark.parametrize("includes", [False, True])
@pytest.mark.parametrize("tools", [[TOOL], []], ids=["with the tool", "without it"])
async def test_a_client_may_send_the_items_back(server: MappedServer, tools: Any, includes: bool) -> None:
    include = OUTPUTS if includes else []
    async with mapping(*MODEL, chat_text("Still 6."), server=server, mappings=ONE, store={"url": None}) as served:
        first = await served.gateway.ask(TOOL, include=include)
        again = [*first["output"], {"role": "user", "content": "Sure?"}]
        reply = await served.gateway.client.responses.with_raw_response.create(model="m", input=again, tools=tools)
        messages = served.gateway.model.requests[-1].json["messages"]
    assert [message["role"] for message in messages] == ["assistant", "tool", "assistant", "user"]
    assert "print(1)" in messages[0]["tool_calls"][0]["function"]["arguments"]
    assert messages[1]["content"] == "ran print(1)\n2 * 3"
    assert "x-gateway-loss" not in reply.headers


PAST: Final[dict[str, tuple[Json, str]]] = {
    "outputs": ({"outputs": [{"type": "logs", "logs": "【1】 6"}, {"type": "image", "url": "x"}, 5]}, "[1] 6"),
    "no outputs": (
        {"outputs": None},
        "The code was run. Its output is no longer known: run it again if you need it.",
    ),
    "a failure": ({"status": "failed"}, "This call failed."),
}


@pytest.mark.parametrize(("fields", "read"), PAST.values(), ids=PAST)
async def test_an_item_of_another_server_is_read(server: MappedServer, fields: Json, read: str) -> None:
    item = {"type": "code_interpreter_call", "id": "ci_1", "container_id": "cntr_1", "status": "completed", "code": "6"}
    items = [{**item, **fields}, {"role": "user", "content": "Sure?"}]
    async with mapping(chat_text("Yes."), server=server, mappings=ONE) as served:
        await served.gateway.ask(TOOL, input=items)
        assert served.gateway.model.requests[0].json["messages"][1]["content"] == read


REFUSED: Final[dict[str, tuple[Any, int, str, str | None]]] = {
    "an unknown id": ("cntr_1", 404, "tools[0].container", "container_not_found"),
    "files": ({"type": "auto", "file_ids": ["file-1"]}, 400, "tools[0].container.file_ids", "unsupported_parameter"),
    "a network policy": (
        {"type": "auto", "network_policy": {"type": "disabled"}},
        400,
        "tools[0].container.network_policy",
        "unsupported_parameter",
    ),
    "an unknown type": ({"type": "remote"}, 400, "tools[0].container", None),
}


@pytest.mark.parametrize(("container", "status", "param", "code"), REFUSED.values(), ids=REFUSED)
async def test_a_container_that_cannot_be_is_refused(
    server: MappedServer, container: Any, status: int, param: str, code: str | None
) -> None:
    async with mapping(*MODEL, server=server, mappings=ONE) as served:
        with pytest.raises(APIStatusError) as refused:
            await served.gateway.ask({**TOOL, "container": container})
        assert served.gateway.model.requests == []
    body: Any = refused.value.body
    assert (refused.value.status_code, body["param"]) == (status, param)
    assert code is None or body["code"] == code


async def test_two_code_interpreters_are_refused(server: MappedServer) -> None:
    async with mapping(*MODEL, server=server, mappings=ONE) as served:
        with pytest.raises(APIStatusError) as refused:
            await served.gateway.ask(TOOL, TOOL)
    body: Any = refused.value.body
    assert (body["param"], body["code"]) == ("tools[1]", "duplicate_tool")


async def test_a_container_of_an_item_may_be_named_and_a_limit_is_a_loss(server: MappedServer) -> None:
    async with mapping(*MODEL, *MODEL, server=server, mappings=ONE) as served:
        await served.gateway.ask({**TOOL, "container": "cntr_mcp_finder"})
        container = {"type": "auto", "file_ids": [], "memory_limit": "4g"}
        tools: Any = [{**TOOL, "container": container}]
        reply = await served.gateway.client.responses.with_raw_response.create(model="m", input="Hi", tools=tools)
    assert len(server.calls) == 2
    assert reply.headers["x-gateway-loss"] == "tools[0].container.memory_limit=dropped"


NOT_RUN: Final = "The code could not be run, or its output cannot be read. Answer without it, or say so."
OUTCOMES: Final[dict[str, tuple[Answer, Json, str, str]]] = {
    "an error": (
        lambda _: text_result(f"Traceback:\n【1】 NameError {SECRET}", is_error=True),
        {},
        "failed",
        "Traceback:\n[1] NameError [hidden]",
    ),
    "no output": (lambda _: text_result(""), {}, "completed", "[The code wrote nothing.]"),
    "markers and credentials": (lambda _: text_result(f"【1】 {SECRET}"), {}, "completed", "[1] [hidden]"),
    "text at a path": (lambda _: {"run": {"stdout": "6"}, "ms": 5}, {"text": "run.stdout"}, "completed", "6"),
    "no text at the path": (lambda _: {"run": {"stdout": 6}}, {"text": "run.stdout"}, "failed", NOT_RUN),
    "no JSON for the path": (lambda _: text_result("<html>"), {"text": "run.stdout"}, "failed", NOT_RUN),
    "10 MB": (lambda _: text_result("x" * 10_000_000), {}, "failed", NOT_RUN),
}


@pytest.mark.parametrize(("answer", "result", "status", "read"), OUTCOMES.values(), ids=OUTCOMES)
async def test_what_the_tool_answers_is_the_output(
    server: MappedServer, answer: Answer, result: Json, status: str, read: str
) -> None:
    server.answers["run_code"] = answer
    async with mapping(*MODEL, server=server, mappings={"run_code": {**CODE, "result": result}}) as served:
        response = await served.gateway.ask(TOOL, include=OUTPUTS)
        assert served.read_by_model() == read
    (run,) = items_of(response, "code_interpreter_call")
    assert run["status"] == status
    assert run["code"] == "print(1)\n2 * 3"
    assert SECRET not in str(response)


async def test_a_failure_of_the_tool_is_in_the_outputs(server: MappedServer) -> None:
    server.answers["run_code"] = lambda _: text_result("NameError", is_error=True)
    async with mapping(*MODEL, server=server, mappings=ONE) as served:
        response = await served.gateway.ask(TOOL, include=OUTPUTS)
    assert items_of(response, "code_interpreter_call")[0]["outputs"] == [{"type": "logs", "logs": "NameError"}]


async def test_images_are_outputs(server: MappedServer) -> None:
    images = [ImageContent(type="image", data=data, mime_type="image/png") for data in (PIXEL, "AAAA" * 400_000)]
    server.answers["run_code"] = lambda _: CallToolResult(content=[TextContent(type="text", text="drawn"), *images])
    async with mapping(*MODEL, server=server, mappings=ONE) as served:
        response = await served.gateway.ask(TOOL, include=OUTPUTS)
    logs, image = items_of(response, "code_interpreter_call")[0]["outputs"]
    assert image == {"type": "image", "url": f"data:image/png;base64,{PIXEL}"}
    assert logs["logs"].endswith("[An image is too large to be shown.]")


@pytest.mark.parametrize("arguments", [{}, {"code": " "}, {"code": 5}, {"source": "6"}])
async def test_a_call_without_code_is_not_run(server: MappedServer, arguments: Json) -> None:
    model = (chat_calls(call("code_interpreter", **arguments)), chat_text("Sorry."))
    async with mapping(*model, server=server, mappings=ONE) as served:
        response = await served.gateway.ask(TOOL)
        assert served.read_by_model() == "The call was not run: it has no code"
    assert server.calls == []
    assert items_of(response, "code_interpreter_call")[0]["status"] == "failed"


async def test_a_choice_of_the_tool_forces_it(server: MappedServer) -> None:
    async with mapping(*MODEL, server=server, mappings=ONE) as served:
        await served.gateway.ask(TOOL, tool_choice={"type": "code_interpreter"})
        assert served.gateway.model.requests[0].json["tool_choice"] == "required"


async def test_a_key_that_may_not_use_the_server_runs_no_code(server: MappedServer) -> None:
    keys = [{"name": "limited", "key": "gateway-key-1", "mcp_servers": ["other"]}]
    async with mapping(chat_text("Hi."), server=server, mappings=ONE, auth={"keys": keys}) as served:
        reply = await served.gateway.client.responses.with_raw_response.create(model="m", input="Hi", tools=[TOOL])
    assert reply.headers["x-gateway-loss"] == "tools[0]=code_interpreter left out"
