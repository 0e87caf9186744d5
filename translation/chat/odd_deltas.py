"""Repairs or refuses values of choices and deltas that have another type or another place than in chat."""

from collections.abc import Sequence
from typing import Any, Final

from translation.chat.reply_objects import flatten_text
from translation.errors import ProtocolViolation
from translation.representation.json_types import Json

UNCHANGED_KEYS: Final = frozenset({"role", "content", "refusal"})
"""Keys of a relayed delta or message that are forwarded unchanged if they are texts."""

_NUMBERS: Final = (int, float)
_FOREIGN_TEXT_KEYS: Final = ("text", "content")


def require_own_text(choice: Json, delta: Json) -> None:
    """Raises ProtocolViolation for text in a field of another API, which no client of chat reads.

    The API of text completions has the text in the choice itself, and some servers have it in `text` of the delta.
    """
    if not delta and not choice.get("message"):
        for key in _FOREIGN_TEXT_KEYS:
            if isinstance(choice.get(key), str) and choice[key]:
                raise ProtocolViolation("the upstream sent text that is not in a delta")
    elif isinstance(delta.get("text"), str) and delta["text"] and "content" not in delta:
        raise ProtocolViolation("the upstream sent a delta with `text` in place of `content`")


def make_thoughts_texts(delta: Json, fields: Sequence[str]) -> bool:
    """Makes the reasoning of a delta a text, in place, where it is a number, or a list or object with a text.

    What has no text is left out: some upstreams repeat the options for reasoning there. Returns whether a value was no
    text.
    """
    changed = False
    for field in fields:
        value = delta.get(field)
        if value is None or type(value) is str:
            continue
        changed = True
        if text := "" if isinstance(value, bool) else flatten_text(value):
            delta[field] = text
        else:
            del delta[field]
    return changed


def require_texts(delta: Json) -> bool:
    """Makes a number in place of a text one, in place, in a relayed delta or message. Returns whether there was one.

    Raises ProtocolViolation for other values, which no client of chat reads: it would get less than the model's answer.
    """
    changed = False
    for key, value in delta.items():
        if type(value) is str or value is None or key not in UNCHANGED_KEYS:
            continue
        if key == "content" and type(value) is list:
            continue
        if type(value) not in _NUMBERS or key == "role":
            raise ProtocolViolation(f"the upstream sent a delta whose `{key}` is no text")
        delta[key] = str(value)
        changed = True
    return changed


def read_refusal_text(refusal: Any) -> str:
    """Returns the text of a refusal. Raises ProtocolViolation for a value without a text."""
    text = "" if isinstance(refusal, bool) else flatten_text(refusal)
    if not text:
        raise ProtocolViolation("the upstream sent a delta whose `refusal` is no text")
    return text
