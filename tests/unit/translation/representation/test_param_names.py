"""The turn's names of parameters are found for those that upstreams name in their errors."""

import pytest

from translation.representation.param_names import find_turn_param

NAMES = {"messages": "input", "generationConfig.topP": "top_p", "generationConfig": "generation"}


@pytest.mark.parametrize(
    ("param", "expected"),
    [
        ("messages", "input"),
        ("messages[2].content", "input"),
        ("messages.2.content", "input"),
        ("body.messages.0", "input"),
        ("generationConfig.topP", "top_p"),
        ("generationConfig.topK", "generation"),
        ("tools[0].name", "tools"),
        ("body.tools", "tools"),
        ("body", "body"),
        ("[3]", "[3]"),
        ("", ""),
    ],
)
def test_a_parameter_has_the_name_of_its_longest_known_path_or_its_first_key(param: str, expected: str) -> None:
    assert find_turn_param(param, NAMES) == expected
