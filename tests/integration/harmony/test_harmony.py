"""The official SDK against gpt-oss: requests are rendered in Harmony's tokens, and its output is sent back."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from openai import APIStatusError, AsyncOpenAI

from tests.integration.official_client import official_client, respond
from tests.unit.support.harmony import marked, real
from tests.upstream import Reply, Script, ScriptedUpstream, harmony
from tests.upstream.builders import SSE, data_frame, either, json_reply
from tests.upstream.request import Request

FORMS = pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
TOOL: dict[str, Any] = {
    "type": "function",
    "name": "weather",
    "strict": False,
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}
THOUGHT = "I have to look."
CALLING = (
    f"<|channel|>analysis<|message|>{THOUGHT}<|end|><|start|>assistant<|channel|>commentary to=functions.weather "
    '<|constrain|>json<|message|>{"city":"Zürich"}<|call|>'
)
ANSWERING = "<|channel|>analysis<|message|>Sunny.<|end|><|start|>assistant<|channel|>final<|message|>It is ☀.<|return|>"


def writing(text: str, stop_type: str = "eos") -> Script:
    """Returns the server's reply for this text of the model, with control tokens as text."""
    tokens = marked(text)
    content = real().decode([token for token in tokens if not real().is_special(token)])
    whole = harmony.last(len(tokens), stop_type, content, tokens)
    chunks, held = [], []
    for made, token in enumerate(tokens, 1):
        held.append(token)
        if "\ufffd" not in real().decode(held):
            message = "" if real().is_special(token) else real().decode(held)
            chunks.append(harmony.chunk(message, token, predicted=made))
            held = []
    frames = map(data_frame, [*chunks, harmony.last(len(tokens), stop_type)])
    return either(Reply(headers=SSE, body=b"".join(frames)), json_reply(whole))


@asynccontextmanager
async def asking(folder: Path, *scripts: Script) -> AsyncIterator[tuple[AsyncOpenAI, ScriptedUpstream]]:
    async with ScriptedUpstream() as upstream:
        upstream.on("/completion", *scripts)
        provider = {"type": "harmony", "base_url": upstream.url}
        async with official_client(folder, provider) as client:
            yield client, upstream


def prompt_of(request: Request) -> str:
    return real().decode(request.json["prompt"])


@FORMS
async def test_a_tool_loop_completes_and_thoughts_are_sent_until_the_answer(tmp_path: Path, stream: bool) -> None:
    async with asking(tmp_path, writing(CALLING), writing(ANSWERING), writing(ANSWERING)) as (client, upstream):
        first = await respond(client, "gpt-oss", stream=stream, input="Weather?", tools=[TOOL])
        thought, call = first.output
        assert thought.content[0].text == THOUGHT
        assert (call.name, call.arguments) == ("weather", '{"city":"Zürich"}')
        assert first.usage.output_tokens_details.reasoning_tokens == len(real().encode(THOUGHT))
        result = {"type": "function_call_output", "call_id": call.call_id, "output": "sunny"}
        second = await respond(
            client, "gpt-oss", stream=stream, input=[result], previous_response_id=first.id, tools=[TOOL]
        )
        assert second.output_text == "It is ☀."
        await respond(client, "gpt-oss", stream=stream, input="Thanks.", previous_response_id=second.id)
        asked, looped, after = map(prompt_of, upstream.requests)
        assert asked.endswith("<|start|>user<|message|>Weather?<|end|><|start|>assistant")
        assert looped.endswith(
            f"<|start|>assistant<|channel|>analysis<|message|>{THOUGHT}<|end|>"
            '<|start|>assistant to=functions.weather<|channel|>commentary <|constrain|>json<|message|>{"city":"Zürich"}'
            "<|call|><|start|>functions.weather to=assistant<|channel|>commentary<|message|>sunny<|end|>"
            "<|start|>assistant"
        )
        assert THOUGHT not in after
        assert "Sunny." not in after
        assert '" to=functions.weather"' in upstream.requests[0].json["grammar"]
        assert "grammar" not in upstream.requests[2].json


async def test_a_chat_client_gets_the_thought_and_the_call(tmp_path: Path) -> None:
    async with asking(tmp_path, writing(CALLING)) as (client, _):
        function = {key: TOOL[key] for key in ("name", "parameters")}
        create: Any = client.chat.completions.create
        response = await create(
            model="gpt-oss",
            messages=[{"role": "user", "content": "Weather?"}],
            tools=[{"type": "function", "function": function}],
        )
        [choice] = response.choices
        assert choice.finish_reason == "tool_calls"
        assert choice.message.reasoning_content == THOUGHT
        assert choice.message.tool_calls[0].function.arguments == '{"city":"Zürich"}'


async def test_a_begun_answer_is_continued(tmp_path: Path) -> None:
    async with asking(tmp_path, writing(" sunny.<|return|>")) as (client, upstream):
        begun: Any = [{"role": "user", "content": "Weather?"}, {"role": "assistant", "content": "It is"}]
        response = await respond(client, "gpt-oss", stream=True, input=begun)
        assert response.output_text == " sunny."
        assert prompt_of(upstream.requests[0]).endswith("<|start|>assistant<|channel|>final<|message|>It is")


@FORMS
async def test_a_begun_answer_that_is_repeated_is_not_lost(tmp_path: Path, stream: bool) -> None:
    begun: Any = [{"role": "user", "content": "Weather?"}, {"role": "assistant", "content": "It is"}]
    async with asking(tmp_path, writing("<|channel|>final<|message|>It is sunny.<|return|>")) as (client, _):
        response = await respond(client, "gpt-oss", stream=stream, input=begun)
    assert (response.status, response.output_text) == ("completed", "It is sunny.")


async def test_a_begun_answer_that_stays_empty_is_a_failure(tmp_path: Path) -> None:
    begun: Any = [{"role": "user", "content": "Weather?"}, {"role": "assistant", "content": "It is"}]
    async with asking(tmp_path, writing("<|channel|>final<|return|>")) as (client, _):
        with pytest.raises(APIStatusError) as failure:
            await respond(client, "gpt-oss", stream=False, input=begun)
    assert (failure.value.status_code, failure.value.code) == (502, "upstream_garbled")


async def test_an_answer_at_its_limit_is_incomplete(tmp_path: Path) -> None:
    async with asking(tmp_path, writing("<|channel|>final<|message|>It is", "limit")) as (client, upstream):
        response = await respond(client, "gpt-oss", stream=False, input="Weather?", max_output_tokens=16)
        assert (response.status, response.incomplete_details.reason) == ("incomplete", "max_output_tokens")
        assert upstream.requests[0].json["n_predict"] == 16


async def test_inputs_are_counted_without_a_request(tmp_path: Path) -> None:
    async with asking(tmp_path) as (client, upstream):
        counted = await client.responses.input_tokens.count(model="gpt-oss", input="Weather?")
        assert counted.input_tokens > 30
        assert upstream.requests == []


async def test_images_are_refused(tmp_path: Path) -> None:
    async with asking(tmp_path) as (client, upstream):
        image: Any = [{"role": "user", "content": [{"type": "input_image", "image_url": "data:image/png;base64,AAAA"}]}]
        with pytest.raises(APIStatusError) as refusal:
            await client.responses.create(model="gpt-oss", input=image)
        assert refusal.value.status_code == 400
        assert upstream.requests == []
