"""Clients of Gemini's API over a chat upstream: what it is sent, what they get, and what failures look like."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import orjson
import pytest
from structlog.testing import capture_logs

from tests.integration.over_chat import gateway_over_chat
from tests.mcp_server import mcp_server
from tests.unit.support.stream_checks.gemini_order import check_content_reply, check_content_stream, read_chunks
from tests.upstream import Script, ScriptedUpstream, error_reply
from tests.upstream.builders import (
    SSE,
    chat_calls,
    chat_chunk,
    chat_sse,
    chat_text,
    data_frame,
    json_reply,
    text_chunks,
)
from tests.upstream.script import Pause, Reply

Json = dict[str, Any]
KEY = "key-of-ada-0123456"
HELLO: list[Json] = [{"role": "user", "parts": [{"text": "Hello"}]}]
ADD: Json = {"name": "add", "parameters": {"type": "OBJECT", "properties": {"a": {"type": "INTEGER"}}}}
TOOLS: list[Json] = [{"functionDeclarations": [ADD]}]
STREAM = "streamGenerateContent?alt=sse"


@asynccontextmanager
async def gateway(*scripts: Script, **config: Any) -> AsyncIterator[tuple[httpx.AsyncClient, ScriptedUpstream]]:
    config = {"models": {"org/m:8b": {"provider": "p", "model": "m"}}, **config}
    async with (
        gateway_over_chat(*scripts, **config) as (served, upstream),
        httpx.AsyncClient(base_url=f"{served.url}/v1beta", trust_env=False, timeout=60) as client,
    ):
        yield client, upstream


async def post(client: httpx.AsyncClient, body: Json, method: str = "generateContent", **more: Any) -> httpx.Response:
    return await client.post(f"/models/org/m:8b:{method}", json={"contents": HELLO, **body}, **more)


async def test_a_reply_is_the_same_whole_and_in_both_streams() -> None:
    async with gateway(chat_text("Hel", "lo")) as (client, _):
        whole = await post(client, {})
        events = await post(client, {}, STREAM)
        array = await post(client, {}, "streamGenerateContent")
    assert events.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert (array.headers["content-type"], whole.headers["content-type"]) == ("application/json", "application/json")
    reply = check_content_reply(whole.json())
    for stream, form in ((events, "events"), (array, "array")):
        added_up = check_content_stream(stream.content, form=form)
        assert added_up["candidates"] == reply["candidates"]
        assert added_up["usageMetadata"] == reply["usageMetadata"]
    assert reply["candidates"][0]["content"]["parts"] == [{"text": "Hello"}]
    assert reply["usageMetadata"] == {"promptTokenCount": 9, "candidatesTokenCount": 3, "totalTokenCount": 12}
    assert reply["modelVersion"] == "org/m:8b"


async def test_a_tool_loop_is_chat_for_its_upstream() -> None:
    async with gateway(chat_calls(("add", '{"a":1}')), chat_text("2")) as (client, upstream):
        body = {
            "tools": TOOLS,
            "toolConfig": {"functionCallingConfig": {"mode": "ANY"}},
            "systemInstruction": {"parts": [{"text": "Add."}]},
            "generationConfig": {"maxOutputTokens": 50},
        }
        first = check_content_stream((await post(client, body, STREAM)).content)
        (part,) = first["candidates"][0]["content"]["parts"]
        response = {"functionResponse": {"name": "add", "response": {"output": "2"}}}
        contents = [*HELLO, {"role": "model", "parts": [part]}, {"role": "user", "parts": [response]}]
        second = await post(client, {"tools": TOOLS, "contents": contents})
    assert (part["functionCall"]["name"], part["functionCall"]["args"]) == ("add", {"a": 1})
    assert first["candidates"][0]["finishReason"] == "STOP"
    assert second.json()["candidates"][0]["content"]["parts"] == [{"text": "2"}]
    asked_chat, answered = (request.json for request in upstream.requests)
    assert asked_chat["messages"] == [{"role": "system", "content": "Add."}, {"role": "user", "content": "Hello"}]
    assert (asked_chat["max_tokens"], asked_chat["tool_choice"]) == (50, "required")
    assert asked_chat["tools"][0]["function"]["parameters"] == {
        "type": "object",
        "properties": {"a": {"type": "integer"}},
    }
    call_id = part["functionCall"]["id"]
    assert answered["messages"][1]["tool_calls"][0]["function"] == {"name": "add", "arguments": '{"a":1}'}
    assert answered["messages"][2] == {"role": "tool", "tool_call_id": call_id, "content": "2"}


def thinking_chunks() -> list[Json]:
    return [chat_chunk({"role": "assistant", "reasoning_content": "Hm."}), *text_chunks("Hi")]


async def test_thinking_returns_to_the_model_that_thought_although_the_client_never_saw_it() -> None:
    async with gateway(chat_sse(thinking_chunks()), chat_text("Yes")) as (client, upstream):
        first = check_content_stream((await post(client, {}, STREAM)).content)
        content = first["candidates"][0]["content"]
        assert (await post(client, {"contents": [*HELLO, content, *HELLO]})).status_code == 200
    (answer,) = content["parts"]
    assert answer["text"] == "Hi"
    assert upstream.requests[1].json["messages"][1]["reasoning"] == "Hm."


async def test_thoughts_are_sent_to_clients_that_request_them() -> None:
    body = {"generationConfig": {"thinkingConfig": {"includeThoughts": True}}}
    async with gateway(chat_sse(thinking_chunks()), chat_text("Yes")) as (client, upstream):
        first = check_content_stream((await post(client, body, STREAM)).content)
        thought, answer = first["candidates"][0]["content"]["parts"]
        del answer["thoughtSignature"]  # as Gemini CLI does with texts, and other servers' signatures are of no use
        answer["thoughtSignature"] = "skip_thought_signature_validator"
        contents = [*HELLO, {"role": "model", "parts": [thought, answer]}, *HELLO]
        assert (await post(client, {"contents": contents})).status_code == 200
    assert thought == {"text": "Hm.", "thought": True}
    assert upstream.requests[1].json["messages"][1]["reasoning"] == "Hm."


VALUES: dict[str, tuple[str, Json, tuple[str, str], str]] = {
    "one of several": (
        "text/x.enum",
        {"type": "STRING", "enum": ["up", "down"]},
        ('{"val', 'ue": "down"}'),
        "down",
    ),
    "a list": (
        "application/json",
        {"type": "ARRAY", "items": {"type": "INTEGER"}},
        ('{"value": [1', ", 2]}"),
        "[1, 2]",
    ),
}


@pytest.mark.parametrize(("kind", "schema", "pieces", "value"), VALUES.values(), ids=VALUES)
async def test_a_reply_may_be_a_value_although_upstreams_reply_with_objects(
    kind: str, schema: Json, pieces: tuple[str, str], value: str
) -> None:
    body = {"generationConfig": {"responseMimeType": kind, "responseSchema": schema}}
    async with gateway(chat_text(*pieces)) as (client, upstream):
        whole = check_content_reply((await post(client, body)).json())
        streamed = check_content_stream((await post(client, body, STREAM)).content)
    for reply in (whole, streamed):
        assert reply["candidates"][0]["content"]["parts"] == [{"text": value}]
    sent = upstream.requests[0].json["response_format"]["json_schema"]
    assert (sent["strict"], [*sent["schema"]["properties"]]) == (True, ["value"])


async def test_losses_are_in_the_header_under_the_clients_names() -> None:
    body: Json = {
        "safetySettings": [{"category": "HARM_CATEGORY_HARASSMENT", "threshold": "BLOCK_NONE"}],
        "generation_config": {"thinking_config": {"thinking_budget": 2000}, "media_resolution": "LOW"},
        "labels": {"team": "a"},
    }
    async with gateway(chat_text("Hi")) as (client, _):
        lossy = await post(client, body)
        strict = await post(client, body, headers={"x-gateway-strict": "true"})
    losses = set(lossy.headers["x-gateway-loss"].split(", "))
    assert losses >= {
        "safetySettings=dropped",
        "generationConfig.thinkingConfig.thinkingBudget=dropped",
        "generationConfig.mediaResolution=dropped",
        "labels=dropped",
    }
    assert strict.status_code == 400


async def test_a_silence_is_filled_with_blank_lines() -> None:
    silence = asyncio.Event()
    first, *rest = text_chunks("Hi")
    reply = Reply(headers=SSE, body=(data_frame(first), Pause(silence), *map(data_frame, rest), b"data: [DONE]\n\n"))
    for method, form in ((STREAM, "events"), ("streamGenerateContent", "array")):
        silence.clear()
        async with gateway(reply, server={"keepalive_s": 0.05}) as (client, _):
            wire = b""
            async with client.stream("POST", f"/models/org/m:8b:{method}", json={"contents": HELLO}) as streamed:
                async for read in streamed.aiter_bytes():
                    wire += read
                    if wire.startswith(b"\n"):
                        silence.set()
        assert wire.startswith(b"\n")
        assert check_content_stream(wire, form=form)["candidates"][0]["content"]["parts"] == [{"text": "Hi"}]


FAILURES: dict[str, tuple[Script, int, str, str, list[str]]] = {
    "a prompt that is too long": (
        error_reply(
            400, "This model's maximum context length is 2048 tokens. However, your messages resulted in 3000."
        ),
        400,
        "INVALID_ARGUMENT",
        "CONTEXT_LENGTH_EXCEEDED",
        ["ErrorInfo", "BadRequest"],
    ),
    "too many requests": (
        error_reply(429, "slow down", headers={"retry-after": "7"}),
        429,
        "RESOURCE_EXHAUSTED",
        "RATE_LIMIT_EXCEEDED",
        ["ErrorInfo", "RetryInfo"],
    ),
    "an upstream that is overloaded": (
        error_reply(503, "busy"),
        503,
        "UNAVAILABLE",
        "UPSTREAM_OVERLOADED",
        ["ErrorInfo"],
    ),
    "an upstream that fails": (error_reply(500, "oops"), 502, "INTERNAL", "UPSTREAM_ERROR", ["ErrorInfo"]),
}


@pytest.mark.parametrize(("script", "status", "name", "reason", "details"), FAILURES.values(), ids=FAILURES)
@pytest.mark.parametrize("method", [STREAM, "generateContent"])
async def test_failures_have_the_form_of_the_api(
    script: Script, status: int, name: str, reason: str, details: list[str], method: str
) -> None:
    async with gateway(script) as (client, _):
        reply = await post(client, {}, method)
    error = reply.json()["error"]
    assert (reply.status_code, error["code"], error["status"]) == (status, status, name)
    assert [detail["@type"].rpartition(".")[2] for detail in error["details"]] == details
    assert error["details"][0]["reason"] == reason
    if "RetryInfo" in details:
        assert error["details"][1]["retryDelay"] == "7s"


@pytest.mark.parametrize("method", [STREAM, "streamGenerateContent"])
async def test_a_stream_that_breaks_off_ends_with_the_error(method: str) -> None:
    async with gateway(chat_sse([text_chunks("Hi")[0], chat_chunk({"content": "Hi"})], done=False)) as (client, _):
        reply = await post(client, {}, method)
    assert reply.status_code == 200
    last = (read_chunks(reply.content) if "sse" in method else orjson.loads(reply.content))[-1]
    assert (last["error"]["code"], last["error"]["status"]) == (502, "INTERNAL")


@pytest.mark.parametrize("carrier", ["x-goog-api-key", "authorization", "query"])
async def test_the_key_may_be_in_a_header_or_in_the_address_and_is_in_no_log(carrier: str) -> None:
    headers = {} if carrier == "query" else {carrier: f"Bearer {KEY}" if carrier == "authorization" else KEY}
    params = {"key": KEY} if carrier == "query" else {}
    with capture_logs() as logs:
        async with gateway(chat_text("Hi"), auth={"keys": [{"name": "ada", "key": KEY}]}) as (client, upstream):
            refused = await post(client, {})
            accepted = await post(client, {}, headers=headers, params=params)
            listed = await client.get("/models", headers=headers, params=params)
    assert (refused.status_code, refused.json()["error"]["status"]) == (401, "UNAUTHENTICATED")
    assert (accepted.status_code, listed.status_code) == (200, 200)
    assert KEY not in repr(logs)
    assert KEY not in repr(upstream.requests[0].headers)


async def test_models_have_the_shape_of_the_api() -> None:
    models: Json = {name: {"provider": "p"} for name in ("a", "b/c", "d")}
    models["d"]["capabilities"] = {"max_context_window": 2048, "reasoning": True}
    async with gateway(models=models) as (client, _):
        first = (await client.get("/models", params={"pageSize": 2})).json()
        rest = (await client.get("/models", params={"pageSize": 2, "pageToken": first["nextPageToken"]})).json()
        one = (await client.get("/models/b/c")).json()
        none = await client.get("/models/nothing")
    assert [model["name"] for model in first["models"] + rest["models"]] == ["models/a", "models/b/c", "models/d"]
    assert "nextPageToken" not in rest
    assert one == first["models"][1]
    assert (rest["models"][0]["inputTokenLimit"], rest["models"][0]["thinking"]) == (2048, True)
    assert "inputTokenLimit" not in one
    assert none.json()["error"]["status"] == "NOT_FOUND"


async def test_lists_of_models_under_v1_have_the_form_of_the_client() -> None:
    async with gateway() as (client, _):
        url = str(client.base_url).replace("/v1beta", "/v1")
        headers = {"x-goog-api-client": "google-genai-sdk"}
        plain = (await client.get(f"{url}models")).json()
        listed = (await client.get(f"{url}models", headers=headers)).json()
        one = (await client.get(f"{url}models/org/m:8b", headers=headers)).json()
        refused = (await client.get(f"{url}models/x", headers=headers)).json()
    assert plain["data"][0]["id"] == "org/m:8b"
    assert listed["models"] == [one]
    assert one["name"] == "models/org/m:8b"
    assert refused["error"]["status"] == "NOT_FOUND"


async def test_tokens_are_counted_by_the_upstream_only() -> None:
    async with gateway() as (client, upstream):
        upstream.on("/tokenize", Reply(body=b'{"count": 21}'))
        plain = await post(client, {}, "countTokens")
        whole = await client.post(
            "/models/org/m:8b:countTokens",
            json={"generateContentRequest": {"model": "models/org/m:8b", "contents": HELLO, "tools": TOOLS}},
        )
        both = await post(client, {"generateContentRequest": {"contents": HELLO}}, "countTokens")
    plain_model = {"org/m:8b": {"provider": "p", "capabilities": {"counting": "none"}}}
    async with gateway(models=plain_model) as (client, _):
        refused = await post(client, {}, "countTokens")
    assert (plain.json(), whole.json()) == ({"totalTokens": 21}, {"totalTokens": 21})
    assert both.status_code == 400
    assert (refused.status_code, refused.json()["error"]["status"]) == (404, "NOT_FOUND")


@pytest.mark.parametrize("version", ["v1", "v1beta"])
async def test_embeddings_are_those_of_the_upstream(version: str) -> None:
    data = [{"index": 1, "embedding": [2.0, 2.0]}, {"index": 0, "embedding": [1.0, 1.0]}]
    batch = json_reply({"data": data, "usage": {"prompt_tokens": 5}})
    one = json_reply({"data": data[1:]})
    body: Json = {"content": {"parts": [{"text": "a"}]}, "outputDimensionality": 2, "taskType": "CLUSTERING"}
    requests = [
        {**body, "model": "models/org/m:8b"},
        {"content": {"parts": [{"text": "b"}]}, "output_dimensionality": 2},
    ]
    async with gateway() as (client, upstream):
        upstream.on("/embeddings", batch, one, one, json_reply({"data": []}), error_reply(500, "broken"))
        path = str(client.base_url).replace("v1beta", version) + "models/org/m:8b"
        several = await client.post(f"{path}:batchEmbedContents", json={"requests": requests})
        single = await client.post(f"{path}:embedContent", json=body)
        broken = [
            await client.post(f"{path}:embedContent", json=body | more)
            for more in ({"outputDimensionality": 3}, {}, {})
        ]
        strict = await client.post(f"{path}:embedContent", json=body, headers={"x-gateway-strict": "true"})
        unknown = await client.post(path.replace("m:8b", "x") + ":embedContent", json={"content": "a"})
        listed = (await client.get(f"{path}", headers={"x-goog-api-client": "x"})).json()
    assert several.json() == {
        "embeddings": [{"values": [1.0, 1.0]}, {"values": [2.0, 2.0]}],
        "usageMetadata": {"promptTokenCount": 5},
    }
    assert single.json() == {"embedding": {"values": [1.0, 1.0]}}
    assert single.headers["x-gateway-loss"] == "taskType=dropped"
    sent = {"model": "m", "input": ["a", "b"], "encoding_format": "float", "dimensions": 2}
    assert upstream.requests[0].json == sent
    refusals = [reply.json()["error"] for reply in (*broken, strict, unknown)]
    assert [error["code"] for error in refusals] == [400, 502, 502, 400, 404]
    assert "2 numbers instead of 3" in refusals[0]["message"]
    assert refusals[0]["details"][1]["fieldViolations"][0]["field"] == "outputDimensionality"
    assert {"embedContent", "batchEmbedContents"} <= {*listed["supportedGenerationMethods"]}


async def test_a_model_without_embeddings_is_refused() -> None:
    models = {"m": {"provider": "p", "capabilities": {"endpoints": []}}}
    async with gateway(models=models) as (client, upstream):
        refused = await client.post("/models/m:embedContent", json={"content": "a"})
        (listed,) = (await client.get("/models")).json()["models"]
    assert (refused.status_code, refused.json()["error"]["status"]) == (400, "INVALID_ARGUMENT")
    assert "has no /v1/embeddings" in refused.json()["error"]["message"]
    assert listed["supportedGenerationMethods"] == ["generateContent", "streamGenerateContent", "countTokens"]
    assert upstream.requests == []


async def test_the_lengths_of_lists_are_bounded() -> None:
    async with gateway(server={"max_items": 2, "max_tools": 2}) as (client, _):
        long = await post(client, {"contents": HELLO * 3})
        many = await post(client, {"tools": [{"functionDeclarations": [ADD, ADD, ADD]}]})
    fields = [reply.json()["error"]["details"][1]["fieldViolations"][0]["field"] for reply in (long, many)]
    assert fields == ["contents", "tools"]


async def test_tools_of_the_operator_run_and_their_calls_stay_here() -> None:
    with mcp_server() as server:
        tools = {"mcp": {"servers": {"adder": {"url": server.url, "approval": "never", "prefix": ""}}}}
        models = {"org/m:8b": {"provider": "p", "model": "m", "tools": {"mcp": ["adder"]}}}
        scripts = (chat_calls(("add", '{"a":1,"b":2}')), chat_text("It is 3."))
        async with gateway(*scripts, tools=tools, models=models, egress={"allow": ["127.0.0.1"]}) as (client, upstream):
            reply = await post(client, {}, STREAM)
    assert check_content_stream(reply.content)["candidates"][0]["content"]["parts"] == [{"text": "It is 3."}]
    assert upstream.requests[1].json["messages"][-1]["role"] == "tool"
