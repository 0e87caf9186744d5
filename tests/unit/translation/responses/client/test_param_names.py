"""Parameters of a turn by the names that a client of the Responses API knows."""

import pytest

from translation.representation.json_types import Json
from translation.responses.client.param_names import PARAM_NAMES


@pytest.mark.parametrize(
    ("reasoning", "expected"),
    [
        ({"summary": "auto"}, "reasoning.summary"),
        ({"summary": None, "generate_summary": "auto"}, "reasoning.generate_summary"),
        ({"generate_summary": "auto"}, "reasoning.generate_summary"),
    ],
)
def test_a_summary_has_the_name_by_which_it_was_requested(reasoning: Json, expected: str) -> None:
    assert "".join(PARAM_NAMES.find("reasoning", "", ".summary", {"reasoning": reasoning})) == expected


@pytest.mark.parametrize("param", [("reasoning", "", ".effort"), ("input", "[0]", ".summary"), ("seed", "", "")])
def test_all_other_names_are_the_clients_own(param: tuple[str, str, str]) -> None:
    assert PARAM_NAMES.find(*param, {"reasoning": None}) == param
