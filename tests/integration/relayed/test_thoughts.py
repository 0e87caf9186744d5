"""Thinking in the text of a relayed chat completion is separated where the name of the model says that it thinks."""

import json
from typing import Any

import httpx
import pytest

from tests.serving import serving
from tests.upstream import ScriptedUpstream, chat_text
from tests.upstream.builders import chat_chunk, chat_json, chat_sse, either
from tests.upstream.script import Script

Json = dict[str, Any]

NAMES = {
    "deepseek-ai/DeepSeek-R1-0528": True,
    "Qwen/QwQ-32B": True,
    "Qwen/Qwen3-8B": True,
    "Qwen/Qwen3.5-27B": True,
    "acme-8b-thinking": True,
    "acme-reasoning": True,
    "mistralai/Ministral-3-8B-Reasoning-2512": True,
    "mistralai/Magistral-Small-2509": True,
    "microsoft/Phi-4-reasoning-plus": True,
    "Qwen/Qwen2.5-7B-Instruct": False,
    "acme-8b-instruct": False,
}
"""The name of a model -> whether it says that the model thinks."""

TAGGED = {
    "think": "<think>\nHm, <b>.\n</think>\n\nYes [1].",
    "capitals": "<THINK>\nHm, <b>.\n</THINK>\n\nYes [1].",
    "thinking": "<thinking>Hm, <b>.</thinking>Yes [1].",
    "Mistral": "[THINK]Hm, <b>.[/THINK]Yes [1].",
}


async def ask(client: httpx.AsyncClient, *, stream: bool, **more: Any) -> list[Json]:
    """Returns the message of each choice. A stream is added up."""
    body = {"model": "m", "messages": [{"role": "user", "content": "Hi"}], "stream": stream, **more}
    reply = await client.post("/v1/chat/completions", json=body)
    assert reply.status_code == 200, reply.text
    if not stream:
        return [choice["message"] for choice in reply.json()["choices"]]
    messages: dict[int, Json] = {}
    for line in reply.text.splitlines():
        if not line.startswith("data: {"):
            continue
        for choice in json.loads(line.removeprefix("data: "))["choices"]:
            message = messages.setdefault(choice["index"], {"content": ""})
            for key, value in choice["delta"].items():
                if key in ("content", "reasoning", "reasoning_content"):
                    message[key] = message.get(key, "") + (value or "")
                elif key == "tool_calls":
                    message.setdefault(key, []).extend(value)
    return [messages[index] for index in sorted(messages)]


def serve(upstream: ScriptedUpstream, model: str, kind: str = "vllm", **more: Any) -> Any:
    provider = {"type": kind, "base_url": upstream.url}
    return serving({"providers": {"p": provider}, "models": {"m": {"provider": "p", "model": model, **more}}})


@pytest.mark.parametrize("size", [1, 5, 1000], ids=["by character", "in pieces", "at once"])
@pytest.mark.parametrize("text", TAGGED.values(), ids=TAGGED)
async def test_thinking_is_separated(text: str, size: int) -> None:
    pieces = [text[start : start + size] for start in range(0, len(text), size)]
    async with ScriptedUpstream() as upstream:
        upstream.script(chat_text(*pieces))
        with serve(upstream, "Qwen/Qwen3-8B") as gateway:
            async with httpx.AsyncClient(base_url=gateway.url, timeout=60) as client:
                for stream in (True, False):
                    [message] = await ask(client, stream=stream)
                    assert message["content"] == "Yes [1]."
                    assert message["reasoning_content"] == message["reasoning"] == "Hm, <b>."


@pytest.mark.parametrize("kind", ["vllm", "openai_compatible"])
@pytest.mark.parametrize(("model", "thinks"), NAMES.items())
async def test_the_name_of_a_model_says_whether_it_thinks(kind: str, model: str, thinks: bool) -> None:
    async with ScriptedUpstream() as upstream:
        upstream.script(chat_text("<think>Hm.</think>", "Yes."))
        with serve(upstream, model, kind) as gateway:
            async with httpx.AsyncClient(base_url=gateway.url, timeout=60) as client:
                for stream in (True, False):
                    [message] = await ask(client, stream=stream)
                    assert message["content"] == ("Yes." if thinks else "<think>Hm.</think>Yes.")
                    assert message.get("reasoning") == ("Hm." if thinks else None)


def reply_with(*deltas: Json, finish_reason: str = "stop") -> Script:
    return chat_sse([*map(chat_chunk, deltas), chat_chunk({}, finish_reason)])


CALL: Json = {"index": 0, "id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
STREAMS: dict[str, tuple[Script, Json]] = {
    "no thinking": (reply_with({"content": "<b>"}, {"content": "Yes."}), {"content": "<b>Yes."}),
    "a tag that is none": (reply_with({"content": "<thi"}, {"content": "s>"}), {"content": "<this>"}),
    "the beginning of a tag at the end": (reply_with({"content": "<thi"}), {"content": "<thi"}),
    "thinking without an end": (
        reply_with({"content": "<think>Hm"}, {"content": "."}, finish_reason="length"),
        {"content": "", "reasoning": "Hm.", "reasoning_content": "Hm."},
    ),
    "thinking that the server separated": (
        reply_with({"reasoning_content": "Hm."}, {"content": "Yes <think>."}),
        {"content": "Yes <think>.", "reasoning": "Hm.", "reasoning_content": "Hm."},
    ),
    "a call after thinking": (
        reply_with({"content": "<think>Hm.</think>"}, {"tool_calls": [CALL]}, finish_reason="tool_calls"),
        {"content": "", "reasoning": "Hm.", "reasoning_content": "Hm.", "tool_calls": [CALL]},
    ),
    "a call instead of a tag": (
        reply_with({"content": "<thi"}, {"tool_calls": [CALL]}, finish_reason="tool_calls"),
        {"content": "<thi", "tool_calls": [CALL]},
    ),
    "Mistral's parts": (
        reply_with({"content": [{"type": "text", "text": "[THINK]Hm.[/THINK]Yes."}]}),
        {"content": "Yes.", "reasoning": "Hm.", "reasoning_content": "Hm."},
    ),
}


@pytest.mark.parametrize(("script", "expected"), STREAMS.values(), ids=STREAMS)
async def test_a_stream_has_the_same_text_whatever_it_begins_with(script: Script, expected: Json) -> None:
    tools = [{"type": "function", "function": {"name": "f"}}]
    async with ScriptedUpstream() as upstream:
        upstream.script(script)
        with serve(upstream, "Qwen/Qwen3-8B") as gateway:
            async with httpx.AsyncClient(base_url=gateway.url, timeout=60) as client:
                [message] = await ask(client, stream=True, tools=tools)
    assert message == expected


async def test_each_choice_has_its_own_thinking() -> None:
    texts = ["<think>A</think>a", "b", "<think>C</think>c"]
    chunks = [
        {**chat_chunk({}), "choices": [{"index": index, "delta": {"content": text}, "finish_reason": None}]}
        for index, text in enumerate(texts)
    ]
    ends = [
        {**chat_chunk({}), "choices": [{"index": index, "delta": {}, "finish_reason": "stop"}]} for index in range(3)
    ]
    async with ScriptedUpstream() as upstream:
        upstream.script(chat_sse([*chunks, *ends]))
        with serve(upstream, "Qwen/Qwen3-8B") as gateway:
            async with httpx.AsyncClient(base_url=gateway.url, timeout=60) as client:
                messages = await ask(client, stream=True, n=3)
    assert [(message["content"], message.get("reasoning")) for message in messages] == [
        ("a", "A"),
        ("b", None),
        ("c", "C"),
    ]


async def test_the_operator_may_leave_the_text_as_it_is() -> None:
    whole = chat_json("<think>Hm.</think>Yes.")
    async with ScriptedUpstream() as upstream:
        streamed = chat_sse([chat_chunk({"content": "<think>Hm.</think>Yes."}), chat_chunk({}, "stop")])
        upstream.script(either(streamed, whole))
        with serve(upstream, "Qwen/Qwen3-8B", parsing_format="direct_response") as gateway:
            async with httpx.AsyncClient(base_url=gateway.url, timeout=60) as client:
                for stream in (True, False):
                    [message] = await ask(client, stream=stream)
                    assert message["content"] == "<think>Hm.</think>Yes."
