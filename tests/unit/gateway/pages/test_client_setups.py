"""gateway/pages/client_setups.py: three lines for each client, for every name of a model."""

import shlex

import pytest

from gateway.pages.client_setups import build_client_setups

NAMES = ["demo", "it's", 'a"b', "$(id)`id`", "a b", "日本語", "a\nb", "http://host:1"]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("key_variable", [None, "GATEWAY_KEY"])
def test_a_shell_gets_the_model_as_one_word_and_the_address_first(name: str, key_variable: str | None) -> None:
    setups = {setup.kind: setup.text for setup in build_client_setups("http://host:1", name, key_variable)}
    assert list(setups) == ["codex", "claude", "gemini", "ollama"]
    assert shlex.split(setups["codex"])[-1] == name
    assert f"ANTHROPIC_MODEL={name}" in shlex.split(setups["claude"])
    assert shlex.split(setups["gemini"])[-1] == name
    for text in setups.values():
        before, _, after = text.partition("http://host:1")
        assert before.endswith(('base_url="', "_URL=", "Server: "))
        assert after[:3] in ("/v1", "\nex", "\nMo")
        assert ("none" in text, "GATEWAY_KEY" in text or "yours" in text) != (True, True)


@pytest.mark.parametrize("key_variable", [None, "GATEWAY_KEY"])
def test_each_client_takes_three_lines(key_variable: str | None) -> None:
    for setup in build_client_setups("http://host:1", "demo", key_variable):
        assert setup.text.count("\n") == 2, setup.kind


def test_the_provider_of_codex_reads_the_key_only_if_there_are_keys() -> None:
    [codex, *_] = build_client_setups("http://host:1", "demo", "GATEWAY_KEY")
    assert 'env_key="GATEWAY_KEY"}' in codex.text
    [codex, *_] = build_client_setups("http://host:1", "demo", None)
    assert "env_key" not in codex.text
