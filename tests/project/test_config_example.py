"""config.example.yaml documents every key, and its comments about defaults are true."""

import re
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Union, get_args, get_origin

import pytest
import yaml
from pydantic import BaseModel

from gateway.config.hints import find_hints
from gateway.config.routing_settings import RoutingSettings
from gateway.config.settings import (
    EgressSettings,
    ServerSettings,
    Settings,
    StoreSettings,
    load_settings,
    parse_settings,
)
from providers.config import ProviderConfig

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "config.example.yaml"


def with_commented_settings(text: str) -> str:
    """Returns the text with the settings that are commented: lines that begin with `#` and no space, or with two."""
    return re.sub(r"^#(?=\S|  )", "", text, flags=re.MULTILINE)


TREE = yaml.safe_load(with_commented_settings(EXAMPLE.read_text()))
ENVIRON = dict.fromkeys(
    [
        "OPENAI_API_KEY",
        "OPENROUTER_API_KEY",
        "ANTHROPIC_API_KEY",
        "GEMINI_API_KEY",
        "LOCAL_KEY",
        "BRAVE_KEY",
        "TEAM_A_KEY",
        "GITHUB_TOKEN",
        "NOTES_KEY",
        "CRM_SECRET",
        "S3_ACCESS_KEY",
        "S3_SECRET_KEY",
    ],
    "k",
) | {"TEAM_B_KEY": "l", "SEALING_KEY": "k" * 32}


def keys_of(model: type[BaseModel], path: str = "") -> Iterator[str]:
    """Yields the paths of keys: `server.port`, `providers.*.type`, `auth.keys.*.name`, …"""
    for attribute, field in model.model_fields.items():
        name = field.alias or attribute
        yield f"{path}{name}"
        inner, suffix = innermost(field.annotation)
        if isinstance(inner, type) and issubclass(inner, BaseModel):
            yield from keys_of(inner, f"{path}{name}.{suffix}")


def innermost(annotation: Any, suffix: str = "") -> tuple[Any, str]:
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin in (Union, types.UnionType):
        return innermost(arguments[0], suffix)
    if origin is dict:
        return innermost(arguments[1], f"{suffix}*.")
    if origin is tuple:
        return innermost(arguments[0], f"{suffix}*.")
    return annotation, suffix


def written_keys(tree: Any, path: str = "") -> Iterator[str]:
    names_of_ones_choice = path in (
        "providers.",
        "models.",
        "families.",
        "tools.mcp.servers.",
        "tools.mcp.servers.*.as.",
    )
    for key, value in tree.items() if isinstance(tree, dict) else [("*", entry) for entry in tree]:
        name = f"{path}{'*' if names_of_ones_choice else key}"
        yield name
        if isinstance(value, dict | list):
            yield from written_keys(value, f"{name}.")


def test_the_example_can_be_used_as_it_is_and_nothing_in_it_is_a_probable_mistake() -> None:
    settings = load_settings(EXAMPLE, environ={})
    assert next(iter(settings.models)) == "demo"
    assert list(find_hints(settings)) == []


def test_the_example_needs_no_extra_and_no_file_beside_it() -> None:
    types_of_engines = {provider.type for provider in load_settings(EXAMPLE, environ={}).providers.values()} & ENGINES
    assert types_of_engines == set()
    assert {each["type"] for each in TREE["providers"].values()} & ENGINES == {"llamacpp", "harmony"}


ENGINES = {"demo", "harmony", "llamacpp", "vllm_inprocess"}
STARTER = ROOT / "gateway/cli/starter.yaml"


@pytest.mark.parametrize("file", [EXAMPLE, STARTER], ids=lambda file: file.name)
def test_the_commented_settings_are_valid_too(file: Path) -> None:
    tree = yaml.safe_load(with_commented_settings(file.read_text()))
    assert parse_settings(tree, environ=ENVIRON).auth is not None


OF_ROWS = {"models.*.upstreams.*.weight", "models.*.upstreams.*.tier"}
WRITTEN = set(written_keys(TREE))


@pytest.fixture(autouse=True)
def at_the_top(monkeypatch: pytest.MonkeyPatch) -> None:
    """Changes to the folder of the files that the example names."""
    monkeypatch.chdir(EXAMPLE.parent)


def test_every_key_is_in_the_example() -> None:
    keys, text = set(keys_of(Settings)), EXAMPLE.read_text()
    assert keys
    # The example refers to keys that it shows elsewhere: the capabilities of a provider, and those of a model.
    expected = {name if name in OF_ROWS else name.replace("models.*.upstreams.*.", "models.*.") for name in keys}
    expected = {name.replace("models.*.capabilities.", "providers.*.capabilities.") for name in expected}
    expected = {name.replace("models.*.routing.", "routing.") for name in expected}
    # One of two keys that exclude each other is only named.
    assert {name for name in expected - WRITTEN if f"or {name.rpartition('.')[2]}: " not in text} == set()


def test_the_defaults_in_the_example_are_the_defaults() -> None:
    settings = parse_settings(TREE, environ=ENVIRON)
    assert settings.server.model_copy(update={"cors": None}) == ServerSettings()
    assert settings.store == StoreSettings()
    assert settings.routing.model_copy(update={"first_content_s": None, "total_s": None}) == RoutingSettings()
    assert settings.egress.model_copy(update={"allow": ()}) == EgressSettings()
    shown = settings.providers["local"]
    limits = ("connect_s", "silence_s", "answer_s", "retries", "max_line_mb", "max_connections", "coalesce_ms")
    for name in (*limits, "transport", "load_report"):
        assert getattr(shown, name) == ProviderConfig.model_fields[name].default, name


def test_the_example_names_every_variable_that_it_needs() -> None:
    assert all(name in EXAMPLE.read_text() for name in ENVIRON)
