"""Parts that are text, in all the types that have it."""

from collections.abc import Sequence
from typing import Final

from translation.errors import Unrepresentable
from translation.json_types import Json

TEXTS: Final = {"input_text": "text", "output_text": "text", "text": "text", "refusal": "refusal"}
"""Type of a part -> the key its text is under."""


def text_of_part(part: Json) -> str:
    """The text of a part that is one."""
    return part.get(TEXTS[part["type"]]) or ""


def texts_of_parts(parts: Sequence[Json], param: str) -> list[str]:
    """Content of a role that can only hold text. Raises Unrepresentable for anything else, naming its place under
    `param`."""
    texts: list[str] = []
    for place, part in enumerate(parts):
        kind = part.get("type", "")
        if kind not in TEXTS:
            raise Unrepresentable(f"a message of this role can only hold text, not {kind!r}", param=f"{param}[{place}]")
        texts.append(part.get(TEXTS[kind]) or "")
    return texts
