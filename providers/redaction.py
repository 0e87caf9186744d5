"""Removes secrets from the messages of upstreams, in whatever form an upstream quotes them."""

import base64
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Final

_MIN_SECRET_CHARS: Final = 8
"""Shorter keys and header values, such as EMPTY, are not redacted: they are no secrets, and may be ordinary words."""

_MIN_BASE64_CHARS: Final = 8

_HIDDEN: Final = "[hidden]"

_STEP_CHARS: Final = 16 * 1024

_MAX_FORM_RATIO: Final = 12
"""The longest form of a secret, relative to it: four bytes of one character, each percent-encoded."""

_PLAIN_FORMS: Final = {"/": r"\\?/", '"': r'\\?"', " ": r"[ +]"}
"""Characters with further spellings: JSON escapes some by a backslash, and forms have a plus for a space."""


SECRET_PATTERN = re.compile(
    r"(?:https?|wss?)://\S+|\b(?:sk|pk|rk|key|gsk|xai)-[\w*.-]{6,}|\bAIza[\w-]{6,}|Bearer\s+\S+"
    r"|\b(?i:bearer|basic)\s+[\w.~+/=-]{16,}"
)
"""Matches what looks like an address or a credential in an error message of an upstream."""


class Redactor:
    """Replaces secrets by `[hidden]`: in any case, percent-encoded in whole or in part, and in base64 at any offset."""

    def __init__(self, secrets: Iterable[str]) -> None:
        longest_first = sorted({text for text in secrets if len(text) >= _MIN_SECRET_CHARS}, key=len, reverse=True)
        self._pattern = _compile_pattern(tuple(longest_first))
        self._max_match_chars = _MAX_FORM_RATIO * max(map(len, longest_first), default=0) + _MIN_BASE64_CHARS

    def redact(self, text: str) -> str:
        """Returns the text without the secrets."""
        return text if self._pattern is None else self._pattern.sub(_HIDDEN, text)

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
        if self._pattern is None:
            yield text
            return
        position = 0
        while position < len(text):
            limit = position + _STEP_CHARS
            match = self._pattern.search(text, position, limit + self._max_match_chars)
            if match is None or match.start() >= limit:
                yield text[position:limit]
                position = limit
            else:
                yield text[position : match.start()] + _HIDDEN
                position = match.end()


@lru_cache(maxsize=64)
def _compile_pattern(secrets: Sequence[str]) -> re.Pattern[str] | None:
    """Returns the pattern of every form of the secrets; None if there are none.

    Cached, because the secrets of a client's tools are the same in each of its requests.
    """
    forms = [form for secret in secrets for form in (_percent_form(secret), *_base64_forms(secret))]
    return re.compile("|".join(forms), re.IGNORECASE) if forms else None


def _percent_form(secret: str) -> str:
    """Returns a pattern in which each character is itself or percent-encoded (RFC 3986, section 2.1)."""
    return "".join(map(_character_form, secret))


def _character_form(character: str) -> str:
    encoded = "".join(f"%{byte:02X}" for byte in character.encode(errors="surrogatepass"))
    plain = _PLAIN_FORMS.get(character, re.escape(character))
    return f"(?:{plain}|{encoded})"


def _base64_forms(secret: str) -> list[str]:
    """Returns patterns of the secret inside a longer text in base64 (RFC 4648), such as `user:secret`.

    Three bytes become four characters, so there are three forms, one for each offset. The first and last characters of
    a form also depend on the bytes around the secret, and are left out.
    """
    forms = []
    data = secret.encode(errors="surrogatepass")
    for offset in range(3):
        encoded = base64.b64encode(b"\0" * offset + data).decode()
        whole_chars = (offset + len(data)) * 8 // 6
        core = encoded[-(-offset * 8 // 6) : whole_chars]
        if len(core) >= _MIN_BASE64_CHARS:
            forms.append("".join(_BASE64_CHARS.get(character, character) for character in core) + r"[\w+/-]?={0,2}")
    return forms


_BASE64_CHARS: Final = {"+": r"(?:[+-]|%2B)", "/": r"(?:\\?/|_|%2F)"}
"""The two characters that differ in the alphabet for URLs, and are percent-encoded elsewhere."""
