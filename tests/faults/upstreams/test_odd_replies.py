"""Odd contents of valid chat frames are normalized for the client, or become one failure with a code."""

import asyncio
from collections.abc import Sequence
from typing import NamedTuple

import pytest

from tests.faults.client_view import CHAT, RESPONSES, Json, Seen, ask
from tests.faults.config import StartGateway, config
from tests.upstream import Script, ScriptedUpstream, chat_chunk, chat_json, chat_sse, sse_reply
from tests.upstream.builders import CHAT_USAGE, DONE, either, text_chunks

FUNCTIONS = [{"name": name, "parameters": {"type": "object"}} for name in ("look_up", "add")]
TOOLS = {
    RESPONSES: [{"type": "function", **function} for function in FUNCTIONS],
    CHAT: [{"type": "function", "function": function} for function in FUNCTIONS],
}
# `extensions` is the gateway's to answer, so that a chat request is translated instead of relayed.
ENDPOINTS: dict[str, tuple[str, Json]] = {"Responses": (RESPONSES, {}), "chat": (CHAT, {"extensions": True})}
DEEP = '{"a":' * 100_000 + "1" + "}" * 100_000


class Case(NamedTuple):
    """The upstream's stream, its JSON reply (None if only streams can have this fault), and what the client sees."""

    chunks: Sequence[Json]
    message: Json | None
    sees: Seen


def call(index: int | None = 0, id: str | None = None, name: str | None = None, arguments: str | None = None) -> Json:
    function = {key: value for key, value in (("name", name), ("arguments", arguments)) if value is not None}
    told = {key: value for key, value in (("index", index), ("id", id)) if value is not None}
    return {**told, "type": "function", "function": function}


def stream(*deltas: Json, reason: str | None = "stop") -> list[Json]:
    opening = chat_chunk({"role": "assistant", "content": None})
    return [opening, *map(chat_chunk, deltas), chat_chunk({}, reason), chat_chunk(usage=CHAT_USAGE)]


def calls(*fragments: Json, reason: str = "tool_calls") -> list[Json]:
    return stream(*({"tool_calls": [fragment]} for fragment in fragments), reason=reason)


def whole_calls(*made: Json) -> Json:
    return {
        "content": None,
        "tool_calls": [{key: value for key, value in one.items() if key != "index"} for one in made],
    }


def expect_calls(*made: tuple[str, str]) -> Seen:
    return Seen(200, "completed", calls=made)


def expect_text(text: str) -> Seen:
    return Seen(200, "completed", text=text)


ARGUMENTS = '{"q":1}'
TWO = (call(0, "same", "look_up", ARGUMENTS), call(1, "same", "add", ARGUMENTS))
NO_IDS = (call(0, None, "look_up", ARGUMENTS), call(1, None, "add", ARGUMENTS))
BOTH = expect_calls(("look_up", ARGUMENTS), ("add", ARGUMENTS))
ONE = expect_calls(("look_up", ARGUMENTS))


def raw_arguments(arguments: str) -> Case:
    made = call(0, "a", "look_up", arguments)
    return Case(calls(made), whole_calls(made), expect_calls(("look_up", arguments)))


CASES: dict[str, Case] = {
    "gives two calls one id": Case(calls(*TWO), whole_calls(*TWO), BOTH),
    "gives calls no ids": Case(calls(*NO_IDS), whole_calls(*NO_IDS), BOTH),
    "gives a call its id late": Case(calls(call(0, None, "look_up", ""), call(0, "late", None, ARGUMENTS)), None, ONE),
    "changes the id in the middle of a call": Case(
        calls(call(0, "a", "look_up", '{"q"'), call(0, "a", None, ":1}")), None, ONE
    ),
    "leaves gaps between indexes": Case(
        calls(call(3, "a", "look_up", ARGUMENTS), call(7, "b", "add", ARGUMENTS)), None, BOTH
    ),
    "interleaves calls": Case(
        calls(
            call(0, "a", "look_up", ""),
            call(1, "b", "add", ""),
            call(1, None, None, ARGUMENTS),
            call(0, None, None, ARGUMENTS),
        ),
        None,
        BOTH,
    ),
    "gives every call index 0": Case(
        calls(call(0, "a", "look_up", ARGUMENTS), call(0, "b", "add", ARGUMENTS)), None, BOTH
    ),
    "gives calls no index": Case(
        calls(call(None, "a", "look_up", ARGUMENTS), call(None, "b", "add", ARGUMENTS)), None, BOTH
    ),
    "repeats a call's name in every chunk": Case(
        calls(call(0, "a", "look_up", '{"q"'), call(0, "a", "look_up", ":1}")), None, ONE
    ),
    "sends no arguments": Case(
        calls(call(0, "a", "look_up", "")), whole_calls(call(0, "a", "look_up", "")), expect_calls(("look_up", "{}"))
    ),
    "sends arguments that are not JSON": raw_arguments('{"q": oops'),
    "sends an array as arguments": raw_arguments("[1,2]"),
    "sends a number as arguments": raw_arguments("7"),
    "sends a megabyte of arguments": raw_arguments('{"q":"' + "x" * 1_000_000 + '"}'),
    "nests arguments 100 000 deep": raw_arguments(DEEP),
    "calls an undeclared tool": Case(
        calls(call(0, "a", "rm_rf", "{}")), whole_calls(call(0, "a", "rm_rf", "{}")), expect_calls(("rm_rf", "{}"))
    ),
    "calls in the old way": Case(
        stream({"function_call": {"name": "look_up", "arguments": ARGUMENTS}}, reason="function_call"),
        {"content": None, "function_call": {"name": "look_up", "arguments": ARGUMENTS}},
        ONE,
    ),
    "makes a thousand calls": Case(
        calls(*(call(at, f"c{at}", "add", "{}") for at in range(1000))),
        whole_calls(*(call(at, f"c{at}", "add", "{}") for at in range(1000))),
        expect_calls(*[("add", "{}")] * 1000),
    ),
    "says stop after a call": Case(calls(call(0, "a", "look_up", ARGUMENTS), reason="stop"), None, ONE),
    "says tool_calls without a call": Case(stream({"content": "hi"}, reason="tool_calls"), None, expect_text("hi")),
    "has a finish reason of its own": Case(stream({"content": "hi"}, reason="eos"), None, expect_text("hi")),
    "has no finish reason": Case(
        stream({"content": "hi"}, reason=None), None, Seen(200, "failed", "upstream_truncated", "hi")
    ),
    "changes its role": Case(
        stream({"content": "h"}, {"role": "user", "content": "i"}), {"role": "user", "content": "hi"}, expect_text("hi")
    ),
    "answers with content parts": Case(
        stream({"content": [{"type": "text", "text": "hi"}]}),
        {"content": [{"type": "text", "text": "hi"}]},
        expect_text("hi"),
    ),
    "sends null for everything": Case(
        stream({"content": "hi", "tool_calls": None, "reasoning": None, "refusal": None}, {"content": None}),
        {"content": "hi", "tool_calls": None, "reasoning": None, "refusal": None, "audio": None},
        expect_text("hi"),
    ),
    "says its reasoning twice": Case(
        stream({"reasoning": "hm", "reasoning_content": "hm"}, {"content": "hi"}),
        {"content": "hi", "reasoning": "hm", "reasoning_content": "hm"},
        Seen(200, "completed", text="hi", reasoning="hm"),
    ),
    "sends a NUL": Case(stream({"content": "a\0b"}), {"content": "a\0b"}, expect_text("a\0b")),
}


@pytest.mark.parametrize(("chunks", "message", "sees"), CASES.values(), ids=CASES)
async def test_an_upstream_that(chunks: list[Json], message: Json | None, sees: Seen, gateway: StartGateway) -> None:
    reason = "tool_calls" if sees.calls else "stop"
    whole = chat_json(**{"content": None, **(message or {})}, finish_reason=reason)
    script = chat_sse(chunks) if message is None else either(chat_sse(chunks), whole)
    refusal = Seen(502, "refused", sees.code) if sees.ending == "failed" else sees
    assert await every_way(gateway, script) == {
        "Responses, streamed": sees,
        "Responses, whole": refusal,
        "chat, streamed": sees,
        "chat, whole": refusal,
    }


async def every_way(gateway: StartGateway, script: Script) -> dict[str, Seen]:
    """Returns what clients of both endpoints see of this reply, streamed and not."""
    async with ScriptedUpstream() as upstream:
        upstream.script(script)
        serving = gateway(config(upstream.url, "chat"))
        ways = {
            f"{endpoint}, {form}": ask(
                serving.v1, path, stream=form == "streamed", tools=TOOLS[path], **more, **_usage_too(path, form)
            )
            for endpoint, (path, more) in ENDPOINTS.items()
            for form in ("streamed", "whole")
        }
        return dict(zip(ways, await asyncio.gather(*ways.values()), strict=True))


def _usage_too(path: str, form: str) -> Json:
    return {"stream_options": {"include_usage": True}} if path == CHAT and form == "streamed" else {}


USAGES: dict[str, tuple[Json, tuple[int, int], tuple[int, int] | None]] = {
    "counts more cached than there were": (
        {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7, "prompt_tokens_details": {"cached_tokens": 50}},
        (5, 2),
        (5, 2),
    ),
    # Responses must have both counts. Chat completions may have no usage, and then say nothing that is wrong.
    "counts below nothing": ({"prompt_tokens": 5, "completion_tokens": -2, "total_tokens": 3}, (5, 0), None),
    "has no details": ({"prompt_tokens": 5, "completion_tokens": 2}, (5, 2), (5, 2)),
}


@pytest.mark.parametrize(("usage", "counted", "in_chat"), USAGES.values(), ids=USAGES)
async def test_usage_that(
    usage: Json, counted: tuple[int, int], in_chat: tuple[int, int] | None, gateway: StartGateway
) -> None:
    script = either(chat_sse(text_chunks("hi", usage=usage)), chat_json("hi", usage=usage))
    assert {way: seen.usage for way, seen in (await every_way(gateway, script)).items()} == {
        "Responses, streamed": counted,
        "Responses, whole": counted,
        "chat, streamed": in_chat,
        "chat, whole": in_chat,
    }


GARBLED = Seen(502, "refused", "upstream_garbled")
RAW_CHUNKS: dict[str, tuple[bytes, Seen]] = {
    "NaN where a number belongs": (b'{"choices":[{"index":0,"delta":{"content":NaN}}]}', GARBLED),
    "half of a surrogate pair": (b'{"choices":[{"index":0,"delta":{"content":"\\ud800"}}]}', GARBLED),
    "a list": (b"[]", GARBLED),
    "a key twice": (
        b'{"choices":[{"index":0,"delta":{"content":"no","content":"hi"},"finish_reason":"stop"}]}',
        expect_text("hi"),
    ),
    "two choices": (
        b'{"choices":[{"index":0,"delta":{"content":"hi"},"finish_reason":"stop"},{"index":1,"delta":{"content":"no"}}]}',
        expect_text("hi"),
    ),
}


@pytest.mark.parametrize(("chunk", "sees"), RAW_CHUNKS.values(), ids=RAW_CHUNKS)
async def test_a_chunk_with(chunk: bytes, sees: Seen, gateway: StartGateway) -> None:
    seen = await every_way(gateway, sse_reply(b"data: " + chunk + b"\n\n", DONE))
    assert set(seen.values()) == {sees}
