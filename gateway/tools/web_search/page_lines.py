"""The lines of a page, as a browser shows and numbers them."""

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Final, NamedTuple

_WIDTH: Final = 80
"""The most characters of a line besides its indentation. gpt-oss was trained with lines of this width."""

_LINE: Final = re.compile(f"(?:^[ \\t]{{1,20}})?(?:\\S(?:.{{0,{_WIDTH - 2}}}\\S)?(?=\\s|$)|\\S{{1,{_WIDTH}}})")


class PageLines(NamedTuple):
    """A page as lines, and as one text for searches across them."""

    lines: Sequence[str]
    joined: str
    """The words of all lines without their cases, each separated by one blank."""
    starts: Sequence[int]
    """The position of each line in the joined text. An empty line has that of the next one with words."""

    def find_lines(self, pattern: str) -> Iterator[int]:
        """Yields the line of each match of a text, whatever its case and however its blanks are broken into lines."""
        words = _join_words(pattern)
        # Both texts are from outside. Their product is what a regular expression costs, and their sum what this does.
        position = self.joined.find(words) if words else -1
        while position >= 0:
            yield bisect_right(self.starts, position) - 1
            position = self.joined.find(words, position + len(words))


def split_lines(text: str) -> PageLines:
    """Returns the lines of a text. Every character that may begin a line does, so that no text can imitate one."""
    lines = [line for each in text.splitlines() for line in (_LINE.findall(each) or [""])]
    words = [*map(_join_words, lines)]
    starts = [0, *accumulate(len(each) + 1 if each else 0 for each in words)][: len(lines)]
    return PageLines(lines, " ".join(filter(None, words)), starts)


def number_lines(lines: Sequence[str], first: int = 0) -> str:
    """Returns lines with their numbers, the first of which has the number `first`."""
    return "\n".join(f"L{number}: {line}" for number, line in enumerate(lines, first))


def _join_words(text: str) -> str:
    """Returns the words of a text without their cases, separated by one blank."""
    return " ".join(text.casefold().split())
