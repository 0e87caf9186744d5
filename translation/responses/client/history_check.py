"""Finds the stored item that is why a request cannot be planned."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from pydantic import TypeAdapter

from translation.errors import InvalidRequest
from translation.representation.json_types import Item
from translation.responses.schema.items import InputItem
from translation.validation import build_adapter, check_body


def check_history(items: Sequence[Item], param: str) -> None:
    """Checks stored items against the schema of a request's own items.

    Nobody checks them for each turn, because nearly all come from servers that follow the API. This is for a turn that
    could not be planned. Raises InvalidRequest with `param`, the client's name for what it continues, for the first
    item that is not in the form of its type. Items of unlisted types are skipped.
    """
    for item in items:
        try:
            check_body(_load_item_schema(), item)
        except InvalidRequest as fault:
            if fault.param == "type":
                continue
            item_id = str(item.get("id"))
            raise InvalidRequest(
                f"The stored item '{item_id:.80}' cannot be read, because the model's server sent it malformed. "
                f"{fault.message} Continue an earlier response, or send the items yourself.",
                param=param,
            ) from fault


@lru_cache(maxsize=1)
def _load_item_schema() -> TypeAdapter[Any]:
    return build_adapter(InputItem)
