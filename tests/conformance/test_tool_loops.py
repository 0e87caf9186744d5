"""Tool loops through the whole gateway: requests of upstreams and replies to clients, with all kinds of faults."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.databases import ready_sqlite
from tests.serving import serving
from tests.upstream import Script, ScriptedUpstream, chat_chunk, chat_json, chat_sse, chat_text
from tests.upstream.builders import either, responses_text
from tests.upstream.script import Exchange

Json = dict[str, Any]

TOOLS: list[Json] = [{"type": "function", "name": "add", "parameters": {"type": "object"}}]
CHAT_TOOLS: list[Json] = [{"type": "function", "function": {"name": "add", "parameters": {"type": "object"}}}]
ASK: list[Json] = [{"type": "message", "role": "user", "content": "Add."}]
UPSTREAMS: dict[str, Json] = {
    "chat": {"type": "openai_compatible", "dialects": ["chat"]},
    "responses": {"type": "openai_compatible", "dialects": ["responses"]},
    "anthropic": {"type": "anthropic"},
    "gemini": {"type": "gemini"},
    "ollama": {"type": "ollama"},
    "vllm": {"type": "vllm"},
}


def nameless(*arguments: str) -> Script:
    """Calls without ids."""
    calls = [{"type": "function", "function": {"name": "add", "arguments": each}} for each in arguments]
    streamed = [chat_chunk({"tool_calls": [{"index": index, **call}]}) for index, call in enumerate(calls)]
    whole = chat_json(finish_reason="tool_calls", tool_calls=calls)
    return either(chat_sse([*streamed, chat_chunk({}, "tool_calls")]), whole)


def call(call_id: str) -> Json:
    return {"type": "function_call", "call_id": call_id, "name": "add", "arguments": "{}"}


def output(call_id: str, content: Any = "3") -> Json:
    return {"type": "function_call_output", "call_id": call_id, "output": content}


@asynccontextmanager
async def gateway(kind: str, tmp_path: Path, **model: Any) -> AsyncIterator[tuple[ScriptedUpstream, httpx.AsyncClient]]:
    async with ScriptedUpstream() as upstream:
        provider = {"base_url": upstream.url, "api_key": "k", "retries": 0, **UPSTREAMS[kind]}
        config = {
            "providers": {"up": provider},
            "models": {"m": {"provider": "up", **model}},
            "store": {"url": ready_sqlite(tmp_path / "kept.db")},
        }
        with serving(config) as served:
            async with httpx.AsyncClient(base_url=served.v1, timeout=60, verify=False, trust_env=False) as client:
                yield upstream, client


def calls_in(response: Json) -> list[tuple[str, str]]:
    return [(item["call_id"], item["arguments"]) for item in response["output"] if item["type"] == "function_call"]


@pytest.mark.parametrize("resends", [True, False], ids=["the client sends its items again", "the gateway remembers"])
async def test_calls_without_ids_get_distinct_ids_over_the_whole_conversation(resends: bool, tmp_path: Path) -> None:
    async with gateway("chat", tmp_path) as (upstream, client):
        upstream.script(nameless("{}", '{"a":1}'), nameless("{}"), chat_text("3"))
        response = (await client.post("/responses", json={"model": "m", "input": ASK, "tools": TOOLS})).json()
        assert calls_in(response) == [("tc_1", "{}"), ("tc_2", '{"a":1}')]
        history = [*ASK, *response["output"], output("tc_1"), output("tc_2")]
        said: Json = {"input": history}
        if not resends:
            said = {"previous_response_id": response["id"], "input": history[-2:]}
        response = (await client.post("/responses", json={"model": "m", "tools": TOOLS, **said})).json()
        assert calls_in(response) == [("tc_3", "{}")]
        messages = upstream.requests[-1].json["messages"]
        assert [made["id"] for made in messages[1]["tool_calls"]] == ["tc_1", "tc_2"]
        assert [message["tool_call_id"] for message in messages[2:]] == ["tc_1", "tc_2"]


async def test_calls_without_ids_get_distinct_ids_on_a_relay_too(tmp_path: Path) -> None:
    async with gateway("chat", tmp_path) as (upstream, client):
        upstream.script(nameless("{}"))
        body: Json = {"model": "m", "messages": [{"role": "user", "content": "Add."}], "tools": CHAT_TOOLS}
        message = (await client.post("/chat/completions", json=body)).json()["choices"][0]["message"]
        assert message["tool_calls"][0]["id"] == "tc_1"
        answer = {"role": "tool", "tool_call_id": "tc_1", "content": "3"}
        again = {**body, "messages": [*body["messages"], message, answer]}
        message = (await client.post("/chat/completions", json=again)).json()["choices"][0]["message"]
        assert message["tool_calls"][0]["id"] == "tc_2"


@pytest.mark.parametrize("items", [[*ASK, call("lost"), *ASK], [*ASK, output("lost")]], ids=["a call", "an output"])
@pytest.mark.parametrize("kind", UPSTREAMS)
async def test_a_call_or_output_without_its_counterpart_is_refused_by_id(
    kind: str, items: list[Json], tmp_path: Path
) -> None:
    async with gateway(kind, tmp_path) as (upstream, client):
        reply = await client.post("/responses", json={"model": "m", "input": items, "tools": TOOLS})
        assert reply.status_code == 400
        error = reply.json()["error"]
        assert "'lost'" in error["message"]
        assert error["param"] == "input[1].call_id"
        assert upstream.requests == []


async def test_a_call_or_output_without_its_counterpart_is_refused_on_a_chat_relay(tmp_path: Path) -> None:
    made = {"id": "lost", "type": "function", "function": {"name": "add", "arguments": "{}"}}
    user = {"role": "user", "content": "Add."}
    messages = [user, {"role": "assistant", "content": None, "tool_calls": [made]}, user]
    async with gateway("chat", tmp_path) as (upstream, client):
        reply = await client.post("/chat/completions", json={"model": "m", "messages": messages})
        assert reply.status_code == 400
        assert "'lost'" in reply.json()["error"]["message"]
        assert upstream.requests == []


async def test_calls_over_the_limit_are_left_out_and_reported(tmp_path: Path) -> None:
    async with gateway("chat", tmp_path, max_tool_calls_per_turn=1) as (upstream, client):
        upstream.script(nameless("{}", "{}", "{}"))
        response = (await client.post("/responses", json={"model": "m", "input": ASK, "tools": TOOLS})).json()
        assert calls_in(response) == [("tc_1", "{}")]
        why = "the call exceeds the limit of calls per turn (1)"
        assert response["tool_warnings"] == [{"name": "add", "why": why}] * 2
        stored = (await client.get(f"/responses/{response['id']}")).json()
        assert stored["tool_warnings"] == response["tool_warnings"]


@pytest.mark.parametrize("stream", [False, True])
async def test_arguments_are_unfenced_or_preserved_and_reported(stream: bool, tmp_path: Path) -> None:
    async with gateway("chat", tmp_path) as (upstream, client):
        upstream.script(nameless('```json\n{"a":1}\n```', '{"a":'))
        body = {"model": "m", "input": ASK, "tools": TOOLS, "stream": stream}
        reply = await client.post("/responses", json=body)
        response = reply.json() if not stream else _last(reply.text)
        assert calls_in(response) == [("tc_1", '{"a":1}'), ("tc_2", '{"a":')]
        assert response["tool_warnings"] == [{"name": "add", "why": "the arguments are not valid JSON"}]


def _last(stream: str) -> Json:
    *_, last, _done = [line.removeprefix("data: ") for line in stream.splitlines() if line.startswith("data: ")]
    response: Json = httpx.Response(200, text=last).json()["response"]
    return response


@pytest.mark.parametrize("kind", ["chat", "responses"])
async def test_long_outputs_are_cut_and_that_is_a_loss(kind: str, tmp_path: Path) -> None:
    async with gateway(kind, tmp_path, max_tool_output_bytes=20) as (upstream, client):
        upstream.script(_either_text)
        body = {"model": "m", "input": [*ASK, call("a"), output("a", "x" * 99)], "tools": TOOLS}
        reply = await client.post("/responses", json=body)
        assert reply.headers["x-gateway-loss"] == "input[2].output=truncated"
        sent = upstream.requests[-1].json
        last = sent["messages"][-1]["content"] if kind == "chat" else sent["input"][-1]["output"]
        assert last == "x" * 9 + "[truncated]"
        stored = await client.get(f"/responses/{reply.json()['id']}")
        assert stored.headers["x-gateway-loss"] == "input[2].output=truncated"
        refused = await client.post("/responses", json=body, headers={"x-gateway-strict": "true"})
        assert (refused.status_code, refused.json()["error"]["param"]) == (400, "input[2].output")


async def _either_text(exchange: Exchange) -> None:
    script = responses_text("3") if exchange.request.path.endswith("/responses") else chat_text("3")
    await script(exchange)


async def test_an_empty_answer_gets_a_message_if_configured(tmp_path: Path) -> None:
    async with gateway("chat", tmp_path, fix_empty_final=True) as (upstream, client):
        upstream.script(
            either(chat_sse([chat_chunk({"reasoning": "It is 3."}), chat_chunk({}, "stop")]), chat_json(""))
        )
        response = _last((await client.post("/responses", json={"model": "m", "input": "Add.", "stream": True})).text)
        assert [item["type"] for item in response["output"]] == ["reasoning", "message"]
        assert response["output"][1]["content"][0]["text"] == "It is 3."


async def test_a_model_family_gets_the_form_it_requires(tmp_path: Path) -> None:
    async with gateway("chat", tmp_path, profile="deepseek") as (upstream, client):
        upstream.script(chat_text("3"))
        await client.post("/responses", json={"model": "m", "input": [*ASK, call("a"), output("a")], "tools": TOOLS})
        assert upstream.requests[-1].json["messages"][1]["reasoning_content"] == ""
