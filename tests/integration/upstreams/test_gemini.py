"""The official SDK against models of Gemini: requests become contents, and signatures are sent back."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from openai import APIStatusError, AsyncOpenAI, BadRequestError
from pydantic import BaseModel

from tests.integration.official_client import official_client, respond
from tests.upstream import Script, ScriptedUpstream
from tests.upstream.builders import SSE, data_frame, either, json_reply
from tests.upstream.gemini import USAGE, call, chunk, error, last, text, thought
from tests.upstream.script import Reply

MODEL = "gemini-3-flash-preview"
FORMS = pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
PNG = "data:image/png;base64,AAAA"
PIXELS = {"inlineData": {"mimeType": "image/png", "data": "AAAA"}}
PARAMETERS = {"type": "object", "properties": {"a": {"type": "integer"}}}
TOOLS: list[Any] = [{"type": "function", "name": "add", "strict": False, "parameters": PARAMETERS}]
CHAT_TOOLS: list[Any] = [{"type": "function", "function": {"name": "add", "parameters": PARAMETERS}}]
CALLING = [thought("The sum is wanted."), text("Adding."), call("add", {"a": 1}, "sig-1"), call("add", {"a": 2})]


def answering(*parts: Any) -> Script:
    """Returns a script. In a stream each part is a chunk of its own."""
    *first, final = parts
    chunks = [*map(chunk, first), last(final)]
    return either(Reply(headers=SSE, body=list(map(data_frame, chunks))), json_reply(last(*parts)))


@asynccontextmanager
async def asking(folder: Path, *scripts: Script, **model: Any) -> AsyncIterator[tuple[AsyncOpenAI, ScriptedUpstream]]:
    """Yields a client, and the upstream with these scripts. `model`: the configuration of its models."""
    async with ScriptedUpstream() as upstream:
        upstream.script(*scripts)
        provider = {"type": "gemini", "base_url": upstream.url, "api_key": "upstream-secret"}
        async with official_client(folder, provider, **model) as client:
            yield client, upstream


async def complete(client: AsyncOpenAI, *, stream: bool, **params: Any) -> dict[str, Any]:
    """The message of a completion, as the next request has it."""
    if not stream:
        whole = await client.chat.completions.create(model=MODEL, **params)
        return whole.choices[0].message.model_dump(exclude_none=True)
    async with client.chat.completions.stream(model=MODEL, **params) as events:
        final = await events.get_final_completion()
    said = final.choices[0].message.model_dump(exclude_none=True)
    for made in said.get("tool_calls") or ():
        made.pop("index", None)
        made["function"].pop("parsed_arguments", None)
    return said


def added(call_id: str, a: int, signature: str | None = None) -> dict[str, Any]:
    said: dict[str, Any] = {"functionCall": {"id": call_id, "name": "add", "args": {"a": a}}}
    return said | ({"thoughtSignature": signature} if signature else {})


def returned(call_id: str, **response: str) -> dict[str, Any]:
    return {"functionResponse": {"id": call_id, "name": "add", "response": response}}


@FORMS
@pytest.mark.parametrize("stored", [True, False], ids=["kept here", "sent again"])
async def test_a_tool_loop_sends_signatures_back_in_their_places(stored: bool, stream: bool, tmp_path: Path) -> None:
    scripts = answering(*CALLING), answering(text("It is 3."), text("", "sig-2")), answering(text("Bye."))
    async with asking(tmp_path, *scripts) as (client, upstream):
        history: list[Any] = [{"role": "user", "content": "Add."}]
        body: dict[str, Any] = {"tools": TOOLS, "store": stored}
        response = await respond(client, MODEL, stream=stream, input=history, instructions="Be brief.", **body)
        kinds = [item.type for item in response.output]
        assert kinds == ["reasoning", "message", "reasoning", "function_call", "function_call"]
        assert response.output[0].summary[0].text == "The sum is wanted."
        one, two = (item.call_id for item in response.output[3:])
        outputs = [
            {"type": "function_call_output", "call_id": one, "output": "1"},
            {"type": "function_call_output", "call_id": two, "output": '{"error": "no more"}'},
        ]
        for following in (outputs, [{"role": "user", "content": "Thanks."}]):
            history += [*(item.model_dump(exclude_none=True) for item in response.output), *following]
            going_on = {"input": following, "previous_response_id": response.id} if stored else {"input": history}
            response = await respond(client, MODEL, stream=stream, **going_on, **body)
        assert response.output_text == "Bye."
        opening, _, final = upstream.requests
    verb = "streamGenerateContent?alt=sse" if stream else "generateContent"
    assert opening.path.endswith(f"/models/{MODEL}:{verb}")
    assert opening.headers["x-goog-api-key"] == "upstream-secret"
    assert opening.json["systemInstruction"] == {"parts": [{"text": "Be brief."}]}
    assert opening.json["tools"] == [{"functionDeclarations": [{"name": "add", "parametersJsonSchema": PARAMETERS}]}]
    assert final.json["contents"] == [
        {"role": "user", "parts": [{"text": "Add."}]},
        {
            "role": "model",
            "parts": [thought("The sum is wanted."), text("Adding."), added(one, 1, "sig-1"), added(two, 2)],
        },
        {"role": "user", "parts": [returned(one, output="1"), returned(two, error="no more")]},
        {"role": "model", "parts": [text("It is 3."), text("", "sig-2")]},
        {"role": "user", "parts": [text("Thanks.")]},
    ]


@FORMS
async def test_a_tool_loop_in_chat_sends_signatures_back(stream: bool, tmp_path: Path) -> None:
    async with asking(tmp_path, answering(*CALLING), answering(text("It is 3."))) as (client, upstream):
        messages: list[Any] = [{"role": "user", "content": "Add."}]
        message = await complete(client, stream=stream, messages=messages, tools=CHAT_TOOLS)
        assert message["content"] == "Adding."
        assert message["reasoning_content"] == "The sum is wanted."
        one, two = (each["id"] for each in message["tool_calls"])
        messages += [message, *({"role": "tool", "tool_call_id": each, "content": "1"} for each in (one, two))]
        assert (await complete(client, stream=stream, messages=messages, tools=CHAT_TOOLS))["content"] == "It is 3."
        going_on = upstream.requests[-1].json["contents"]
    assert going_on[1]["parts"] == [
        thought("The sum is wanted."),
        text("Adding."),
        added(one, 1, "sig-1"),
        added(two, 2),
    ]


@FORMS
async def test_an_answer_at_its_limit_is_incomplete(stream: bool, tmp_path: Path) -> None:
    cut = chunk(text("Once upon"), reason="MAX_TOKENS", usage={**USAGE, "thoughtsTokenCount": 17})
    script = either(Reply(headers=SSE, body=data_frame(cut)), json_reply(cut))
    async with asking(tmp_path, script) as (client, upstream):
        body: dict[str, Any] = {"model": MODEL, "input": "A tale.", "max_output_tokens": 20}
        if stream:
            *_, ended = [event async for event in await client.responses.create(stream=True, **body)]
            response = ended.response
        else:
            response = await client.responses.create(**body)
        config = upstream.requests[0].json["generationConfig"]
    assert config == {"maxOutputTokens": 20, "thinkingConfig": {"includeThoughts": True}}
    assert (response.status, response.incomplete_details.reason) == ("incomplete", "max_output_tokens")
    assert (response.usage.output_tokens, response.usage.output_tokens_details.reasoning_tokens) == (20, 17)


async def test_images_are_sent_in_messages_and_beside_outputs(tmp_path: Path) -> None:
    async with asking(tmp_path, answering(text("A cat."))) as (client, upstream):
        image: Any = {"type": "input_image", "image_url": PNG, "detail": "auto"}
        made: Any = {"type": "function_call", "call_id": "c1", "name": "add", "arguments": "{}"}
        output: Any = {"type": "function_call_output", "call_id": "c1", "output": [image]}
        await client.responses.create(model=MODEL, input=[{"role": "user", "content": [image]}, made, output])
        await client.chat.completions.create(
            model=MODEL,
            messages=[{"role": "user", "content": [{"type": "image_url", "image_url": {"url": PNG}}]}],
        )
        first, second = (request.json["contents"] for request in upstream.requests)
    assert first[0]["parts"] == second[0]["parts"] == [PIXELS]
    placeholder = "skip_thought_signature_validator"
    assert first[1]["parts"] == [
        {"functionCall": {"id": "c1", "name": "add", "args": {}}, "thoughtSignature": placeholder}
    ]
    assert first[2]["parts"][-1] == PIXELS


async def test_a_schema_holds_the_answer(tmp_path: Path) -> None:
    class Place(BaseModel):
        city: str

    async with asking(tmp_path, answering(text('{"city": '), text('"Hamburg"}'))) as (client, upstream):
        parsed = await client.responses.parse(model=MODEL, input="Where?", text_format=Place)
        config = upstream.requests[0].json["generationConfig"]
    assert parsed.output_parsed == Place(city="Hamburg")
    assert config["responseMimeType"] == "application/json"
    assert config["responseJsonSchema"]["properties"] == {"city": {"title": "City", "type": "string"}}


@FORMS
async def test_search_results_are_cited(stream: bool, tmp_path: Path) -> None:
    found = last(text("Grüße"))
    found["candidates"][0]["groundingMetadata"] = {
        "groundingChunks": [{"web": {"uri": "https://a", "title": "A"}}],
        "groundingSupports": [{"segment": {"endIndex": 7}, "groundingChunkIndices": [0]}],
    }
    script = either(Reply(headers=SSE, body=data_frame(found)), json_reply(found))
    async with asking(tmp_path, script) as (client, upstream):
        response = await respond(client, MODEL, stream=stream, input="Hi", tools=[{"type": "web_search"}])
        assert upstream.requests[0].json["tools"] == [{"googleSearch": {}}]
    [annotation] = response.output[0].content[0].annotations
    assert (annotation.url, annotation.start_index, annotation.end_index) == ("https://a", 0, 5)


ERRORS: dict[str, tuple[dict[str, Any], int, str]] = {
    "its own key": (
        error(400, "INVALID_ARGUMENT", "API key not valid: upstream-secret", {"reason": "API_KEY_INVALID"}),
        502,
        "upstream_unauthorized",
    ),
    "a quota": (error(429, "RESOURCE_EXHAUSTED", "quota", {"retryDelay": "33.2s"}), 429, "rate_limit_exceeded"),
    "an overload": (error(503, "UNAVAILABLE", "overloaded"), 503, "upstream_overloaded"),
    "no such model": (error(404, "NOT_FOUND", "models/x is not found"), 404, "model_not_found"),
    "too long": (
        error(400, "INVALID_ARGUMENT", "The input token count (9) exceeds the maximum number of tokens allowed (8)."),
        400,
        "context_length_exceeded",
    ),
    "anything wrong": (error(400, "INVALID_ARGUMENT", "Invalid value"), 400, "upstream_rejected"),
}


@pytest.mark.parametrize(("body", "status", "code"), ERRORS.values(), ids=ERRORS)
async def test_refusals_of_the_upstream_have_their_codes(
    body: dict[str, Any], status: int, code: str, tmp_path: Path
) -> None:
    async with asking(tmp_path, json_reply(body, body["error"]["code"])) as (client, _):
        with pytest.raises(APIStatusError) as refusal:
            await client.responses.create(model=MODEL, input="Hi")
    assert (refusal.value.status_code, refusal.value.code) == (status, code)
    assert "upstream-secret" not in refusal.value.message
    assert refusal.value.response.headers.get("retry-after") == ("34" if code == "rate_limit_exceeded" else None)


@FORMS
async def test_a_blocked_prompt_is_the_clients_to_change(stream: bool, tmp_path: Path) -> None:
    blocked = {"promptFeedback": {"blockReason": "SAFETY"}}
    script = either(Reply(headers=SSE, body=data_frame(blocked)), json_reply(blocked))
    async with asking(tmp_path, script) as (client, _):
        with pytest.raises(BadRequestError, match="SAFETY") as refusal:
            await client.responses.create(model=MODEL, input="Hi", stream=stream)
    assert refusal.value.code == "invalid_prompt"


async def test_tokens_are_counted_by_the_upstream(tmp_path: Path) -> None:
    async with asking(tmp_path, json_reply({"totalTokens": 31})) as (client, upstream):
        counted = await client.responses.input_tokens.count(model=MODEL, input="Hi", tools=TOOLS)
        [request] = upstream.requests
    assert counted.input_tokens == 31
    assert request.path.endswith(f"/models/{MODEL}:countTokens")
    assert request.json["generateContentRequest"].keys() == {"model", "contents", "tools"}


async def test_losses_are_reported(tmp_path: Path) -> None:
    async with asking(tmp_path, answering(text("Hi."))) as (client, _):
        body: dict[str, Any] = {"model": MODEL, "input": "Hi", "parallel_tool_calls": False, "tools": TOOLS}
        raw = await client.responses.with_raw_response.create(**body)
        assert "parallel_tool_calls=dropped" in raw.headers["x-gateway-loss"]
        with pytest.raises(BadRequestError):
            await client.responses.create(**body, extra_headers={"x-gateway-strict": "true"})
