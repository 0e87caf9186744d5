"""Calls written as text have one outcome: a reply that is not streamed is its stream, collected, on every endpoint."""

import asyncio
import json
import random
from collections.abc import Sequence
from typing import Any

import httpx
import pytest

from tests.faults.client_view import CHAT, RESPONSES, Json, client, frames, question, read
from tests.faults.config import StartGateway, config
from tests.unit.support.golden import chunks_of, recordings
from tests.unit.support.tool_texts import CALL, TEXTS
from tests.upstream import ScriptedUpstream, chat_text

GENERATE = "/generate"
BAD, GOOD = '{"name": "g", "arguments": {"a": "x"}}', '{"name": "g", "arguments": {"a": 1}}'
FUNCTIONS: list[Json] = [
    {"name": "f"},
    {"name": "g", "parameters": {"type": "object", "properties": {"a": {"type": "integer"}}}},
]
TOOLS: dict[str, list[Json]] = {
    RESPONSES: [{"type": "function", **function} for function in FUNCTIONS],
    CHAT: [{"type": "function", "function": function} for function in FUNCTIONS],
    GENERATE: FUNCTIONS,
}
MODELS = [(parser, validation) for parser in TEXTS for validation in ("drop", "report")]
FORMATS = {
    "hermes": "<tool_call>{}</tool_call>",
    "llama": "<function=g>{}</function>",
    "mistral": "[TOOL_CALLS]{}",
}
PIECES = (
    *("<tool_call>", "</tool_call>", "<TOOL_CALL>", "<function=f>", "</function>", "[TOOL_CALLS]", "```json\n", "`"),
    *(BAD, GOOD, "[", ", ", "]", "{", "}", '"', "[f(a=1)]", "Sure: ", " ok\n", "<think>", "</think>", "é", "\n"),
)


def generated_texts(count: int) -> list[str]:
    """Returns random texts, the same in every run."""
    chance = random.Random(19)
    return ["".join(chance.choices(PIECES, k=chance.randint(2, 9))) for _ in range(count)]


def recorded_texts() -> list[str]:
    """The answers of real models, as they were recorded."""
    chat = [
        "".join(
            choice["delta"].get("content") or ""
            for chunk in chunks_of(path.read_bytes())
            for choice in chunk["choices"]
        )
        for path in recordings("chat")
        if "death" not in path.name
    ]
    engine = ["".join(chunk["content"] for chunk in chunks_of(path.read_bytes())) for path in recordings("completion")]
    return [*chat, *engine]


def texts_of(parser: str) -> list[str]:
    framing = FORMATS.get(parser, "{}")
    lists = [
        framing.format(f"[{BAD}, {GOOD}]"),
        framing.format(f"[{GOOD}, {BAD}]"),
        framing.format(f"Sure: {GOOD} ok\n"),
    ]
    singles = [framing.format(BAD), framing.format(CALL)[:-20]]
    return [*TEXTS[parser], *lists, *singles, *generated_texts(10)]


@pytest.mark.parametrize(("parser", "validation"), MODELS)
async def test_a_text_is_the_same_reply_streamed_and_whole(parser: str, validation: str, gateway: StartGateway) -> None:
    await check_outcomes(gateway, texts_of(parser), text_tool_calls=parser, tool_validation=validation)


async def test_a_recorded_text_is_the_same_reply_streamed_and_whole(gateway: StartGateway) -> None:
    await check_outcomes(gateway, recorded_texts(), text_tool_calls="hermes", parsing_format="think_tags")


async def check_outcomes(gateway: StartGateway, texts: Sequence[str], **model: str) -> None:
    """Asks for each text on each endpoint, as a stream and whole, and compares what the client reads."""
    async with ScriptedUpstream() as upstream, client() as asking:
        settings = config(upstream.url, "chat")
        settings["models"] = {"*": {"provider": "upstream", **model}}
        running = gateway(settings)
        for number, text in enumerate(dict.fromkeys(texts)):
            reason = "length" if number % 3 == 0 else "stop"
            upstream.script(chat_text(*_cut(text), finish_reason=reason))
            outcomes = await asyncio.gather(
                *(
                    _outcome(asking, running.url, path, stream=stream)
                    for path in (RESPONSES, CHAT, GENERATE)
                    for stream in (True, False)
                )
            )
            for streamed, whole in zip(outcomes[::2], outcomes[1::2], strict=True):
                assert streamed == whole, (text, reason)
                assert streamed[0] == 200


def _cut(text: str) -> Sequence[str]:
    return [text[at : at + 5] for at in range(0, len(text), 5)] or [""]


async def _outcome(asking: httpx.AsyncClient, url: str, path: str, *, stream: bool) -> Any:
    """The status, what the client reads, and the warnings."""
    if path == GENERATE:
        body: Json = {"model": "m", "messages": [{"role": "user", "content": "Hello"}], "stream": stream}
        reply = await asking.post(url + path, json={**body, "tools": TOOLS[path]})
        return reply.status_code, _generate_reply(reply, stream=stream), None
    reply = await asking.post(f"{url}/v1{path}", json=question(path, stream=stream, tools=TOOLS[path]))
    return reply.status_code, read(path, reply, stream=stream), _warnings(path, reply, stream=stream)


def _generate_reply(reply: httpx.Response, *, stream: bool) -> Json:
    payload = reply.json() if not stream else json.loads(reply.text.rsplit("data: ", 1)[1])
    calls = [(call["name"], call["arguments"]) for call in payload.get("tool_calls", ())]
    return {**payload, "tool_calls": calls}


def _warnings(path: str, reply: httpx.Response, *, stream: bool) -> object:
    if not stream:
        return reply.json().get("tool_warnings")
    payloads = [json.loads(data) for _, data in frames(reply.content)]
    if path == RESPONSES:
        return payloads[-1]["response"].get("tool_warnings")
    return next((payload["tool_warnings"] for payload in payloads if "tool_warnings" in payload), None)
