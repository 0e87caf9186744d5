"""providers/scripted/schema_instances.py, schema_strings.py: the smallest value that a schema admits."""

import re
from types import GenericAlias
from typing import Annotated, Any, Literal, Union

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field, TypeAdapter, create_model

from providers.scripted.schema_instances import build_minimal_instance
from providers.scripted.schema_strings import UnsatisfiableSchema


class Leaf(BaseModel):
    word: Literal["leaf"]
    size: int = Field(gt=3)


class Branch(BaseModel):
    word: Literal["branch"]
    left: "Branch | Leaf"
    right: list["Branch | Leaf"] = Field(min_length=2, max_length=2)
    note: str | None


VALUES: dict[str, tuple[Any, Any]] = {
    "anything": (True, {}),
    "an empty schema": ({}, {}),
    "only what is required": (
        {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "integer"}}, "required": ["b"]},
        {"b": 0},
    ),
    "required without properties": ({"required": ["a"]}, {"a": {}}),
    "required and nothing else allowed": (
        {"properties": {"a": {"type": "null"}}, "required": ["a"], "additionalProperties": False},
        {"a": None},
    ),
    "more properties than required": (
        {"properties": {"a": {"type": "boolean"}}, "minProperties": 2, "additionalProperties": {"type": "integer"}},
        {"a": False, "property_1": 0},
    ),
    "const": ({"const": [1, {"a": None}]}, [1, {"a": None}]),
    "the first of an enum": ({"enum": ["b", "a"]}, "b"),
    "the first of an enum that is of the type": ({"enum": ["b", 1], "type": "integer"}, 1),
    "the first of several types": ({"type": ["null", "string"]}, None),
    "the first alternative that can be filled": ({"anyOf": [False, {"type": "array"}]}, []),
    "alternatives keep what stands beside them": (
        {"type": "object", "properties": {"k": {"type": "string"}}, "oneOf": [{"required": ["k"]}, {"required": []}]},
        {"k": "string"},
    ),
    "allOf is everything at once": (
        {
            "allOf": [
                {"properties": {"a": {"type": "number"}}, "required": ["a"]},
                {"properties": {"a": {"minimum": 2}, "b": {"type": "null"}}, "required": ["b", "a"]},
                True,
            ]
        },
        {"a": 2, "b": None},
    ),
    "an integer is a number": ({"allOf": [{"type": "number"}, {"type": "integer"}]}, 0),
    "the larger of two minima": ({"minimum": 1, "allOf": [{"minimum": 5}]}, 5),
    "what both enums hold": ({"enum": [1, 2], "allOf": [{"enum": [2, 3]}]}, 2),
    "a reference with siblings": (
        {"$ref": "#/$defs/a", "minLength": 8, "$defs": {"a": {"type": "string"}}},
        "stringgg",
    ),
    "a reference through a list and escapes": (
        {"$ref": "#/$defs/a~1b~0c/1", "$defs": {"a/b~c": [{}, {"type": "null"}]}},
        None,
    ),
    "a definition that contains itself ends": (
        {"$ref": "#/$defs/n", "$defs": {"n": {"type": "object", "properties": {
            "next": {"anyOf": [{"$ref": "#/$defs/n"}, {"type": "null"}]}}, "required": ["next"]}}},
        {"next": None},
    ),
    "as many items as must be": ({"type": "array", "items": {"type": "boolean"}, "minItems": 2}, [False, False]),
    "a tuple": ({"prefixItems": [{"type": "null"}, {"const": 1}], "minItems": 3, "items": {"const": 2}}, [None, 1, 2]),
    "distinct items": ({"prefixItems": [{"const": 1}, {"const": 2}], "minItems": 2, "uniqueItems": True}, [1, 2]),
    "a whole number above a bound": ({"type": "integer", "exclusiveMinimum": 3}, 4),
    "a whole number below a bound": ({"type": "integer", "exclusiveMaximum": -3}, -4),
    "a multiple within bounds": ({"type": "integer", "minimum": 5, "multipleOf": 3}, 6),
    "a whole multiple of a fraction": ({"type": "integer", "minimum": 1, "multipleOf": 1.5}, 3),
    "a number between two neighbours": ({"exclusiveMinimum": 0, "exclusiveMaximum": 1}, 0.5),
    "one possible number": ({"minimum": 0.25, "maximum": 0.25}, 0.25),
    "a word": ({"type": "string"}, "string"),
    "a short word": ({"type": "string", "maxLength": 3}, "str"),
    "a long word": ({"type": "string", "minLength": 8}, "stringgg"),
    "an unknown format": ({"type": "string", "format": "colour"}, "string"),
    "a date": ({"format": "date"}, "1970-01-01"),
}  # fmt: skip


@pytest.mark.parametrize(("schema", "value"), VALUES.values(), ids=VALUES)
def test_a_schema_is_filled_with_as_little_as_it_admits(schema: Any, value: Any) -> None:
    assert build_minimal_instance(schema) == value


UNFILLABLE: dict[str, tuple[Any, str]] = {
    "nothing is admitted": (False, "false admits nothing"),
    "a definition that can never end": ({"$ref": "#"}, "# contains itself"),
    "a reference to elsewhere": ({"$ref": "https://example.com/a.json"}, "outside the schema"),
    "a reference to nothing": ({"$ref": "#/$defs/a"}, "does not exist"),
    "a reference to no schema": ({"$ref": "#/title", "title": "a"}, "is not a schema"),
    "a keyword that is not understood": ({"not": {}}, "not is not supported"),
    "no type in common": ({"type": "string", "allOf": [{"type": "null"}]}, "admits nothing"),
    "a type there is not": ({"type": "text"}, "type 'text' admits nothing"),
    "an empty enum": ({"enum": []}, "no options to choose from"),
    "an enum of another type": ({"enum": ["a"], "type": "null"}, "no value of const or enum has the type"),
    "no room for what is required": ({"required": ["a"], "maxProperties": 0}, "maxProperties"),
    "an impossible length": ({"minItems": 2, "maxItems": 1}, "minItems is larger"),
    "the same item twice": ({"items": {"const": 1}, "minItems": 2, "uniqueItems": True}, "uniqueItems"),
    "an impossible bound": ({"minimum": 2, "maximum": 1}, "no number"),
    "no multiple within the bounds": ({"minimum": 1, "maximum": 2, "multipleOf": 5}, "no number"),
    "an impossible text": ({"minLength": 2, "maxLength": 1}, "minLength is larger than 1"),
    "a text longer than sense": ({"minLength": 10**9}, "minLength is larger"),
    "a format that does not fit": ({"format": "date", "maxLength": 3}, "no text of that length is known for format"),
    "a pattern that looks ahead": ({"pattern": "(?=a)b"}, "is not supported"),
    "a pattern that asks for a word's edge": ({"pattern": r"\ba"}, "is not supported"),
    "a pattern that is none": ({"pattern": "("}, "is not supported"),
    "more values than sense": ({"minItems": 1001, "items": {"type": "null"}}, "requires too large a value"),
    "a long text many times": ({"minItems": 11, "items": {"minLength": 9999}}, "requires too large a value"),
    "a long constant many times": ({"minItems": 11, "items": {"const": ["x" * 9999]}}, "requires too large a value"),
    "a long choice many times": ({"minItems": 11, "items": {"enum": ["x" * 9999]}}, "requires too large a value"),
    "a long name many times": ({"minItems": 11, "items": {"required": ["x" * 9999]}}, "requires too large a value"),
    "a pattern of many long parts": ({"pattern": "a{9999}" * 11}, "requires too large a value"),
    "a pattern longer than sense": ({"pattern": "((a{999}){999}){999}"}, "requires too large a value"),
    "a pattern without a character": ({"pattern": r"[^\s\S]"}, "is not supported"),
    "no schema at all": ({"required": 5}, "not a JSON schema"),
    "steps of nothing": ({"minimum": 1, "multipleOf": 0}, "not a JSON schema"),
}


@pytest.mark.parametrize(("schema", "complaint"), UNFILLABLE.values(), ids=UNFILLABLE)
def test_schemas_without_an_instance_are_refused_by_keyword(schema: Any, complaint: str) -> None:
    with pytest.raises(UnsatisfiableSchema, match=complaint):
        build_minimal_instance(schema)


def test_a_short_schema_for_an_enormous_value_is_refused_quickly() -> None:
    definitions = {
        f"d{level}": {"prefixItems": [{"$ref": f"#/$defs/d{level + 1}"}] * 2, "minItems": 2} for level in range(60)
    }
    with pytest.raises(UnsatisfiableSchema, match="requires too large a value"):
        build_minimal_instance({"$ref": "#/$defs/d0", "$defs": {**definitions, "d60": {}}})


def test_a_schema_nested_too_deep_is_refused() -> None:
    schema: Any = {}
    for _ in range(5000):
        schema = {"anyOf": [schema]}
    with pytest.raises(UnsatisfiableSchema, match="nested too deep"):
        build_minimal_instance(schema)


PATTERNS = [
    r"^[A-Z]{3}-\d+$",
    r"^#(?:[0-9a-fA-F]{3}){1,2}$",
    r"^(a+)+b$",
    r"^\w+@\w+\.(com|org)$",
    r"^[^a-z]*$",
    r"^(?P<quote>['\"]).*(?P=quote)$",
    r"^\S\s\D\W.[^x]$",
    r"^(?:a|b)??c{2,}?$",
    r"^[é-ü]$",
    r"^(?>a)b*+$",
    "",
]


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("shortest", [0, 1])
def test_a_pattern_is_followed(pattern: str, shortest: int) -> None:
    text = build_minimal_instance({"type": "string", "pattern": pattern, "minLength": shortest})
    assert re.search(pattern, text)
    assert len(text) >= shortest


def test_a_pattern_that_may_be_longer_is_made_long_enough() -> None:
    assert build_minimal_instance({"pattern": "^x+$", "minLength": 5}) == "xxxxx"
    assert build_minimal_instance({"pattern": "^ab", "minLength": 4}) == "abgg"


def test_a_recursive_model_is_filled() -> None:
    value = build_minimal_instance(Branch.model_json_schema())
    assert Branch.model_validate(value, strict=True).left == Leaf(word="leaf", size=4)


_SCALARS: st.SearchStrategy[Any] = st.one_of(
    st.sampled_from([str, int, float, bool, None, Any, Literal["a", "b"], Literal[3, 4]]),
    st.builds(lambda low, size: Annotated[int, Field(ge=low, le=low + size)], st.integers(-9, 9), st.integers(0, 5)),
    st.builds(lambda low, size: Annotated[float, Field(gt=low, lt=low + size)], st.integers(-9, 9), st.integers(1, 5)),
    st.builds(
        lambda low, size: Annotated[str, Field(min_length=low, max_length=low + size)],
        st.integers(0, 9),
        st.integers(0, 9),
    ),
    st.builds(lambda step: Annotated[int, Field(multiple_of=step, gt=step)], st.integers(1, 9)),
    st.sampled_from([Annotated[str, Field(pattern=pattern)] for pattern in (r"^[a-c]{2}\d$", r"^x|y$")]),
)


def _object(annotation: Any, shortest: int) -> Any:
    return create_model("Object", value=(annotation, Field(min_length=shortest)))


def _compound(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    lengths = st.integers(0, 3)
    return st.one_of(
        st.builds(lambda item, least: _object(GenericAlias(list, (item,)), least), inner, lengths),
        st.builds(lambda value, least: _object(GenericAlias(dict, (str, value)), least), inner, lengths),
        st.builds(lambda one, other: GenericAlias(tuple, (one, other)), inner, inner),
        st.lists(inner, min_size=1, max_size=3).map(lambda options: Union.__getitem__(tuple(options))),
    )


@given(st.recursive(_SCALARS, _compound, max_leaves=6))
def test_whatever_pydantic_describes_pydantic_accepts(annotation: Any) -> None:
    """The oracle is a library that writes JSON schemas and checks values by other means."""
    adapter: TypeAdapter[Any] = TypeAdapter(annotation)
    adapter.validate_json(orjson.dumps(build_minimal_instance(adapter.json_schema())), strict=True)
