"""Converts JSON objects to and from the text of a column."""

from collections.abc import Sequence

import orjson

from gateway.state.row_values import is_valid_id
from translation.representation.json_types import Item, Json


def dump_json(value: Json) -> str:
    """Returns the JSON text of an object. `parse_json` restores it with its keys in the same order."""
    return orjson.dumps(value).decode()


def parse_json(text: str) -> Json:
    body: Json = orjson.loads(text)
    return body


def dump_without_output(response: Json) -> str:
    """Returns the text of a response's `body` column.

    `output` is empty there, because the output is stored once, as items. The key remains, to keep its position.
    """
    return dump_json({**response, "output": []})


def parse_with_output(text: str, output: Sequence[str]) -> Json:
    """Returns a response from the text of its `body` column and the texts of its output items."""
    return {**parse_json(text), "output": [parse_json(item) for item in output]}


def lookup_id_of(item: Item) -> str:
    """Returns the id for the item's `id` column, or "" if it has none that a row can have.

    An upstream's id that no row can have remains in the item, but cannot be looked up.
    """
    key = item.get("id")
    return key if isinstance(key, str) and is_valid_id(key) else ""
