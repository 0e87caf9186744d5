"""Joins characters that are split over two chunks: half of a surrogate pair in one, the other half in the next.

Servers that detokenize to UTF-16 and escape all text write `"\\ud83d"` and then `"\\ude00"`. Each is JSON (RFC 8259,
section 8.2), but neither is a character.
"""

import json
import re
from typing import Any, Final, NoReturn, TypeAlias

import orjson

_HIGH: Final = re.compile("[\ud800-\udbff]\\Z")
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_WHOLE: Final = re.compile(
    rb"[^\\]*+(?:\\(?:[^u]|u(?![dD][89a-fA-F])|u[dD][89abAB]..\\u[dD][c-fC-F])[^\\]*+)*+", re.DOTALL
)
"""Matches JSON whose escapes of halves, if there are any, are pairs of a first and a second half. The quantifiers are
possessive, so that bytes that do not match cost one pass too."""

_Place: TypeAlias = tuple[str | int, ...]


class SurrogateJoiner:
    """Rewrites the chunks of one stream: the halves of a character are joined in the chunk with the second half."""

    def __init__(self) -> None:
        self.has_halves = False
        """Whether a character waits for its second half. At the end of the stream the text is then not complete."""
        self._halves: dict[_Place, str] = {}
        """The place of a text in its chunk -> the first half of the character that ends the text."""

    def rewrite_all(self, payloads: list[bytes]) -> list[bytes]:
        """Returns the chunks of one read as `rewrite` does: the same list if none has an escape, as in most reads."""
        if not self.has_halves and b"".join(payloads).find(b"\\u") < 0:
            return payloads
        return [self.rewrite(payload) for payload in payloads]

    def rewrite(self, payload: bytes) -> bytes:
        """Returns a chunk as JSON whose characters are whole: the same object if it needs no change.

        Bytes that are not JSON are returned unchanged, and so is a chunk with half a character whose other half is not
        where it has to be. No parser of valid text accepts that chunk.
        """
        if not self.has_halves and (payload.find(b"\\u") < 0 or _WHOLE.fullmatch(payload) is not None):
            return payload
        try:
            chunk = json.loads(payload.decode(), parse_constant=_refuse_constant)
            joined = self._join_value(chunk, ())
            return payload if joined == chunk else orjson.dumps(joined)
        except (ValueError, RecursionError, TypeError):  # TypeError: integers beyond 64 bits
            return payload
        finally:
            self.has_halves = bool(self._halves)

    def _join_value(self, value: Any, place: _Place) -> Any:
        match value:
            case str():
                return self._join_text(value, place)
            case dict():
                return {key: self._join_value(inner, (*place, key)) for key, inner in value.items()}
            case list():
                return [self._join_value(inner, (*place, index)) for index, inner in enumerate(value)]
        return value

    def _join_text(self, text: str, place: _Place) -> str:
        if not text:
            return text
        half = self._halves.get(place, "")
        if not half and _SURROGATE.search(text) is None:
            return text
        text = half + text
        last_half = _HIGH.search(text)
        end = len(text) if last_half is None else last_half.start()
        # Raises UnicodeDecodeError, a ValueError, for half a character within the text.
        joined = text[:end].encode("utf-16-le", "surrogatepass").decode("utf-16-le")
        self._halves.pop(place, None)
        if last_half is not None:
            self._halves[place] = last_half[0]
        return joined


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")
