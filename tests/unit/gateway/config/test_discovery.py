"""gateway/config/discovery.py: what a machine without a config file serves."""

from collections.abc import Callable
from pathlib import Path

import pytest

from gateway.config import discovery
from gateway.config.discovery import HOSTED_SERVICES, HostedService, LocalServer, discover_config
from gateway.config.settings import parse_settings
from tests.upstream import ScriptedUpstream, closed_port, error_reply, json_reply, silence
from tests.upstream.ollama import ollama_error, ollama_shown, ollama_tags

KEYS = {"OPENAI_API_KEY": "a", "OPENROUTER_API_KEY": "b", "ANTHROPIC_API_KEY": "c", "GEMINI_API_KEY": "d"}


@pytest.fixture(autouse=True)
def _is_patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Waits longer for servers than a start should: a busy machine takes its time."""
    for name in ("_PROBE_TIMEOUT_S", "_DESCRIBE_TIMEOUT_S", "_HOSTED_TIMEOUT_S"):
        monkeypatch.setattr(discovery, name, 60.0)


def hosted_at(base_url: str) -> list[HostedService]:
    """The hosted services, as if all of them had this address."""
    return [service._replace(base_url=base_url) for service in HOSTED_SERVICES]


def unreachable() -> list[HostedService]:
    return hosted_at(f"http://127.0.0.1:{closed_port()}/v1")


def listing(*names: str) -> dict[str, object]:
    return {"object": "list", "data": [{"id": name, "object": "model"} for name in names]}


@pytest.mark.anyio
async def test_the_demo_is_a_real_engine_with_a_tiny_model() -> None:
    tree = await discover_config({}, ())
    assert tree["providers"]["demo"] == {"type": "demo"}
    settings = parse_settings(tree)
    assert settings.models["demo"].provider == "demo"
    assert settings.models["scripted"].provider == "scripted"


def no_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("providers.demo.files.is_xllamacpp_installed", lambda: False)


def no_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("providers.demo.files.MODEL_FILE", Path("/nowhere/tiny-reasoner.gguf"))


@pytest.mark.anyio
@pytest.mark.parametrize("take_away", [no_library, no_model])
async def test_without_an_engine_or_its_model_there_is_no_demo(
    take_away: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    take_away(monkeypatch)
    config = await discover_config({}, ())
    assert config["providers"] == {"scripted": {"type": "scripted"}}
    assert config["models"] == {"scripted": {"provider": "scripted"}}


@pytest.mark.anyio
async def test_keys_open_their_services_by_the_names_of_their_models() -> None:
    settings = parse_settings(await discover_config(KEYS, (), unreachable()), environ=KEYS)
    assert settings.providers["openai"].key == "a"
    assert settings.providers["openrouter"].key == "b"
    patterns = {name: model.provider for name, model in settings.models.items()}
    assert patterns["gpt-*"] == "openai"
    assert patterns["claude-*"] == "anthropic"
    assert patterns["gemini-*"] == "gemini"
    assert patterns["*/*"] == "openrouter"


LISTS: dict[str, tuple[dict[str, str], str, object, dict[str, str]]] = {
    "speech, embeddings, moderation and a new family of OpenAI": (
        {"OPENAI_API_KEY": "a"},
        "/models",
        json_reply(listing("gpt-5", "text-embedding-3-small", "tts-1", "omni-moderation-latest", "nova-1", "a*")),
        {"text-embedding-3-small": "openai", "tts-1": "openai", "omni-moderation-latest": "openai", "nova-1": "openai"},
    ),
    "other families of Google": (
        {"GEMINI_API_KEY": "d"},
        "/models",
        json_reply({"models": [{"name": "models/gemini-3-pro"}, {"name": "models/gemma-3-27b-it"}]}),
        {"gemma-3-27b-it": "gemini"},
    ),
    "nothing more of a service whose pattern has all": (
        {"OPENROUTER_API_KEY": "b"},
        "/models",
        json_reply(listing("openai/gpt-5", "qwen/qwen3")),
        {},
    ),
    "a key that the service does not know": ({"OPENAI_API_KEY": "a"}, "/models", error_reply(401, "no"), {}),
    "a service that does not answer": ({"OPENAI_API_KEY": "a"}, "/models", silence, {}),
    "another kind of list": ({"OPENAI_API_KEY": "a"}, "/models", json_reply({"things": []}), {}),
}  # fmt: skip


@pytest.mark.anyio
@pytest.mark.parametrize(("keys", "path", "script", "listed"), LISTS.values(), ids=LISTS)
async def test_models_that_a_hosted_service_lists_are_served_beside_its_patterns(
    keys: dict[str, str], path: str, script: object, listed: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    if script is silence:
        monkeypatch.setattr(discovery, "_HOSTED_TIMEOUT_S", 0.5)
    async with ScriptedUpstream() as upstream:
        upstream.on(path, script)  # type: ignore[arg-type]
        tree = await discover_config(keys, (), hosted_at(upstream.url))
    settings = parse_settings(tree, environ=keys)
    exact = {name: model.provider for name, model in settings.models.items() if not set("*?") & set(name)}
    assert exact == {"demo": "demo", "scripted": "scripted"} | listed
    patterns = [pattern for service in HOSTED_SERVICES for pattern in service.patterns]
    assert {name for name in settings.models if name not in exact} < set(patterns), "its patterns are served anyway"


@pytest.mark.anyio
async def test_a_local_server_keeps_a_name_that_a_hosted_service_lists_too() -> None:
    async with ScriptedUpstream() as upstream:
        upstream.on("/models", json_reply(listing("nova-1", "demo")))
        servers = [LocalServer("local", "openai_compatible", upstream.url)]
        tree = await discover_config({"OPENAI_API_KEY": "a"}, servers, hosted_at(upstream.url))
    assert tree["models"]["nova-1"]["provider"] == "local"
    assert tree["models"]["demo"]["provider"] == "demo"


@pytest.mark.anyio
async def test_an_empty_key_is_no_key() -> None:
    assert "openai" not in (await discover_config({"OPENAI_API_KEY": ""}, ()))["providers"]


@pytest.mark.anyio
async def test_a_local_server_is_served_by_the_names_it_lists() -> None:
    async with ScriptedUpstream() as upstream:
        upstream.on("/models", json_reply(listing("qwen3:8b", "Qwen/Qwen3-0.6B")))
        servers = [LocalServer("ollama", "openai_compatible", upstream.url)]
        tree = await discover_config(KEYS, servers, unreachable())
    settings = parse_settings(tree, environ=KEYS)
    assert settings.providers["ollama"].base_url == upstream.url
    assert list(settings.models)[:4] == ["demo", "scripted", "qwen3:8b", "Qwen/Qwen3-0.6B"]
    assert settings.models["Qwen/Qwen3-0.6B"].provider == "ollama"


@pytest.mark.anyio
async def test_the_first_to_list_a_name_serves_it_and_nobody_takes_the_demo() -> None:
    async with ScriptedUpstream() as one, ScriptedUpstream() as other:
        one.on("/models", json_reply(listing("demo", "a")))
        other.on("/models", json_reply(listing("a", "b")))
        tree = await discover_config(
            {}, [LocalServer("one", "vllm", one.url), LocalServer("other", "openai_compatible", other.url)]
        )
    assert {name: model["provider"] for name, model in tree["models"].items()} == {
        "demo": "demo",
        "scripted": "scripted",
        "a": "one",
        "b": "other",
    }


@pytest.mark.anyio
async def test_a_name_that_would_be_a_pattern_is_left_out() -> None:
    async with ScriptedUpstream() as upstream:
        upstream.on("/models", json_reply(listing("a*", "b?", "c[1]", "d")))
        tree = await discover_config({}, [LocalServer("vllm", "vllm", upstream.url)])
    assert list(tree["models"]) == ["demo", "scripted", "d"]


@pytest.mark.anyio
@pytest.mark.parametrize(
    "script",
    [silence, error_reply(401, "no"), json_reply({"models": []}), json_reply(listing())],
    ids=["silence", "an error", "another kind of list", "an empty list"],
)
async def test_a_server_that_lists_nothing_in_time_is_ignored(script: object, monkeypatch: pytest.MonkeyPatch) -> None:
    if script is silence:
        monkeypatch.setattr(discovery, "_PROBE_TIMEOUT_S", 0.5)
    async with ScriptedUpstream() as upstream:
        upstream.on("/models", script)  # type: ignore[arg-type]
        tree = await discover_config({}, [LocalServer("vllm", "vllm", upstream.url)])
    assert list(tree["providers"]) == ["demo", "scripted"]


@pytest.mark.anyio
async def test_facts_that_a_server_reports_about_its_models_are_used() -> None:
    async with ScriptedUpstream() as upstream:
        upstream.on("/api/tags", ollama_tags("llama3.2", "llava"))
        upstream.on("/api/show", ollama_shown("completion", "tools", num_ctx=8192), ollama_error(500, "boom"))
        tree = await discover_config({}, [LocalServer("ollama", "ollama", upstream.url)])
    settings = parse_settings(tree, environ={})
    told = settings.models["llama3.2"].capabilities.to_overrides()
    assert told == {"images": False, "reasoning": False, "tools": True, "max_context_window": 8192}
    assert settings.models["llava"].capabilities.to_overrides() == {}


@pytest.mark.anyio
async def test_a_server_that_does_not_describe_its_models_in_time_is_served_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(discovery, "_DESCRIBE_TIMEOUT_S", 0.5)
    async with ScriptedUpstream() as upstream:
        upstream.on("/api/tags", ollama_tags("llama3.2"))
        upstream.on("/api/show", silence)
        tree = await discover_config({}, [LocalServer("ollama", "ollama", upstream.url)])
    assert tree["models"]["llama3.2"] == {"provider": "ollama"}


@pytest.mark.anyio
async def test_closed_ports_are_ignored() -> None:
    tree = await discover_config({}, [LocalServer("vllm", "vllm", f"http://127.0.0.1:{closed_port()}/v1")])
    assert list(tree["providers"]) == ["demo", "scripted"]
