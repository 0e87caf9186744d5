"""What Gemini wants back word for word, as it travels in the `details` of reasoning items.

`gemini.call`     the signature of the call with this `call_id`
`gemini.text`     the signature of the text before it, or, `empty`, of a part without text that followed the text
`gemini.thought`  the signature of the thought in the same item

Kinds of other upstreams are not ours to read. https://ai.google.dev/gemini-api/docs/thought-signatures
"""

from collections.abc import Iterator
from typing import Final

from translation.representation.json_types import Item, Json

CALL_TYPE: Final = "gemini.call"
TEXT_TYPE: Final = "gemini.text"
THOUGHT_TYPE: Final = "gemini.thought"


def detail_of_call(signature: str, call_id: str) -> Json:
    return {"type": CALL_TYPE, "call_id": call_id, "signature": signature}


def detail_of_text(signature: str, *, empty: bool) -> Json:
    return {"type": TEXT_TYPE, "thought": False, "empty": empty, "signature": signature}


def detail_of_thought(signature: str) -> Json:
    return {"type": THOUGHT_TYPE, "signature": signature}


def gemini_details(item: Item) -> Iterator[Json]:
    """The details of a reasoning item that are Gemini's and whole: clients may send anything."""
    details = item.get("details")
    for detail in details if isinstance(details, list) else ():
        match detail:
            case {"type": "gemini.text" | "gemini.thought", "signature": str(signature)} if signature:
                yield detail
            case {"type": "gemini.call", "call_id": str(), "signature": str(signature)} if signature:
                yield detail
