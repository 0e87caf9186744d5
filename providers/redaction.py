"""Removes secrets from the messages of upstreams, in whatever form an upstream quotes them."""

import base64
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from heapq import heapify, heappop, heappush
from typing import Final, NamedTuple

_MIN_SECRET_CHARS: Final = 8
"""Shorter keys and header values, such as EMPTY, are not redacted: they are no secrets, and may be ordinary words."""

_MIN_BASE64_CHARS: Final = 8

_HIDDEN: Final = "[hidden]"

_STEP_CHARS: Final = 16 * 1024

_MAX_FORM_RATIO: Final = 4
"""The longest form of a secret in characters, relative to its bytes: base64, with each character percent-encoded."""

_ENCODED: Final = re.compile(r"(?:%[0-9A-Fa-f]{2})+|\\[/\"\\]")
"""Percent-encoded bytes, and the characters that JSON escapes by a backslash."""

_BASE64_TAIL: Final = re.compile(r"[\w+/-]?={0,2}")
"""Matches the end of a secret in base64: a character that also depends on the bytes after the secret, and padding."""


SECRET_PATTERN = re.compile(
    r"(?:https?|wss?)://\S+|\b(?:sk|pk|rk|key|gsk|xai)-[\w*.-]{6,}|\bAIza[\w-]{6,}|Bearer\s+\S+"
    r"|\b(?i:bearer|basic)\s+[\w.~+/=-]{16,}"
)
"""Matches what looks like an address or a credential in an error message of an upstream."""


class Redactor:
    """Replaces secrets by `[hidden]`: in any case, percent-encoded in whole or in part, and in base64 at any offset.

    Both text and secrets are brought to one spelling, and the secrets are searched as plain texts, so that the time is
    linear in the length of the text, whatever a client sent as its secret.
    """

    def __init__(self, secrets: Iterable[str]) -> None:
        longest_first = sorted({text for text in secrets if len(text) >= _MIN_SECRET_CHARS}, key=len, reverse=True)
        self._needles = _build_needles(tuple(longest_first))
        longest = max((len(text.encode(errors="surrogatepass")) for text in longest_first), default=0)
        self._max_match_chars = _MAX_FORM_RATIO * longest + _MIN_BASE64_CHARS

    def redact(self, text: str) -> str:
        """Returns the text without the secrets."""
        return "".join(self._redact_window(text, 0, len(text), len(text))[0]) if self._needles else text

    def redact_beginning(self, text: str, chars: int) -> str:
        """Returns the first characters of the text without the secrets. Little more of the text is read than that."""
        pieces: list[str] = []
        length = 0
        for piece in self.redact_in_steps(text):
            pieces.append(piece)
            length += len(piece)
            if length >= chars:
                break
        return "".join(pieces)[:chars]

    def redact_in_steps(self, text: str) -> Iterator[str]:
        """Yields the text without the secrets in pieces. Each takes a few milliseconds at most, for texts of any
        size."""
        if not self._needles:
            yield text
            return
        step = max(_STEP_CHARS, self._max_match_chars)
        position = 0
        while position < len(text):
            limit = _end_of_step(text, position, position + step)
            pieces, position = self._redact_window(text, position, limit, limit + self._max_match_chars)
            yield "".join(pieces)

    def _redact_window(self, text: str, start: int, limit: int, end: int) -> tuple[list[str], int]:
        """Returns the redacted pieces of a text from `start` to `limit`, and where the next window begins: behind a
        secret that crosses the limit, whose rest is before `end`."""
        window = _normalize(text[start:end])
        pieces: list[str] = []
        position = start
        for match_start, match_end, is_base64 in window.find_all(self._needles):
            if start + match_start >= limit:
                break
            pieces += (text[position : start + match_start], _HIDDEN)
            position = start + match_end
            if is_base64 and (tail := _BASE64_TAIL.match(text, position)) is not None:
                position = tail.end()
        if position < limit:
            pieces.append(text[position:limit])
        return pieces, max(position, limit)


class _Needle(NamedTuple):
    """One spelling of a secret."""

    text: str
    is_base64: bool


class _Window(NamedTuple):
    """A text in the spelling in which secrets are searched.

    `starts` has the index in the original text of each character, and that of the end; None if they are the same.
    """

    text: str
    starts: Sequence[int] | None

    def find_all(self, needles: Sequence[_Needle]) -> Iterator[tuple[int, int, bool]]:
        """Yields the places of the needles in the original text, in their order and without overlaps. Of two at one
        place the first of the needles counts."""
        texts = (self.text, _normalize_base64(self.text))
        places = [
            (index, order)
            for order, needle in enumerate(needles)
            if (index := texts[needle.is_base64].find(needle.text)) >= 0
        ]
        heapify(places)
        position = 0
        while places:
            index, order = heappop(places)
            needle = needles[order]
            if index >= position:
                position = index + len(needle.text)
                yield self._original(index), self._original(position), needle.is_base64
            if (following := texts[needle.is_base64].find(needle.text, position)) >= 0:
                heappush(places, (following, order))

    def _original(self, index: int) -> int:
        return index if self.starts is None else self.starts[index]


@lru_cache(maxsize=64)
def _build_needles(secrets: Sequence[str]) -> Sequence[_Needle]:
    """Returns the spellings of the secrets. Cached, because those of a client are the same in each of its requests."""
    needles: dict[_Needle, None] = {}
    for secret in secrets:
        for spelling in (_normalize(secret).text, _fold(secret)):  # a secret may itself have a percent sign
            needles[_Needle(spelling, is_base64=False)] = None
        for core in _base64_cores(secret):
            needles[_Needle(_normalize_base64(_fold(core)), is_base64=True)] = None
    return [*needles]


def _base64_cores(secret: str) -> list[str]:
    """Returns what is certain of the secret inside a longer text in base64 (RFC 4648), such as `user:secret`.

    Three bytes become four characters, so there are three forms, one for each offset. The first and last characters of
    a form also depend on the bytes around the secret, and are left out.
    """
    cores = []
    data = secret.encode(errors="surrogatepass")
    for offset in range(3):
        encoded = base64.b64encode(b"\0" * offset + data).decode()
        whole_chars = (offset + len(data)) * 8 // 6
        core = encoded[-(-offset * 8 // 6) : whole_chars]
        if len(core) >= _MIN_BASE64_CHARS:
            cores.append(core)
    return cores


def _normalize(text: str) -> _Window:
    """Returns the text without case, percent encoding (RFC 3986, section 2.1) and the escapes of JSON."""
    if "%" not in text and "\\" not in text:
        return _Window(_fold(text), None)
    characters: list[str] = []
    starts: list[int] = []
    position = 0
    for match in _ENCODED.finditer(text):
        starts.extend(range(position, match.start()))
        characters.append(text[position : match.start()])
        position = match.start()
        if text[position] == "\\":
            characters.append(text[position + 1])
            starts.append(position)
        else:
            for character in bytes.fromhex(match[0].replace("%", "")).decode(errors="surrogateescape"):
                characters.append(character)
                starts.append(position)
                position += 3 * len(character.encode(errors="surrogateescape"))
        position = match.end()
    starts.extend(range(position, len(text) + 1))
    characters.append(text[position:])
    return _Window(_fold("".join(characters)), starts)


def _fold(text: str) -> str:
    """Returns the text in lower case and with `+`, the blank of forms, as a blank. Its length stays the same."""
    lowered = text.lower()
    if len(lowered) != len(text):
        lowered = "".join(small if len(small := character.lower()) == 1 else character for character in text)
    return lowered.replace("+", " ")


def _normalize_base64(text: str) -> str:
    """Returns a folded text in which the two alphabets of base64 are one."""
    return text.replace("-", " ").replace("_", "/")


def _end_of_step(text: str, start: int, limit: int) -> int:
    """Returns the limit, or the index before it if it would separate a backslash from what it escapes."""
    before = text[start:limit]
    return limit - 1 if limit < len(text) and (len(before) - len(before.rstrip("\\"))) % 2 else limit
