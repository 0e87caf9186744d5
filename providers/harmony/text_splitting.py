"""Texts in pieces that the encoding is quick about: a run without a break costs it the square of its length."""

import re
from collections.abc import Iterator
from typing import Final

_MAX_RUN_CHARS: Final = 512
"""Characters of a run that stays whole. No word is as long; one cut in two is some tokens more than it needs."""

_BLANK: Final = "\\t\\n\\v\\f\\r \u0085\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"

_UNBROKEN_RUN: Final = re.compile(
    # The encoding breaks a text at least between blanks, digits and everything else; line ends and slashes may follow
    # each other in what it does not break.
    rf"[^{_BLANK}0-9]{{{_MAX_RUN_CHARS + 1},}}|[{_BLANK}]{{{_MAX_RUN_CHARS + 1},}}|[/\r\n]{{{_MAX_RUN_CHARS + 1},}}"
)

_PUNCTUATION: Final = r"!-&(-/:-@\[-`{-~\u3001\u3002\u300c\u300d\uff01\uff08\uff09\uff0c\uff1a\uff1b\uff1f"
"""Without the apostrophe, which a word may go on after."""

_PIECE: Final = re.compile(
    # Between a letter and a mark of punctuation it breaks as well, so that a cut there changes nothing.
    rf".{{{_MAX_RUN_CHARS // 2},{_MAX_RUN_CHARS}}}(?<=[^\W_])(?=[{_PUNCTUATION}])|.{{1,{_MAX_RUN_CHARS}}}",
    re.DOTALL,
)


def split_text(text: str) -> Iterator[str]:
    """The text, cut where it would be slow in one piece: nearly always whole. Its tokens are those of its pieces."""
    done = 0
    for run in _UNBROKEN_RUN.finditer(text):
        for piece in _PIECE.finditer(text, run.start(), run.end()):
            # The end of a run may belong together with what follows it.
            if piece.end() < run.end():
                yield text[done : piece.end()]
                done = piece.end()
    yield text[done:]


def longest_run_length(text: str) -> int:
    """The length of the longest run that would be cut, or 0."""
    return max((len(run.group()) for run in _UNBROKEN_RUN.finditer(text)), default=0)
