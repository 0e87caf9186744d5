"""The models that the doctor examines, and the gateway that it does so through."""

import re

import pytest

from gateway.config.settings import Settings, parse_settings
from gateway.doctor.checks.subjects import NoModelsSelected, prepare_examination, select_models
from providers.registry import build_provider


def settings() -> Settings:
    models = {
        "a": {"provider": "one", "capabilities": {"images": False}, "strict": True},
        "b": {"provider": "two", "model": "org/b"},
        "c-*": {"provider": "two"},
    }
    return parse_settings(
        {"providers": {"one": {"type": "scripted"}, "two": {"type": "scripted"}}, "models": models}, environ={}
    )


def test_all_models_except_patterns_or_the_named_ones_are_chosen() -> None:
    assert list(select_models(settings(), [])) == ["a", "b"]
    assert list(select_models(settings(), ["c-1", "a"])) == ["c-1", "a"]


def test_each_upstream_of_a_name_is_a_model_of_its_own() -> None:
    rows = [
        {"provider": "one", "capabilities": {"images": False}},
        {"provider": "two"},
        {"provider": "two", "model": "b"},
    ]
    given = parse_settings(
        {
            "providers": {name: {"type": "scripted"} for name in ("one", "two")},
            "models": {"m": {"strict": True, "upstreams": rows}, "n": {"upstreams": [{"provider": "two"}]}},
        },
        environ={},
    )
    providers = {name: build_provider(name, config) for name, config in given.providers.items()}
    through, subjects, _ = prepare_examination(given, select_models(given, []), providers)
    found = [(each.name, each.title, each.provider, each.upstream_model, each.place) for each in subjects]
    assert found == [
        ("m (one)", "m", "one", "m", "models.m.upstreams.0"),
        ("m (two:m)", "m", "two", "m", "models.m.upstreams.1"),
        ("m (two:b)", "m", "two", "b", "models.m.upstreams.2"),
        ("n", "n", "two", "n", "models.n.upstreams.0"),
    ]
    assert [each.capabilities.images for each in subjects] == [False, True, True, True]
    assert all(each.strict for each in subjects[:3])
    assert all(model.upstreams is None for model in through.models.values())


@pytest.mark.parametrize(
    ("names", "words"), [(["c-*"], "c-* is a pattern"), (["d"], "no model of the config is called d; there are: a, b")]
)
def test_unknown_model_names_are_reported(names: list[str], words: str) -> None:
    with pytest.raises(NoModelsSelected, match=re.escape(words)):
        select_models(settings(), names)


def test_a_configuration_of_patterns_needs_a_name() -> None:
    only = settings().model_copy(update={"models": {"*": settings().models["c-*"]}})
    with pytest.raises(NoModelsSelected, match="--model"):
        select_models(only, [])


def test_the_examined_gateway_has_its_own_key_and_stores_nothing() -> None:
    given = settings()
    providers = {name: build_provider(name, config) for name, config in given.providers.items()}
    through, subjects, key = prepare_examination(given, select_models(given, ["a", "c-1"]), providers)
    assert through.store.url is None
    assert through.auth is not None
    assert [each.key and each.key.get_secret_value() for each in through.auth.keys] == [key]
    assert len(key) > 30
    assert list(through.models) == [
        "a",
        "c-1",
        *(f"{name}-{number}" for name in ("doctor-no-such-model", "doctor-tools") for number in (0, 1)),
    ]
    assert (through.models["a"].model, through.models["c-1"].model) == ("a", "c-1")
    first, second = subjects
    assert (first.capabilities.images, first.strict, second.capabilities.images) == (False, True, True)
