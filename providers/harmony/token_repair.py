"""Repairs the tokens of a model so that they are valid Harmony. Models omit control tokens, repeat them, and write them
in wrong places. The library's parser takes some of that as text, and fails on the rest."""

import re
from enum import Enum
from typing import Final

from providers.harmony.encoding import Encoding

_MAX_HEADER_TOKENS: Final = 64
"""The most tokens of a header. More tokens without the control token that ends a header are text."""

_MAX_CHARACTER_TOKENS: Final = 4
"""The most tokens that one character can span, because it has at most four bytes."""

_FOREIGN_AUTHORS: Final = ("user", "system", "developer", "tool", "functions.", "python", "browser")
"""The beginnings of headers of messages by other authors than the assistant."""

_RECIPIENT: Final = re.compile(r"to=([^\s<]*)")
_WORD: Final = re.compile(r"[^\s<]*")


class _State(Enum):
    BETWEEN = "between messages"
    HEADER = "in a header"
    CONTENT = "in a message"
    OVER = "over"


class TokenRepairer:
    """Takes every token of a turn and returns valid Harmony. The turn begins inside the header of an assistant
    message."""

    def __init__(self, encoding: Encoding) -> None:
        self._encoding = encoding
        self._control_tokens = encoding.control_tokens
        self.has_lost_message = False
        """Whether a header that named its channel was abandoned, because its message never followed."""
        self._state = _State.HEADER
        self._header: list[int] = []
        self._is_first = True
        """Whether the message is the first of the turn, whose start token is in the prompt."""
        self._is_started = False
        """Whether the header began with its start token."""
        self._is_final = False
        self._has_text = False
        """Whether the message has visible text that the reply (not the prefill) contained."""
        self._recent_tokens: list[int] = []
        self._ends = frozenset({self._control_tokens.end, self._control_tokens.returns, self._control_tokens.call})

    @property
    def ended(self) -> bool:
        """Whether the turn has ended. Later tokens do not belong to it."""
        return self._state is _State.OVER

    def begin_reply(self) -> None:
        """Marks all tokens so far as the prompt's prefill. Text of a message in it does not count as the model's."""
        self._has_text, self._recent_tokens = False, []

    def feed(self, token: int) -> list[int]:
        """Adds a token. Returns the tokens to parse now, possibly none."""
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
        """Ends the turn. Returns the tokens that were held back as a header, as text if they are no header."""
        return self._abandon_header() if self._state is _State.HEADER else []

    def _begin_header(self, *, is_started: bool) -> None:
        self._state, self._header, self._is_started = _State.HEADER, [], is_started

    def _in_content(self, token: int) -> list[int]:
        control_tokens = self._control_tokens
        if token in self._ends:
            return self._end_message(token)
        if token in (control_tokens.start, control_tokens.channel):
            # The end token of the message before it is missing.
            return [*self._end_message(control_tokens.end), *self.feed(token)]
        if self._encoding.is_special(token):
            return []
        if not self._has_text:
            self._recent_tokens = [*self._recent_tokens, token][-_MAX_CHARACTER_TOKENS:]
            self._has_text = self._has_visible_text(self._recent_tokens)
        return [token]

    def _end_message(self, token: int) -> list[int]:
        # After an empty answer the model begins the actual one, so the turn goes on.
        is_over = (self._is_final and self._has_text) or token != self._control_tokens.end
        self._state = _State.OVER if is_over else _State.BETWEEN
        self._is_first = False
        return [self._control_tokens.end]

    def _in_header(self, token: int) -> list[int]:
        control_tokens = self._control_tokens
        if token == control_tokens.message:
            return self._complete_header()
        if token == control_tokens.start:
            pending = self._abandon_header()
            if not self.ended:
                self._begin_header(is_started=True)
            return pending
        if token in self._ends:
            pending = self._abandon_header()
            if token != control_tokens.end:
                self._state = _State.OVER
            return pending
        self._header.append(token)
        return self._render_header_as_text() if len(self._header) > _MAX_HEADER_TOKENS else []

    def _complete_header(self) -> list[int]:
        """Returns the complete header, rewritten in its regular form."""
        if self._is_started and self._decode_text(self._select_header_tokens()).startswith(_FOREIGN_AUTHORS):
            self._state = _State.OVER
            return []
        recipient = _RECIPIENT.search(self._render_spaced_text(self._header))
        return self._open_message(self._find_channel(), recipient.group(1) if recipient is not None else "")

    def _open_message(self, channel: str, to: str) -> list[int]:
        control_tokens, encode = self._control_tokens, self._encoding.encode
        start = [] if self._is_first else [control_tokens.start, *encode("assistant")]
        self._state, self._header, self._has_text = _State.CONTENT, [], False
        self._recent_tokens = []
        self._is_final = channel == "final" and not to
        recipient = encode(f" to={to}") if to else ()
        return [*start, *recipient, control_tokens.channel, *encode(channel), control_tokens.message]

    def _abandon_header(self) -> list[int]:
        """Ends a header that has no message: it is an answer without control tokens, or nothing."""
        has_channel = self._control_tokens.channel in self._header
        if not (self._is_started or has_channel) and self._decode_text(self._header).strip() not in ("", "assistant"):
            return [*self._render_header_as_text(), *self._end_message(self._control_tokens.end)]
        self.has_lost_message = self.has_lost_message or has_channel
        self._state = _State.BETWEEN
        return []

    def _render_header_as_text(self) -> list[int]:
        """Returns the header's tokens as the text of a message."""
        channel, text = self._find_channel(), self._decode_text(self._header)
        if self._is_started:
            text = text.removeprefix("assistant")
        if self._control_tokens.channel in self._header:
            text = text.removeprefix(channel)
        header, content = self._open_message(channel, ""), self._encoding.encode(text)
        self._has_text = self._has_visible_text(content)
        return [*header, *content]

    def _find_channel(self) -> str:
        """Returns the last channel that the header names; without one it is an answer."""
        channel = ""
        for index, token in enumerate(self._header):
            if token == self._control_tokens.channel:
                word = _WORD.match(self._decode_text(self._select_header_tokens(index + 1)).strip())
                channel = (word.group() if word is not None else "") or channel
        return channel or "final"

    def _select_header_tokens(self, start: int = 0) -> list[int]:
        """Returns the header's tokens from `start` up to the next control token."""
        rest = self._header[start:]
        return rest[: next((index for index, token in enumerate(rest) if self._encoding.is_special(token)), len(rest))]

    def _render_spaced_text(self, tokens: list[int]) -> str:
        """Returns the text with a space for each special token, so that the words on both sides stay separate."""
        return "".join(" " if self._encoding.is_special(token) else self._encoding.decode([token]) for token in tokens)

    def _has_visible_text(self, tokens: list[int]) -> bool:
        """Whether the text has a visible character. Blanks are not visible, nor are incomplete characters, which
        streams omit."""
        return bool(self._encoding.decode(tokens).replace("\ufffd", "").strip())

    def _decode_text(self, tokens: list[int]) -> str:
        return self._encoding.decode([token for token in tokens if not self._encoding.is_special(token)])
