"""Bodies whose values are not known: their structure is held, and their known part is found."""

from typing import Annotated, Any, Literal, Required

import pytest
from pydantic import Field, Tag
from typing_extensions import TypedDict

from translation.errors import InvalidRequest
from translation.lenient_validation import LenientSchema
from translation.representation.json_types import Json
from translation.validation import build_adapter, discriminate_by


class Text(TypedDict, total=False):
    type: Required[Literal["text"]]
    text: Required[str]


class Image(TypedDict, total=False):
    type: Required[Literal["image"]]
    size: Annotated[int, Field(ge=1)]
    inner: "list[Part]"


Part = Annotated[Text | Image, Field(discriminator="type")]
Choice = Annotated[Annotated[Text, Tag("text")] | Annotated[Image, Tag("image")], discriminate_by("type")]


class Body(TypedDict, total=False):
    limit: Required[Annotated[int, Field(ge=1)]]
    level: Literal["low", "high"]
    rate: Annotated[float, Field(le=1)] | None
    name: Annotated[str, Field(max_length=3)]
    stops: Annotated[list[str], Field(max_length=2)]
    parts: list[Part]
    choice: Choice | Literal["none"]
    headers: Annotated[list[Annotated[str, Field(pattern="^[a-z]+$")]], Field(max_length=2)]
    labels: dict[str, Annotated[str, Field(max_length=3)]]


SCHEMA = LenientSchema(build_adapter(Body))
TEXT: Json = {"type": "text", "text": "a"}

KNOWN: dict[str, tuple[Json, Json]] = {
    "a valid body": ({"level": "low", "parts": [TEXT]}, {"level": "low", "parts": [TEXT]}),
    "another word": ({"level": "default"}, {}),
    "a number beyond its range": ({"rate": 7}, {}),
    "null": ({"rate": None}, {"rate": None}),
    "a long text": ({"name": "abcd"}, {}),
    "many entries": ({"stops": ["a", "b", "c"]}, {"stops": ["a", "b", "c"]}),
    "another type of part": ({"parts": [{"type": "video", "x": 1}, TEXT]}, {"parts": [TEXT]}),
    "a part inside a part": (
        {"parts": [{"type": "image", "inner": [{"type": "video"}, TEXT], "size": 0}]},
        {"parts": [{"type": "image", "inner": [TEXT]}]},
    ),
    "another type of object": ({"choice": {"type": "any"}}, {}),
    "another word for an object": ({"choice": "any"}, {}),
    "a long label": ({"labels": {"a": "abcd"}}, {}),
    "a field that is not known": ({"more": 1}, {}),
}


@pytest.mark.parametrize(("params", "known"), KNOWN.values(), ids=KNOWN)
def test_the_known_part_has_what_the_schema_allows(params: Json, known: Json) -> None:
    for limit in (1, -1):
        assert SCHEMA.keep_known({"limit": limit, **params}) == {"limit": limit, **known}


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"limit": "1"},
        {"limit": True},
        {"limit": 1, "level": 3},
        {"limit": 1, "parts": {}},
        {"limit": 1, "parts": [3]},
        {"limit": 1, "parts": [{"text": "a"}]},
        {"limit": 1, "parts": [{"type": 3}]},
        {"limit": 1, "parts": [{"type": "text"}]},
        {"limit": 1, "choice": {"type": None}},
        {"limit": 1, "choice": {"type": "text"}},
        {"limit": 1, "labels": {"a": 1}},
        {"limit": 1, "headers": ["a\r\nb: c"]},
        {"limit": 1, "headers": ["a", "b", "c"]},
        [],
    ],
)
def test_a_body_of_another_structure_is_malformed(body: Any) -> None:
    with pytest.raises(InvalidRequest):
        SCHEMA.keep_known(body)
