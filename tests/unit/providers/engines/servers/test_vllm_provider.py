"""The context window that a vLLM server reports about its models, and its uses."""

import re
from typing import Any

import pytest

from providers import errors
from providers.base import ModelInspector
from providers.config import ProviderConfig
from providers.engines.servers.vllm_provider import VllmServerProvider
from providers.profiles import build_profile
from providers.registry import build_provider
from tests.unit.support.fake_engine import message
from tests.upstream import ScriptedUpstream
from tests.upstream.builders import error_reply, json_reply
from translation.representation.turn import Turn

BASE = {"id": "qwen", "max_model_len": 2048, "parent": None}
ROWS = {"data": [{"id": "lora", "parent": "qwen"}, BASE, {"id": "proxy"}, {"id": "odd", "max_model_len": "9"}, 7]}
OVERFLOW = "This prompt is too long."


def provider(url: str, **config: Any) -> VllmServerProvider:
    built = build_provider("up", ProviderConfig.model_validate({"type": "vllm", "base_url": url, **config}))
    assert isinstance(built, VllmServerProvider)
    assert isinstance(built, ModelInspector)
    return built


def list_requests(upstream: ScriptedUpstream) -> int:
    return sum(request.path.endswith("/models") for request in upstream.requests)


async def test_the_window_of_each_model_is_read_from_the_list_once_a_minute() -> None:
    async with ScriptedUpstream() as upstream:
        upstream.on("/models", json_reply(ROWS))
        up = provider(upstream.url)
        windows = {name: await up.find_context_window(name) for name in ("qwen", "lora", "proxy", "odd", "unknown")}
        assert windows == {"qwen": 2048, "lora": 2048, "proxy": None, "odd": None, "unknown": None}
        assert list_requests(upstream) == 1
        assert await up.fetch_model_capabilities("lora", {}) == {"max_context_window": 2048}
        assert await up.fetch_model_capabilities("proxy", {}) == {}
        await up.aclose()


async def test_an_unavailable_server_leaves_the_last_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("providers.engines.servers.vllm_provider._CACHE_S", 0.0)
    async with ScriptedUpstream() as upstream:
        up = provider(upstream.url)
        upstream.on("/models", error_reply(500, "boom"))
        assert await up.find_context_window("qwen") is None
        upstream.on("/models", json_reply({"data": 7}))
        assert await up.find_context_window("qwen") is None
        upstream.on("/models", json_reply(ROWS))
        assert await up.find_context_window("qwen") == 2048
        upstream.on("/models", error_reply(500, "boom"))
        assert await up.find_context_window("qwen") == 2048
        await up.aclose()


async def test_a_configured_window_is_not_queried() -> None:
    async with ScriptedUpstream() as upstream:
        up = provider(upstream.url, capabilities={"max_context_window": 77})
        assert await up.find_context_window("qwen") == 77
        assert list_requests(upstream) == 0
        await up.aclose()


async def send_relay(up: VllmServerProvider, model: str | None) -> None:
    body = {"messages": []} if model is None else {"model": model, "messages": []}
    await up.prepare_relay("chat", body).fetch_body()


async def send_turn(up: VllmServerProvider, model: str) -> None:
    turn = Turn(model=model, items=[message("Hi")])
    assert [batch async for batch in up.prepare(turn, build_profile("vllm", {})).batches()]


REFUSALS: dict[str, tuple[str, str]] = {
    "no number": (OVERFLOW, "This prompt is too long: the model's context is 2048 tokens"),
    "another number": (
        "The prompt has 12048 tokens, over the maximum context length.",
        "The prompt has 12048 tokens, over the maximum context length: the model's context is 2048 tokens",
    ),
    "the number": ("maximum context length is 2,048 tokens.", "maximum context length is 2,048 tokens."),
}


@pytest.mark.parametrize(("refusal", "expected"), REFUSALS.values(), ids=REFUSALS)
@pytest.mark.parametrize("relayed", [False, True], ids=["translated", "relayed"])
async def test_an_overflow_names_the_window(refusal: str, expected: str, relayed: bool) -> None:
    async with ScriptedUpstream() as upstream:
        upstream.on("/models", json_reply(ROWS))
        upstream.on("/chat/completions", error_reply(400, refusal))
        up = provider(upstream.url)
        with pytest.raises(errors.ContextLengthExceeded) as overflow:
            await (send_relay(up, "qwen") if relayed else send_turn(up, "qwen"))
        assert overflow.value.message == str(overflow.value) == expected
        await up.aclose()


async def test_an_overflow_of_a_model_that_is_not_listed_is_left_as_it_is() -> None:
    async with ScriptedUpstream() as upstream:
        upstream.on("/models", json_reply(ROWS))
        upstream.on("/chat/completions", error_reply(400, OVERFLOW))
        up = provider(upstream.url)
        for model in ("other", None):
            with pytest.raises(errors.ContextLengthExceeded, match=f"^{re.escape(OVERFLOW)}$"):
                await send_relay(up, model)
        await up.aclose()
