"""providers/http/ollama.py: turns are checked against the model details of an Ollama server, over a socket."""

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, aclosing
from typing import Any

import pytest

from providers import errors
from providers.base import ModelInspector, Provider
from providers.config import ProviderConfig
from providers.http.ollama import OllamaProvider
from providers.http.upstream import Upstream
from providers.registry import build_provider
from tests.upstream import Hang, Reply, ScriptedUpstream, error_reply, json_reply
from tests.upstream.ollama import ollama_error, ollama_lines, ollama_shown, ollama_tags, ollama_text
from translation.errors import Unrepresentable
from translation.representation.events import Event, Failed, Finished
from translation.representation.profile import DEFAULT_PROFILE, Profile
from translation.representation.turn import Turn

PIXEL = "data:image/png;base64,iVBORw0KGgo="
SEEN = {"type": "message", "role": "user", "content": [{"type": "input_image", "image_url": PIXEL}]}
SAID = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hi"}]}

Build = Callable[..., Provider]


@pytest.fixture
async def built() -> AsyncIterator[Build]:
    async with AsyncExitStack() as open_providers:

        def built(url: str, limits: dict[str, Any] | None = None, **more: Any) -> Provider:
            config = ProviderConfig.model_validate({"type": "ollama", "base_url": url, "retries": 0, **more})
            provider = build_provider("up", config)
            if limits is not None:
                upstream = Upstream("up", config, url.removesuffix("/v1"))
                provider = OllamaProvider(upstream, provider.capabilities, **limits)
            open_providers.push_async_callback(provider.aclose)
            return provider

        yield built


async def events_of(provider: Provider, *items: Any, stream: bool = True, **params: Any) -> list[Event]:
    turn = Turn(model="qwen3:8b", items=items or [SAID], stream=stream, **params)
    async with aclosing(provider.prepare(turn, DEFAULT_PROFILE).batches()) as batches:
        return [event async for batch in batches for event in batch]


def paths(upstream: ScriptedUpstream) -> list[str]:
    return [request.path for request in upstream.requests]


@pytest.mark.parametrize("suffix", ["", "/", "/v1", "/api"])
async def test_the_native_api_is_derived_from_any_address(built: Build, suffix: str) -> None:
    async with ScriptedUpstream() as upstream:
        upstream.on("/api/tags", ollama_tags("qwen3:8b"))
        upstream.on("/api/chat", ollama_text("Hello"))
        provider = built(upstream.url.removesuffix("/v1") + suffix)
        assert await provider.list_models() == ["qwen3:8b"]
        assert isinstance((await events_of(provider))[-1], Finished)
        assert paths(upstream) == ["/api/tags", "/api/chat"]
        assert "authorization" not in upstream.requests[0].headers


def test_the_default_address_is_used() -> None:
    assert ProviderConfig(type="ollama").base_url == "http://localhost:11434"


@pytest.mark.parametrize("answer", [{"data": []}, {"models": {}}])
async def test_another_kind_of_list_is_garbled(built: Build, answer: Any) -> None:
    async with ScriptedUpstream() as upstream:
        upstream.on("/api/tags", json_reply(answer))
        with pytest.raises(errors.UpstreamGarbled):
            await built(upstream.url).list_models()


async def test_rows_without_a_name_are_left_out(built: Build) -> None:
    async with ScriptedUpstream() as upstream:
        upstream.on("/api/tags", json_reply({"models": [{"name": "a"}, {}, {"name": 3}, "b"]}))
        assert await built(upstream.url).list_models() == ["a"]


async def test_models_without_a_list_are_not_queried(built: Build) -> None:
    async with ScriptedUpstream() as upstream:
        assert await built(upstream.url, capabilities={"models": False}).list_models() == []
        assert upstream.requests == []


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
async def test_images_for_a_model_that_sees_none_are_refused_and_not_sent(built: Build, stream: bool) -> None:
    async with ScriptedUpstream() as upstream:
        upstream.on("/api/show", ollama_shown("completion", "tools"))
        with pytest.raises(Unrepresentable, match="does not read images") as refusal:
            await events_of(
                built(upstream.url), SAID, {**SEEN, "content": [*SAID["content"], *SEEN["content"]]}, stream=stream
            )
        assert refusal.value.param == "input[1].content[1].image_url"
        assert paths(upstream) == ["/api/show"]
        assert upstream.requests[0].json == {"model": "qwen3:8b"}


@pytest.mark.parametrize(
    "shown",
    [
        ollama_shown("completion", "vision"),
        json_reply({"model_info": {}}),
        ollama_error(404, "model 'qwen3:8b' not found"),
        error_reply(500, "boom"),
        Reply(headers={"content-type": "text/html"}, body=b"<html>"),
    ],
    ids=["a model that sees", "an old server", "no such model", "a failure", "no JSON"],
)
async def test_images_are_sent_if_the_model_may_see_them(built: Build, shown: Reply) -> None:
    async with ScriptedUpstream() as upstream:
        upstream.on("/api/show", shown)
        upstream.on("/api/chat", ollama_text("A cat."))
        assert isinstance((await events_of(built(upstream.url), SEEN))[-1], Finished)
        assert upstream.requests[-1].json["messages"] == [{"role": "user", "content": "", "images": ["iVBORw0KGgo="]}]


async def test_a_server_that_does_not_describe_its_model_in_time_gets_the_turn(built: Build) -> None:
    async with ScriptedUpstream() as upstream:
        upstream.on("/api/show", Reply(body=[Hang()]))
        upstream.on("/api/chat", ollama_text("A cat."))
        provider = built(upstream.url, {"show_timeout_s": 0.05})
        assert isinstance((await events_of(provider, SEEN))[-1], Finished)


async def test_more_tokens_than_the_models_context_are_refused(built: Build) -> None:
    async with ScriptedUpstream() as upstream:
        upstream.on("/api/show", ollama_shown("completion", window=4096))
        upstream.on("/api/chat", ollama_text("Hello"))
        provider = built(upstream.url)
        with pytest.raises(errors.ContextLengthExceeded, match="4096 tokens"):
            await events_of(provider, max_output_tokens=4097)
        turn = Turn(model="m", items=[SAID], max_output_tokens=4050, extra={"num_ctx": 4000})
        exchange = provider.prepare(turn, Profile(extra_params=frozenset({"num_ctx"})))
        with pytest.raises(errors.ContextLengthExceeded, match="4000 tokens"):
            await anext(exchange.batches())
        assert isinstance((await events_of(provider, max_output_tokens=4096))[-1], Finished)


async def test_model_details_are_requested_once_and_only_if_needed(built: Build) -> None:
    async with ScriptedUpstream() as upstream:
        upstream.on("/api/show", ollama_shown("completion", "vision"))
        upstream.on("/api/chat", ollama_text("Hello"))
        provider = built(upstream.url)
        await events_of(provider, max_output_tokens=2047)
        assert paths(upstream) == ["/api/chat"]
        for _ in range(3):
            await events_of(provider, SEEN)
        assert paths(upstream).count("/api/show") == 1


async def test_the_cache_of_model_details_is_bounded(built: Build) -> None:
    async with ScriptedUpstream() as upstream:
        upstream.on("/api/show", ollama_shown("completion", "vision"))
        upstream.on("/api/chat", ollama_text("Hello"))
        provider = built(upstream.url, {"max_models": 1})
        for model in ("a", "b", "a"):
            turn = Turn(model=model, items=[SEEN])
            async with aclosing(provider.prepare(turn, DEFAULT_PROFILE).batches()) as batches:
                assert [batch async for batch in batches]
        assert paths(upstream).count("/api/show") == 3


async def test_model_details_become_capabilities(built: Build) -> None:
    async with ScriptedUpstream() as upstream:
        upstream.on("/api/show", ollama_shown("completion", "tools"))
        provider = built(upstream.url)
        assert isinstance(provider, ModelInspector)
        facts = {"images": False, "reasoning": False, "tools": True}
        assert await provider.fetch_model_capabilities("qwen3:8b", {}) == facts
        assert await provider.fetch_model_capabilities("qwen3:8b", {"num_ctx": 8192}) == {
            **facts,
            "max_context_window": 8192,
        }
        upstream.on("/api/show", ollama_error(404, "not found"))
        assert await provider.fetch_model_capabilities("other", {}) == {}


async def test_an_error_instead_of_a_stream_has_its_name(built: Build) -> None:
    async with ScriptedUpstream() as upstream:
        provider = built(upstream.url)
        upstream.on("/api/chat", ollama_error(400, "the input length exceeds the context length"))
        with pytest.raises(errors.ContextLengthExceeded):
            await events_of(provider)
        upstream.on("/api/chat", ollama_error(404, "model 'qwen3:8b' not found"))
        with pytest.raises(errors.UpstreamModelNotFound, match="not found"):
            await events_of(provider)
        upstream.on("/api/chat", ollama_error(400, '"qwen3:8b" does not support tools'))
        with pytest.raises(errors.UpstreamRejected, match="does not support tools"):
            await events_of(provider)


async def test_an_error_inside_a_stream_names_neither_key_nor_address(built: Build) -> None:
    async with ScriptedUpstream() as upstream:
        words = f"Post http://127.0.0.1:{upstream.port}/completion: EOF, by upstream-secret"
        upstream.on("/api/chat", ollama_lines([{"error": words}]))
        (failed,) = await events_of(built(upstream.url, api_key="upstream-secret"))
        assert isinstance(failed, Failed)
        assert "EOF" in failed.message
        assert str(upstream.port) not in failed.message
        assert "upstream-secret" not in failed.message
        assert upstream.requests[0].headers["authorization"] == "Bearer upstream-secret"


async def test_tokens_are_counted_by_a_turn_of_one(built: Build) -> None:
    async with ScriptedUpstream() as upstream:
        upstream.on("/api/chat", ollama_text("Hello"))
        provider = built(upstream.url)
        assert provider.capabilities.counting == "turn"
        assert await provider.count_tokens(Turn(model="m", items=[SAID]), DEFAULT_PROFILE, "turn") == 9
        assert upstream.requests[0].json["options"] == {"num_predict": 1}
