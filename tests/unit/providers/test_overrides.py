"""providers/overrides.py: keys of the configuration that are derived from a dataclass."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import pytest
from pydantic import Field, ValidationError

from providers.overrides import NO_KEY, OverridesOf


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    color: Literal["red", "green"] = "red"
    size: Annotated[int, Field(ge=1)] = 3
    limit: Annotated[int, Field(ge=1)] | None = None
    shares: Mapping[str, int] = field(default_factory=dict)
    is_round: bool = False
    names: frozenset[str] = field(default=frozenset(), metadata=NO_KEY)


class FactsConfig(OverridesOf[Facts]):
    """A key for each of the facts, and one more."""

    owner: str = "me"


def test_values_that_were_set_replace_those_of_the_facts() -> None:
    config = FactsConfig.model_validate({"color": "green", "is_round": False, "limit": None, "owner": "you"})
    assert config.to_overrides() == {"color": "green", "is_round": False}
    facts = Facts(is_round=True, limit=5, names=frozenset({"a"}))
    assert config.apply_to(facts) == Facts(color="green", limit=5, names=frozenset({"a"}))
    assert FactsConfig().apply_to(facts) == facts


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ({"color": "blue"}, "literal_error"),
        ({"size": 0}, "greater_than_equal"),
        ({"size": True}, "number_type"),
        ({"limit": True}, "number_type"),
        ({"shares": {"a": False}}, "number_type"),
        ({"names": ["a"]}, "extra_forbidden"),
    ],
)
def test_a_key_has_the_type_and_the_bounds_of_its_field(values: dict[str, Any], kind: str) -> None:
    with pytest.raises(ValidationError) as refused:
        FactsConfig.model_validate(values)
    assert [error["type"] for error in refused.value.errors()] == [kind]
