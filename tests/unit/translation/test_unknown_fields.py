"""Unknown keys are found wherever the schema says which keys there are."""

from typing import Annotated, Literal, NotRequired, Required

from pydantic import Field, Tag
from typing_extensions import TypedDict

from translation.representation.json_types import Json
from translation.unknown_fields import UnknownFields
from translation.validation import discriminate_by


class Leaf(TypedDict, total=False):
    text: str
    own: Json
    inner: "Leaf"
    by_name: "dict[str, Leaf]"


class Free(TypedDict, total=False):
    known: int


class TaggedLeaf(TypedDict, total=False):
    kind: Required[str]
    text: str


class AnyKind(TypedDict, total=False):
    kind: Required[str]


class One(TypedDict, total=False):
    type: Required[Literal["one"]]
    a: int


class Two(TypedDict):
    type: NotRequired[Literal["two"] | None]
    b: int


class Three(TypedDict, total=False):
    type: Required[Literal["three"]]
    c: int


class Body(TypedDict, total=False):
    model: str
    leaf: Required[Leaf]
    leaves: Annotated[list[Leaf], Field(min_length=1)] | None
    free: Free | None
    either: Leaf | str
    loose: Leaf | Json
    tagged: list[
        Annotated[Annotated[TaggedLeaf, Tag("leaf")] | Annotated[AnyKind, Tag("other")], discriminate_by("kind")]
    ]
    named: Annotated[One | Two, Field(discriminator="type")] | None
    nested: Annotated[Annotated[One | Two, Field(discriminator="type")] | Three, Field(discriminator="type")]
    chosen: Annotated[
        Annotated[One, Tag("one")] | Annotated[Three, Tag("three")], Field(discriminator=discriminate_by("type"))
    ]
    listed: list[Leaf] | Leaf


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
    assert find(leaf={"a": None, "b": "", "c": []}, leaves=None) == []


def test_values_that_turn_something_on_or_off_say_something() -> None:
    assert find(leaf={"a": False, "b": {}, "c": 0, "d": 0.0}) == ["leaf.a", "leaf.b", "leaf.c", "leaf.d"]


def test_what_the_schema_does_not_describe_may_have_any_keys() -> None:
    assert find(novel=1, leaf={"own": {"any": 1}}, free={"any": 1}) == []
    assert find(loose={"any": 1}) == []


def test_the_member_of_a_union_is_examined_that_the_validator_chooses() -> None:
    assert find(either={"any": 1}) == ["either.any"]
    assert find(either="any", tagged=[{"kind": "leaf", "text": "a", "novel": 1}, {"kind": "free", "novel": 1}]) == [
        "tagged[0].novel"
    ]
    assert find(named={"type": "one", "a": 1, "b": 2}) == ["named.b"]
    assert find(named={"type": "two", "a": 1, "b": 2}) == ["named.a"]
    assert find(named={"type": "new", "a": 1}) == find(named={"type": ["one"]}) == []


def test_each_member_of_a_union_in_a_union_is_examined_as_itself() -> None:
    assert find(nested={"type": "one", "a": 1, "b": 2, "c": 3}) == ["nested.b", "nested.c"]
    assert find(nested={"type": "three", "a": 1, "b": 2, "c": 3}) == ["nested.a", "nested.b"]
    assert find(chosen={"type": "one", "a": 1, "c": 3}) == ["chosen.c"]
    assert find(chosen={"type": "three", "a": 1, "c": 3}) == ["chosen.a"]


def test_a_union_of_a_list_and_an_object_is_examined_as_either() -> None:
    assert find(listed=[{"text": "a"}, {"novel": 1}]) == ["listed[1].novel"]
    assert find(listed={"text": "a", "novel": 1}) == ["listed.novel"]


def test_paths_without_positions_name_a_key_once() -> None:
    finder = UnknownFields(Body, skipped=(Free,), ignored=("hint",), indexed=False)
    assert finder.find({"leaves": [{"odd": 1}, {"odd": 2, "hint": 3}, {"inner": {"odd": 1}}]}) == [
        "leaves.odd",
        "leaves.inner.odd",
    ]
    assert [key.holder for key in finder.find_keys({"leaves": [{"odd": 1}, {"odd": 2}]})] == [{"odd": 1}, {"odd": 2}]


def test_values_of_other_types_have_no_keys() -> None:
    assert find(leaf=[1], leaves={"a": 1}) == []
    assert find(leaf={"by_name": [1]}, leaves=[1]) == []


def test_a_body_may_be_nested_as_deep_as_the_configuration_allows() -> None:
    depth = 5_000  # `server.max_json_depth` allows 900
    leaf: Json = {"own": {}, "extra": 1}
    for _ in range(depth):
        leaf = {"inner": leaf}
    assert UnknownFields(Body).find({"leaf": leaf}) == ["leaf" + ".inner" * depth + ".extra"]


def test_unknown_keys_are_listed_in_their_order() -> None:
    body: Json = {
        "leaf": {"x": 1, "inner": {"y": 1}, "by_name": {"a": {"z": 1}, "b": {"inner": {"u": 1}, "v": 1}}},
        "leaves": [{"inner": {"w": 1}}, {"t": 1}],
    }
    assert UnknownFields(Body).find(body) == [
        "leaf.x",
        "leaf.inner.y",
        "leaf.by_name.a.z",
        "leaf.by_name.b.v",
        "leaf.by_name.b.inner.u",
        "leaves[0].inner.w",
        "leaves[1].t",
    ]
