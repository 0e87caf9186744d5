"""providers/profiles.py"""

from dataclasses import fields

import pytest

from providers.config import PROVIDER_DEFAULTS, ProviderType
from providers.model_families import MODEL_FAMILIES, ModelFamily, RawTextFormat
from providers.profiles import PROFILES, build_profile
from translation.representation.profile import DEFAULT_PROFILE, Profile


def test_every_type_of_upstream_has_a_profile() -> None:
    assert PROFILES.keys() == PROVIDER_DEFAULTS.keys()


def test_a_models_own_fields_replace_the_types() -> None:
    profile = build_profile("vllm", {"replay_reasoning": "none", "think_open": True})
    assert (profile.replay_reasoning, profile.think_open) == ("none", True)
    assert profile.thinking_switch == PROFILES["vllm"].thinking_switch


def test_the_params_that_a_model_lists_are_added_to_the_types() -> None:
    extra_params = build_profile("openrouter", {"extra_params": frozenset({"mine"})}).extra_params
    assert extra_params == PROFILES["openrouter"].extra_params | {"mine"}
    refused_params = build_profile("openai", {"refused_params": frozenset({"mine"})}).refused_params
    assert refused_params == {"metadata", "mine"}


def test_openrouters_routing_fields_are_forwarded() -> None:
    assert {"provider", "route", "transforms", "models"} <= PROFILES["openrouter"].extra_params


def test_calls_of_two_passes_are_parsed_from_text_unless_configured_otherwise() -> None:
    assert build_profile("vllm", {}).tool_parser == "openai"
    assert build_profile("vllm", {"two_pass": "engine"}).tool_parser == "openai"
    assert build_profile("vllm", {"two_pass": "on"}).tool_parser == "hermes"
    assert build_profile("vllm", {"two_pass": "on", "tool_parser": "mistral"}).tool_parser == "mistral"
    assert build_profile("vllm_inprocess", {"two_pass": "on"}).tool_parser == "hermes"


@pytest.mark.parametrize("name", [name for name, family in MODEL_FAMILIES.items() if family.fields])
def test_a_family_sets_fields_of_profiles_to_other_values_than_the_default(name: str) -> None:
    family = MODEL_FAMILIES[name]
    assert family.fields.keys() <= {field.name for field in fields(Profile)}
    assert build_profile("scripted", family.fields) != DEFAULT_PROFILE


OWN_HISTORY: list[tuple[ProviderType, str | None, dict[str, str], str]] = [
    ("anthropic", PROVIDER_DEFAULTS["anthropic"].base_url, {}, "repair"),
    ("anthropic", "https://API.anthropic.com", {}, "repair"),
    ("anthropic", "https://api.anthropic.com/v1", {"relayed_history": "keep"}, "keep"),
    ("anthropic", "https://api.moonshot.ai/anthropic/v1", {}, "by_model"),
    ("anthropic", "https://api.anthropic.com.example.org/v1", {}, "by_model"),
    ("anthropic", "https://api.moonshot.ai/anthropic/v1", {"relayed_history": "repair"}, "repair"),
    ("anthropic", None, {}, "by_model"),
    ("openai", PROVIDER_DEFAULTS["openai"].base_url, {}, "keep"),
    ("scripted", None, {"relayed_history": "by_model"}, "by_model"),
]


@pytest.mark.parametrize(("kind", "base_url", "overrides", "way"), OWN_HISTORY)
def test_every_history_for_anthropics_own_server_is_mended(
    kind: ProviderType, base_url: str | None, overrides: dict[str, str], way: str
) -> None:
    assert build_profile(kind, overrides, base_url=base_url).relayed_history == way


THINKER = RawTextFormat("think_tags", "mistral")
XML_CALLER = RawTextFormat("direct_response", "openai", "glm45")

RAW_TEXT: dict[str, tuple[str, dict[str, str], RawTextFormat, tuple[str, str]]] = {
    "an engine's text is raw": ("vllm_inprocess", {}, THINKER, ("think_tags", "mistral")),
    "vLLM's own parser reads a format of its own": (
        "vllm_inprocess",
        {},
        XML_CALLER,
        ("direct_response", "vllm:glm45"),
    ),
    "a server of unknown flags": ("vllm", {}, THINKER, ("leading_think_tags", "openai")),
    "any server of unknown flags": ("openai_compatible", {}, THINKER, ("leading_think_tags", "openai")),
    "a server of unknown flags whose model does not think": ("vllm", {}, XML_CALLER, ("direct_response", "openai")),
    "two passes": ("vllm", {"two_pass": "on"}, THINKER, ("leading_think_tags", "mistral")),
    "two passes of a format without a parser": (
        "llama_server",
        {"two_pass": "on"},
        XML_CALLER,
        ("leading_think_tags", "openai"),
    ),
    "llama.cpp parses itself": ("llama_server", {}, THINKER, ("leading_think_tags", "openai")),
    "llama.cpp is asked not to parse": (
        "llama_server",
        {"parsing_format": "direct_response"},
        THINKER,
        ("direct_response", "openai"),
    ),
    "Ollama parses itself": ("ollama", {}, THINKER, ("direct_response", "openai")),
    "a service parses itself": ("openrouter", {}, THINKER, ("direct_response", "openai")),
    "the operator knows better": (
        "vllm",
        {"parsing_format": "direct_response", "tool_parser": "hermes"},
        THINKER,
        ("direct_response", "hermes"),
    ),
}


@pytest.mark.parametrize(("kind", "overrides", "text", "expected"), RAW_TEXT.values(), ids=RAW_TEXT)
def test_a_familys_text_counts_where_it_may_not_have_been_parsed(
    kind: ProviderType, overrides: dict[str, str], text: RawTextFormat, expected: tuple[str, str]
) -> None:
    profile = build_profile(kind, overrides, ModelFamily("a reason", text=text))
    assert (profile.parsing_format, profile.tool_parser) == expected


def test_what_follows_from_a_template_counts_where_a_server_renders_it() -> None:
    family = ModelFamily("a reason", template={"system_messages": "merge_all"})
    kinds = [kind for kind in PROFILES if build_profile(kind, {}, family).system_messages == "merge_all"]
    assert set(PROFILES) - set(kinds) == {"openai", "anthropic", "gemini", "harmony", "demo", "scripted"}
    assert build_profile("vllm", {"system_messages": "keep"}, family).system_messages == "keep"


def test_each_vendor_gets_the_schemas_that_it_accepts() -> None:
    shims = {kind: set(profile.schema_shims) for kind, profile in PROFILES.items() if profile.schema_shims}
    assert shims == {
        "openai": {"array_items"},
        "openrouter": {"array_items"},
        "anthropic": {"plain_patterns"},
    }
