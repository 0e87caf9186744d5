"""Builds and reads the `details` of items: Gemini's signatures, which later turns send back verbatim.

`gemini.call`     the signature of the call with this `call_id`
`gemini.image`    the signature of the next image
`gemini.text`     the signature of the text before it, or, if `empty`, of a part without text after that text
`gemini.thought`  the signature of the thought in the same item
`gemini.search`   says that Gemini made this search, and is no signature

Details of other upstreams are ignored. https://ai.google.dev/gemini-api/docs/thought-signatures
"""

from collections.abc import Iterator
from typing import Final

from translation.representation.json_types import Item, Json

CALL_TYPE: Final = "gemini.call"
IMAGE_TYPE: Final = "gemini.image"
TEXT_TYPE: Final = "gemini.text"
THOUGHT_TYPE: Final = "gemini.thought"

SEARCH_DETAIL: Final[Json] = {"type": "gemini.search"}


def detail_of_call(signature: str, call_id: str) -> Json:
    return {"type": CALL_TYPE, "call_id": call_id, "signature": signature}


def detail_of_image(signature: str) -> Json:
    return {"type": IMAGE_TYPE, "signature": signature}


def detail_of_text(signature: str, *, empty: bool) -> Json:
    return {"type": TEXT_TYPE, "thought": False, "empty": empty, "signature": signature}


def detail_of_thought(signature: str) -> Json:
    return {"type": THOUGHT_TYPE, "signature": signature}


def is_own_search(item: Item) -> bool:
    """Whether an item is a search that Gemini made."""
    details = item.get("details")
    return isinstance(details, list) and SEARCH_DETAIL in details


def gemini_details(item: Item) -> Iterator[Json]:
    """Yields the valid Gemini details of a reasoning item. Details may come from clients, so others are skipped."""
    details = item.get("details")
    for detail in details if isinstance(details, list) else ():
        match detail:
            case {"type": "gemini.image" | "gemini.text" | "gemini.thought", "signature": str(signature)} if signature:
                yield detail
            case {"type": "gemini.call", "call_id": str(), "signature": str(signature)} if signature:
                yield detail
