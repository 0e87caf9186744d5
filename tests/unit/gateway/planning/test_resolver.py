"""A model name leads to the first row of the config that matches it."""

from typing import Any

import pytest

from gateway.config.settings import parse_settings
from gateway.errors import UnknownModel
from gateway.planning.resolver import Resolver
from providers.profiles import PROFILES
from tests.unit.support.routing import Recorder, resolver

A, B = Recorder("a"), Recorder("b")
MODELS: dict[str, Any] = {
    "gpt-oss": {"provider": "a", "model": "openai/gpt-oss-20b"},
    "gpt-*": {"provider": "b"},
    "qwen?": {
        "provider": "a",
        "parsing_format": "think_tags",
        "strict": True,
        "request_defaults": {"temperature": 0.1},
        "capabilities": {"images": False, "extensions": ["mine"]},
    },
}

ROUTES = {"gpt-oss": ("a", "openai/gpt-oss-20b"), "gpt-4o": ("b", "gpt-4o"), "qwen3": ("a", "qwen3")}


@pytest.mark.parametrize(("name", "expected"), ROUTES.items(), ids=ROUTES)
def test_the_first_match_wins(name: str, expected: tuple[str, str]) -> None:
    route = resolver(MODELS, A, B).resolve(name)
    assert (route.name, route.target.provider.name, route.target.upstream_model) == (name, *expected)


@pytest.mark.parametrize("name", ["llama", "GPT-4o", "qwen", "", "x" * 100_000], ids=lambda name: name[:8] or "empty")
def test_a_name_without_a_row_is_unknown(name: str) -> None:
    with pytest.raises(UnknownModel) as refusal:
        resolver(MODELS, A, B).resolve(name)
    assert refusal.value.param == "model"
    assert len(refusal.value.message) < 400


def test_a_model_that_a_key_may_not_use_is_unknown() -> None:
    models = resolver(MODELS, A, B)
    assert models.resolve("gpt-4o", ("gpt-*",)).name == "gpt-4o"
    refusals = []
    for name in ("qwen3", "llama"):
        with pytest.raises(UnknownModel) as refusal:
            models.resolve(name, ("gpt-*",))
        refusals.append(refusal.value.message.replace(name, "X"))
    assert refusals[0] == refusals[1]


def test_fields_of_a_model_override_its_provider() -> None:
    route = resolver(MODELS, A, B).resolve("qwen3")
    assert route.strict
    assert route.request_defaults == {"temperature": 0.1}
    assert not route.target.capabilities.images
    assert route.target.capabilities.tools
    assert route.target.profile.parsing_format == "think_tags"
    assert route.target.profile.extra_params == PROFILES["openai_compatible"].extra_params | {"mine"}


FAMILIES: dict[str, tuple[str, str, str]] = {
    "a known family": ("qwen3-8b", "leading_think_tags", "openai"),
    "an unknown name": ("other", "direct_response", "openai"),
    "the operator's own words": ("qwen3-plain", "direct_response", "hermes"),
    "a family of the configuration": ("acme-1", "leading_think_tags", "openai"),
    "a family that the operator describes otherwise": ("smollm3-3b", "direct_response", "openai"),
    "a family that the model names": ("named", "leading_think_tags", "openai"),
    "a name that stands for another": ("alias", "leading_think_tags", "openai"),
}


@pytest.mark.parametrize(("name", "parsing_format", "tool_parser"), FAMILIES.values(), ids=FAMILIES)
def test_a_models_name_decides_how_its_text_is_parsed(name: str, parsing_format: str, tool_parser: str) -> None:
    tree: dict[str, Any] = {
        "providers": {"a": {"type": "openai_compatible", "base_url": "http://127.0.0.1:9/v1"}},
        "families": {"acme": {"patterns": ["ACME-*"], "parsing_format": "think_tags"}, "smollm3": {}},
        "models": {
            "qwen3-plain": {"provider": "a", "parsing_format": "direct_response", "tool_parser": "hermes"},
            "named": {"provider": "a", "profile": "acme"},
            "alias": {"provider": "a", "model": "Qwen/Qwen3-8B"},
            "*": {"provider": "a"},
        },
    }
    profile = Resolver(parse_settings(tree, environ={}), {"a": A}).resolve(name).target.profile
    assert (profile.parsing_format, profile.tool_parser) == (parsing_format, tool_parser)


@pytest.mark.parametrize(
    ("loaded", "tool_parser"),
    [("/models/Mistral-7B-Instruct.gguf", "mistral"), ("/models/7b.gguf", "hermes"), ("glm-4.6.gguf", "openai")],
)
def test_an_engine_runs_its_model_under_any_name(
    loaded: str, tool_parser: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.config.checks._check_engines", lambda tree: ())  # there are no such files
    tree: dict[str, Any] = {
        "providers": {"a": {"type": "llamacpp", "model": loaded}},
        "models": {"qwen3": {"provider": "a", "two_pass": True}},
    }
    assert (
        Resolver(parse_settings(tree, environ={}), {"a": A}).resolve("qwen3").target.profile.tool_parser == tool_parser
    )


def test_a_parser_that_the_installed_vllm_lacks_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("providers.vllm_inprocess.check.list_installed_tool_parsers", lambda: frozenset({"glm45"}))
    monkeypatch.setattr("gateway.config.checks._check_engines", lambda tree: ())
    tree: dict[str, Any] = {
        "providers": {"a": {"type": "vllm_inprocess", "model": "m"}},
        "models": {"*": {"provider": "a"}},
    }
    models = Resolver(parse_settings(tree, environ={}), {"a": A})
    assert models.resolve("glm-4.6").target.profile.tool_parser == "vllm:glm45"
    assert models.resolve("kimi-k2").target.profile.tool_parser == "openai"


def test_a_target_is_found_by_its_candidate_also_if_others_were_left_out() -> None:
    providers = {"a": A, "b": B, "c": Recorder("c")}
    settings = parse_settings(
        {
            "providers": {name: {"type": "scripted"} for name in providers},
            "models": {"m": {"upstreams": [{"provider": name} for name in providers]}},
        },
        environ={},
    )
    route = Resolver(settings, providers).resolve("m")
    assert [route.find_target(index).provider.name for index in range(3)] == ["a", "b", "c"]
    assert [each.upstream for each in route.candidates.all] == ["a", "b", "c"]
    kept = route.keep_targets(route.targets[1:])
    assert [kept.find_target(index).provider.name for index in (1, 2)] == ["b", "c"]
    assert [each.upstream for each in kept.candidates.all] == ["b", "c"]


def test_a_name_with_one_provider_has_no_candidates() -> None:
    assert resolver({"m": {"provider": "a"}}, A).resolve("m").candidates.all == ()
