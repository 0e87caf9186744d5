"""Text parts of messages: their types, their text, and messages that are built from text in pieces."""

from collections.abc import Sequence
from typing import Final

from translation.errors import Unrepresentable
from translation.representation.json_types import Item, Json
from translation.representation.loss import Loss


class MessageBuilder:
    """Collects text for the fields of a message in linear time. `build` writes the text into the message."""

    __slots__ = ("_leads", "_pieces", "message")

    def __init__(self, message: Json) -> None:
        self.message = message
        # Most messages need neither, and a history has thousands of messages.
        self._pieces: dict[str, list[str]] | None = None
        """The texts of fields that have more than one. A single text is in the message from the start."""
        self._leads: dict[str, list[str]] | None = None
        """The texts before all others of their fields, the last one first."""

    def add_paragraph(self, field: str, text: str) -> None:
        """Adds text to the end of the field, after a blank line if the field is not empty."""
        message = self.message
        if not message.get(field) and not (self._leads and field in self._leads):
            message[field] = text
            return
        if self._pieces is None:
            self._pieces = {}
        self._pieces.setdefault(field, [message.get(field) or ""]).append(f"\n\n{text}")

    def prepend(self, field: str, text: str) -> None:
        """Adds text to the start of the field, without a separator."""
        if self._leads is None:
            self._leads = {}
        self._leads.setdefault(field, []).append(text)

    def build(self) -> Json:
        """Writes the collected text into the message and returns it. Call it once."""
        for field, pieces in (self._pieces or {}).items():
            self.message[field] = "".join(pieces)
        for field, leads in (self._leads or {}).items():
            self.message[field] = "".join((*reversed(leads), self.message.get(field) or ""))
        return self.message


TEXT_KEYS: Final = {"input_text": "text", "output_text": "text", "text": "text", "refusal": "refusal"}
"""Type of a part -> the key of its text."""


_PLAIN_TEXT_TYPES: Final = TEXT_KEYS.keys() - {"refusal"}


def text_of_part(part: Json) -> str:
    """Returns the text of a part whose type is in `TEXT_KEYS`."""
    return part.get(TEXT_KEYS[part["type"]]) or ""


def find_single_text(parts: Sequence[Json]) -> str | None:
    """Returns the text of content that is a single part of text, as in most messages; None for any other content."""
    return parts[0].get("text") or "" if len(parts) == 1 and parts[0].get("type") in _PLAIN_TEXT_TYPES else None


def find_only_text(items: Sequence[Item]) -> str | None:
    """Returns the text of an input that is one plain message of the user, as many are; None for any other input."""
    if len(items) != 1 or items[0].get("role") != "user" or items[0].get("type") != "message":
        return None
    item = items[0]
    parts = item["content"]
    if len(parts) != 1 or (part := parts[0]).get("type") not in _PLAIN_TEXT_TYPES:
        return None
    return None if item.get("phase") or part.get("annotations") else part.get("text") or ""


def list_part_texts(parts: Sequence[Json], index: int) -> list[str]:
    """Returns the texts of content that may hold text only, because of the role of its message.

    Raises Unrepresentable for any other part, with its position below the item at `index`.
    """
    texts: list[str] = []
    for part in parts:
        kind = part.get("type", "")
        if kind not in TEXT_KEYS:
            raise Unrepresentable(
                f"a message of this role can only hold text, not {kind!r}",
                param=f"input[{index}].content[{len(texts)}]",
            )
        texts.append(part.get(TEXT_KEYS[kind]) or "")
    return texts


def join_assistant_text(parts: Sequence[Json], index: int, losses: list[Loss]) -> str:
    """Returns the text of an assistant message. A refusal in it becomes text too, which is appended to `losses`.

    Raises what `list_part_texts` raises.
    """
    if (single := find_single_text(parts)) is not None:
        return single
    text = "".join(list_part_texts(parts, index))
    for part in parts:
        if part["type"] == "refusal":
            losses.append(Loss("input", "refusal as text"))
            break
    return text
