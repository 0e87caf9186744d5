"""Cuts a text into overlapping chunks, each an exact slice of it."""

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from gateway.retrieval.word_pieces import WordPieces

MIN_CHUNK_TOKENS: Final = 100
MAX_CHUNK_TOKENS: Final = 4096

_SENTENCE_ENDS: Final = frozenset(".!?\u2026\u3002\uff01\uff1f\u0964\u061f")
_PARAGRAPH_BREAK: Final = re.compile(r"\n[^\S\n]*\n")


class ChunkSizes(NamedTuple):
    """How a text is cut. Both are counted in word pieces, which the API calls tokens."""

    max_tokens: int = 800
    overlap: int = 400


class Chunk(NamedTuple):
    """A slice of a text: its first character, the character behind it, and its word pieces."""

    start: int
    end: int
    tokens: int


def cut_chunks(text: str, sizes: ChunkSizes, pieces: WordPieces | None = None) -> Iterator[Chunk]:
    """Yields the chunks of a text in order; none if it has no word. `pieces` are those of the text, if they are known.

    A chunk is cut only between word pieces. In its last fifth the end of a paragraph is preferred to the end of a
    sentence, and that to any other place. The next chunk begins `overlap` pieces before its end.
    """
    pieces = pieces or WordPieces(text)
    first, count = 0, len(pieces)
    while first < count:
        last = min(first + sizes.max_tokens, count)
        if last < count:
            last = _find_cut(text, pieces, last - sizes.max_tokens // 5, last)
        yield Chunk(pieces.starts[first], pieces.ends[last - 1], last - first)
        if last == count:
            return
        first = max(last - sizes.overlap, first + 1)


def _find_cut(text: str, pieces: WordPieces, earliest: int, latest: int) -> int:
    """Returns the number of the word piece before which a chunk should end, from `earliest` to `latest`. Of equally
    good places the last one is chosen."""
    after_sentence = 0
    for piece in range(latest, earliest, -1):
        end, start = pieces.ends[piece - 1], pieces.starts[piece]
        if start - end > 1 and _PARAGRAPH_BREAK.search(text, end, start):
            return piece
        if not after_sentence and text[end - 1] in _SENTENCE_ENDS and (start > end or text[end - 1] > "\u0fff"):
            after_sentence = piece
    return after_sentence or latest
