"""Chat completions with servers that the model's configuration names: the gateway runs their tools."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from openai import BadRequestError, InternalServerError

from tests.databases import ready_sqlite
from tests.integration.mcp.tool_gateway import Hosting, hosting
from tests.mcp_server import CountingServer
from tests.upstream import chat_calls, chat_text, closed_port
from tests.upstream.builders import chat_chunk, chat_sse, error_reply

ADD = ("calc_add", '{"a": 2, "b": 3}')
QUESTION: Any = [{"role": "user", "content": "2 + 3?"}]
OWN: Any = {"type": "function", "function": {"name": "ask_user", "parameters": {"type": "object", "properties": {}}}}


@asynccontextmanager
async def chatting(url: str, *scripts: Any, approval: Any = "never", **config: Any) -> AsyncIterator[Hosting]:
    """Serves the model `m` with the server `calc`."""
    server = {"url": url, "approval": approval, "allow": ["add", "fail", "long"]}
    model = {"provider": "up", "tools": {"mcp": ["calc"]}, **config.pop("model", {})}
    async with hosting(*scripts, mcp={"servers": {"calc": server}}, models={"m": model}, **config) as gateway:
        yield gateway


async def complete(gateway: Hosting, **more: Any) -> Any:
    return await gateway.client.chat.completions.create(**{"model": "m", "messages": QUESTION, **more})


async def test_a_tool_is_run_and_the_completion_is_the_answer(calc: CountingServer) -> None:
    async with chatting(calc.url, chat_calls(ADD), chat_text("It is ", "5.")) as gateway:
        completion = await complete(gateway)
        (choice,) = completion.choices
        assert (choice.message.content, choice.finish_reason) == ("It is 5.", "stop")
        assert choice.message.tool_calls is None
        assert completion.usage.completion_tokens == 6, "that of both rounds"
        assert "extensions" not in completion.model_dump()
        second = await gateway.last_request()
        assert [message["role"] for message in second["messages"]] == ["user", "assistant", "tool"]
        assert second["messages"][-1]["content"] == "5"
    assert calc.runs == {"add": 1}


async def test_the_stream_has_the_text_and_one_usage_and_one_end(calc: CountingServer) -> None:
    async with chatting(calc.url, chat_calls(ADD), chat_text("It is ", "5.")) as gateway:
        stream = await complete(gateway, stream=True, stream_options={"include_usage": True})
        chunks = [chunk async for chunk in stream]
    assert len({chunk.id for chunk in chunks}) == 1
    deltas = [choice for chunk in chunks for choice in chunk.choices]
    assert [choice.delta.role for choice in deltas if choice.delta.role] == ["assistant"]
    assert [choice.delta.content for choice in deltas if choice.delta.content] == ["It is ", "5."]
    assert not any(choice.delta.tool_calls for choice in deltas)
    assert [choice.finish_reason for choice in deltas if choice.finish_reason] == ["stop"]
    usages = [chunk.usage for chunk in chunks if chunk.usage is not None]
    assert [usage.completion_tokens for usage in usages] == [6]
    assert chunks[-1].usage is not None


TEXT_AND_CALL = chat_sse(
    [
        chat_chunk({"role": "assistant", "content": "Let me see."}),
        chat_chunk(
            {
                "tool_calls": [
                    {"index": 0, "id": "c1", "type": "function", "function": {"name": ADD[0], "arguments": ADD[1]}}
                ]
            }
        ),
        chat_chunk({}, "tool_calls"),
    ]
)


async def test_text_after_a_call_is_a_paragraph_of_its_own(calc: CountingServer) -> None:
    async with chatting(calc.url, TEXT_AND_CALL, chat_text("It is 5.")) as gateway:
        stream = await complete(gateway, stream=True)
        text = "".join([chunk.choices[0].delta.content or "" async for chunk in stream if chunk.choices])
    assert text == "Let me see.\n\nIt is 5."


@pytest.mark.parametrize("streams", [True, False])
async def test_the_calls_are_in_the_extensions_if_requested(calc: CountingServer, streams: bool) -> None:
    async with chatting(calc.url, chat_calls(ADD), chat_text("5")) as gateway:
        reply = await complete(gateway, stream=streams, extra_body={"extensions": True})
        replies = [chunk async for chunk in reply] if streams else [reply]
    (extensions,) = [each.extensions for each in replies if "extensions" in (each.model_extra or {})]
    (call,) = extensions["mcp_calls"]
    assert (call["type"], call["server_label"], call["name"]) == ("mcp_call", "calc", "add")
    assert (call["arguments"], call["output"], call["error"]) == ('{"a": 2, "b": 3}', "5", None)
    assert extensions["tool_call_chunks"] == []


async def test_calls_of_the_client_end_the_completion_and_calls_beside_them_are_not_run(calc: CountingServer) -> None:
    calls = chat_calls(("ask_user", "{}"), ADD)
    async with chatting(calc.url, calls, chat_calls(ADD), chat_text("5")) as gateway:
        first = await complete(gateway, tools=[OWN], extra_body={"extensions": True})
        (choice,) = first.choices
        assert choice.finish_reason == "tool_calls"
        assert [call.function.name for call in choice.message.tool_calls] == ["ask_user"]
        assert calc.runs == {}, "its result would be lost, since the client cannot send it back"
        assert "skipped" in str(first.extensions["mcp_calls"][0]["error"])
        answer = {"role": "tool", "tool_call_id": choice.message.tool_calls[0].id, "content": "yes"}
        messages = [*QUESTION, choice.message.model_dump(exclude_none=True), answer]
        second = await complete(gateway, messages=messages, tools=[OWN])
        assert second.choices[0].message.content == "5"
        sent = gateway.model.requests[1].json["messages"]
        assert [message["role"] for message in sent] == ["user", "assistant", "tool"]
    assert calc.runs == {"add": 1}


async def test_tools_that_need_an_approval_are_not_offered(calc: CountingServer) -> None:
    async with chatting(calc.url, chat_text("Hi."), approval={"never": {"tool_names": ["add"]}}) as gateway:
        await complete(gateway)
        assert [tool["function"]["name"] for tool in (await gateway.last_request())["tools"]] == ["calc_add"]


@pytest.mark.parametrize("streams", [True, False])
async def test_a_server_that_is_away_is_a_loss_and_the_model_answers(streams: bool) -> None:
    async with chatting(f"http://127.0.0.1:{closed_port()}/mcp", chat_text("Hi.")) as gateway:
        body = {"model": "m", "messages": QUESTION, "stream": streams}
        async with httpx.AsyncClient(timeout=60) as client:
            reply = await client.post(f"{gateway.url}/chat/completions", json=body)
        assert reply.status_code == 200
        assert reply.headers["x-gateway-loss"] == "tools=MCP server calc left out"
        assert "tools" not in await gateway.last_request()


@pytest.mark.parametrize("streams", [True, False])
async def test_an_upstream_that_refuses_the_first_round_is_an_http_error(calc: CountingServer, streams: bool) -> None:
    async with chatting(calc.url, error_reply(500, "no")) as gateway:
        with pytest.raises(InternalServerError):
            await complete(gateway, stream=streams)


async def test_a_failure_after_a_call_is_an_http_error_too(calc: CountingServer) -> None:
    async with chatting(calc.url, chat_calls(ADD), error_reply(500, "no")) as gateway:
        with pytest.raises(InternalServerError):
            await complete(gateway, stream=True)
    assert calc.runs == {"add": 1}


async def test_several_choices_are_refused_by_name(calc: CountingServer) -> None:
    async with chatting(calc.url, chat_text("never")) as gateway:
        with pytest.raises(BadRequestError, match="one choice per request") as refused:
            await complete(gateway, n=2)
        assert refused.value.param == "n"
        assert (gateway.model.requests, calc.methods) == ([], {})


async def test_a_model_without_tools_is_reported_as_a_configuration_error(calc: CountingServer) -> None:
    model = {"capabilities": {"tools": False}}
    async with chatting(calc.url, chat_text("never"), model=model) as gateway:
        with pytest.raises(BadRequestError, match=r"the operator has to take tools\.mcp from the model"):
            await complete(gateway)


async def test_a_forced_client_function_and_none_have_their_usual_effect(calc: CountingServer) -> None:
    async with chatting(calc.url, chat_text("Hi."), chat_text("Hi.")) as gateway:
        forced = {"type": "function", "function": {"name": "ask_user"}}
        await complete(gateway, tools=[OWN], tool_choice=forced)
        sent = await gateway.last_request()
        assert (sent["tool_choice"], sent["tools"]) == ("required", [OWN]), "in the form that every server knows"
        await complete(gateway, tools=[OWN], tool_choice="none")
        assert (await gateway.last_request())["tool_choice"] == "none"


async def test_legacy_functions_work_beside_the_tools(calc: CountingServer) -> None:
    async with chatting(calc.url, chat_calls(ADD), chat_calls(("ask_user", "{}"))) as gateway:
        completion = await complete(gateway, functions=[OWN["function"]])
        (choice,) = completion.choices
        assert (choice.finish_reason, choice.message.function_call.name) == ("function_call", "ask_user")
    assert calc.runs == {"add": 1}


async def test_a_stored_completion_has_the_answer(calc: CountingServer, tmp_path: Path) -> None:
    store = {"url": ready_sqlite(tmp_path / "state.db")}
    async with chatting(calc.url, chat_calls(ADD), chat_text("5"), store=store) as gateway:
        completion = await complete(gateway, store=True)
        stored = await gateway.client.chat.completions.retrieve(completion.id)
        assert stored.choices[0].message.content == "5"


async def test_models_without_servers_are_relayed_as_before(calc: CountingServer) -> None:
    async with chatting(calc.url, chat_text("Hi."), model={"tools": {}}) as gateway:
        assert (await complete(gateway, tools=[OWN])).choices[0].message.content == "Hi."
        assert (await gateway.last_request())["tools"] == [OWN]
    assert calc.methods == {}


async def test_other_small_apis_have_the_tools_too(calc: CountingServer) -> None:
    async with chatting(calc.url, chat_calls(ADD), chat_text("5")) as gateway:
        async with httpx.AsyncClient(timeout=60) as client:
            reply = await client.post(
                gateway.url.removesuffix("/v1") + "/generate", json={"model": "m", "messages": QUESTION}
            )
        assert reply.status_code == 200, reply.text
        assert '"5"' in reply.text
    assert calc.runs == {"add": 1}
