"""Word pieces: the unit in which chunks are measured. They stand for tokens without loading a tokenizer."""

import re
import unicodedata
from array import array
from typing import Final

UNSPACED: Final = (
    "\u0e00-\u0eff"  # Thai, Lao
    "\u1000-\u109f"  # Myanmar
    "\u1780-\u17ff"  # Khmer
    "\u3040-\u30ff\u31f0-\u31ff\uff66-\uff9f"  # Hiragana, Katakana
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"  # Han
)
"""The characters of scripts that put no blanks between words, for a character class of a regular expression."""

MAX_PIECE: Final = 24
"""The most letters and digits of one piece."""

_PIECE: Final = re.compile(rf"[{UNSPACED}]|(?:(?![{UNSPACED}])[^\W_]){{1,{MAX_PIECE}}}|[^\s]")


class TooManyPieces(Exception):
    """A text has more word pieces than it may have."""


class WordPieces:
    """The pieces of one text: runs of at most 24 letters or digits, single signs, and single characters of scripts
    without blanks. Combining marks belong to the piece before them. Positions are characters of the text."""

    __slots__ = ("ends", "starts")

    def __init__(self, text: str, most: int | None = None) -> None:
        """Raises TooManyPieces as soon as there are more than `most`."""
        self.starts = array("l")
        self.ends = array("l")
        starts, ends = self.starts, self.ends
        for match in _PIECE.finditer(text):
            start, end = match.span()
            if (
                end - start == 1
                and ends
                and ends[-1] == start
                and not text[start].isascii()
                and unicodedata.category(text[start]).startswith("M")
            ):
                ends[-1] = end
            else:
                if len(starts) == most:
                    raise TooManyPieces
                starts.append(start)
                ends.append(end)

    def __len__(self) -> int:
        return len(self.starts)
