"""gateway/config/unused_keys.py: keys without an effect are refused, and others are accepted."""

from typing import Any

import pytest

from gateway.config.settings import parse_settings
from gateway.config.yaml_file import ConfigError

Json = dict[str, Any]

PROVIDERS: Json = {
    "chat": {"type": "openai_compatible", "base_url": "http://localhost:1/v1"},
    "responses": {"type": "openai", "api_key": "k", "dialects": ["responses"]},
    "claude": {"type": "anthropic", "api_key": "k"},
    "gemini": {"type": "gemini", "api_key": "k"},
    "vllm": {"type": "vllm"},
    "llama": {"type": "llama_server", "base_url": "http://localhost:2/v1"},
    "scripted": {"type": "scripted"},
}
PASSES: Json = {
    "think_tag": "thinking",
    "max_thinking_tokens": 5,
    "max_response_tokens": 5,
    "bridge": "Enough.",
    "effort_budgets": {"low": 1},
}


def complaints(provider: str, **written: Any) -> dict[str, str]:
    """Returns the errors about each key of the model; empty if there are none."""
    try:
        parse_settings({"providers": PROVIDERS, "models": {"a": {"provider": provider, **written}}}, environ={})
    except ConfigError as error:
        return {
            ".".join(map(str, problem.path)).removeprefix("models.a."): problem.message for problem in error.problems
        }
    return {}


@pytest.mark.parametrize("key", PASSES)
@pytest.mark.parametrize("provider", ["vllm", "llama"])
def test_keys_of_two_passes_require_the_setting_two_passes(provider: str, key: str) -> None:
    assert complaints(provider, **{key: PASSES[key]}) == {
        key: "it has no effect without two passes: write two_pass: true, or two_pass: false if only requests to "
        "/generate ask for them"
    }


@pytest.mark.parametrize("two_pass", [True, False, "on", "off"])
def test_keys_of_two_passes_are_accepted_beside_the_setting_two_passes(two_pass: bool | str) -> None:
    assert complaints("vllm", two_pass=two_pass, **PASSES) == {}
    assert complaints("llama", two_pass=PASSES) == {}


def test_an_engine_that_keeps_the_budget_itself_reads_neither_tag_nor_bridge() -> None:
    errors = complaints("vllm", two_pass="engine", **PASSES)
    message = "vLLM enforces the budget itself and does not use it: leave it out"
    assert errors == {"think_tag": message, "bridge": message}


@pytest.mark.parametrize(
    ("provider", "read"),
    [
        ("chat", ()),
        ("responses", ()),
        ("scripted", ()),
        ("claude", ("max_thinking_tokens", "max_response_tokens", "effort_budgets")),
        ("gemini", ("effort_budgets",)),
    ],
)
def test_without_two_passes_only_keys_that_are_read_are_accepted(provider: str, read: tuple[str, ...]) -> None:
    errors = complaints(provider, **PASSES)
    assert errors.keys() == PASSES.keys() - set(read)
    assert all(message.endswith("does not use it: leave it out") for message in errors.values())


@pytest.mark.parametrize("provider", ["claude", "gemini", "responses", "scripted"])
def test_keys_about_calls_in_text_are_refused_where_they_have_no_effect(provider: str) -> None:
    written = {"tool_parser": "hermes", "text_tool_calls": "hermes", "tool_validation": "drop"}
    assert complaints(provider, **written).keys() == written.keys()
    assert complaints(provider, tool_parser="openai", text_tool_calls="none") == {}


@pytest.mark.parametrize("provider", ["chat", "vllm"])
def test_keys_about_calls_in_text_are_accepted_where_they_have_an_effect(provider: str) -> None:
    assert complaints(provider, tool_parser="hermes", tool_validation="report") == {}


@pytest.mark.parametrize(
    ("provider", "beside", "taken"),
    [
        ("chat", {}, False),
        ("chat", {"tool_parser": "hermes"}, False),
        ("chat", {"text_tool_calls": "hermes"}, True),
        ("vllm", {}, False),
        ("vllm", {"two_pass": "engine"}, False),
        ("vllm", {"two_pass": True}, True),
        ("vllm", {"two_pass": False}, True),
    ],
)
def test_one_block_is_for_answers_that_the_gateway_can_end(provider: str, beside: Json, taken: bool) -> None:
    errors = complaints(provider, single_tool_block=True, **beside)
    assert errors.keys() == (set() if taken else {"single_tool_block"})
    assert complaints(provider, single_tool_block=False, **beside) == {}


def test_other_mistakes_are_reported_once() -> None:
    assert complaints("nobody", **PASSES).keys() == {"provider"}
    assert complaints("chat", two_pass=True, **PASSES).keys() == {"two_pass"}
