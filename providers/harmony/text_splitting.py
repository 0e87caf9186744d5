"""Splits texts into pieces that are encoded quickly. Encoding takes time quadratic in the length of a stretch without
a break."""

import re
from collections.abc import Iterator
from typing import Final

_MAX_UNCUT: Final = 512
"""The most characters of a stretch that is not cut. No word is that long. A cut can cost a few additional tokens."""

_BLANK: Final = "\\t\\n\\v\\f\\r \u0085\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"

_LONG: Final = f"{{{_MAX_UNCUT + 1},}}"

_UNBROKEN_STRETCH: Final = re.compile(
    # The encoding always breaks a text between blanks, digits and other characters. A stretch is only looked for at its
    # beginning: from each of its characters on, it would be gone through again.
    rf"(?<![^{_BLANK}0-9])[^{_BLANK}0-9]{_LONG}|(?<![{_BLANK}])[{_BLANK}]{_LONG}"
)

_LINE_ENDS: Final = re.compile(rf"(?<![/\r\n])[/\r\n]{_LONG}")
"""Line ends and slashes may follow each other within a stretch that the encoding does not break."""

_PUNCTUATION: Final = r"!-&(-/:-@\[-`{-~\u3001\u3002\u300c\u300d\uff01\uff08\uff09\uff0c\uff1a\uff1b\uff1f"
"""Without the apostrophe, because a word may continue after it."""

_PIECE: Final = re.compile(
    # The encoding also breaks between a letter and punctuation, so a cut there changes no token.
    rf".{{{_MAX_UNCUT // 2},{_MAX_UNCUT}}}(?<=[^\W_])(?=[{_PUNCTUATION}])|.{{1,{_MAX_UNCUT}}}",
    re.DOTALL,
)


def split_text(text: str) -> Iterator[str]:
    """Yields the text in pieces, cut only inside stretches that would be slow to encode. Most texts are one piece.
    The tokens of the text are the tokens of its pieces."""
    start = 0
    for begin, end in _list_stretches(text):
        for piece in _PIECE.finditer(text, begin, end):
            # Not cut at the end of a stretch, which may share a token with the text after it.
            if piece.end() < end:
                yield text[start : piece.end()]
                start = piece.end()
    yield text[start:]


def measure_longest_stretch(text: str) -> int:
    """Returns the length of the longest stretch that would be cut, or 0."""
    return max((end - begin for begin, end in _list_stretches(text)), default=0)


def _list_stretches(text: str) -> list[tuple[int, int]]:
    """Returns where the stretches begin and end that would be slow to encode. Those that overlap are one."""
    spans = sorted(match.span() for pattern in (_UNBROKEN_STRETCH, _LINE_ENDS) for match in pattern.finditer(text))
    stretches: list[tuple[int, int]] = []
    for begin, end in spans:
        if stretches and begin < stretches[-1][1]:
            stretches[-1] = stretches[-1][0], max(end, stretches[-1][1])
        else:
            stretches.append((begin, end))
    return stretches
