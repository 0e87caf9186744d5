"""`POST /generate` on a real socket."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.databases import ready_sqlite
from tests.faults.connection import connected
from tests.polling import PROMPT_S
from tests.serving import Command, Gateway, command, serving
from tests.upstream import Hang, Reply, ScriptedUpstream, chat_calls, chat_chunk, chat_text, error_reply
from tests.upstream.builders import SSE, data_frame
from translation.framing.sse import FrameDecoder

Json = dict[str, Any]

HELLO: Json = {"role": "user", "content": "Say hello."}
ADD: Json = {
    "name": "add",
    "parameters": {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]},
}


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """A pattern before the first model that has a name; and a store, in which nothing may be found."""
    config = {
        "providers": {"demo": {"type": "scripted"}},
        "models": {
            "other-*": {"provider": "demo"},
            "demo": {"provider": "demo"},
            "strict": {"provider": "demo", "strict": True},
            "short": {"provider": "demo", "request_defaults": {"max_output_tokens": 3}},
        },
        "store": {"url": ready_sqlite(tmp_path_factory.mktemp("store") / "state.db")},
    }
    with serving(config) as running:
        yield running


def ask(gateway: Gateway | Command, *, headers: dict[str, str] | None = None, **body: Any) -> httpx.Response:
    whole = {"messages": [HELLO], **body}
    return httpx.post(f"{gateway.url}/generate", json=whole, headers=headers, timeout=60, trust_env=False)


def frames(reply: httpx.Response) -> list[tuple[str | None, Json]]:
    assert reply.headers["content-type"].startswith("text/event-stream")
    return [(frame.event, json.loads(frame.payload)) for frame in FrameDecoder().feed(reply.content)]


def refusal(reply: httpx.Response) -> tuple[int, str | None, str | None]:
    error = reply.json()["error"]
    return reply.status_code, error["param"], error["code"]


def test_a_reply_has_thinking_answer_and_counts_of_both(gateway: Gateway) -> None:
    reply = ask(gateway, max_thinking_tokens=4)
    assert reply.status_code == 200
    report = reply.json()
    usage = report.pop("usage")
    assert report == {
        "thinking": "The user wrote 2",
        "response": "You said: Say hello.",
        "tool_calls": [],
        "pre_tool_text": "",
        "finish_reason": "stop",
        "model": "demo",
    }
    assert (usage["thinking_tokens"], usage["response_tokens"]) == (4, 4)
    assert usage["total_tokens"] == usage["prompt_tokens"] + 8


def test_a_stream_ends_in_the_same_reply(gateway: Gateway) -> None:
    body: dict[str, Any] = {"max_thinking_tokens": 4, "tools": [ADD], "tool_choice": "required"}
    *pieces, (last, reply) = frames(ask(gateway, stream=True, **body))
    assert last == "done"
    assert reply == ask(gateway, **body).json() | {"tool_calls": reply["tool_calls"]}
    assert "".join(piece.get("thinking", "") for _, piece in pieces) == reply["thinking"] == "The user wrote 2"
    calls = [piece["tool_call"] for _, piece in pieces if "tool_call" in piece]
    assert {call["index"] for call in calls} == {0}
    assert json.loads("".join(call["arguments"] for call in calls)) == reply["tool_calls"][0]["arguments"] == {"a": 0}
    assert calls[0]["id"] == reply["tool_calls"][0]["id"]


def test_a_call_and_its_result_are_sent_back_unchanged(gateway: Gateway) -> None:
    first = ask(gateway, tools=[ADD], tool_choice={"name": "add"}).json()
    assert (first["finish_reason"], [call["name"] for call in first["tool_calls"]]) == ("tool_calls", ["add"])
    asking = {"role": "assistant", "content": first["response"], "tool_calls": first["tool_calls"]}
    result = {"role": "tool", "tool_call_id": first["tool_calls"][0]["id"], "content": "3"}
    second = ask(gateway, tools=[ADD], messages=[HELLO, asking, result]).json()
    assert second["response"] == "add returned: 3"


def test_without_thinking_the_reply_has_no_thinking(gateway: Gateway) -> None:
    reply = ask(gateway, max_thinking_tokens=0).json()
    assert (reply["thinking"], reply["usage"]["thinking_tokens"]) == ("", 0)


def test_the_answer_ends_at_its_limit_or_the_operators(gateway: Gateway) -> None:
    for reply in (ask(gateway, max_response_tokens=3), ask(gateway, model="short")):
        assert (reply.json()["response"], reply.json()["finish_reason"]) == ("You said: Say", "length")
    assert ask(gateway, model="short", max_response_tokens=2).json()["response"] == "You said:"


def test_a_structured_answer_is_requested_as_in_chat(gateway: Gateway) -> None:
    schema = {"name": "n", "schema": {"type": "object", "properties": {"a": {"const": 1}}, "required": ["a"]}}
    reply = ask(gateway, response_format={"type": "json_schema", "json_schema": schema}).json()
    assert json.loads(reply["response"]) == {"a": 1}


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"two_pass": True}, (400, "two_pass", "unsupported_parameter")),
        ({"tool_parser": "nonsense"}, (400, "tool_parser", "invalid_value")),
        ({"tool_parser": "vllm:hermes"}, (400, "tool_parser", "invalid_value")),
        ({"model": "unheard-of"}, (404, "model", "model_not_found")),
        ({"messages": []}, (400, "messages", "invalid_value")),
        ({"messages": [{"role": "user"}]}, (400, "messages[0].content", "missing_required_parameter")),
        (
            {"messages": [{"role": "tool", "tool_call_id": "x", "content": "3"}]},
            (400, "messages[0].tool_call_id", None),
        ),
        ({"tools": [ADD], "tool_choice": {"name": "sub"}}, (400, "tool_choice", None)),
        ({"store": True}, (400, "store", "unsupported_parameter")),
        ({"n": 2}, (400, "n", "unsupported_parameter")),
        ({"tools": [ADD, {"name": "add"}]}, (400, "tools[1].name", None)),
    ],
)
def test_invalid_requests_are_refused_by_name(gateway: Gateway, body: Json, expected: tuple[int, str, Any]) -> None:
    for stream in (False, True):
        status, param, code = refusal(ask(gateway, stream=stream, **body))
        assert (status, param) == expected[:2]
        assert code == expected[2] or expected[2] is None


def test_losses_are_reported_or_refused_with_the_clients_names(gateway: Gateway) -> None:
    assert ask(gateway, unheard_of=1).headers["x-gateway-loss"] == "unheard_of=dropped"
    for told in ({"headers": {"x-gateway-strict": "true"}}, {"model": "strict"}):
        assert refusal(ask(gateway, unheard_of=1, **told)) == (400, "unheard_of", "unsupported_parameter")
    assert ask(gateway, tool_parser="hermes").headers["x-gateway-loss"] == "tool_parser=dropped"
    assert "x-gateway-loss" not in ask(gateway, tool_parser="openai").headers
    assert refusal(ask(gateway, tool_parser="hermes", model="strict"))[1] == "tool_parser"
    assert refusal(ask(gateway, headers={"x-gateway-strict": "maybe"}))[1] == "x-gateway-strict"


def test_nothing_is_stored(gateway: Gateway) -> None:
    ask(gateway)
    ask(gateway, stream=True)
    for kind in ("responses", "chat/completions"):
        assert httpx.get(f"{gateway.v1}/{kind}", trust_env=False, timeout=60).json()["data"] == []


def test_a_key_opens_it_and_chooses_among_its_own_models() -> None:
    keys = [{"name": "ann", "key": "key-of-ann-0123456789", "models": ["sec*"]}]
    models = {"first": {"provider": "demo"}, "second": {"provider": "demo"}}
    with serving({"auth": {"keys": keys}, "providers": {"demo": {"type": "scripted"}}, "models": models}) as gateway:
        assert ask(gateway).status_code == 401
        bearer = {"authorization": "Bearer key-of-ann-0123456789"}
        assert ask(gateway, headers=bearer).json()["model"] == "second"
        assert ask(gateway, headers=bearer, model="first").status_code == 404


def test_a_server_with_patterns_only_requires_a_model_name() -> None:
    with serving({"providers": {"demo": {"type": "scripted"}}, "models": {"*": {"provider": "demo"}}}) as gateway:
        assert refusal(ask(gateway)) == (400, "model", "missing_required_parameter")
        assert ask(gateway, model="any").status_code == 200


@pytest.fixture
async def upstream() -> Any:
    async with ScriptedUpstream() as running:
        yield running


@pytest.fixture
def before(upstream: ScriptedUpstream) -> Iterator[Gateway]:
    """A gateway before a chat upstream, to which it could relay."""
    provider = {
        "type": "openai_compatible",
        "base_url": upstream.url,
        "retries": 0,
        "capabilities": {"json_schema": False},
    }
    with serving({"providers": {"up": provider}, "models": {"tiny": {"provider": "up"}}}) as running:
        yield running


async def post(gateway: Gateway, **body: Any) -> httpx.Response:
    return await asyncio.to_thread(lambda: ask(gateway, **body))


async def test_a_chat_upstream_gets_plain_chat(before: Gateway, upstream: ScriptedUpstream) -> None:
    upstream.on("/chat/completions", chat_text("Hello", " you"), chat_calls(("add", '{"a": 1}')))
    reply = await post(before, max_response_tokens=9, temperature=0.5, max_thinking_tokens=5)
    assert reply.json()["response"] == "Hello you"
    assert reply.headers["x-gateway-loss"] == "max_thinking_tokens=dropped"
    sent = upstream.requests[0].json
    assert (sent["max_tokens"], sent["temperature"], sent["messages"]) == (9, 0.5, [HELLO])
    assert not sent.keys() & {"two_pass", "think_tag", "max_thinking_tokens", "max_response_tokens", "tool_parser"}
    reply = await post(before, tools=[ADD], stream=True)
    assert frames(reply)[-1][1]["tool_calls"][0]["arguments"] == {"a": 1}


async def test_a_strict_refusal_has_the_clients_names(before: Gateway) -> None:
    reply = await post(before, max_thinking_tokens=5, headers={"x-gateway-strict": "true"})
    assert refusal(reply) == (400, "max_thinking_tokens", "unsupported_parameter")
    assert "max_thinking_tokens=dropped" in reply.json()["error"]["message"]
    reply = await post(before, response_format={"type": "json_object"})
    assert refusal(reply)[1] == "response_format"


async def test_a_failure_before_the_first_word_has_a_status_of_its_own(
    before: Gateway, upstream: ScriptedUpstream
) -> None:
    upstream.script(error_reply(429, "slow down"))
    for stream in (False, True):
        assert (await post(before, stream=stream)).status_code == 429


async def test_a_call_that_cannot_be_read_is_a_failure(before: Gateway, upstream: ScriptedUpstream) -> None:
    upstream.on("/chat/completions", chat_calls(("add", "{oops")))
    assert refusal(await post(before, tools=[ADD])) == (502, None, "tool_call_parse_error")
    *_, (last, payload) = frames(await post(before, tools=[ADD], stream=True))
    assert (last, payload["error"]["code"]) == ("error", "tool_call_parse_error")


async def test_a_stream_that_breaks_off_ends_in_one_error(before: Gateway, upstream: ScriptedUpstream) -> None:
    upstream.script(Reply(headers=SSE, body=[data_frame(chat_chunk({"content": "Hel"}))]))
    named = [frame for frame in frames(await post(before, stream=True)) if frame[0] is not None]
    assert [(event, payload["error"]["code"]) for event, payload in named] == [("error", "upstream_truncated")]


@pytest.mark.parametrize("stream", [True, False], ids=["streaming", "whole"])
async def test_a_client_that_leaves_closes_the_upstream_connection(
    before: Gateway, upstream: ScriptedUpstream, stream: bool
) -> None:
    upstream.script(Reply(headers=SSE, body=[data_frame(chat_chunk({"content": "Hel"})), Hang()]))
    async with connected(before.url) as client:
        body = json.dumps({"messages": [HELLO], "stream": stream}).encode()
        client.writer.write(
            b"POST /generate HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)
        )
        await upstream.received(1)
        if stream:
            await client.read_to(b"Hel")
    async with asyncio.timeout(PROMPT_S):
        await upstream.requests[0].closed


async def test_the_log_has_the_reason_of_a_failed_stream(upstream: ScriptedUpstream, tmp_path: Path) -> None:
    upstream.on("/chat/completions", chat_calls(("add", "{oops")), chat_text("Hello"))
    provider = {"type": "openai_compatible", "base_url": upstream.url}
    config = {"store": {"url": None}, "providers": {"up": provider}, "models": {"tiny": {"provider": "up"}}}
    with command(config, tmp_path, forked=True) as running:
        for _ in range(2):
            assert (await asyncio.to_thread(ask, running, stream=True, tools=[ADD])).status_code == 200
    lines = running.read_log_lines()
    told = [(line["status"], line.get("error")) for line in lines if line["message"] == "request"]
    assert told == [(200, "tool_call_parse_error"), (200, None)]


@pytest.mark.parametrize("stream", [False, True])
def test_a_model_whose_calls_are_text_has_no_parser_of_its_own(stream: bool) -> None:
    providers = {"engine": {"type": "llama_server", "base_url": "http://127.0.0.1:9/v1"}}
    models = {"m": {"provider": "engine", "two_pass": True}}
    with serving({"providers": providers, "models": models}) as gateway:
        reply = ask(gateway, model="m", tools=[ADD], tool_parser="openai", stream=stream)
        assert refusal(reply) == (400, "tool_parser", "unsupported_parameter")
        assert "hermes" in reply.json()["error"]["message"]
        assert ask(gateway, model="m", tool_parser="openai", stream=stream).status_code == 502
