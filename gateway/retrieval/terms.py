"""Index terms: the words of texts and queries in the one form in which they are stored and compared.

A term is a word of ASCII letters and digits behind an `a`, or the hexadecimal UTF-8 of any other word behind a `u`. So
the simplest tokenizer of any database keeps the terms as they are, and no character of a query is an operator there.
"""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

from gateway.retrieval.word_pieces import UNSPACED
from translation.text_forms import normalize_unicode

MAX_WORD: Final = 64
"""Characters of the longest word. Longer runs, as in encoded data, are several words."""

MAX_QUERY_TERMS: Final = 64

_PAIRED: Final = UNSPACED + "\u1100-\u11ff\uac00-\ud7a3"
"""Scripts that are indexed in pairs of characters: those without blanks, and Hangul, whose words carry endings."""

_RUN: Final = re.compile(rf"([{_PAIRED}]+)|((?:(?![{_PAIRED}])[^\W_]){{1,{MAX_WORD}}})")
_BREAK: Final = re.compile(r"[\s\u3002\uff0c\uff01\uff1f]")
"""Blanks, and the commas and ends of sentences of scripts without them: nothing of a word comes from both sides."""

_BLOCK: Final = 512
"""About the characters of the parts that chunks are put together from."""

_VOWEL: Final = re.compile(r"[aeiouy]")


def normalize_text(text: str) -> str:
    """Returns a text without marks, in compatible and case-folded form: `Ｃａｆé` becomes `cafe`."""
    if text.isascii():
        return text.lower()
    decomposed = normalize_unicode("NFKD", text)
    bare = "".join(each for each in decomposed if each.isascii() or not unicodedata.category(each).startswith("M"))
    return normalize_unicode("NFKC", bare).casefold()


def iterate_index_terms(text: str) -> Iterator[str]:
    """Yields the terms under which a text is found, in its order.

    Scripts that are indexed in pairs yield each pair, and each single character for queries of one character.
    """
    for match in _RUN.finditer(normalize_text(text)):
        if (paired := match[1]) is not None:
            for character in paired:
                yield _encode_word(character)
            for first, second in pairwise(paired):
                yield _encode_word(first + second)
        else:
            yield _encode_word(stem_word(match[2]))


class ChunkTerms:
    """Finds the terms of the chunks of one text. What overlapping chunks have in common is read once."""

    def __init__(self, text: str) -> None:
        self._text: Final = text
        self._known: Final[dict[tuple[int, int], str]] = {}
        """The terms of slices of the text that no later chunk is in front of."""

    def join(self, start: int, end: int) -> str:
        """Returns the terms of a slice of the text, with blanks between them. Slices are asked for in their order."""
        bounds = [start, *self._iterate_bounds(start, end), end]
        joined = " ".join(filter(None, (self._read_terms(*each) for each in pairwise(bounds))))
        for each in [each for each in self._known if each[0] <= start]:
            del self._known[each]
        return joined

    def _iterate_bounds(self, start: int, end: int) -> Iterator[int]:
        """Yields places within a slice at which it can be cut: no word and no pair of characters lies across them.

        They are the same in all slices of the text.
        """
        for block in range(start // _BLOCK * _BLOCK, end, _BLOCK):
            place = _BREAK.search(self._text, block, min(block + _BLOCK, end))
            if place is not None and place.start() > start:
                yield place.start()

    def _read_terms(self, start: int, end: int) -> str:
        terms = self._known.get((start, end))
        if terms is None:
            terms = self._known[start, end] = " ".join(iterate_index_terms(self._text[start:end]))
        return terms


def find_query_terms(query: str) -> list[str]:
    """Returns the different terms of a query in its order, at most 64; none if it has no letters and digits."""
    terms: dict[str, None] = {}
    known: set[str] = set()
    for match in _RUN.finditer(normalize_text(query)):
        if match[0] in known:
            continue
        known.add(match[0])
        if (paired := match[1]) is None:
            words = [stem_word(match[2])]
        elif len(paired) == 1:
            words = [paired]
        else:
            words = [first + second for first, second in pairwise(paired)]
        terms.update(dict.fromkeys(map(_encode_word, words)))
        if len(terms) >= MAX_QUERY_TERMS:
            break
    return list(terms)[:MAX_QUERY_TERMS]


def find_terms_of_all(queries: Sequence[str]) -> list[list[str]]:
    """Returns the terms of each query. A thousand characters take up to some milliseconds."""
    return [find_query_terms(query) for query in queries]


def stem_word(word: str) -> str:
    """Returns an English-like word without its usual endings: `caches`, `cached` and `caching` become `cach`.

    Words with digits or other letters, and words of up to three letters, remain as they are.
    """
    if len(word) <= 3 or not word.isascii() or not word.isalpha():
        return word
    stem = _cut_plural(word)
    for ending in ("ing", "ed"):
        if stem.endswith(ending) and not stem.endswith("eed"):
            bare = stem[: -len(ending)]
            if len(bare) >= 3 and _VOWEL.search(bare):
                stem = bare[:-1] if bare[-1] == bare[-2] and bare[-1] not in "lsz" else bare
            break
    if len(stem) > 3 and stem[-1] == "e":
        stem = stem[:-1]
    return stem[:-1] + "i" if len(stem) > 3 and stem[-1] == "y" else stem


def _cut_plural(word: str) -> str:
    if word.endswith("ies") and len(word) > 4:
        return word[:-3] + "y"
    if word.endswith(("sses", "xes", "zes", "ches", "shes")):
        return word[:-2]
    if word.endswith("s") and not word.endswith(("ss", "us", "is")):
        return word[:-1]
    return word


def _encode_word(word: str) -> str:
    return f"a{word}" if word.isascii() else f"u{word.encode().hex()}"
