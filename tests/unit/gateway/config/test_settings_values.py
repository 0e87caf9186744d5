"""gateway/config/settings.py: what the values of a configuration mean, in files and on the command line."""

from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from gateway.config.model_config import ModelConfig
from gateway.config.settings import ServerSettings, load_settings, parse_settings
from gateway.config.yaml_file import ConfigError
from providers.base import Capabilities
from translation.representation.profile import Profile


def test_models_keep_the_order_of_the_file() -> None:
    models = {name: {"provider": "p"} for name in ("b-*", "a", "*")}
    assert list(parse_settings({"providers": {"p": {"type": "scripted"}}, "models": models}).models) == [
        "b-*",
        "a",
        "*",
    ]


def test_command_line_options_override_the_file(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("server: {port: 1, workers: 2}\n")
    assert load_settings(file, overrides={"server": {"port": 3}}).server == ServerSettings(port=3, workers=2)
    assert parse_settings({}, overrides={"server": {"port": 3}}).server == ServerSettings(port=3)


def test_an_address_from_the_command_line_is_checked_too() -> None:
    with pytest.raises(ConfigError, match=r"server\.host: 0\.0\.0\.0 can be reached by others"):
        parse_settings({}, overrides={"server": {"host": "0.0.0.0"}})


def test_a_broken_server_section_is_reported_under_a_command_line_value() -> None:
    with pytest.raises(ConfigError, match="server: write keys and values"):
        parse_settings({"server": [1]}, overrides={"server": {"port": 3}})


@pytest.mark.parametrize("host", ["gateway.example.com", "gateway", "10.0.0.5", "fd00::1"])
def test_further_names_of_the_server_are_host_names(host: str) -> None:
    assert parse_settings({"server": {"hosts": [host]}}).server.hosts == (host,)


@pytest.mark.parametrize("host", ["https://gateway", "gateway:8080", "gateway/v1", "*", "*.example.com", "a b"])
def test_an_address_is_no_name_of_the_server(host: str) -> None:
    with pytest.raises(ConfigError, match=r"server\.hosts: write names without scheme, port and path"):
        parse_settings({"server": {"hosts": [host]}})


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1.2.3", "localhost", "::1"])
def test_loopback_needs_no_keys(host: str) -> None:
    assert parse_settings({"server": {"host": host}}).auth is None


def test_another_address_is_allowed_with_keys() -> None:
    tree = {"server": {"host": "::"}, "auth": {"keys": [{"name": "a", "key": "b"}]}}
    assert parse_settings(tree).server.host == "::"


@pytest.mark.parametrize("written", [{"two_pass": {"bridge": None}}, {"two_pass": True, "bridge": None}])
def test_a_null_bridge_disables_the_bridge(written: dict[str, Any]) -> None:
    assert ModelConfig.model_validate({"provider": "p", **written}).build_profile_overrides()["bridge"] == ""
    assert "bridge" not in ModelConfig.model_validate({"provider": "p", "two_pass": True}).build_profile_overrides()


def test_two_passes_are_a_switch_or_a_mapping_with_their_keys() -> None:
    passes = {"think_tag": "thinking", "effort_budgets": {"low": 10}}
    model = ModelConfig.model_validate({"provider": "p", "two_pass": passes})
    assert model.build_profile_overrides() == {"two_pass": "on", **passes}
    switches = (True, False, "engine")
    models = [ModelConfig.model_validate({"provider": "p", "two_pass": switch}) for switch in switches]
    assert [model.build_profile_overrides()["two_pass"] for model in models] == ["on", "off", "engine"]


def test_a_model_can_override_every_field_of_a_profile_and_no_other() -> None:
    own = {"provider", "model", "profile", "resumable", "strict", "request_defaults", "tools", "capabilities"}
    shared = {"upstreams", "balance", "affinity", "routing"}
    assert set(ModelConfig.model_fields) - own - shared == {field.name for field in fields(Profile)}


def test_fields_beside_a_family_override_it() -> None:
    model = ModelConfig.model_validate({"provider": "p", "profile": "deepseek", "empty_reasoning": False})
    assert model.build_profile_overrides() == {"replay_reasoning": "reasoning_content", "empty_reasoning": False}


def test_only_fields_of_a_model_override_its_profile() -> None:
    model = ModelConfig.model_validate({"provider": "p", "think_open": False, "extra_params": ["a"]})
    assert model.build_profile_overrides() == {"think_open": False, "extra_params": frozenset({"a"})}


def test_only_fields_of_a_model_override_its_providers_capabilities() -> None:
    tree: dict[str, Any] = {
        "providers": {"p": {"type": "scripted"}},
        "models": {"a": {"provider": "p", "capabilities": {"images": False, "max_context_window": 10}}},
    }
    capabilities = parse_settings(tree).models["a"].resolve_capabilities(Capabilities(images=True, tools=True))
    assert capabilities == Capabilities(tools=True, max_context_window=10)
