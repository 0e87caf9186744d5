"""JSON objects as text in a column."""

from collections.abc import Sequence

import orjson

from gateway.state.ids import is_valid_id
from translation.representation.json_types import Item, Json


def dump_json(value: Json) -> str:
    """As it is written: what `unpack` gives back has its keys in the same order."""
    return orjson.dumps(value).decode()


def parse_json(text: str) -> Json:
    body: Json = orjson.loads(text)
    return body


def dump_without_output(response: Json) -> str:
    """A response's own column. Its output is kept once, as items; the key keeps its place."""
    return dump_json({**response, "output": []})


def parse_with_output(text: str, output: Sequence[str]) -> Json:
    """The response again, from its column and those of its items."""
    return {**parse_json(text), "output": [parse_json(item) for item in output]}


def lookup_id_of(item: Item) -> str:
    """What the item is found by. An upstream's id that no row can have is kept in the item, and unknown."""
    key = item.get("id")
    return key if isinstance(key, str) and is_valid_id(key) else ""
