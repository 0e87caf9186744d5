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
    """A page as lines, and a text in which the lines are separated by one blank, for searches across them."""

    lines: Sequence[str]
    joined: str
    starts: Sequence[int]
    """The position of each line in the joined text."""

    def find_lines(self, pattern: str) -> Iterator[int]:
        """Yields the line of each match of a text, whatever its case and however its blanks are broken into lines."""
        words = r"\s+".join(map(re.escape, pattern.split()))
        for match in re.finditer(words, self.joined, re.IGNORECASE) if words else ():
            yield bisect_right(self.starts, match.start()) - 1


def split_lines(text: str) -> PageLines:
    """Returns the lines of a text. Every character that may begin a line does, so that no text can imitate one."""
    lines = [line for each in text.splitlines() for line in (_LINE.findall(each) or [""])]
    starts = [0, *accumulate(len(line) + 1 for line in lines)][: len(lines)]
    return PageLines(lines, " ".join(lines), starts)


def number_lines(lines: Sequence[str], first: int = 0) -> str:
    """Returns lines with their numbers, the first of which has the number `first`."""
    return "\n".join(f"L{number}: {line}" for number, line in enumerate(lines, first))
