"""What the requests of the Conversations API may look like, and the update of whatever has metadata."""

from functools import cache, partial
from typing import Annotated, Any, Final, NotRequired

from pydantic import Field, TypeAdapter
from typing_extensions import TypedDict

from translation.errors import InvalidRequest
from translation.representation.json_types import Json
from translation.responses.schema.items import Item
from translation.responses.schema.parts import Metadata
from translation.validation import check_body

MAX_ITEMS: Final = 20
"""Items that one request may add."""

_Items = Annotated[list[Item], Field(max_length=MAX_ITEMS)]


class Create(TypedDict):
    """The body of `POST /v1/conversations`."""

    items: NotRequired[_Items | None]
    metadata: NotRequired[Metadata | None]


class AddItems(TypedDict):
    """The body of `POST /v1/conversations/{id}/items`."""

    items: _Items


class Update(TypedDict):
    """The body of `POST /v1/conversations/{id}` and `POST /v1/chat/completions/{id}`. Null is no metadata at all."""

    metadata: Metadata | None


def validate_create(body: Json) -> None:
    """Raise InvalidRequest for the first field that is malformed. See `translation.validation.check`."""
    _validate(Create, body)


def validate_add_items(body: Json) -> None:
    """The same for items to add."""
    _validate(AddItems, body)


def validate_update(body: Json) -> None:
    """The same for new metadata."""
    _validate(Update, body)


def _validate(kind: Any, body: Json) -> None:
    check_body(_adapter(kind), body)
    for key in body:
        if key not in kind.__annotations__:
            raise InvalidRequest(f"Unknown parameter: '{key:.80}'.", param=key[:80], code="unknown_parameter")


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def _schema_of(kind: Any) -> Json:
    # With an id of its own, the schema's references stay inside it wherever it is put.
    return {"$id": f"conversations-{kind.__name__.lower()}", **_adapter(kind).json_schema()}


CREATE_SCHEMA = partial(_schema_of, Create)
"""() -> the JSON schema of a request, for `/openapi.json`."""
ADD_ITEMS_SCHEMA = partial(_schema_of, AddItems)
UPDATE_SCHEMA = partial(_schema_of, Update)
