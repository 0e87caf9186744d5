"""Values of rows: ids of stored objects, times, and JSON objects as text."""

import time
from collections.abc import Sequence
from typing import Final

import orjson

from translation.representation.json_types import Item, Json

_MAX_CHARS: Final = 255


def is_valid_id(text: str) -> bool:
    """Returns whether a row can have this id. Any other id is unknown, and no query is sent for it.

    PostgreSQL's text cannot hold NUL, and neither database accepts a lone surrogate.
    """
    return 0 < len(text) <= _MAX_CHARS and "\0" not in text and text.isprintable()


def read_clock_us() -> int:
    """Returns the time of this machine in epoch microseconds.

    It is for rows whose replicas need not agree to the second. Leases use the clock of the database instead.
    """
    return time.time_ns() // 1000


def dump_json(value: Json) -> str:
    """Returns the JSON text of an object. `parse_json` restores it with its keys in the same order."""
    return orjson.dumps(value).decode()


def parse_json(text: str) -> Json:
    body: Json = orjson.loads(text)
    return body


def count_bytes(text: str) -> int:
    """Returns the bytes of a text in UTF-8."""
    return len(text) if text.isascii() else len(text.encode())


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
