"""Tokens as a model wrote them to tokens as Harmony wants them. Models leave marks out, write them twice, and in places
where they mean nothing; the library's parser takes some of that for text, and stops at the rest."""

import re
from enum import Enum
from typing import Final

from providers.harmony.encoding import Encoding

_MAX_HEADER_TOKENS: Final = 64
"""Tokens. More without the mark that ends a header are no header."""

_MAX_CHARACTER_TOKENS: Final = 4
"""Tokens that one can be in: it has no more bytes."""

_FOREIGN_AUTHORS: Final = ("user", "system", "developer", "tool", "functions.", "python", "browser")
"""How a header begins that speaks for somebody else."""

_RECIPIENT: Final = re.compile(r"to=([^\s<]*)")
_WORD: Final = re.compile(r"[^\s<]*")


class _State(Enum):
    BETWEEN = "between messages"
    HEADER = "in a header"
    CONTENT = "in a message"
    OVER = "over"


class TokenRepairer:
    """Feed it every token; what it returns is well-formed. It begins in the header of an assistant's message."""

    def __init__(self, encoding: Encoding) -> None:
        self._encoding = encoding
        self._control_tokens = encoding.control_tokens
        self.has_lost_message = False
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
        self._recent_tokens: list[int] = []
        self._ends = frozenset({self._control_tokens.end, self._control_tokens.returns, self._control_tokens.call})

    @property
    def ended(self) -> bool:
        """Whether the turn is: nothing that follows belongs to it."""
        return self._state is _State.OVER

    def begin_reply(self) -> None:
        """What was fed so far is the prompt's: an answer that it opened is not the model's yet."""
        self._has_text, self._recent_tokens = False, []

    def feed(self, token: int) -> list[int]:
        """The tokens to parse now, possibly none."""
        match self._state:
            case _State.OVER:
                return []
            case _State.CONTENT:
                return self._in_content(token)
            case _State.BETWEEN:
                self._begin_header(is_started=token == self._control_tokens.start)
                return [] if self._is_started else self._in_header(token)
            case _State.HEADER:
                return self._in_header(token)

    def finish(self) -> list[int]:
        """No more is coming: what was held back for a header is text, if it is no header."""
        return self._abandon_header() if self._state is _State.HEADER else []

    def _begin_header(self, *, is_started: bool) -> None:
        self._state, self._header, self._is_started = _State.HEADER, [], is_started

    def _in_content(self, token: int) -> list[int]:
        marks = self._control_tokens
        if token in self._ends:
            return self._end_message(token)
        if token in (marks.start, marks.channel):
            # The message before it has no end.
            return [*self._end_message(marks.end), *self.feed(token)]
        if self._encoding.is_special(token):
            return []
        if not self._has_text:
            self._recent_tokens = [*self._recent_tokens, token][-_MAX_CHARACTER_TOKENS:]
            self._has_text = self._has_visible_text(self._recent_tokens)
        return [token]

    def _end_message(self, token: int) -> list[int]:
        # Behind an answer of nothing a model begins the one it means.
        is_over = (self._is_final and self._has_text) or token != self._control_tokens.end
        self._state = _State.OVER if is_over else _State.BETWEEN
        self._is_first = False
        return [self._control_tokens.end]

    def _in_header(self, token: int) -> list[int]:
        marks = self._control_tokens
        if token == marks.message:
            return self._complete_header()
        if token == marks.start:
            held = self._abandon_header()
            if not self.ended:
                self._begin_header(is_started=True)
            return held
        if token in self._ends:
            held = self._abandon_header()
            if token != marks.end:
                self._state = _State.OVER
            return held
        self._header.append(token)
        return self._header_as_text() if len(self._header) > _MAX_HEADER_TOKENS else []

    def _complete_header(self) -> list[int]:
        """The header is whole: said again as it should have been."""
        if self._is_started and self._text_of(self._up_to_control_token()).startswith(_FOREIGN_AUTHORS):
            self._state = _State.OVER
            return []
        recipient = _RECIPIENT.search(self._spaced_text(self._header))
        return self._open_message(self._channel_of_header(), recipient.group(1) if recipient is not None else "")

    def _open_message(self, channel: str, to: str) -> list[int]:
        marks, encode = self._control_tokens, self._encoding.encode
        start = [] if self._is_first else [marks.start, *encode("assistant")]
        self._state, self._header, self._has_text = _State.CONTENT, [], False
        self._recent_tokens = []
        self._is_final = channel == "final" and not to
        return [*start, *(encode(f" to={to}") if to else ()), marks.channel, *encode(channel), marks.message]

    def _abandon_header(self) -> list[int]:
        """A header that ends before its message: an answer without any marks, or nothing."""
        marks_header = self._control_tokens.channel in self._header
        if not (self._is_started or marks_header) and self._text_of(self._header).strip() not in ("", "assistant"):
            return [*self._header_as_text(), *self._end_message(self._control_tokens.end)]
        self.has_lost_message = self.has_lost_message or marks_header
        self._state = _State.BETWEEN
        return []

    def _header_as_text(self) -> list[int]:
        """What was held for a header is text."""
        channel, text = self._channel_of_header(), self._text_of(self._header)
        if self._is_started:
            text = text.removeprefix("assistant")
        if self._control_tokens.channel in self._header:
            text = text.removeprefix(channel)
        header, content = self._open_message(channel, ""), self._encoding.encode(text)
        self._has_text = self._has_visible_text(content)
        return [*header, *content]

    def _channel_of_header(self) -> str:
        """The last that was named; without a name it is an answer."""
        channel = ""
        for place, token in enumerate(self._header):
            if token == self._control_tokens.channel:
                word = _WORD.match(self._text_of(self._up_to_control_token(place + 1)).strip())
                channel = (word.group() if word is not None else "") or channel
        return channel or "final"

    def _up_to_control_token(self, place: int = 0) -> list[int]:
        """The header from there on, up to its next mark."""
        rest = self._header[place:]
        return rest[: next((n for n, each in enumerate(rest) if self._encoding.is_special(each)), len(rest))]

    def _spaced_text(self, tokens: list[int]) -> str:
        """The text with a space for each mark, so that words on both sides of it stay two."""
        return "".join(" " if self._encoding.is_special(each) else self._encoding.decode([each]) for each in tokens)

    def _has_visible_text(self, tokens: list[int]) -> bool:
        """Blanks cannot, nor half a character, which streams leave out."""
        return bool(self._encoding.decode(tokens).replace("\ufffd", "").strip())

    def _text_of(self, tokens: list[int]) -> str:
        return self._encoding.decode([each for each in tokens if not self._encoding.is_special(each)])
