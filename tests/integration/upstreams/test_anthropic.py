"""The official SDK against models of Anthropic: requests and replies are translated to and from the Messages API."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from openai import APIStatusError, AsyncOpenAI

from tests.integration.official_client import official_client, respond
from tests.upstream import Script, ScriptedUpstream, json_reply
from tests.upstream.anthropic import (
    anthropic_calls,
    anthropic_error,
    anthropic_sse,
    anthropic_text,
    block,
    closing,
    given,
    message,
    opening,
    text_block,
    text_deltas,
    thinking_block,
)
from tests.upstream.builders import either

MODEL = "claude-opus-4-6"
KEY = "sk-ant-secret-1"
FORMS = pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
THINKING = [
    thinking_block("The sum is wanted.", "signature-1"),
    {"type": "redacted_thinking", "data": "sealed"},
    thinking_block("", "signature-2"),
]
CALLS = [("toolu_1", "add", {"a": 1, "b": 2}), ("toolu_2", "look", {})]
USES = [{"type": "tool_use", "id": call_id, "name": name, "input": given} for call_id, name, given in CALLS]
CITED = {"type": "web_search_result_location", "url": "https://a.org", "title": "A", "cited_text": "b"}
ASKED = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}}
TOLD = {
    "type": "web_search_tool_result",
    "tool_use_id": "srvtoolu_1",
    "content": [{"type": "web_search_result", "url": "https://a.org", "encrypted_content": "sealed"}],
}
SEARCHED = [
    *block(0, ASKED, *given('{"query": ', '"who"}')),
    *block(1, TOLD),
    *block(2, text_block(), *text_deltas("Shannon."), {"type": "citations_delta", "citation": CITED}),
]
FOUND: list[dict[str, Any]] = [
    {**ASKED, "input": {"query": "who"}},
    TOLD,
    {**text_block("Shannon."), "citations": [CITED]},
]
PNG = "data:image/png;base64,AAAA"
IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}}
FUNCTIONS: list[dict[str, Any]] = [
    {"name": name, "parameters": {"type": "object", "properties": {}}} for name in ("add", "look")
]
TOOLS: list[Any] = [{"type": "function", "strict": False, **function} for function in FUNCTIONS]
CHAT_TOOLS: list[Any] = [{"type": "function", "function": function} for function in FUNCTIONS]


def text(words: str) -> dict[str, str]:
    return {"type": "text", "text": words}


def result(call_id: str, *blocks: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": call_id, "content": list(blocks)}


@asynccontextmanager
async def asking(folder: Path, *scripts: Script, **more: Any) -> AsyncIterator[tuple[AsyncOpenAI, ScriptedUpstream]]:
    """A client, and the upstream that answers with these scripts. `more` are keys of the provider."""
    async with ScriptedUpstream() as upstream:
        upstream.on("/messages", *scripts)
        provider = {"type": "anthropic", "base_url": upstream.url, "api_key": KEY, **more}
        async with official_client(folder, provider) as client:
            yield client, upstream


async def complete(client: AsyncOpenAI, *, stream: bool, **params: Any) -> dict[str, Any]:
    """The message of a completion, as the next request has it."""
    if not stream:
        whole = await client.chat.completions.create(model=MODEL, **params)
        return whole.choices[0].message.model_dump(exclude_none=True)
    message: dict[str, Any] = {"role": "assistant", "content": "", "tool_calls": [], "reasoning_details": []}
    async for chunk in await client.chat.completions.create(model=MODEL, stream=True, **params):
        for choice in chunk.choices:
            delta = choice.delta.model_dump(exclude_none=True)
            message["content"] += delta.get("content") or ""
            message["reasoning_details"] += delta.get("reasoning_details") or []
            for call in delta.get("tool_calls") or ():
                if call["index"] == len(message["tool_calls"]):
                    message["tool_calls"].append({"id": call["id"], "type": "function", "function": {"arguments": ""}})
                made = message["tool_calls"][call["index"]]["function"]
                made["name"] = call["function"].get("name") or made["name"]
                made["arguments"] += call["function"].get("arguments") or ""
    return {key: value for key, value in message.items() if value}


@FORMS
async def test_arguments_for_a_choice_of_objects_arrive_unchanged(stream: bool, tmp_path: Path) -> None:
    by_name, by_id = (
        {"type": "object", "properties": {key: {"type": "string"}}, "required": [key]} for key in ("name", "id")
    )
    tool: Any = {"type": "function", "name": "find", "strict": False, "parameters": {"oneOf": [by_name, by_id]}}
    async with asking(tmp_path, anthropic_calls(("toolu_1", "find", {"id": "7"}))) as (client, upstream):
        response = await respond(client, MODEL, stream=stream, input="Find 7.", tools=[tool])
        [sent] = upstream.requests[0].json["tools"]
    assert response.output[0].type == "function_call"
    assert json.loads(response.output[0].arguments) == {"id": "7"}
    assert sent["input_schema"]["properties"] == {"name": {"type": "string"}, "id": {"type": "string"}}
    assert (sent["input_schema"]["type"], "oneOf" in sent["input_schema"]) == ("object", False)


@FORMS
@pytest.mark.parametrize("stored", [True, False], ids=["kept here", "sent again"])
async def test_a_tool_loop_sends_thinking_back_unchanged(stored: bool, stream: bool, tmp_path: Path) -> None:
    async with asking(tmp_path, anthropic_calls(*CALLS, thinking=THINKING), anthropic_text("It is 3.")) as (
        client,
        upstream,
    ):
        question: list[Any] = [{"role": "user", "content": "Add."}]
        body: dict[str, Any] = {"tools": TOOLS, "reasoning": {"effort": "high", "summary": "auto"}, "store": stored}
        first = await respond(client, MODEL, stream=stream, input=question, instructions="Be brief.", **body)
        assert [item.type for item in first.output] == ["reasoning"] * 3 + ["function_call"] * 2
        assert first.output[0].summary[0].text == "The sum is wanted."
        outputs: list[Any] = [
            {"type": "function_call_output", "call_id": "toolu_1", "output": "3"},
            {
                "type": "function_call_output",
                "call_id": "toolu_2",
                "output": [{"type": "input_text", "text": "see"}, {"type": "input_image", "image_url": PNG}],
            },
        ]
        if stored:
            body |= {"input": outputs, "previous_response_id": first.id}
        else:
            body["input"] = [*question, *(item.model_dump(exclude_none=True) for item in first.output), *outputs]
        second = await respond(client, MODEL, stream=stream, **body)
        assert second.output_text == "It is 3."
        assert (second.usage.input_tokens, second.usage.output_tokens) == (9, 3)
        opening, going_on = (request.json for request in upstream.requests)
    assert opening["thinking"] == {"type": "adaptive", "display": "summarized"}
    assert opening["output_config"] == {"effort": "high"}
    assert opening["system"] == "Be brief."
    assert [tool["name"] for tool in opening["tools"]] == ["add", "look"]
    assert opening.get("stream", False) is stream
    assert going_on["messages"] == [
        {"role": "user", "content": [text("Add.")]},
        {"role": "assistant", "content": [*THINKING, *USES]},
        {"role": "user", "content": [result("toolu_1", text("3")), result("toolu_2", text("see"), IMAGE)]},
    ]


@FORMS
async def test_a_tool_loop_in_chat_sends_thinking_back_unchanged(stream: bool, tmp_path: Path) -> None:
    async with asking(tmp_path, anthropic_calls(*CALLS, thinking=THINKING), anthropic_text("It is 3.")) as (
        client,
        upstream,
    ):
        messages: list[Any] = [{"role": "user", "content": "Add."}]
        body: dict[str, Any] = {"tools": CHAT_TOOLS, "reasoning_effort": "low"}
        message = await complete(client, stream=stream, messages=messages, **body)
        assert [call["function"]["name"] for call in message["tool_calls"]] == ["add", "look"]
        messages += [message, *({"role": "tool", "tool_call_id": call[0], "content": "3"} for call in CALLS)]
        assert (await complete(client, stream=stream, messages=messages, **body))["content"] == "It is 3."
        going_on = upstream.requests[-1].json
    assert going_on["messages"][1:] == [
        {"role": "assistant", "content": [*THINKING, *USES]},
        {"role": "user", "content": [result("toolu_1", text("3")), result("toolu_2", text("3"))]},
    ]


@FORMS
async def test_search_results_are_cited_and_preserved(stream: bool, tmp_path: Path) -> None:
    searched = either(anthropic_sse([opening(), *SEARCHED, *closing()]), json_reply(message(*FOUND)))
    async with asking(tmp_path, searched, anthropic_text("Yes.")) as (client, upstream):
        tools: Any = [{"type": "web_search"}]
        first = await respond(client, MODEL, stream=stream, input="Who?", tools=tools)
        assert [item.type for item in first.output] == ["web_search_call", "message"]
        assert first.output[0].action.query == "who"
        [annotation] = first.output[1].content[0].annotations
        assert (annotation.url, annotation.start_index, annotation.end_index) == ("https://a.org", 0, 8)
        await respond(client, MODEL, stream=stream, input="Sure?", tools=tools, previous_response_id=first.id)
        opened, going_on = (request.json for request in upstream.requests)
    assert opened["tools"] == [{"type": "web_search_20250305", "name": "web_search"}]
    assert going_on["messages"][1] == {"role": "assistant", "content": [*FOUND[:2], text("Shannon.")]}


@FORMS
async def test_a_file_is_cited_with_its_name(stream: bool, tmp_path: Path) -> None:
    place = {
        "type": "page_location",
        "document_index": 0,
        "document_title": "a.txt",
        "cited_text": "a",
        "file_id": None,
    }
    passage = {"type": "citations_delta", "citation": {**place, "start_page_number": 1, "end_page_number": 2}}
    streamed = [opening(), *block(0, text_block(), *text_deltas("So "), *text_deltas("it is."), passage), *closing()]
    whole = message({**text_block("So it is."), "citations": [passage["citation"]]})
    file = {"type": "input_file", "filename": "a.txt", "file_data": "data:text/plain;base64,YQ=="}
    async with asking(tmp_path, either(anthropic_sse(streamed), json_reply(whole))) as (client, upstream):
        response = await respond(client, MODEL, stream=stream, input=[{"role": "user", "content": [file]}])
        [cited] = response.output[0].content[0].annotations
        [document] = upstream.requests[0].json["messages"][0]["content"]
    assert (cited.type, cited.filename, cited.index) == ("file_citation", "a.txt", len("So it is."))
    assert document["citations"] == {"enabled": True}


async def test_files_are_not_cited_in_chat(tmp_path: Path) -> None:
    file: Any = {"type": "file", "file": {"filename": "a.txt", "file_data": "data:text/plain;base64,YQ=="}}
    async with asking(tmp_path, anthropic_text("So it is.")) as (client, upstream):
        await client.chat.completions.create(model=MODEL, messages=[{"role": "user", "content": [file]}])
        [document] = upstream.requests[0].json["messages"][0]["content"]
    assert (document["type"], document.get("citations")) == ("document", None)


@FORMS
async def test_search_results_are_cited_in_chat(stream: bool, tmp_path: Path) -> None:
    searched = either(anthropic_sse([opening(), *SEARCHED, *closing()]), json_reply(message(*FOUND)))
    async with asking(tmp_path, searched) as (client, _):
        body: dict[str, Any] = {"messages": [{"role": "user", "content": "Who?"}], "web_search_options": {}}
        if stream:
            chunks = [chunk async for chunk in await client.chat.completions.create(model=MODEL, stream=True, **body)]
            deltas = [choice.delta.model_dump() for chunk in chunks for choice in chunk.choices]
            cited = [each for delta in deltas for each in delta.get("annotations") or ()]
        else:
            whole = await client.chat.completions.create(model=MODEL, **body)
            cited = [each.model_dump() for each in whole.choices[0].message.annotations or ()]
    assert [each["url_citation"]["url"] for each in cited] == ["https://a.org"]


async def test_images_are_sent_over_both_apis(tmp_path: Path) -> None:
    async with asking(tmp_path, anthropic_text("A cat.")) as (client, upstream):
        seen: list[Any] = [{"type": "input_text", "text": "What?"}, {"type": "input_image", "image_url": PNG}]
        await client.responses.create(model=MODEL, input=[{"role": "user", "content": seen}])
        shown: list[Any] = [{"type": "text", "text": "What?"}, {"type": "image_url", "image_url": {"url": PNG}}]
        await client.chat.completions.create(model=MODEL, messages=[{"role": "user", "content": shown}])
        sent = [request.json["messages"] for request in upstream.requests]
    assert sent == [[{"role": "user", "content": [text("What?"), IMAGE]}]] * 2


async def test_the_key_and_the_version_are_sent_in_their_headers(tmp_path: Path) -> None:
    async with asking(tmp_path, anthropic_text("Hi")) as (client, upstream):
        await client.responses.create(model=MODEL, input="Hi")
        headers = upstream.requests[0].headers
    assert (headers["x-api-key"], headers["anthropic-version"]) == (KEY, "2023-06-01")
    assert "authorization" not in headers


@pytest.mark.parametrize("configured", [None, "mine-2026-01-01"], ids=["alone", "beside the operator's"])
async def test_thinking_of_a_changed_conversation_may_be_dropped(configured: str | None, tmp_path: Path) -> None:
    model, beta = "claude-opus-5-5", "thinking-binding-controls-2026-08-01"
    provider = {"headers": {"anthropic-beta": configured}} if configured else {}
    scripts = (anthropic_calls(("toolu_1", "add", {}), thinking=THINKING[:1]), anthropic_text("It is 3."))
    async with asking(tmp_path, *scripts, **provider) as (client, upstream):
        upstream.on("/messages/count_tokens", json_reply({"input_tokens": 14}))
        first = await client.responses.create(model=model, input="Add.", instructions="It is noon.", tools=TOOLS)
        later: dict[str, Any] = {"previous_response_id": first.id, "instructions": "It is one.", "tools": TOOLS}
        later["input"] = [{"type": "function_call_output", "call_id": "toolu_1", "output": "3"}]
        second = await client.responses.create(model=model, **later)
        await client.responses.input_tokens.count(model=model, **later)
        opening, going_on, counting = upstream.requests
    assert second.output_text == "It is 3."
    assert opening.headers.get("anthropic-beta") == configured
    assert opening.json["thinking"] == {"type": "adaptive", "display": "summarized"}
    assert going_on.headers["anthropic-beta"] == (f"{configured},{beta}" if configured else beta)
    assert going_on.json["thinking"]["block_binding"] == {"prefix_mismatch_behavior": "drop_block"}
    assert "anthropic_beta" not in going_on.json
    assert counting.headers["anthropic-beta"] == going_on.headers["anthropic-beta"]
    assert counting.json["thinking"] == going_on.json["thinking"]
    assert "anthropic_beta" not in counting.json


DROPPED: list[dict[str, Any]] = [
    {"type": "thinking_dropped", "path": "messages.1.content.0", "reason": "prefix_binding_mismatch"}
]


@FORMS
async def test_thinking_that_the_api_dropped_is_a_loss(stream: bool, tmp_path: Path) -> None:
    start = opening()
    start["message"]["input_transformations"] = DROPPED
    whole = {**message(text_block("It is 3.")), "input_transformations": DROPPED}
    parts = [start, *block(0, text_block(), *text_deltas("It is 3.")), *closing()]
    async with asking(tmp_path, either(anthropic_sse(parts), json_reply(whole))) as (client, _):
        body: dict[str, Any] = {"model": "claude-opus-5-5", "messages": [{"role": "user", "content": "Add."}]}
        if stream:
            chunks = [chunk async for chunk in await client.chat.completions.create(stream=True, **body)]
            listed = [(chunk.choices[0].model_extra or {}).get("losses") for chunk in chunks if chunk.choices]
            assert any("input.reasoning" in str(losses) for losses in listed)
        else:
            reply = await client.chat.completions.with_raw_response.create(**body)
            assert "input.reasoning" in reply.headers["x-gateway-loss"]


async def test_a_strict_request_lets_the_api_refuse_a_changed_conversation(tmp_path: Path) -> None:
    scripts = (anthropic_calls(("toolu_1", "add", {}), thinking=THINKING[:1]), anthropic_text("It is 3."))
    async with asking(tmp_path, *scripts) as (client, upstream):
        strict = {"x-gateway-strict": "true"}
        asked: dict[str, Any] = {"model": "claude-opus-5-5", "tools": TOOLS, "extra_headers": strict}
        first = await client.responses.create(input="Add.", **asked)
        result: list[Any] = [{"type": "function_call_output", "call_id": "toolu_1", "output": "3"}]
        await client.responses.create(previous_response_id=first.id, input=result, **asked)
        _, going_on = upstream.requests
    assert "block_binding" not in going_on.json["thinking"]
    assert "anthropic-beta" not in going_on.headers
    assert any(each["type"] == "thinking" for each in going_on.json["messages"][1]["content"])


ERRORS = {
    "overloaded": (529, "overloaded_error", "Overloaded", 503, "upstream_overloaded"),
    "too fast": (429, "rate_limit_error", "slow down", 429, "rate_limit_exceeded"),
    "too long": (400, "invalid_request_error", "prompt is too long: 9 tokens > 8", 400, "context_length_exceeded"),
    "a mistake": (400, "invalid_request_error", "max_tokens: too many", 400, "upstream_rejected"),
    "an unknown model": (404, "not_found_error", f"model: {MODEL}", 404, "model_not_found"),
    "our key": (401, "authentication_error", "invalid x-api-key", 502, "upstream_unauthorized"),
    "no money": (402, "billing_error", "pay first", 429, "insufficient_quota"),
    "a failure": (500, "api_error", "Internal server error", 502, "upstream_error"),
    "too slow": (504, "timeout_error", "Timed out", 504, "upstream_timeout"),
}  # fmt: skip


@pytest.mark.parametrize(("status", "kind", "words", "ours", "code"), ERRORS.values(), ids=ERRORS)
async def test_errors_have_codes_by_meaning(
    status: int, kind: str, words: str, ours: int, code: str, tmp_path: Path
) -> None:
    async with asking(tmp_path, anthropic_error(status, kind, words)) as (client, _):
        with pytest.raises(APIStatusError) as refused:
            await client.responses.create(model=MODEL, input="Hi")
    assert (refused.value.status_code, refused.value.code) == (ours, code)


async def test_an_error_where_the_answer_should_begin_has_its_status(tmp_path: Path) -> None:
    error = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    async with asking(tmp_path, anthropic_sse([opening(), error])) as (client, _):
        with pytest.raises(APIStatusError) as refused:
            await client.responses.create(model=MODEL, input="Hi", stream=True)
    assert (refused.value.status_code, refused.value.code) == (503, "upstream_overloaded")


async def test_models_are_listed_and_inputs_counted(tmp_path: Path) -> None:
    async with asking(tmp_path) as (client, upstream):
        upstream.on("/models", json_reply({"data": [{"type": "model", "id": MODEL}], "has_more": False}))
        upstream.on("/messages/count_tokens", json_reply({"input_tokens": 14}))
        assert [model.id async for model in client.models.list()] == [MODEL]
        counted = await client.responses.input_tokens.count(model=MODEL, input="Hi", instructions="Be brief.")
        assert counted.input_tokens == 14
        listing, counting = upstream.requests
    assert listing.path.endswith("/models?limit=1000")
    assert counting.json == {
        "model": MODEL,
        "system": "Be brief.",
        "messages": [{"role": "user", "content": [text("Hi")]}],
    }
