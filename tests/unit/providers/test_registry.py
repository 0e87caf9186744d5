"""providers/registry.py: every provider type has a row, and the tables agree about it."""

import subprocess
import sys
from typing import Any, get_args

import pytest

from providers.base import Capabilities, EngineHost
from providers.config import EMBEDDED_TYPES, PROVIDER_DEFAULTS, TOKEN_PROMPT_TYPES, ProviderConfig, ProviderType
from providers.demo.files import MODEL_FILE
from providers.registry import BUILDERS, build_provider
from providers.relayed_paths import PathRelayer
from translation.request_facts import RelayedFeature

LOADING = EMBEDDED_TYPES - {"scripted"}


def capabilities(kind: ProviderType, **more: Any) -> Capabilities:
    return build_provider("p", config(kind, **more)).capabilities


def config(kind: ProviderType, **more: Any) -> ProviderConfig:
    needed: dict[str, Any] = {"model": "m"} if kind in LOADING - {"demo"} else {}
    if kind not in EMBEDDED_TYPES:
        needed = {"base_url": "http://localhost/v1"}
    return ProviderConfig.model_validate({"type": kind, **needed, **more})


def test_every_type_can_be_built() -> None:
    assert BUILDERS.keys() == PROVIDER_DEFAULTS.keys()


@pytest.mark.parametrize("kind", PROVIDER_DEFAULTS)
def test_only_types_that_continue_from_tokens_have_two_passes(kind: ProviderType) -> None:
    assert capabilities(kind).two_pass == (kind in TOKEN_PROMPT_TYPES)


@pytest.mark.parametrize("kind", PROVIDER_DEFAULTS)
def test_only_types_that_load_a_model_have_an_engine(kind: ProviderType) -> None:
    assert isinstance(build_provider("p", config(kind)), EngineHost) == (kind in LOADING)


@pytest.mark.parametrize("kind", PROVIDER_DEFAULTS)
def test_only_types_that_can_relay_have_endpoints_beside_the_client_apis(kind: ProviderType) -> None:
    provider = build_provider("p", config(kind))
    assert isinstance(provider, PathRelayer) or not provider.capabilities.endpoints


@pytest.mark.parametrize("dialects", [["responses"], ["chat", "responses"]])
@pytest.mark.parametrize("kind", ["vllm", "llama_server"])
def test_the_engines_get_only_functions_in_their_responses_api(kind: ProviderType, dialects: list[str]) -> None:
    """llama.cpp leaves other tools out without an error, and vLLM makes functions of some."""
    able = capabilities(kind, dialects=dialects)
    assert able.tool_kinds == {"function"}
    assert not able.hosted_tools | able.relayed_tools | able.relayed_kinds


@pytest.mark.parametrize("kind", ["vllm", "llama_server"])
def test_the_engines_have_no_more_of_the_messages_api_than_texts_images_and_functions(kind: ProviderType) -> None:
    assert not capabilities(kind, dialects=["chat", "messages"]).relayed_features


@pytest.mark.parametrize(
    ("dialects", "has_all"), [(["chat", "messages"], True), (["messages"], True), (["chat"], False)]
)
def test_other_servers_with_the_messages_api_have_all_of_it(dialects: list[str], has_all: bool) -> None:
    able = capabilities("openai_compatible", dialects=dialects)
    assert able.relayed_features == (set(get_args(RelayedFeature)) if has_all else set())


@pytest.mark.parametrize("dialects", [["responses"], ["chat", "responses"]])
@pytest.mark.parametrize("kind", ["openai", "openrouter", "openai_compatible"])
def test_others_get_tools_of_all_kinds_in_their_responses_api(kind: ProviderType, dialects: list[str]) -> None:
    able = capabilities(kind, dialects=dialects, api_key="k")
    kinds = able.tool_kinds | able.hosted_tools | able.relayed_tools | able.relayed_kinds
    assert kinds >= {"custom", "namespace", "apply_patch", "shell", "web_search", "mcp"}


@pytest.mark.parametrize("engine", [{"mmproj": {"path": "x.gguf"}}, {"mmproj.path": "x.gguf"}])
def test_llama_cpp_accepts_images_only_with_a_projector(engine: dict[str, Any]) -> None:
    assert not capabilities("llamacpp").images
    assert capabilities("llamacpp", engine=engine).images


@pytest.mark.parametrize(
    ("engine", "window"),
    [
        ({}, None),
        ({"n_ctx": 0}, None),
        ({"n_ctx": 8192}, 2048),
        ({"n_ctx": 8192, "n_parallel": 2}, 4096),
        ({"n_ctx": 8192, "kv_unified": True}, 8192),
        ({"n_ctx": "wrong"}, None),
    ],
)
def test_a_request_has_its_share_of_llama_cpps_tokens(engine: dict[str, Any], window: int | None) -> None:
    assert capabilities("llamacpp", engine=engine).max_context_window == window


def test_no_engine_is_imported_by_a_server_that_is_made_for_one() -> None:
    """Not even for checks: a process of its own reads the arguments of the library."""
    providers = {"a": {"type": "llamacpp", "model": str(MODEL_FILE), "engine": {"n_ctx": 512}}}
    source = (
        "import sys; from gateway.process.server import make_server\n"
        "from gateway.config.settings import parse_settings\n"
        f"make_server(parse_settings({{'store': {{'url': None}}, 'providers': {providers!r}}}), print)\n"
        "print({'xllamacpp', 'torch', 'transformers', 'vllm'} & sys.modules.keys())"
    )
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


@pytest.mark.parametrize("kind", sorted(LOADING))
def test_configured_engine_capabilities_override_the_type(kind: ProviderType) -> None:
    assert capabilities(kind, capabilities={"images": True, "max_context_window": 9}).images
    assert capabilities(kind, capabilities={"images": True, "max_context_window": 9}).max_context_window == 9
