"""Parts that are text, in all the types that have it."""

from collections import defaultdict, deque
from collections.abc import Sequence
from typing import Final

from translation.errors import Unrepresentable
from translation.representation.json_types import Json


class MessageBuilder:
    """What is added is in the message after `settle`, and not before it."""

    def __init__(self, message: Json) -> None:
        self.message = message
        self._pieces: dict[str, deque[str]] = defaultdict(deque)

    def add_paragraph(self, field: str, text: str) -> None:
        """Text after what the field holds, a paragraph of its own where it holds anything."""
        pieces = self._pieces[field]
        if pieces:
            pieces.append(f"\n\n{text}")
        elif text:
            pieces.append(text)

    def prepend(self, field: str, text: str) -> None:
        """Text right before what the field holds."""
        self._pieces[field].appendleft(text)

    def build(self) -> Json:
        """The message with all that was added; to be asked once."""
        for field, pieces in self._pieces.items():
            self.message[field] = "".join(pieces)
        return self.message


TEXT_KEYS: Final = {"input_text": "text", "output_text": "text", "text": "text", "refusal": "refusal"}
"""Type of a part -> the key its text is under."""


def text_of_part(part: Json) -> str:
    """The text of a part that is one."""
    return part.get(TEXT_KEYS[part["type"]]) or ""


def texts_of_parts(parts: Sequence[Json], param: str) -> list[str]:
    """Content of a role that can only hold text. Raises Unrepresentable for anything else, naming its place under
    `param`."""
    texts: list[str] = []
    for place, part in enumerate(parts):
        kind = part.get("type", "")
        if kind not in TEXT_KEYS:
            raise Unrepresentable(f"a message of this role can only hold text, not {kind!r}", param=f"{param}[{place}]")
        texts.append(part.get(TEXT_KEYS[kind]) or "")
    return texts
