"""The forms in which an upstream may write one text twice: with its thinking or without, trimmed, normalized."""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import combinations, product
from typing import Final, Literal, NamedTuple, TypeAlias
from unicodedata import combining, decomposition, normalize
from zlib import crc32

NormalForm: TypeAlias = Literal["NFC", "NFD", "NFKC", "NFKD"]

_TAG_NAMES: Final = ("think", "thinking", "reasoning", "thought")
CLOSING_TAG_OF: Final = {f"<{name}>": f"</{name}>" for name in _TAG_NAMES} | {"[think]": "[/think]"}
"""Opening tag of thinking -> its closing tag, in lower case. The last is Mistral's."""

CLOSING_TAG_PATTERN: Final = re.compile("|".join(map(re.escape, CLOSING_TAG_OF.values())), re.IGNORECASE | re.ASCII)
"""Matches a tag that closes thinking."""

LONGEST_TAG: Final = max(map(len, CLOSING_TAG_OF.values()))

_OPENING_TAGS: Final = tuple(CLOSING_TAG_OF)
_TAG_BEGINNINGS: Final = frozenset(tag[:end] for tag in _OPENING_TAGS for end in range(len(tag)))
"""What may become a tag that opens thinking: all its beginnings, the empty one too."""

WHITE_SPACE: Final = "".join(filter(str.isspace, map(chr, range(0x3001)))) + "\ufeff"
"""All white space of Unicode, with the mark that JavaScript trims too."""

ASCII_SPACE: Final = b" \t\n\v\f\r"
_SPACES: Final = tuple(space.encode() for space in WHITE_SPACE if space.encode() not in ASCII_SPACE)
_MAX_SPACES: Final = 3
"""So many characters of white space beyond ASCII are found at the end of a text."""

_MAX_MARKS: Final = 30
"""The most combining marks in a row that any writing has. https://www.unicode.org/reports/tr15/#Stream_Safe_Text_Format"""

_SHORT_CHARS: Final = 1000
"""Texts that are normalized at once whatever they are: the worst takes a millisecond."""

_LAST_MARK: Final = 0x1F000
"""All combining marks are below this code point."""

_MAX_MIXED_FORMS: Final = 2000
_MAX_MIXED_BYTES: Final = 2_000_000
"""The most forms of a text that are tried, and the most bytes of all of them: more would hold other requests up."""

_MAX_MIXED_CHARS: Final = 100_000
"""The longest text of which forms are tried. Of a longer one so few could be that hardly any would be found."""


class TextStart(NamedTuple):
    """A position in a text, by what is before it: the length without ASCII white space, and the CRC-32 of that."""

    ink_size: int
    checksum: int

    def move_past(self, text: str) -> "TextStart":
        """Returns the position after a text that follows this one."""
        ink = remove_white_space(text.encode())
        return TextStart(self.ink_size + len(ink), crc32(ink, self.checksum))


def remove_white_space(data: bytes) -> bytes:
    """Returns bytes of UTF-8 without ASCII white space."""
    return data.translate(None, ASCII_SPACE)


def may_become_opening_tag(beginning: str) -> bool:
    """Returns whether a text that has begun so may begin with a tag that opens thinking, but does not yet."""
    return beginning[:LONGEST_TAG].lower() in _TAG_BEGINNINGS


def opens_thought(beginning: str) -> bool:
    """Returns whether a text begins with a tag that opens thinking."""
    return beginning[:LONGEST_TAG].lower().startswith(_OPENING_TAGS)


def list_starts_after_thought(thought: str) -> list[TextStart]:
    """Returns the positions after thinking whose opening tag was in the prompt: one for each tag that may close it.

    There are none if there is no thinking.
    """
    if not thought.strip():
        return []
    start = TextStart(0, 0).move_past(thought)
    return [start.move_past(tag) for tag in (*CLOSING_TAG_OF.values(), "[/THINK]")]


def may_spell_white_space(size: int) -> bool:
    """Returns whether so many bytes may be a few characters of white space beyond ASCII."""
    return 0 < size <= _MAX_SPACES * max(map(len, _SPACES))


def spells_white_space(size: int, before: int, after: int) -> bool:
    """Returns whether a few characters of white space beyond ASCII, of `size` bytes, change one checksum to another."""
    for count in range(1, _MAX_SPACES + 1):
        for spaces in product(_SPACES, repeat=count):
            if sum(map(len, spaces)) == size and crc32(b"".join(spaces), before) == after:
                return True
    return False


def normalize_unicode(form: NormalForm, text: str) -> str:
    """Returns a text in a normal form of Unicode, in time that is proportional to its length.

    To normalize combining marks in a row takes the square of their number. A row of more than 30, or of characters that
    stand for marks, stays as it is.
    """
    if text.isascii() or len(text) <= _SHORT_CHARS or (rows := _match_long_rows()).search(text) is None:
        return normalize(form, text)
    pieces: list[str] = []
    start = 0
    for row in rows.finditer(text):
        pieces += (normalize(form, text[start : row.start()]), row[0])
        start = row.end()
    return "".join([*pieces, normalize(form, text[start:])])


@cache
def _match_long_rows() -> re.Pattern[str]:
    marks = "".join(filter(_is_mark, map(chr, range(_LAST_MARK))))
    return re.compile(f"[{re.escape(marks)}]{{{_MAX_MARKS + 1},}}")


def _is_mark(character: str) -> bool:
    """Returns whether a character is a combining mark, or stands for nothing but such marks."""
    if combining(character) or not decomposition(character):
        return combining(character) > 0
    return all(map(combining, normalize("NFKD", character)))


def list_normal_forms(text: str) -> list[str]:
    """Returns a text as it is, with its accents in its letters, and with its accents as characters of their own."""
    return list(dict.fromkeys((text, normalize_unicode("NFC", text), normalize_unicode("NFD", text))))


def normalize_like(text: str, rest: str) -> str:
    """Returns the rest of a text in the normal form of the text."""
    names: tuple[NormalForm, ...] = ("NFC", "NFD")
    return next((form for name in names if text.endswith(form := normalize_unicode(name, rest))), rest)


def list_mixed_forms(text: str, ink_size: int) -> Iterator[bytes]:
    """Yields forms of a text in which some of its letters have their accents as characters of their own.

    Models write both in one text. Only forms with `ink_size` bytes beside ASCII white space are yielded, and not more
    than can be tried in a moment.
    """
    composed = normalize_unicode("NFC", text)
    missing = ink_size - len(remove_white_space(composed.encode()))
    if missing <= 0 or len(composed) > _MAX_MIXED_CHARS:
        return
    apart = {letter: normalize("NFD", letter) for letter in set(composed) if not letter.isascii()}
    growth = {letter: len(form.encode()) - len(letter.encode()) for letter, form in apart.items() if form != letter}
    places = [place for place, letter in enumerate(composed) if letter in growth]
    tries = min(_MAX_MIXED_FORMS, _MAX_MIXED_BYTES // (len(composed) + 1))
    for count in range(1, len(places)):
        for chosen in combinations(places, count):
            tries -= 1
            if tries < 0:
                return
            if sum(growth[composed[place]] for place in chosen) == missing:
                yield _take_apart(composed, chosen, apart).encode()


def _take_apart(text: str, places: Sequence[int], apart: Mapping[str, str]) -> str:
    """Returns a text with the letters at some places in the forms that `apart` has for them."""
    pieces: list[str] = []
    start = 0
    for place in places:
        pieces += (text[start:place], apart[text[place]])
        start = place + 1
    return "".join([*pieces, text[start:]])
