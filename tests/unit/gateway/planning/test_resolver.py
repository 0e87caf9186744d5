"""A model name leads to the first row of the config that matches it."""

from typing import Any

import pytest

from gateway.errors import UnknownModel
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
    assert (route.name, route.provider.name, route.upstream_model) == (name, *expected)


@pytest.mark.parametrize("name", ["llama", "GPT-4o", "qwen", "", "x" * 100_000], ids=lambda name: name[:8] or "empty")
def test_a_name_without_a_row_is_unknown(name: str) -> None:
    with pytest.raises(UnknownModel) as refusal:
        resolver(MODELS, A, B).resolve(name)
    assert refusal.value.param == "model"
    assert len(refusal.value.message) < 400


def test_a_model_a_key_may_not_use_is_as_unknown_as_any_other() -> None:
    models = resolver(MODELS, A, B)
    assert models.resolve("gpt-4o", ("gpt-*",)).name == "gpt-4o"
    refusals = []
    for name in ("qwen3", "llama"):
        with pytest.raises(UnknownModel) as refusal:
            models.resolve(name, ("gpt-*",))
        refusals.append(refusal.value.message.replace(name, "X"))
    assert refusals[0] == refusals[1]


def test_a_model_says_what_is_its_own() -> None:
    route = resolver(MODELS, A, B).resolve("qwen3")
    assert route.strict
    assert route.request_defaults == {"temperature": 0.1}
    assert not route.capabilities.images
    assert route.capabilities.tools
    assert route.profile.parsing_format == "think_tags"
    assert route.profile.extra_params == PROFILES["openai_compatible"].extra_params | {"mine"}
