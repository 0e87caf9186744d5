"""What Ollama shows of a model."""

from typing import Any

import pytest

from translation.ollama.model_details import Shown, read_shown

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
    assert read_shown({"model_info": facts}).longest == length


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
def test_a_models_own_option_is_its_context_and_without_one_nobody_knows(parameters: Any, window: int | None) -> None:
    assert read_shown({"parameters": parameters, "model_info": {"qwen3.context_length": 40_960}}).window == window


def test_a_model_in_the_cloud_has_all_of_its_context() -> None:
    shown = read_shown({"remote_host": "https://ollama.com:443", "model_info": {"gptoss.context_length": 131_072}})
    assert shown.window == 131_072


@pytest.mark.parametrize(
    ("own", "longest", "asked", "window"),
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
def test_what_is_asked_for_goes_before_what_a_model_has_and_no_context_is_longer_than_it_was_made_for(
    own: int | None, longest: int | None, asked: Any, window: int | None
) -> None:
    assert Shown(own, longest, None).window_of(asked) == window


def test_abilities_are_known_or_not() -> None:
    shown = read_shown({"capabilities": ["completion", "vision", 3]})
    assert (shown.can("vision"), shown.can("tools")) == (True, False)
    assert Shown(None, None, None).can("vision") is None
    assert read_shown({"capabilities": "vision"}).can("vision") is None
