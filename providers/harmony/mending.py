"""Tokens as a model wrote them to tokens as Harmony wants them. Models leave marks out, write them twice, and in places
where they mean nothing; the library's parser takes some of that for text, and stops at the rest."""

import re
from enum import Enum
from typing import Final

from providers.harmony.encoding import Encoding

_LONGEST_HEADER: Final = 64
"""Tokens. More without the mark that ends a header are no header."""

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
        self._state = _State.HEADER
        self._header: list[int] = []
        self._is_first = True
        """The message is the first, whose start is in the prompt."""
        self._is_started = False
        """The header was begun with the mark for it."""
        self._is_final = False
        self._ends = frozenset({self._marks.end, self._marks.returns, self._marks.call})

    @property
    def over(self) -> bool:
        """Whether the turn is: nothing that follows belongs to it."""
        return self._state is _State.OVER

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
        return [] if self._encoding.is_special(token) else [token]

    def _end(self, token: int) -> list[int]:
        is_over = self._is_final or token != self._marks.end
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
        self._state, self._header = _State.CONTENT, []
        self._is_final = channel == "final" and not to
        return [*opened, *(encode(f" to={to}") if to else ()), marks.channel, *encode(channel), marks.message]

    def _give_up_header(self) -> list[int]:
        """A header that ends before its message: an answer without any marks, or nothing."""
        is_answer = not self._is_started and self._marks.channel not in self._header
        if is_answer and self._text(self._header).strip() not in ("", "assistant"):
            return [*self._spill(), *self._end(self._marks.end)]
        self._state = _State.BETWEEN
        return []

    def _spill(self) -> list[int]:
        """What was held for a header is text."""
        channel, text = self._channel(), self._text(self._header)
        if self._is_started:
            text = text.removeprefix("assistant")
        if self._marks.channel in self._header:
            text = text.removeprefix(channel)
        return [*self._open(channel, ""), *self._encoding.encode(text)]

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

    def _text(self, tokens: list[int]) -> str:
        return self._encoding.decode([each for each in tokens if not self._encoding.is_special(each)])
