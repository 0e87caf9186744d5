"""The shapes of the Conversations API's requests, and of the request that updates the metadata of a stored object."""

from functools import cache, partial
from typing import Annotated, Any, Final, NotRequired

from pydantic import Field, TypeAdapter
from typing_extensions import TypedDict

from translation.representation.json_types import Json
from translation.responses.schema.items import InputItem
from translation.validation import Metadata, build_adapter, check_body, refuse_unknown_names

MAX_ITEMS: Final = 20
"""The number of items that one request may add."""

_Items = Annotated[list[InputItem], Field(max_length=MAX_ITEMS)]


class Create(TypedDict):
    """The body of `POST /v1/conversations`."""

    items: NotRequired[_Items | None]
    metadata: NotRequired[Metadata | None]


class AddItems(TypedDict):
    """The body of `POST /v1/conversations/{id}/items`."""

    items: _Items


class Update(TypedDict):
    """The body of `POST /v1/conversations/{id}` and `POST /v1/chat/completions/{id}`. Null removes all metadata."""

    metadata: Metadata | None


def validate_create(body: Json) -> None:
    """Raises InvalidRequest for the first malformed or unknown field of a body that creates a conversation.

    See `translation.validation.check_body`.
    """
    _validate(Create, body)


def validate_add_items(body: Json) -> None:
    """Raises InvalidRequest for the first malformed or unknown field of a body that adds items."""
    _validate(AddItems, body)


def validate_update(body: Json) -> None:
    """Raises InvalidRequest for the first malformed or unknown field of a body that updates metadata."""
    _validate(Update, body)


def _validate(kind: Any, body: Json) -> None:
    check_body(_adapter(kind), body)
    refuse_unknown_names(body, kind.__annotations__)


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return build_adapter(kind)


def _schema_of(kind: Any) -> Json:
    # With its own `$id`, the schema's references resolve inside it wherever it is embedded.
    return {"$id": f"conversations-{kind.__name__.lower()}", **_adapter(kind).json_schema()}


CREATE_SCHEMA = partial(_schema_of, Create)
"""Returns the JSON schema of the request, for `/openapi.json`. The two below do so too."""
ADD_ITEMS_SCHEMA = partial(_schema_of, AddItems)
UPDATE_SCHEMA = partial(_schema_of, Update)
