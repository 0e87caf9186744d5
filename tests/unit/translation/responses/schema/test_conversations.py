"""translation/responses/schema/conversations.py"""

from collections.abc import Callable
from typing import Any

import pytest

from translation.errors import InvalidRequest
from translation.representation.json_types import Json
from translation.responses.schema import conversations
from translation.responses.schema.conversations import validate_add_items, validate_create, validate_update

HI: Json = {"type": "message", "role": "user", "content": "Hi"}

SOUND: list[tuple[Callable[[Json], None], Json]] = [
    (validate_create, {}),
    (validate_create, {"items": [HI] * conversations.MAX_ITEMS, "metadata": {"a": "b"}}),
    (validate_create, {"items": None, "metadata": None}),
    (validate_add_items, {"items": [HI]}),
    (validate_update, {"metadata": {"a": "b"}}),
    (validate_update, {"metadata": None}),
]


@pytest.mark.parametrize(("validate", "body"), SOUND)
def test_valid_requests_are_accepted(validate: Callable[[Json], None], body: Json) -> None:
    validate(body)


REFUSED: list[tuple[Callable[[Json], None], Json, str]] = [
    (validate_create, {"items": [HI] * (conversations.MAX_ITEMS + 1)}, "items"),
    (validate_create, {"title": "x"}, "title"),
    (validate_add_items, {}, "items"),
    (validate_add_items, {"items": None}, "items"),
    (validate_add_items, {"items": [HI], "metadata": {}}, "metadata"),
    (validate_update, {}, "metadata"),
    (validate_update, {"metadata": None, "items": []}, "items"),
]


@pytest.mark.parametrize(("validate", "body", "param"), REFUSED)
def test_invalid_requests_are_refused_by_field(validate: Callable[[Json], None], body: Json, param: str) -> None:
    with pytest.raises(InvalidRequest) as refusal:
        validate(body)
    assert refusal.value.param == param


@pytest.mark.parametrize(
    ("schema_of", "name", "fields"),
    [
        (conversations.CREATE_SCHEMA, "conversations-create", {"items", "metadata"}),
        (conversations.ADD_ITEMS_SCHEMA, "conversations-additems", {"items"}),
        (conversations.UPDATE_SCHEMA, "conversations-update", {"metadata"}),
    ],
)
def test_the_schemas_can_be_published(schema_of: Callable[[], Any], name: str, fields: set[str]) -> None:
    schema = schema_of()
    assert (schema["$id"], schema["properties"].keys()) == (name, fields)
