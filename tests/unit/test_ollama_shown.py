"""What Ollama shows of a model."""

from typing import Any

import pytest

from translation.ollama.shown import Shown, read_shown

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
def test_the_context_length_is_found(facts: Any, length: int | None) -> None:
    assert read_shown({"model_info": facts}).window == length


@pytest.mark.parametrize(
    ("parameters", "window"),
    [
        ('stop                           "<|im_end|>"\nnum_ctx                        8192\ntop_k 20', 8192),
        ('stop "num_ctx 1"', 40_960),
        ("num_ctx 0", 40_960),
        (None, 40_960),
        ({"num_ctx": 1}, 40_960),
    ],
)
def test_a_models_own_option_goes_before_what_it_was_made_for(parameters: Any, window: int) -> None:
    assert read_shown({"parameters": parameters, "model_info": {"qwen3.context_length": 40_960}}).window == window


def test_abilities_are_known_or_not() -> None:
    shown = read_shown({"capabilities": ["completion", "vision", 3]})
    assert (shown.can("vision"), shown.can("tools")) == (True, False)
    assert Shown(None, None).can("vision") is None
    assert read_shown({"capabilities": "vision"}).can("vision") is None
