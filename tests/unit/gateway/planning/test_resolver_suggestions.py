"""gateway/planning/resolver.py: finds similar names, in bounded time for any name."""

import time

import pytest

from gateway.planning.resolver import suggest_models

NOWHERE = "GET /v1/models lists those that do"


def test_the_most_similar_names_are_first() -> None:
    known = ["mistral-7b", "Qwen/Qwen3-14B", "Qwen/Qwen3-8B", "llama"]
    assert suggest_models("qwen/qwen3-80b", known) == "did you mean Qwen/Qwen3-8B or Qwen/Qwen3-14B?"
    assert suggest_models("Qwen3-8B", known) == "did you mean Qwen/Qwen3-8B?"
    assert suggest_models("gpt-4o", known) == NOWHERE
    assert suggest_models("gpt-4o", []) == NOWHERE
    assert suggest_models("", known) == NOWHERE
    assert suggest_models("q" * 101, ["q" * 101]) == NOWHERE


def test_many_long_names_do_not_take_long() -> None:
    known = ["qwen/" + "ab-" * 30 + str(number) for number in range(10_000)]
    began = time.thread_time()
    assert suggest_models("qwen/" + "ba-" * 31, known)
    assert time.thread_time() - began < 0.5, "a hundred times as long as it takes"


def test_the_demo_model_is_missed_with_the_extra_that_brings_it(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "[demo]" not in suggest_models("demo", ["demo-2"]), "it is installed here"
    monkeypatch.setattr("providers.demo.files.is_xllamacpp_installed", lambda: False)
    assert suggest_models("demo", ["demo-2"]).endswith('pip install "responses-gateway[demo]"')
    assert suggest_models("demo-1", ["demo-2"]) == "did you mean demo-2?"
