"""The official SDK against models of Ollama: requests and replies are translated to and from Ollama's API."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from openai import APIStatusError, AsyncOpenAI
from pydantic import BaseModel

from tests.integration.official_client import official_client, respond
from tests.upstream import Script, ScriptedUpstream
from tests.upstream.builders import json_reply
from tests.upstream.ollama import call, last, ollama_calls, ollama_error, ollama_shown, ollama_tags, ollama_text

MODEL = "qwen3:8b"
FORMS = pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
CALLS = [call("add", a=1, b=2), call("look")]
THOUGHT = "The sum is wanted."
PNG = "data:image/png;base64,AAAA"
FUNCTIONS: list[dict[str, Any]] = [
    {"name": name, "parameters": {"type": "object", "properties": {}}} for name in ("add", "look")
]
TOOLS: list[Any] = [{"type": "function", "strict": False, **function} for function in FUNCTIONS]
CHAT_TOOLS: list[Any] = [{"type": "function", "function": function} for function in FUNCTIONS]


@asynccontextmanager
async def asking(folder: Path, *scripts: Script, **model: Any) -> AsyncIterator[tuple[AsyncOpenAI, ScriptedUpstream]]:
    """Yields a client, and the upstream with these scripts. `model`: the configuration of its models."""
    async with ScriptedUpstream() as upstream:
        upstream.on("/api/chat", *scripts)
        provider = {"type": "ollama", "base_url": upstream.url.removesuffix("/v1")}
        async with official_client(folder, provider, **model) as client:
            yield client, upstream


async def complete(client: AsyncOpenAI, *, stream: bool, **params: Any) -> dict[str, Any]:
    """The message of a completion, as the next request has it."""
    if not stream:
        whole = await client.chat.completions.create(model=MODEL, **params)
        return whole.choices[0].message.model_dump(exclude_none=True)
    message: dict[str, Any] = {"role": "assistant", "content": "", "reasoning_content": "", "tool_calls": []}
    async for chunk in await client.chat.completions.create(model=MODEL, stream=True, **params):
        for choice in chunk.choices:
            delta = choice.delta.model_dump(exclude_none=True)
            message["content"] += delta.get("content") or ""
            message["reasoning_content"] += delta.get("reasoning_content") or ""
            for each in delta.get("tool_calls") or ():
                if each["index"] == len(message["tool_calls"]):
                    message["tool_calls"].append({"id": each["id"], "type": "function", "function": {"arguments": ""}})
                made = message["tool_calls"][each["index"]]["function"]
                made["name"] = each["function"].get("name") or made["name"]
                made["arguments"] += each["function"].get("arguments") or ""
    return {key: value for key, value in message.items() if value}


@FORMS
@pytest.mark.parametrize("stored", [True, False], ids=["kept here", "sent again"])
async def test_a_tool_loop_sends_thinking_back(stored: bool, stream: bool, tmp_path: Path) -> None:
    async with asking(tmp_path, ollama_calls(*CALLS, thinking=THOUGHT), ollama_text("It is 3.")) as (client, upstream):
        question: list[Any] = [{"role": "user", "content": "Add."}]
        body: dict[str, Any] = {"tools": TOOLS, "store": stored}
        first = await respond(client, MODEL, stream=stream, input=question, instructions="Be brief.", **body)
        assert [item.type for item in first.output] == ["reasoning", "function_call", "function_call"]
        assert first.output[0].content[0].text == THOUGHT
        ids = [item.call_id for item in first.output[1:]]
        assert len(set(ids)) == 2
        outputs: list[Any] = [
            {"type": "function_call_output", "call_id": ids[1], "output": "a cat"},
            {"type": "function_call_output", "call_id": ids[0], "output": "3"},
        ]
        if stored:
            body |= {"input": outputs, "previous_response_id": first.id}
        else:
            body["input"] = [*question, *(item.model_dump(exclude_none=True) for item in first.output), *outputs]
        second = await respond(client, MODEL, stream=stream, **body)
        assert second.output_text == "It is 3."
        assert (second.usage.input_tokens, second.usage.output_tokens) == (9, 3)
        opening, going_on = (request.json for request in upstream.requests)
    assert opening["messages"] == [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Add."}]
    assert [tool["function"]["name"] for tool in opening["tools"]] == ["add", "look"]
    assert (opening["stream"], opening["truncate"], opening["shift"]) == (stream, False, False)
    assert going_on["messages"] == [
        {"role": "user", "content": "Add."},
        {
            "role": "assistant",
            "content": "",
            "thinking": THOUGHT,
            "tool_calls": [{"id": call_id, **each} for call_id, each in zip(ids, CALLS, strict=True)],
        },
        {"role": "tool", "content": "a cat", "tool_name": "look", "tool_call_id": ids[1]},
        {"role": "tool", "content": "3", "tool_name": "add", "tool_call_id": ids[0]},
    ]


@FORMS
async def test_a_tool_loop_in_chat_sends_thinking_back(stream: bool, tmp_path: Path) -> None:
    async with asking(tmp_path, ollama_calls(*CALLS, thinking=THOUGHT), ollama_text("It is 3.")) as (client, upstream):
        messages: list[Any] = [{"role": "user", "content": "Add."}]
        message = await complete(client, stream=stream, messages=messages, tools=CHAT_TOOLS)
        assert message["reasoning_content"] == THOUGHT
        calls = message["tool_calls"]
        assert [each["function"]["arguments"] for each in calls] == ['{"a":1,"b":2}', "{}"]
        messages += [message, *({"role": "tool", "tool_call_id": each["id"], "content": "3"} for each in calls)]
        assert (await complete(client, stream=stream, messages=messages, tools=CHAT_TOOLS))["content"] == "It is 3."
        going_on = upstream.requests[-1].json
    assert [message["role"] for message in going_on["messages"]] == ["user", "assistant", "tool", "tool"]
    assert going_on["messages"][1]["thinking"] == THOUGHT


@FORMS
async def test_an_answer_at_its_limit_is_incomplete(stream: bool, tmp_path: Path) -> None:
    async with asking(tmp_path, ollama_text("Once upon", done_reason="length")) as (client, upstream):
        body: dict[str, Any] = {"model": MODEL, "input": "A tale.", "max_output_tokens": 20}
        if stream:
            *_, ended = [event async for event in await client.responses.create(stream=True, **body)]
            response = ended.response
        else:
            response = await client.responses.create(**body)
        assert upstream.requests[0].json["options"] == {"num_predict": 20}
    assert (response.status, response.incomplete_details.reason) == ("incomplete", "max_output_tokens")


async def test_a_schema_holds_the_answer(tmp_path: Path) -> None:
    class Place(BaseModel):
        city: str

    async with asking(tmp_path, ollama_text('{"city":"Bern"}')) as (client, upstream):
        parsed = await client.responses.parse(model=MODEL, input="Where?", text_format=Place)
        assert parsed.output_parsed == Place(city="Bern")
        assert upstream.requests[0].json["format"]["properties"]["city"]["type"] == "string"


async def test_images_are_sent_over_both_apis(tmp_path: Path) -> None:
    async with asking(tmp_path, ollama_text("A cat.")) as (client, upstream):
        upstream.on("/api/show", ollama_shown("completion", "vision"))
        seen: list[Any] = [{"type": "input_text", "text": "What?"}, {"type": "input_image", "image_url": PNG}]
        await client.responses.create(model=MODEL, input=[{"role": "user", "content": seen}])
        shown: list[Any] = [{"type": "text", "text": "What?"}, {"type": "image_url", "image_url": {"url": PNG}}]
        await client.chat.completions.create(model=MODEL, messages=[{"role": "user", "content": shown}])
        sent = [request.json["messages"] for request in upstream.requests if request.path == "/api/chat"]
    assert sent == [[{"role": "user", "content": "What?", "images": ["AAAA"]}]] * 2


@FORMS
async def test_images_a_model_does_not_see_are_refused(stream: bool, tmp_path: Path) -> None:
    async with asking(tmp_path, ollama_text("Nice.")) as (client, upstream):
        upstream.on("/api/show", ollama_shown("completion"))
        seen: list[Any] = [{"type": "input_image", "image_url": PNG}]
        with pytest.raises(APIStatusError, match="does not read images") as refused:
            await client.responses.create(model=MODEL, input=[{"role": "user", "content": seen}], stream=stream)
        shown: list[Any] = [{"type": "image_url", "image_url": {"url": PNG}}]
        with pytest.raises(APIStatusError, match="does not read images") as refused_in_chat:
            await client.chat.completions.create(
                model=MODEL, messages=[{"role": "user", "content": shown}], stream=stream
            )
    for refusal, param in ((refused, "input[0].content[0].image_url"), (refused_in_chat, "messages[0]")):
        error = refusal.value
        assert (error.status_code, error.type, error.code) == (400, "invalid_request_error", "unsupported_parameter")
        assert error.param == param


@FORMS
async def test_images_in_the_output_of_a_tool_are_refused_by_their_place(stream: bool, tmp_path: Path) -> None:
    async with asking(tmp_path, ollama_text("Nice.")) as (client, upstream):
        upstream.on("/api/show", ollama_shown("completion"))
        called = {"type": "function_call", "call_id": "c", "name": "look", "arguments": "{}"}
        output = {"type": "function_call_output", "call_id": "c", "output": [{"type": "input_image", "image_url": PNG}]}
        history: list[Any] = [{"role": "user", "content": "Look."}, called, output]
        with pytest.raises(APIStatusError) as refused:
            await client.responses.create(model=MODEL, input=history, tools=TOOLS, stream=stream)
        assert [request.path for request in upstream.requests] == ["/api/show"]
    assert refused.value.param == "input[2].output[0].image_url"


async def test_losses_are_reported_and_the_context_is_set_by_the_operator(tmp_path: Path) -> None:
    defaults = {"num_ctx": 16_384, "keep_alive": "10m"}
    async with asking(tmp_path, ollama_text("Hi"), request_defaults=defaults) as (client, upstream):
        raw = await client.responses.with_raw_response.create(model=MODEL, input="Hi", reasoning={"effort": "low"})
        body = upstream.requests[0].json
    assert raw.headers["x-gateway-loss"] == "reasoning.effort=low as on"
    assert (body["think"], body["options"], body["keep_alive"]) == (True, {"num_ctx": 16_384}, "10m")


TOLD: list[Any] = [{"role": "user", "content": "I am Ada."}, {"role": "user", "content": "Who am I?"}]


@pytest.mark.parametrize("background", [False, True], ids=["at once", "in the background"])
@pytest.mark.parametrize(
    ("shown", "model"),
    [
        (ollama_shown("completion", num_ctx=8), {}),
        (ollama_shown("completion"), {"request_defaults": {"num_ctx": 8}}),
        (ollama_error(404, "not found"), {"request_defaults": {"num_ctx": 8}}),
        (ollama_error(500, "boom"), {"capabilities": {"max_context_window": 8}}),
    ],
    ids=["its own", "the operator's", "the operator's, of a model that is not shown", "written down"],
)
async def test_the_context_of_a_configured_model_sets_the_compaction_threshold(
    shown: Script, model: dict[str, Any], background: bool, tmp_path: Path
) -> None:
    async with asking(tmp_path, ollama_text("Hello"), **model) as (client, upstream):
        upstream.on("/api/show", shown)
        body: Any = {"context_management": [{"type": "compaction"}], "background": background}
        response = await client.responses.create(model=MODEL, input=TOLD, **body)
        async with asyncio.timeout(60):
            while response.status in ("queued", "in_progress"):
                response = await client.responses.retrieve(response.id)
        asked_for = [request.json.get("options", {}) for request in upstream.requests if request.path == "/api/chat"]
    assert [item.type for item in response.output] == ["compaction", "message"]
    # Asked for less, the server would load the model anew, and have no room for what is to be summed up.
    assert {options.get("num_ctx") for options in asked_for} == {model.get("request_defaults", {}).get("num_ctx")}


async def test_an_unknown_context_sets_no_compaction_threshold(tmp_path: Path) -> None:
    async with asking(tmp_path, ollama_text("Hello")) as (client, upstream):
        upstream.on("/api/show", ollama_shown("completion"))
        with pytest.raises(APIStatusError, match="is not known") as refused:
            await client.responses.create(model=MODEL, input=TOLD, context_management=[{"type": "compaction"}])
    assert (refused.value.status_code, refused.value.param) == (400, "context_management[0].compact_threshold")


async def test_a_threshold_in_the_request_makes_the_model_query_unnecessary(tmp_path: Path) -> None:
    async with asking(tmp_path, ollama_text("Hello")) as (client, upstream):
        managed: Any = [{"type": "compaction", "compact_threshold": 100_000}]
        await client.responses.create(model=MODEL, input=TOLD, context_management=managed)
        assert [request.path for request in upstream.requests] == ["/api/chat"]


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "a forced call": ({"tools": TOOLS, "tool_choice": "required"}, "tool_choice"),
    "a format beside tools": ({"tools": TOOLS, "text": {"format": {"type": "json_object"}}}, "text.format"),
    "an image by its address": (
        {
            "input": [
                {"role": "user", "content": [{"type": "input_image", "image_url": "https://example.com/a.png"}]},
            ]
        },
        "input[0].content[0].image_url",
    ),
}


@pytest.mark.parametrize(("params", "param"), REFUSED.values(), ids=REFUSED)
async def test_parameters_that_ollama_cannot_honour_are_refused_by_name(
    params: dict[str, Any], param: str, tmp_path: Path
) -> None:
    async with asking(tmp_path, ollama_text("Hi")) as (client, upstream):
        with pytest.raises(APIStatusError) as refused:
            await client.responses.create(**{"model": MODEL, "input": "Hi", **params})
        assert upstream.requests == []
    assert (refused.value.status_code, refused.value.param) == (400, param)


ERRORS = {
    "too long": (400, "the input length exceeds the context length", 400, "context_length_exceeded"),
    "no such model": (404, "model 'qwen3:8b' not found", 404, "model_not_found"),
    "no tools": (400, '"qwen3:8b" does not support tools', 400, "upstream_rejected"),
    "no room": (500, "model requires more system memory", 502, "upstream_error"),
    "busy": (503, "server busy, please try again.  maximum pending requests exceeded", 503, "upstream_overloaded"),
}


@FORMS
@pytest.mark.parametrize(("status", "words", "ours", "code"), ERRORS.values(), ids=ERRORS)
async def test_errors_have_codes_by_meaning(
    status: int, words: str, ours: int, code: str, stream: bool, tmp_path: Path
) -> None:
    async with asking(tmp_path, ollama_error(status, words)) as (client, _):
        with pytest.raises(APIStatusError) as refused:
            await client.responses.create(model=MODEL, input="Hi", stream=stream)
    assert (refused.value.status_code, refused.value.code) == (ours, code)


async def test_models_are_listed_and_inputs_counted(tmp_path: Path) -> None:
    async with asking(tmp_path, ollama_text("H", done_reason="length")) as (client, upstream):
        upstream.on("/api/tags", ollama_tags(MODEL, "llama3.2:latest"))
        assert [model.id async for model in client.models.list()] == [MODEL, "llama3.2:latest"]
        counted = await client.responses.input_tokens.count(model=MODEL, input="Hi", instructions="Be brief.")
        assert counted.input_tokens == 9
        listing, counting = upstream.requests
    assert listing.path == "/api/tags"
    assert counting.json["options"] == {"num_predict": 1}


@FORMS
async def test_a_client_with_legacy_functions_gets_one_call_and_a_warning_about_the_other(
    stream: bool, tmp_path: Path
) -> None:
    async with asking(tmp_path, ollama_calls(*CALLS)) as (client, _):
        body: dict[str, Any] = {"messages": [{"role": "user", "content": "Add."}], "functions": FUNCTIONS}
        reply = await client.chat.completions.with_raw_response.create(model=MODEL, stream=stream, **body)
        text = reply.http_response.text if not stream else (await reply.http_response.aread()).decode()
    assert "tool_calls" not in text.replace("tool_calls=", "")
    assert '"name":"add"' in text
    assert text.count('"name":"look"') == text.count("tool_warnings") == 1
    assert stream or reply.headers["x-gateway-loss"] == "tool_calls=look has a warning"


@pytest.mark.parametrize("given", [True, False], ids=["given", "left out"])
async def test_missing_log_probabilities_are_reported(given: bool, tmp_path: Path) -> None:
    tokens = {"logprobs": [{"token": "Hi", "logprob": -0.5}]} if given else {}
    whole = json_reply({**last("stop", "Hi"), **tokens})
    async with asking(tmp_path, whole, whole) as (client, _):
        body: Any = {"model": MODEL, "include": ["message.output_text.logprobs"]}
        reply = await client.responses.with_raw_response.create(input="Hi", **body)
        assert reply.headers.get("x-gateway-loss") == (None if given else "include=not reported")
        chat: list[Any] = [{"role": "user", "content": "Hi"}]
        completion = await client.chat.completions.with_raw_response.create(model=MODEL, messages=chat, logprobs=True)
        assert completion.headers.get("x-gateway-loss") == (None if given else "logprobs=not reported")
