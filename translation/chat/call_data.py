"""Opaque data of calls (`extra_content`), which some chat upstreams need back: Google's has a signature of the thought.

In the `details` of a reasoning item it travels as other data of upstreams does: sealed, and back to its upstream only.
"""

from collections.abc import Iterable
from typing import Final

from translation.representation.json_types import Item, Json

EXTRA_CONTENT: Final = "extra_content"

_DETAIL_TYPE: Final = "chat.call"


def build_call_detail(call_id: str, extra_content: Json) -> Json:
    """Returns the detail with the data of one call. It holds no thought, so dropping it loses nothing."""
    return {"type": _DETAIL_TYPE, "call_id": call_id, EXTRA_CONTENT: extra_content, "thought": False}


def collect_call_data(items: Iterable[Item]) -> dict[str, Json]:
    """Returns call id -> `extra_content`, from the details of reasoning items. Other details are skipped."""
    data: dict[str, Json] = {}
    for item in items:
        details = item.get("details") if item.get("type") == "reasoning" else None
        for detail in details if isinstance(details, list) else ():
            match detail:
                case {"type": "chat.call", "call_id": str(call_id), "extra_content": dict(extra_content)}:
                    data[call_id] = extra_content
    return data
