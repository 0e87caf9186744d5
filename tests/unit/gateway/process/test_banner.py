"""gateway/process/banner.py: what a person reads when the server listens."""

from typing import Any

import pytest

from gateway.config.settings import parse_settings
from gateway.process.banner import render_banner

URL = "http://127.0.0.1:8080"


def banner_of(models: dict[str, str], **more: Any) -> str:
    providers = {"demo": {"type": "scripted"}, "local": {"type": "vllm"}}
    tree = {"providers": providers, "models": {name: {"provider": kind} for name, kind in models.items()}, **more}
    return render_banner(parse_settings(tree, environ={"TEAM_KEY": "s3cret"}), URL)


def test_the_banner_lists_models_and_their_providers() -> None:
    assert banner_of({"qwen3": "local", "demo": "demo", "*": "local"}).splitlines()[:4] == [
        "MODEL  PROVIDER",
        "qwen3  local",
        "demo   demo",
        "*      local",
    ]


def test_the_banner_has_the_address_of_the_page() -> None:
    assert banner_of({"demo": "demo"}).splitlines()[-1] == f"In a browser: {URL}/"


def test_the_banner_has_few_lines() -> None:
    """`make run` prints two lines before it, `listening on`, and two of an engine: ten in all."""
    assert len(banner_of({"demo": "demo", "scripted": "demo"}).splitlines()) == 5


def test_a_long_list_is_cut() -> None:
    text = banner_of({f"m{number}": "local" for number in range(30)})
    assert "and 10 more" in text
    assert "m20" not in text


CURLS: dict[str, tuple[dict[str, str], str]] = {
    "a model inside the gateway": ({"a": "local", "demo": "demo"}, '{"model": "demo", "input": "Hello"}'),
    "else the first name": ({"*": "local", "a": "local", "b": "local"}, '{"model": "a", "input": "Hello"}'),
    "the list where there are only patterns": ({"*": "local"}, f"curl {URL}/v1/models"),
    "a name that a shell would read is passed over": ({"it's": "local", "b": "local"}, '"model": "b"'),
    "nothing to call": ({}, f"curl {URL}/v1/models"),
}  # fmt: skip


@pytest.mark.parametrize(("models", "call"), CURLS.values(), ids=CURLS)
def test_the_curl_command_calls_an_existing_model(models: dict[str, str], call: str) -> None:
    assert call in banner_of(models)


def test_the_curl_command_has_the_variable_of_the_key_and_never_the_key() -> None:
    text = banner_of({"demo": "demo"}, auth={"keys": [{"name": "a", "key_env": "TEAM_KEY"}]})
    assert '-H "Authorization: Bearer $TEAM_KEY"' in text
    assert "s3cret" not in text


def test_a_key_without_a_variable_is_left_to_the_reader() -> None:
    text = banner_of({"*": "local"}, auth={"keys": [{"name": "a", "key": "s3cret"}]})
    assert f'curl {URL}/v1/models -H "Authorization: Bearer $KEY"' in text
