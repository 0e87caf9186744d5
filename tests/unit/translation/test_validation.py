"""Messages about malformed bodies."""

import time
from typing import Annotated, Literal, Required

import pytest
from pydantic import AfterValidator, ConfigDict, Field, Tag, with_config
from typing_extensions import TypedDict

from translation.errors import InvalidRequest
from translation.validation import build_adapter, check_body, discriminate_by, render_param_path, require_name


class Named(TypedDict):
    name: str


class Function(TypedDict, total=False):
    type: Required[Literal["function"]]
    function: Required[Named]


class Search(TypedDict, total=False):
    type: Required[Literal["search"]]
    depth: int | None


class LooseSearch(TypedDict, total=False):
    type: Literal["search"] | None
    depth: int | None


@with_config(ConfigDict(extra="forbid"))
class Sealed(TypedDict):
    key: str


def _even(number: int) -> int:
    if number % 2:
        raise ValueError("it must be even")
    return number


Tool = Annotated[Function | Search, Field(discriminator="type")]
Loose = Annotated[
    Annotated[Function, Tag("function")] | Annotated[LooseSearch, Tag("search")], discriminate_by("type", "search")
]
Exact = Annotated[Annotated[Function, Tag("function")] | Annotated[Search, Tag("search")], discriminate_by("type")]


class Body(TypedDict, total=False):
    text: str
    count: int | None
    share: Annotated[float, Field(ge=0, le=2)] | None
    flag: bool
    mode: Literal["auto", "none", "required"]
    choice: Literal["auto", "none"] | Tool
    content: str | list[Tool]
    loose: list[Loose]
    exact: list[Exact]
    labels: Annotated[dict[str, Annotated[str, Field(max_length=3, min_length=1)]], Field(max_length=2)]
    words: Annotated[list[str], Field(min_length=1)]
    sealed: Sealed
    even: Annotated[int, AfterValidator(_even)]


ADAPTER = build_adapter(Body)

MISSING, TYPE, VALUE = "missing_required_parameter", "invalid_type", "invalid_value"

REFUSED: dict[str, tuple[object, str | None, str, str]] = {
    "a body that is no object": ([], None, TYPE, "The request body must be a JSON object."),
    "a number for a string": ({"text": 1}, "text", TYPE, "expected a string, but got an integer instead"),
    "a boolean for an integer": ({"count": True}, "count", TYPE, "expected an integer, but got a boolean instead"),
    "a fraction for an integer": ({"count": 1.5}, "count", TYPE, "expected an integer, but got a decimal number"),
    "a string for a number": ({"share": "1"}, "share", TYPE, "expected a number, but got a string instead"),
    "a boolean for a number": ({"share": True}, "share", TYPE, "expected a number, but got a boolean instead"),
    "null for what is not optional": ({"flag": None}, "flag", TYPE, "expected a boolean, but got null instead"),
    "a number above its bound": ({"share": 3}, "share", VALUE, "it must be at most 2, but got 3."),
    "a number below its bound": ({"share": -0.5}, "share", VALUE, "it must be at least 0, but got -0.5."),
    "a word outside its list": ({"mode": "x"}, "mode", VALUE, "'x'. Expected 'auto', 'none' or 'required'."),
    "no word at all": ({"mode": 1}, "mode", TYPE, "expected a string, but got an integer instead"),
    "a long wrong word is cut": ({"mode": "x" * 200}, "mode", VALUE, f"'{'x' * 100}…'"),
    "neither of two types": ({"choice": 1}, "choice", TYPE, "expected a string or an object, but got an integer"),
    "the right type with a wrong word": ({"choice": "x"}, "choice", VALUE, "'x'. Expected 'auto' or 'none'."),
    "an object without its type": ({"choice": {}}, "choice.type", MISSING, "Missing required parameter:"),
    "an object of an unknown type": (
        {"content": [{"type": "x"}]}, "content[0].type", VALUE, "'x'. Expected 'function' or 'search'.",
    ),
    "the union member that fits best is the one that counts": (
        {"content": [{"type": "function"}]}, "content[0].function", MISSING, "'content[0].function'",
    ),
    "a key called like the type": (
        {"content": [{"type": "function", "function": {}}]}, "content[0].function.name", MISSING, "",
    ),
    "a wrong key called like the type": (
        {"content": [{"type": "function", "function": 1}]}, "content[0].function", TYPE, "expected an object",
    ),
    "a list entry of the wrong type": ({"content": [1]}, "content[0]", TYPE, "expected an object, but got an integer"),
    "a list entry deep in": ({"content": [{"type": "search", "depth": "x"}]}, "content[0].depth", TYPE, "an integer"),
    "an entry whose type may be left out": ({"loose": [{"depth": "x"}]}, "loose[0].depth", TYPE, "an integer"),
    "a key in it": ({"loose": [{"type": "function", "function": {}}]}, "loose[0].function.name", MISSING, ""),
    "an entry that is no object": ({"loose": [1]}, "loose[0]", TYPE, "expected an object, but got an integer"),
    "an entry of unknown type": ({"loose": [{"type": "x"}]}, "loose[0].type", VALUE, "'x'. Expected"),
    "a type that is no string": ({"loose": [{"type": 1}]}, "loose[0].type", TYPE, "a string, but got an integer"),
    "an entry without the type it needs": ({"exact": [{}]}, "exact[0].type", MISSING, ""),
    "too many keys": ({"labels": dict.fromkeys("abc", "x")}, "labels", VALUE, "at most 2 entries are allowed."),
    "a string too long": ({"labels": {"a": "xxxx"}}, "labels.a", VALUE, "at most 3 characters are allowed."),
    "a string too short": ({"labels": {"a": ""}}, "labels.a", VALUE, "it must not be shorter than 1."),
    "a list too short": ({"words": []}, "words", VALUE, "it must not be shorter than 1."),
    "an unknown key": ({"sealed": {"key": "", "x": 1}}, "sealed.x", "unknown_parameter", "'sealed.x'"),
    "a rule of our own": ({"even": 3}, "even", VALUE, "it must be even"),
    "the first wrong field is named": ({"text": 1, "content": [{"type": "function"}]}, "text", TYPE, ""),
    "something JSON does not have": ({"text": b""}, "text", TYPE, "but got something else instead"),
}  # fmt: skip


@pytest.mark.parametrize(("body", "param", "code", "words"), REFUSED.values(), ids=REFUSED)
def test_the_error_names_the_field_and_what_is_expected(body: object, param: str | None, code: str, words: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        check_body(ADAPTER, body)
    assert (refused.value.param, refused.value.code) == (param, code)
    assert words in refused.value.message


ACCEPTED: dict[str, object] = {
    "nothing": {},
    "unknown keys": {"x": 1},
    "null where a field is optional": {"count": None, "share": None},
    "an integer for a number": {"share": 1},
    "an entry without its type": {"loose": [{"depth": 1}]},
    "an entry with a null type": {"loose": [{"type": None}]},
    "an entry with its type": {"loose": [{"type": "search"}], "exact": [{"type": "search"}]},
}


@pytest.mark.parametrize("body", ACCEPTED.values(), ids=ACCEPTED)
def test_valid_bodies_pass(body: object) -> None:
    check_body(ADAPTER, body)


MANY = 300_000
MANY_ERRORS: dict[str, tuple[object, str]] = {
    "entries of a list": ({"words": [1] * MANY}, "words[0]"),
    "objects of a list": ({"loose": [{"type": "x"}] * MANY}, "loose[0].type"),
    "entries of one member of a union": ({"content": [{}] * MANY}, "content[0].type"),
    "values of an object": ({"labels": {str(index): 1 for index in range(MANY)}}, "labels.0"),
}


@pytest.mark.parametrize(("body", "param"), MANY_ERRORS.values(), ids=MANY_ERRORS)
def test_only_the_first_of_many_errors_costs_time(body: object, param: str) -> None:
    began = time.thread_time()
    with pytest.raises(InvalidRequest) as refused:
        check_body(ADAPTER, body)
    assert refused.value.param == param
    assert time.thread_time() - began < 0.05


def test_paths_have_indexes_in_brackets() -> None:
    assert render_param_path(("messages", 1, "content", 0, "type")) == "messages[1].content[0].type"
    assert render_param_path(()) == ""


NO_NAMES = {
    "none": (None, "missing_required_parameter", "model is required"),
    "an empty one": ("", "missing_required_parameter", "model is required"),
    "a number": (1, "invalid_type", "expected a string, but got an integer instead."),
    "zero": (0, "invalid_type", "expected a string, but got an integer instead."),
    "a list": (["m"], "invalid_type", "expected a string, but got an array instead."),
}


@pytest.mark.parametrize(("value", "code", "message"), NO_NAMES.values(), ids=NO_NAMES)
def test_a_name_is_required(value: object, code: str, message: str) -> None:
    assert require_name("model", "m") == "m"
    with pytest.raises(InvalidRequest, match=message) as refused:
        require_name("model", value)
    assert (refused.value.param, refused.value.code) == ("model", code)
