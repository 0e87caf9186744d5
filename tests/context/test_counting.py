"""Token counts of an input, by each method that an upstream has, and their refusals."""

from typing import Any

import pytest
from openai import APIStatusError, AsyncOpenAI, BadRequestError

from tests.context.small_window_model import Reader
from tests.upstream import ScriptedUpstream
from tests.upstream.builders import chat_json, json_reply

FUNCTION: Any = {"type": "function", "name": "f", "parameters": {"type": "object", "properties": {}}, "strict": None}
IMAGE: Any = [
    {"role": "user", "content": [{"type": "input_image", "image_url": "data:image/png;base64,AA==", "detail": "auto"}]}
]


def paths(upstream: ScriptedUpstream) -> list[str]:
    return [request.path for request in upstream.requests]


async def counted(client: AsyncOpenAI, model: str, **args: Any) -> int:
    found = await client.responses.input_tokens.count(model=model, **args)
    assert found.object == "response.input_tokens"
    return found.input_tokens


async def test_a_turn_of_one_token_reports_its_input_tokens(
    client: AsyncOpenAI, upstream: ScriptedUpstream, reader: Reader
) -> None:
    assert await counted(client, "m", input="one two three", instructions="four", tools=[FUNCTION]) == 4
    (body,) = reader.bodies
    assert (body["max_tokens"], "stream" in body, len(body["tools"])) == (1, False, 1)


async def test_the_history_is_counted(client: AsyncOpenAI, reader: Reader) -> None:
    first = await client.responses.create(model="m", input="one two")
    assert await counted(client, "m", previous_response_id=first.id, input="three") == 4
    conversation = await client.conversations.create(items=[{"type": "message", "role": "user", "content": "a b c"}])
    assert await counted(client, "m", conversation=conversation.id, input="d") == 4


async def test_counting_stores_nothing(client: AsyncOpenAI) -> None:
    first = await client.responses.create(model="m", input="one two")
    await counted(client, "m", previous_response_id=first.id, input="three")
    listed = await client.get("/responses", cast_to=object)
    assert len(listed["data"]) == 1  # type: ignore[index]


async def test_a_responses_upstream_counts_the_request_that_would_be_relayed(
    client: AsyncOpenAI, upstream: ScriptedUpstream
) -> None:
    upstream.on("/responses/input_tokens", json_reply({"object": "response.input_tokens", "input_tokens": 17}))
    tools: list[Any] = [{"type": "web_search"}]
    beside: Any = {"temperature": 0.5, "include": ["reasoning.encrypted_content"]}
    params: Any = {"input": "hello", "tools": tools, "reasoning": {"effort": "low"}}
    assert await counted(client, "openai", **params, extra_body=beside) == 17
    (request,) = upstream.requests
    body = request.json
    assert body["tools"] == tools
    assert body["input"][0]["content"] == [{"type": "input_text", "text": "hello"}]
    assert body.keys() == {"model", "input", "tools", "reasoning"}


async def test_llama_counts_a_chat_body(client: AsyncOpenAI, upstream: ScriptedUpstream) -> None:
    upstream.on("/chat/completions/input_tokens", json_reply({"input_tokens": 5}))
    assert await counted(client, "llama", input="hello") == 5


async def test_an_older_llama_renders_and_tokenizes(client: AsyncOpenAI, upstream: ScriptedUpstream) -> None:
    upstream.on("/apply-template", json_reply({"prompt": "<|user|>hello"}))
    upstream.on("/tokenize", json_reply({"tokens": [1, 2, 3]}))
    assert await counted(client, "old-llama", input="hello") == 3
    assert paths(upstream) == ["/apply-template", "/tokenize"]
    assert upstream.requests[1].json["content"] == "<|user|>hello"
    with pytest.raises(BadRequestError) as refused:
        await counted(client, "old-llama", input=IMAGE)
    assert refused.value.param == "input"


async def test_vllm_renders_requests_that_its_tokenizer_accepts(
    client: AsyncOpenAI, upstream: ScriptedUpstream
) -> None:
    upstream.on("/tokenize", json_reply({"count": 8, "tokens": [1] * 8, "max_model_len": 4096}))
    assert await counted(client, "vllm", input="hello", tools=[FUNCTION]) == 8
    (request,) = upstream.requests
    assert request.path == "/tokenize"
    assert request.json.keys() == {"model", "messages", "tools"}


@pytest.mark.parametrize("args", [{"input": "hello", "reasoning": {"effort": "low"}}, {"input": IMAGE}])
async def test_vllm_runs_a_turn_for_requests_that_its_tokenizer_does_not_accept(
    client: AsyncOpenAI, upstream: ScriptedUpstream, reader: Reader, args: Any
) -> None:
    upstream.on("/tokenize", json_reply({"count": 8}))
    assert await counted(client, "vllm", **args) == 1
    assert paths(upstream) == ["/v1/chat/completions"]


async def test_a_vllm_without_the_tokenize_route_runs_a_turn(
    client: AsyncOpenAI, upstream: ScriptedUpstream, reader: Reader
) -> None:
    assert await counted(client, "vllm", input="one two") == 2
    assert paths(upstream) == ["/tokenize", "/v1/chat/completions"]


@pytest.mark.parametrize("answer", [{}, {"input_tokens": "5"}, {"input_tokens": True}, {"input_tokens": -1}])
async def test_an_invalid_count_is_an_upstream_error(
    client: AsyncOpenAI, upstream: ScriptedUpstream, answer: Any
) -> None:
    upstream.on("/chat/completions/input_tokens", json_reply(answer))
    with pytest.raises(APIStatusError) as failed:
        await counted(client, "llama", input="hello")
    assert (failed.value.status_code, failed.value.body["code"]) == (502, "upstream_garbled")  # type: ignore[index]


async def test_a_count_without_any_method_is_refused(client: AsyncOpenAI, reader: Reader) -> None:
    with pytest.raises(BadRequestError) as refused:
        await counted(client, "uncounted", input="hello")
    assert (refused.value.param, refused.value.code) == ("model", "unsupported_parameter")
    reader.answers = [chat_json("ok", usage={})]
    with pytest.raises(BadRequestError, match="does not report") as refused:
        await counted(client, "m", input="hello")
    assert refused.value.param == "model"
    with pytest.raises(BadRequestError) as refused:
        await counted(client, "m", input="hello", personality="friendly")
    assert refused.value.param == "personality"
    with pytest.raises(BadRequestError) as refused:
        await counted(client, "m", input="hello", previous_response_id="resp_x")
    assert refused.value.code == "previous_response_not_found"


async def test_an_input_over_the_context_is_refused_like_its_response(client: AsyncOpenAI, reader: Reader) -> None:
    reader.room = 2
    with pytest.raises(BadRequestError) as refused:
        await counted(client, "m", input="one two three")
    assert refused.value.code == "context_length_exceeded"
