"""`/generate` in two passes on a real llama.cpp."""

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.integration.engines import Engine
from tests.serving import Gateway, serving
from translation.framing.sse import FrameDecoder

Json = dict[str, Any]

WEATHER: Json = {
    "name": "get_weather",
    "description": "The weather in a city.",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}
BUDGET = 6


@pytest.fixture(scope="module")
def gateway(llama_server: Engine) -> Iterator[Gateway]:
    """`tiny` thinks in two passes unless a request says otherwise, `single` does not."""
    config = {
        "providers": {"engine": {"type": "llama_server", "base_url": f"{llama_server.url}/v1"}},
        "models": {
            "tiny": {"provider": "engine", "two_pass": True, "max_thinking_tokens": BUDGET, "tool_parser": "hermes"},
            "single": {"provider": "engine", "parsing_format": "think_tags"},
        },
    }
    with serving(config) as running:
        yield running


def ask(gateway: Gateway, content: str = "What is the weather in Bern?", **body: Any) -> Json:
    whole = {"messages": [{"role": "user", "content": content}], "temperature": 0, **body}
    reply = httpx.post(f"{gateway.url}/generate", json=whole, timeout=60, trust_env=False)
    assert reply.status_code == 200, reply.text
    assert "x-gateway-loss" not in reply.headers
    if not body.get("stream"):
        answer: Json = reply.json()
        return answer
    *pieces, end = FrameDecoder().feed(reply.content)
    assert end.event == "done"
    answer = json.loads(end.payload)
    said_thinking = "".join(json.loads(piece.payload).get("thinking", "") for piece in pieces)
    assert said_thinking == answer["thinking"]
    return answer


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("budget", [1, 3, 9, None])
def test_the_budget_of_a_request_is_exact(gateway: Gateway, budget: int | None, stream: bool) -> None:
    body: Json = {} if budget is None else {"max_thinking_tokens": budget}
    reply = ask(gateway, stream=stream, **body)
    assert reply["usage"]["thinking_tokens"] == (budget or BUDGET)
    assert reply["response"]
    assert "think>" not in reply["thinking"] + reply["response"]
    counts = reply["usage"]
    assert counts["total_tokens"] == sum(counts[f"{part}_tokens"] for part in ("prompt", "thinking", "response"))


def test_with_a_budget_of_zero_the_answer_comes_at_once(gateway: Gateway) -> None:
    reply = ask(gateway, max_thinking_tokens=0)
    assert (reply["thinking"], reply["usage"]["thinking_tokens"]) == ("", 0)
    assert reply["response"]


def test_the_limit_on_the_answer_is_none_on_the_thinking(gateway: Gateway) -> None:
    reply = ask(gateway, max_thinking_tokens=9, max_response_tokens=2)
    assert (reply["usage"]["thinking_tokens"], reply["usage"]["response_tokens"]) == (9, 2)
    assert reply["finish_reason"] == "length"


@pytest.mark.parametrize("tag", ["think", "thinking"])
def test_a_request_may_use_two_passes_on_a_model_of_one(gateway: Gateway, tag: str) -> None:
    reply = ask(gateway, model="single", two_pass=True, think_tag=tag, max_thinking_tokens=4)
    assert reply["usage"]["thinking_tokens"] == 4
    assert reply["response"]


def test_a_request_may_use_one_pass_on_a_model_of_two(gateway: Gateway) -> None:
    reply = ask(gateway, two_pass=False, max_response_tokens=20)
    assert reply["thinking"]
    assert reply["usage"]["prompt_tokens"] + 20 == reply["usage"]["total_tokens"]
    assert reply["finish_reason"] == "length"


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("params", [{}, {"tool_choice": {"name": "get_weather"}}], ids=["chosen", "forced"])
def test_a_call_is_an_object_after_the_thinking(gateway: Gateway, params: Json, stream: bool) -> None:
    reply = ask(gateway, tools=[WEATHER], stream=stream, **params)
    assert [(call["name"], list(call["arguments"])) for call in reply["tool_calls"]] == [("get_weather", ["city"])]
    assert (reply["usage"]["thinking_tokens"], reply["finish_reason"]) == (BUDGET, "tool_calls")
    assert "tool_call" not in reply["response"]


def test_no_call_is_made_where_none_is_allowed(gateway: Gateway) -> None:
    assert ask(gateway, tools=[WEATHER], tool_choice="none")["tool_calls"] == []


def test_an_answer_may_have_a_schema_after_the_thinking(gateway: Gateway) -> None:
    schema = {"type": "object", "properties": {"n": {"enum": [3]}}, "required": ["n"], "additionalProperties": False}
    said = {"type": "json_schema", "json_schema": {"name": "n", "schema": schema}}
    reply = ask(gateway, response_format=said)
    assert (json.loads(reply["response"]), reply["usage"]["thinking_tokens"]) == ({"n": 3}, BUDGET)


def test_tools_without_a_parser_are_refused_by_name(gateway: Gateway) -> None:
    params = {"model": "single", "two_pass": True, "tools": [WEATHER], "tool_parser": "openai"}
    body = {"messages": [{"role": "user", "content": "hi"}], **params}
    reply = httpx.post(f"{gateway.url}/generate", json=body, timeout=60, trust_env=False)
    assert (reply.status_code, reply.json()["error"]["param"]) == (400, "tool_parser")


def test_a_prompt_that_leaves_no_room_is_refused(gateway: Gateway) -> None:
    body = {"messages": [{"role": "user", "content": "word " * 9000}]}
    reply = httpx.post(f"{gateway.url}/generate", json=body, timeout=60, trust_env=False)
    assert (reply.status_code, reply.json()["error"]["code"]) == (400, "context_length_exceeded")
