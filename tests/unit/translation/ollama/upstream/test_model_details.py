"""Reads the details of a model from Ollama's `/api/show`."""

from typing import Any

import pytest

from translation.ollama.upstream.model_details import ModelFacts, parse_model_facts

FACTS: dict[str, tuple[Any, int | None]] = {
    "by the name of the architecture": (
        {"mllama.vision.context_length": 1, "general.architecture": "mllama", "mllama.context_length": 131_072},
        131_072,
    ),
    "without the name of the architecture": ({"llama.block_count": 32, "llama.context_length": 8192}, 8192),
    "a length that is none": ({"general.architecture": "llama", "llama.context_length": None}, None),
    "no length": ({"general.architecture": "llama"}, None),
    "no facts": (None, None),
}


@pytest.mark.parametrize(("facts", "length"), FACTS.values(), ids=FACTS)
def test_the_longest_context_is_found(facts: Any, length: int | None) -> None:
    assert parse_model_facts({"model_info": facts}).max_context == length


@pytest.mark.parametrize(
    ("parameters", "window"),
    [
        ('stop                           "<|im_end|>"\nnum_ctx                        8192\ntop_k 20', 8192),
        ('stop "num_ctx 1"', None),
        ("num_ctx 0", None),
        (None, None),
        ({"num_ctx": 1}, None),
    ],
)
def test_the_context_is_the_models_own_option_or_unknown(parameters: Any, window: int | None) -> None:
    assert (
        parse_model_facts({"parameters": parameters, "model_info": {"qwen3.context_length": 40_960}}).context_window
        == window
    )


def test_a_model_in_the_cloud_has_all_of_its_context() -> None:
    shown = parse_model_facts(
        {"remote_host": "https://ollama.com:443", "model_info": {"gptoss.context_length": 131_072}}
    )
    assert shown.context_window == 131_072


@pytest.mark.parametrize(
    ("own", "longest", "params", "window"),
    [
        (None, 40_960, None, None),
        (None, 40_960, 8192, 8192),
        (4096, 40_960, 8192, 8192),
        (4096, 40_960, None, 4096),
        (None, 40_960, 50_000, 40_960),
        (50_000, 40_960, None, 40_960),
        (4096, None, None, 4096),
        (None, None, 8192, 8192),
        (None, None, "8192", None),
    ],
)
def test_a_requested_context_overrides_the_models_up_to_its_maximum(
    own: int | None, longest: int | None, params: Any, window: int | None
) -> None:
    assert ModelFacts(own, longest, None).find_context_window(params) == window


def test_capabilities_are_known_or_unknown() -> None:
    shown = parse_model_facts({"capabilities": ["completion", "vision", 3]})
    assert (shown.has_capability("vision"), shown.has_capability("tools")) == (True, False)
    assert ModelFacts(None, None, None).has_capability("vision") is None
    assert parse_model_facts({"capabilities": "vision"}).has_capability("vision") is None
