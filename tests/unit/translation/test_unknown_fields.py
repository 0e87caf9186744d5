"""Unknown keys are found wherever the schema says which keys there are."""

from typing import Annotated, Required

from pydantic import Field
from typing_extensions import TypedDict

from translation.representation.json_types import Json
from translation.unknown_fields import UnknownFields


class Leaf(TypedDict, total=False):
    text: str
    own: Json
    inner: "Leaf"
    by_name: "dict[str, Leaf]"


class Free(TypedDict, total=False):
    known: int


class Body(TypedDict, total=False):
    model: str
    leaf: Required[Leaf]
    leaves: Annotated[list[Leaf], Field(min_length=1)] | None
    free: Free | None
    either: Leaf | str


def find(**body: object) -> list[str]:
    return UnknownFields(Body, skipped=(Free,)).find(dict(body))


def test_unknown_keys_are_found_by_their_paths() -> None:
    leaf = {"text": "a", "novel": 1, "inner": {"inner": {"x" * 60: "y"}}, "by_name": {"a": {"odd": [1]}}}
    assert find(leaf=leaf, leaves=[{"text": "b"}, {"other": 0}]) == [
        "leaf.novel",
        f"leaf.inner.inner.{'x' * 50}",
        "leaf.by_name.a.odd",
        "leaves[1].other",
    ]


def test_keys_without_a_value_say_nothing() -> None:
    assert find(leaf={"a": None, "b": False, "c": "", "d": [], "e": {}}, leaves=None) == []


def test_what_the_schema_does_not_describe_may_have_any_keys() -> None:
    assert find(novel=1, leaf={"own": {"any": 1}}, free={"any": 1}, either={"any": 1}) == []


def test_values_of_other_types_have_no_keys() -> None:
    assert find(leaf=[1], leaves={"a": 1}) == []
    assert find(leaf={"by_name": [1]}, leaves=[1]) == []
