"""Which turns use the completion API of a server, and which its chat API."""

from typing import Any

import pytest

from providers.config import PROVIDER_DEFAULTS, TOKEN_PROMPT_TYPES, ProviderConfig
from providers.engines.servers.provider import TwoPassProvider
from providers.http.exchange import HttpExchange
from providers.profiles import build_profile
from providers.registry import build_provider
from tests.unit.providers.engines.engine_exchanges import WEATHER
from tests.unit.support.fake_engine import message
from tests.upstream import ScriptedUpstream
from tests.upstream.builders import chat_text, json_reply
from translation.errors import Unrepresentable
from translation.representation.loss import Loss
from translation.representation.turn import Turn

Json = dict[str, Any]


def provider(kind: Any, url: str = "http://127.0.0.1:9/v1") -> TwoPassProvider:
    built = build_provider("up", ProviderConfig.model_validate({"type": kind, "base_url": url}))
    assert isinstance(built, TwoPassProvider)
    return built


def turn(**fields: Any) -> Turn:
    return Turn(model="m", items=[message("Hi")], **fields)


@pytest.mark.parametrize(
    "kind", sorted(kind for kind in TOKEN_PROMPT_TYPES if PROVIDER_DEFAULTS[kind].dialects and kind != "llamacpp")
)
async def test_servers_that_continue_from_tokens_think_in_a_pass_of_its_own(kind: Any) -> None:
    up = provider(kind)
    assert up.capabilities.two_pass
    one, two = build_profile(kind, {}), build_profile(kind, {"two_pass": "on"})
    assert isinstance(up.prepare(turn(), one), HttpExchange)
    assert not isinstance(up.prepare(turn(), two), HttpExchange)
    assert isinstance(up.prepare(turn(thinking=False), two), HttpExchange)
    await up.aclose()


async def test_facts_about_a_model_are_shared_by_its_turns_and_expire() -> None:
    async with ScriptedUpstream() as server:
        server.on("/tokenize", json_reply({"tokens": [5], "max_model_len": 77}))
        server.on("/detokenize", json_reply({"prompt": "Hi"}))
        up = provider("vllm", server.url)
        await up.get_engine("a").render({"messages": []})
        assert up.get_engine("a").context_window == 77
        assert up.get_engine("b").context_window is None
        for number in range(200):
            up.get_engine(f"model {number}")
        assert up.get_engine("a").context_window is None
        await up.aclose()


async def test_an_input_is_counted_as_its_two_passes_read_it() -> None:
    async with ScriptedUpstream() as server:
        server.on("/tokenize", json_reply({"tokens": [5], "count": 1}), json_reply({"tokens": [6, 7]}))
        server.on("/detokenize", json_reply({"prompt": "Hi"}))
        up = provider("vllm", server.url)
        assert await up.count_tokens(turn(), build_profile("vllm", {"two_pass": "on"}), "tokenize") == 3
        server.on("/tokenize", json_reply({"tokens": [5], "count": 1}))
        assert await up.count_tokens(turn(thinking=False), build_profile("vllm", {"two_pass": "on"}), "tokenize") == 1
        with pytest.raises(Unrepresentable):
            await up.count_tokens(turn(), build_profile("vllm", {"two_pass": "on"}), "none")
        await up.aclose()


async def sent(kind: Any, overrides: Json, **fields: Any) -> tuple[Json, list[Loss]]:
    """The chat body that a turn becomes."""
    async with ScriptedUpstream() as server:
        server.on("/chat/completions", chat_text("Hello"))
        up = provider(kind, server.url)
        exchange = up.prepare(turn(**fields), build_profile(kind, overrides))
        async for _ in exchange.batches():
            pass
        await up.aclose()
        body: Json = server.requests[0].json
        return body, list(exchange.losses)


@pytest.mark.parametrize("fields", [{"thinking": False}, {"reasoning": {"effort": "none", "max_tokens": 5}}])
async def test_a_turn_without_thinking_is_a_chat_request(fields: Any) -> None:
    body, losses = await sent("vllm", {"two_pass": "on", "max_response_tokens": 50}, **fields)
    assert body["chat_template_kwargs"] == {"enable_thinking": False}
    assert body["max_tokens"] == 50
    assert "reasoning_effort" not in body
    assert losses == []


async def test_the_smaller_limit_counts() -> None:
    body, _ = await sent("vllm", {"two_pass": "on", "max_response_tokens": 50}, thinking=False, max_output_tokens=20)
    assert body["max_tokens"] == 20


async def test_vllm_may_keep_the_budget_itself() -> None:
    overrides = {"two_pass": "engine", "max_response_tokens": 50}
    body, losses = await sent("vllm", overrides, reasoning={"effort": "low", "max_tokens": 7})
    assert body["thinking_token_budget"] == 7
    assert body["max_tokens"] == 57
    assert losses == []


async def test_llama_cpp_may_not() -> None:
    up = provider("llama_server")
    with pytest.raises(Unrepresentable) as refused:
        up.prepare(turn(), build_profile("llama_server", {"two_pass": "engine"}))
    assert refused.value.param == "reasoning"
    await up.aclose()


async def test_tools_without_a_parser_are_refused_before_anything_is_sent() -> None:
    up = provider("vllm")
    with pytest.raises(Unrepresentable) as refused:
        up.prepare(turn(tools=[WEATHER]), build_profile("vllm", {"two_pass": "on", "tool_parser": "openai"}))
    assert refused.value.param == "tools"
    await up.aclose()
