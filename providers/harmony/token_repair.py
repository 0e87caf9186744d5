"""Tokens as a model wrote them to tokens as Harmony wants them. Models leave marks out, write them twice, and in places
where they mean nothing; the library's parser takes some of that for text, and stops at the rest."""

import re
from enum import Enum
from typing import Final

from providers.harmony.encoding import Encoding

_LONGEST_HEADER: Final = 64
"""Tokens. More without the mark that ends a header are no header."""

_MOST_OF_A_CHARACTER: Final = 4
"""Tokens that one can be in: it has no more bytes."""

_OTHERS: Final = ("user", "system", "developer", "tool", "functions.", "python", "browser")
"""How a header begins that speaks for somebody else."""

_TO: Final = re.compile(r"to=([^\s<]*)")
_WORD: Final = re.compile(r"[^\s<]*")


class _State(Enum):
    BETWEEN = "between messages"
    HEADER = "in a header"
    CONTENT = "in a message"
    OVER = "over"


class Mender:
    """Feed it every token; what it returns is well-formed. It begins in the header of an assistant's message."""

    def __init__(self, encoding: Encoding) -> None:
        self._encoding = encoding
        self._marks = encoding.marks
        self.lost = False
        """A header that named its channel was given up: its message never came."""
        self._state = _State.HEADER
        self._header: list[int] = []
        self._is_first = True
        """The message is the first, whose start is in the prompt."""
        self._is_started = False
        """The header was begun with the mark for it."""
        self._is_final = False
        self._has_text = False
        """Something that can be read was written of the message since the reply began."""
        self._latest: list[int] = []
        self._ends = frozenset({self._marks.end, self._marks.returns, self._marks.call})

    @property
    def over(self) -> bool:
        """Whether the turn is: nothing that follows belongs to it."""
        return self._state is _State.OVER

    def begin_reply(self) -> None:
        """What was fed so far is the prompt's: an answer that it opened is not the model's yet."""
        self._has_text, self._latest = False, []

    def feed(self, token: int) -> list[int]:
        """The tokens to parse now, possibly none."""
        match self._state:
            case _State.OVER:
                return []
            case _State.CONTENT:
                return self._in_content(token)
            case _State.BETWEEN:
                self._begin(is_started=token == self._marks.start)
                return [] if self._is_started else self._in_header(token)
            case _State.HEADER:
                return self._in_header(token)

    def finish(self) -> list[int]:
        """No more is coming: what was held back for a header is text, if it is no header."""
        return self._give_up_header() if self._state is _State.HEADER else []

    def _begin(self, *, is_started: bool) -> None:
        self._state, self._header, self._is_started = _State.HEADER, [], is_started

    def _in_content(self, token: int) -> list[int]:
        marks = self._marks
        if token in self._ends:
            return self._end(token)
        if token in (marks.start, marks.channel):
            # The message before it has no end.
            return [*self._end(marks.end), *self.feed(token)]
        if self._encoding.is_special(token):
            return []
        if not self._has_text:
            self._latest = [*self._latest, token][-_MOST_OF_A_CHARACTER:]
            self._has_text = self._can_be_read(self._latest)
        return [token]

    def _end(self, token: int) -> list[int]:
        # Behind an answer of nothing a model begins the one it means.
        is_over = (self._is_final and self._has_text) or token != self._marks.end
        self._state = _State.OVER if is_over else _State.BETWEEN
        self._is_first = False
        return [self._marks.end]

    def _in_header(self, token: int) -> list[int]:
        marks = self._marks
        if token == marks.message:
            return self._message()
        if token == marks.start:
            held = self._give_up_header()
            if not self.over:
                self._begin(is_started=True)
            return held
        if token in self._ends:
            held = self._give_up_header()
            if token != marks.end:
                self._state = _State.OVER
            return held
        self._header.append(token)
        return self._spill() if len(self._header) > _LONGEST_HEADER else []

    def _message(self) -> list[int]:
        """The header is whole: said again as it should have been."""
        if self._is_started and self._text(self._before_marks()).startswith(_OTHERS):
            self._state = _State.OVER
            return []
        found = _TO.search(self._spelt(self._header))
        return self._open(self._channel(), found.group(1) if found is not None else "")

    def _open(self, channel: str, to: str) -> list[int]:
        marks, encode = self._marks, self._encoding.encode
        opened = [] if self._is_first else [marks.start, *encode("assistant")]
        self._state, self._header, self._has_text = _State.CONTENT, [], False
        self._latest = []
        self._is_final = channel == "final" and not to
        return [*opened, *(encode(f" to={to}") if to else ()), marks.channel, *encode(channel), marks.message]

    def _give_up_header(self) -> list[int]:
        """A header that ends before its message: an answer without any marks, or nothing."""
        marks_header = self._marks.channel in self._header
        if not (self._is_started or marks_header) and self._text(self._header).strip() not in ("", "assistant"):
            return [*self._spill(), *self._end(self._marks.end)]
        self.lost = self.lost or marks_header
        self._state = _State.BETWEEN
        return []

    def _spill(self) -> list[int]:
        """What was held for a header is text."""
        channel, text = self._channel(), self._text(self._header)
        if self._is_started:
            text = text.removeprefix("assistant")
        if self._marks.channel in self._header:
            text = text.removeprefix(channel)
        opened, said = self._open(channel, ""), self._encoding.encode(text)
        self._has_text = self._can_be_read(said)
        return [*opened, *said]

    def _channel(self) -> str:
        """The last that was named; without a name it is an answer."""
        said = ""
        for place, token in enumerate(self._header):
            if token == self._marks.channel:
                word = _WORD.match(self._text(self._before_marks(place + 1)).strip())
                said = (word.group() if word is not None else "") or said
        return said or "final"

    def _before_marks(self, place: int = 0) -> list[int]:
        """The header from there on, up to its next mark."""
        rest = self._header[place:]
        return rest[: next((n for n, each in enumerate(rest) if self._encoding.is_special(each)), len(rest))]

    def _spelt(self, tokens: list[int]) -> str:
        """The text with a space for each mark, so that words on both sides of it stay two."""
        return "".join(" " if self._encoding.is_special(each) else self._encoding.decode([each]) for each in tokens)

    def _can_be_read(self, tokens: list[int]) -> bool:
        """Blanks cannot, nor half a character, which streams leave out."""
        return bool(self._encoding.decode(tokens).replace("\ufffd", "").strip())

    def _text(self, tokens: list[int]) -> str:
        return self._encoding.decode([each for each in tokens if not self._encoding.is_special(each)])
