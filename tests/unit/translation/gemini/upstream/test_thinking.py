"""translation/gemini/upstream/thinking.py and families.py"""

from typing import Any

import pytest

from translation.errors import Unrepresentable
from translation.gemini.upstream.families import family_of
from translation.gemini.upstream.thinking import lower_thinking
from translation.representation.json_types import Json
from translation.representation.loss import Loss
from translation.representation.profile import DEFAULT_PROFILE, Profile
from translation.representation.turn import Turn

PRO_25, FLASH_25, PRO_3, PRO_31, FLASH_3, OLD = (
    "gemini-2.5-pro",
    "models/gemini-2.5-flash",
    "gemini-3-pro-preview",
    "gemini-3.1-pro-preview",
    "gemini-3-flash-preview",
    "gemini-2.0-flash",
)


def lowered(model: str, profile: Profile = DEFAULT_PROFILE, **turn: Any) -> tuple[Json, list[str]]:
    losses: list[Loss] = []
    config = lower_thinking(Turn(model=model, items=[], **turn), family_of(model), profile, losses)
    return config, list(map(str, losses))


def tokens(count: int) -> Json:
    return {"thinkingBudget": count, "includeThoughts": True}


def level(content: str) -> Json:
    return {"thinkingLevel": content, "includeThoughts": True}


EFFORTS: dict[tuple[str, str], tuple[Json, list[str]]] = {
    (FLASH_25, "none"): ({"thinkingBudget": 0}, []),
    (FLASH_25, "minimal"): (tokens(1024), []),
    (FLASH_25, "low"): (tokens(1024), []),
    (FLASH_25, "medium"): (tokens(8192), []),
    (FLASH_25, "high"): (tokens(24576), []),
    (FLASH_25, "xhigh"): (tokens(24576), []),
    (PRO_25, "xhigh"): (tokens(32768), []),
    (PRO_25, "none"): (tokens(128), ["reasoning.effort=none as 128 tokens"]),
    (PRO_3, "low"): (level("low"), []),
    (PRO_3, "medium"): (level("high"), ["reasoning.effort=medium as high"]),
    (PRO_31, "medium"): (level("medium"), []),
    (PRO_31, "none"): (level("low"), ["reasoning.effort=none as low"]),
    (PRO_31, "max"): (level("high"), ["reasoning.effort=max as high"]),
    (FLASH_3, "minimal"): (level("minimal"), []),
    (FLASH_3, "none"): (level("minimal"), ["reasoning.effort=none as minimal"]),
    ("gemini-3.1-flash-lite", "none"): (level("minimal"), ["reasoning.effort=none as minimal"]),
    ("gemini-3.7-flash", "none"): (level("low"), ["reasoning.effort=none as low"]),
    ("gemini-3.8-flash-preview", "minimal"): (level("low"), ["reasoning.effort=minimal as low"]),
    ("gemini-flash-latest", "minimal"): (level("low"), ["reasoning.effort=minimal as low"]),
    ("gemini-flash-latest", "high"): (level("high"), []),
    ("gemini-3-pro-image-preview", "low"): ({}, ["reasoning=dropped"]),
    ("gemini-3.1-flash-lite-image", "medium"): (level("high"), ["reasoning.effort=medium as high"]),
    ("gemini-2.5-flash-lite", "none"): ({"thinkingBudget": 0}, []),
    ("gemini-9-pro", "high"): (level("high"), []),
    (OLD, "high"): ({}, ["reasoning=dropped"]),
    (OLD, "none"): ({}, []),
    ("gemini-2.5-flash-image", "high"): ({}, ["reasoning=dropped"]),
    ("tunedModels/mine", "high"): ({}, ["reasoning=dropped"]),
}


@pytest.mark.parametrize(("given", "expected"), EFFORTS.items(), ids=map(" ".join, EFFORTS))
def test_an_effort_has_the_form_of_the_family(given: tuple[str, str], expected: tuple[Json, list[str]]) -> None:
    model, effort = given
    assert lowered(model, reasoning={"effort": effort}) == expected


@pytest.mark.parametrize(("budget", "sent"), [(0, 0), (100, 512), (512, 512), (600, 600)])
def test_a_budget_too_small_to_think_with_is_raised(budget: int, sent: int) -> None:
    config, losses = lowered("gemini-2.5-flash-lite", reasoning={"max_tokens": budget})
    assert config["thinkingBudget"] == sent
    assert losses == ([] if budget == sent else ["reasoning.max_tokens=as 512"])


@pytest.mark.parametrize("model", [FLASH_25, PRO_31])
def test_thoughts_are_requested_by_default(model: str) -> None:
    assert lowered(model) == ({"includeThoughts": True}, [])


def test_models_without_thinking_get_no_thinking_config() -> None:
    assert lowered(OLD) == ({}, [])


BUDGETS: dict[tuple[str, int], tuple[Json, list[str]]] = {
    (FLASH_25, 500): (tokens(500), []),
    (FLASH_25, 0): ({"thinkingBudget": 0}, []),
    (FLASH_25, 90_000): (tokens(24576), ["reasoning.max_tokens=as 24576"]),
    (PRO_25, 5): (tokens(128), ["reasoning.max_tokens=as 128"]),
    (PRO_31, 700): (tokens(700), []),
    (OLD, 700): ({}, ["reasoning=dropped"]),
}


@pytest.mark.parametrize(("given", "expected"), BUDGETS.items(), ids=str)
def test_a_budget_is_limited_to_the_bounds_of_the_family(given: tuple[str, int], expected: object) -> None:
    model, budget = given
    assert lowered(model, reasoning={"max_tokens": budget, "effort": "low"}) == expected


SWITCHES: dict[tuple[str, bool], tuple[Json, list[str]]] = {
    (FLASH_25, True): (tokens(-1), []),
    (FLASH_25, False): ({"thinkingBudget": 0}, []),
    (PRO_31, True): ({"includeThoughts": True}, []),
    (PRO_31, False): (level("low"), ["thinking=false as low"]),
    (PRO_25, False): (tokens(128), ["thinking=false as 128 tokens"]),
    (OLD, True): ({}, ["thinking=dropped"]),
    (OLD, False): ({}, []),
}


@pytest.mark.parametrize(("given", "expected"), SWITCHES.items(), ids=str)
def test_thinking_is_switched(given: tuple[str, bool], expected: object) -> None:
    model, thinking = given
    assert lowered(model, thinking=thinking) == expected


def test_disabled_thinking_overrides_a_budget() -> None:
    assert lowered(FLASH_25, thinking=False, reasoning={"max_tokens": 9}) == ({"thinkingBudget": 0}, [])


def test_the_style_of_summaries_is_left_to_the_model() -> None:
    short = {"effort": "high", "summary": "concise"}
    assert lowered(PRO_31, reasoning=short) == (level("high"), ["reasoning.summary=as auto"])
    assert lowered(OLD, reasoning={"summary": "concise"}) == ({}, [])


def test_budgets_of_the_operator_override_the_defaults() -> None:
    profile = Profile(effort_budgets={"low": 7, "mine": 8})
    assert lowered(PRO_31, profile, reasoning={"effort": "low"}) == (tokens(7), [])
    assert lowered(FLASH_25, profile, reasoning={"effort": "mine"}) == (tokens(8), [])


def test_the_family_of_an_unknown_name_can_be_configured() -> None:
    high = {"effort": "high"}
    assert lowered("tunedModels/mine", Profile(thinking_form="adaptive"), reasoning=high) == (level("high"), [])
    assert lowered("tunedModels/mine", Profile(thinking_form="budget"), reasoning=high) == (tokens(24576), [])
    assert lowered(PRO_31, Profile(thinking_form="budget"), reasoning=high) == (tokens(24576), [])
    assert lowered(PRO_3, Profile(thinking_form="adaptive"), reasoning=high) == (level("high"), [])


def test_an_unknown_effort_is_refused() -> None:
    with pytest.raises(Unrepresentable) as refusal:
        lowered(PRO_31, reasoning={"effort": "utmost"})
    assert refusal.value.param == "reasoning.effort"
