"""providers/profiles.py"""

from dataclasses import fields

import pytest

from providers.config import PROVIDER_DEFAULTS
from providers.profiles import MODEL_FAMILIES, PROFILES, profile_for
from translation.representation.profile import DEFAULT_PROFILE, Profile


def test_every_type_of_upstream_has_a_profile() -> None:
    assert PROFILES.keys() == PROVIDER_DEFAULTS.keys()


def test_a_models_own_fields_replace_the_types() -> None:
    profile = profile_for("vllm", {"replay_reasoning": "none", "think_open": True})
    assert (profile.replay_reasoning, profile.think_open) == ("none", True)
    assert profile.thinking_switch == PROFILES["vllm"].thinking_switch


def test_a_models_extra_params_are_added_to_the_types() -> None:
    extra_params = profile_for("openrouter", {"extra_params": frozenset({"mine"})}).extra_params
    assert extra_params == PROFILES["openrouter"].extra_params | {"mine"}


def test_openrouters_routing_fields_are_passed_on() -> None:
    assert {"provider", "route", "transforms", "models"} <= PROFILES["openrouter"].extra_params


def test_calls_of_two_passes_are_read_out_of_text_unless_the_operator_says_otherwise() -> None:
    assert profile_for("vllm", {}).tool_parser == "openai"
    assert profile_for("vllm", {"two_pass": "engine"}).tool_parser == "openai"
    assert profile_for("vllm", {"two_pass": "on"}).tool_parser == "hermes"
    assert profile_for("vllm", {"two_pass": "on", "tool_parser": "mistral"}).tool_parser == "mistral"
    assert profile_for("vllm_inprocess", {"two_pass": "on"}).tool_parser == "hermes"


@pytest.mark.parametrize("name", MODEL_FAMILIES)
def test_a_family_sets_fields_of_profiles_to_what_is_not_their_default(name: str) -> None:
    family = MODEL_FAMILIES[name]
    assert family.fields.keys() <= {field.name for field in fields(Profile)}
    assert profile_for("scripted", family.fields) != DEFAULT_PROFILE
