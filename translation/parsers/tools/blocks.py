"""The parser of tool calls between an opening and a closing tag, anywhere in a text."""

import re
from abc import abstractmethod
from collections.abc import Sequence
from functools import partial
from typing import Final

from translation.parsers.tools.call_json import CallValueReader
from translation.parsers.tools.parser_output import MalformedCall, ParserOutput, PlainText
from translation.parsers.tools.steps import CUT_OFF_REASON, StepParser, may_become

_LAYOUT: Final = re.compile(r"[\s`}\],;]*")
"""Characters that may come between a value and the closing tag: the end of a code fence, an extra bracket."""

_QUOTES: Final = frozenset("\"'`")

_NO_CALL_REASON: Final = "there is no call in it"

_MAX_TAG_CHARS: Final = 256
"""No tag is longer, with the name in it. So a text with many `<` is not compared as a whole at each of them."""

_MAX_REREADS: Final = 8
"""The limit per answer, because a reread costs as much as the text that is read again."""


class _ClosingTagSearch:
    """Searches growing pieces of recorded text for a closing tag.

    A block may hold thousands of values that are no calls, so only the text after the last search is searched.
    """

    def __init__(self, pattern: re.Pattern[str], length: int) -> None:
        """`length` is that of the tag."""
        self._pattern = pattern
        self._length = length
        self.restart()

    def restart(self) -> None:
        self._searched_count = 0
        """The number of pieces that were searched and have no closing tag."""
        self._searched_tail = ""
        """The last characters of those pieces, in which a closing tag may begin."""

    def has_match(self, pieces: Sequence[str], more: str) -> bool:
        """Whether a closing tag is in the pieces with `more` after them, which the next search may get again."""
        self._searched_tail += "".join(pieces[self._searched_count :])
        is_found = self._pattern.search(self._searched_tail + more) is not None
        self._searched_tail = self._searched_tail[1 - self._length :]
        self._searched_count = len(pieces)
        return is_found


class BlockParser(StepParser):
    """Parses the calls in blocks between tags. Text outside blocks is plain text.

    A block begins with its opening tag. It ends with its closing tag, with the opening tag of the next block, or with
    the end of the text. Prose and code fences before its first value are skipped. If a value is no call, the next value
    in the block is tried, until a call has started. Text after a value is skipped too, unless the block has no closing
    tag: then it is plain text. A closing tag in a string is part of the string. Tags match in upper and lower case.

    A tag between quotes, as in `"<tag>"`, is plain text: the model writes about the tag. Prose after an opening tag,
    without a call up to the end of the block, is plain text too, with its tags.
    """

    def __init__(self, tag: re.Pattern[str], closing: str, *, values: str, several: bool) -> None:
        """`tag` matches opening tags and the closing tag, in upper and lower case. `closing` is in lower case.

        `values` are the characters that a value can begin with. `several`: a block may hold more than one value.
        """
        super().__init__(self._read_outside)
        self._tag = tag
        self._closing = closing
        self._closing_pattern = re.compile(re.escape(closing), re.IGNORECASE | re.ASCII)
        self._value_start = re.compile(f"[{re.escape(values)}<]")
        self._value_chars = values
        self._next_value_chars = values if several else ""
        self._tail_stop = re.compile(f"[{re.escape(self._next_value_chars)}<]")
        self._last_char = ""
        """The last character outside blocks."""
        self._fault = ""
        self._is_prose: bool | None = None
        """Whether prose comes before the first value of the block. None until that value begins."""
        self._in_tail = False
        """Whether prose has followed a value of the block. Then that prose is recorded."""
        self._reader: CallValueReader | None = None
        self._rereads_left = _MAX_REREADS
        self._closing_search = _ClosingTagSearch(self._closing_pattern, len(closing))

    @abstractmethod
    def _may_open(self, tail: str) -> bool:
        """Whether `tail`, the text from its last `<` on, in lower case, may become an opening tag."""

    @abstractmethod
    def _new_reader(self, opening: re.Match[str], *, tentative: bool) -> CallValueReader:
        """Returns the reader for a value of the block that this tag opened. `tentative`: it may not be a call."""

    def _read_empty_block(self, opening: re.Match[str], content: str, raw: str) -> list[ParserOutput]:
        """Returns the output for a closed block without a value. `content` is the text between its tags."""
        return [MalformedCall(raw, _NO_CALL_REASON, truncated=False, is_prose=_is_prose(content))]

    def _finish_step(self, pending: str) -> list[ParserOutput]:
        if self._step == self._read_outside:
            return [PlainText(pending)]
        has_started_call = self._reader is not None and self._reader.has_started_call
        if self._in_tail and not has_started_call:
            if pending.startswith("</"):  # an incomplete closing tag
                return []
            tail = self._recorded_text(pending)
            closing = self._closing_pattern.search(tail)
            return [PlainText(tail if closing is None else tail[closing.end() :])]
        if self._step == self._read_after_value or (self._reader is not None and self._reader.is_between_calls):
            return []
        raw = self._recorded_text(pending)
        is_prose = not has_started_call and self._begins_with_prose(raw)
        return [MalformedCall(raw, self._fault or CUT_OFF_REASON, truncated=True, is_prose=is_prose)]

    def _begins_with_prose(self, raw: str) -> bool:
        """Whether prose follows the opening tag of the block, before any value."""
        if self._is_prose is not None:
            return self._is_prose
        return _is_prose(raw[len(self._opening[0]) :])

    def _read_outside(self, text: str, at: int, output: list[ParserOutput]) -> int | None:
        match = self._tag.search(text, at) if "<" in text else None
        end = self._partial_tag_start(text, at) if match is None else match.start()
        if end > at:
            self._last_char = text[end - 1]
            output.append(PlainText(text[at:end]))
            return end
        if match is None:
            return None
        if self._last_char in _QUOTES and match.end() == len(text):
            return None
        is_closing = match[0].lower() == self._closing
        if is_closing or (self._last_char in _QUOTES and text[match.end()] == self._last_char):
            self._last_char = ">"
            output.append(PlainText(match[0]))
        else:
            self._open_block(match)
        return match.end()

    def _partial_tag_start(self, text: str, at: int) -> int:
        """Returns the index where an incomplete tag begins, or else the end of the text."""
        start = text.rfind("<", at)
        return start if start != -1 and self._may_become_tag(text, start) else len(text)

    def _may_become_tag(self, text: str, at: int) -> bool:
        if len(text) - at > _MAX_TAG_CHARS:
            return False
        rest = text[at:].lower()
        return may_become(self._closing, rest, 0) or self._may_open(rest)

    def _open_block(self, opening: re.Match[str]) -> None:
        self._start_recording(opening[0])
        self._opening = opening
        self._fault = ""
        self._is_prose = None
        self._in_tail = False
        self._reader = None
        self._step = self._seek_value

    def _seek_value(self, text: str, at: int, output: list[ParserOutput]) -> int | None:
        match = self._value_start.search(text, at)
        if match is None:
            return len(text)
        if match.start() > at:
            return match.start()
        if text[at] == "<":
            return self._close_or_skip(text, at, output)
        if self._is_prose is None:
            self._is_prose = self._begins_with_prose(self._recorded_text())
        self._begin_value()
        return at

    def _begin_value(self) -> None:
        self._reader = reader = self._new_reader(self._opening, tentative=self._in_tail)
        self._step = partial(self._read_value, reader)

    def _read_value(self, reader: CallValueReader, text: str, at: int, output: list[ParserOutput]) -> int:
        end = reader.feed(text, at, output)
        if reader.has_started_call:
            self._fault = ""
            self._is_prose = False
        if reader.is_complete:
            self._reader = None
            self._in_tail = False
            self._step = self._read_after_value
        elif reader.fault:
            self._leave_value(reader, text[at:end], output)
        return end

    def _leave_value(self, reader: CallValueReader, more: str, output: list[ParserOutput]) -> None:
        """Ends a value that is no call. `more` is the end of its text."""
        self._reader = None
        if self._in_tail and not reader.has_started_call:
            self._step = self._read_tail
        else:
            self._in_tail = False
            self._fault = reader.fault
            self._step = self._skip_to_closing_tag if reader.has_started_call else self._seek_value
        if self._rereads_left and self._closing_search.has_match(self._raw, more):
            self._close_at_inner_tag(self._recorded_text(more), output)

    def _close_at_inner_tag(self, raw: str, output: list[ParserOutput]) -> None:
        """Ends a block at the first closing tag in its recorded text, and reads the text after that tag again.

        A string without a closing quote runs on past the closing tag, until some character makes it invalid.
        """
        _, self._reread = self._closing_pattern.split(raw, 1)
        self._rereads_left -= 1
        if not self._in_tail:
            block = raw[: len(raw) - len(self._reread)]
            output.append(MalformedCall(block, self._fault, truncated=False, is_prose=bool(self._is_prose)))
        self._leave_block()

    def _read_after_value(self, text: str, at: int, output: list[ParserOutput]) -> int | None:
        match = _LAYOUT.match(text, at)
        if match is not None and match.end() > at:
            return match.end()
        if text[at] != "<" and text[at] in self._next_value_chars:
            self._start_recording()
            self._begin_value()
        else:
            self._start_recording()
            self._in_tail = True
            self._step = self._read_tail
        return at

    def _read_tail(self, text: str, at: int, output: list[ParserOutput]) -> int | None:
        """Reads the text after a value. Prose is plain text, unless the closing tag or another call follows."""
        match = self._tail_stop.search(text, at)
        if match is None:
            return len(text)
        if match.start() > at:
            return match.start()
        if text[at] != "<":
            self._begin_value()
            return at
        tag = self._tag.match(text, at)
        if tag is None:
            return None if self._may_become_tag(text, at) else at + 1
        is_closed = tag[0].lower() == self._closing
        tail = self._recorded_text()
        if tail and not (is_closed and tail[0] not in self._value_chars):
            output.append(PlainText(tail))
        self._leave_block()
        self._last_char = tail[-1:]
        return tag.end() if is_closed else at

    def _skip_to_closing_tag(self, text: str, at: int, output: list[ParserOutput]) -> int | None:
        start = text.find("<", at)
        if start == -1:
            return len(text)
        return start if start > at else self._close_or_skip(text, at, output)

    def _close_or_skip(self, text: str, at: int, output: list[ParserOutput]) -> int | None:
        """Handles a `<` outside values: ends the block at a tag, else skips the character."""
        tag = self._tag.match(text, at)
        if tag is None:
            return None if self._may_become_tag(text, at) else at + 1
        if tag[0].lower() != self._closing:
            self._end_unclosed_block(tag, output)
            return at
        raw = self._recorded_text()
        if self._fault:
            output.append(MalformedCall(raw + tag[0], self._fault, truncated=False, is_prose=bool(self._is_prose)))
        else:
            output += self._read_empty_block(self._opening, raw[len(self._opening[0]) :], raw + tag[0])
        self._leave_block()
        return tag.end()

    def _end_unclosed_block(self, next_opening: re.Match[str], output: list[ParserOutput]) -> None:
        """Ends a block without a call at the opening tag of the next one."""
        raw = self._recorded_text()
        if self._begins_with_prose(raw):
            output.append(PlainText(raw))
        elif self._fault or raw.strip() != next_opening[0]:  # models repeat the tag and mean one block
            output.append(MalformedCall(raw, self._fault or _NO_CALL_REASON, truncated=False))
        self._leave_block()
        self._last_char = raw[-1]

    def _start_recording(self, beginning: str = "") -> None:
        super()._start_recording(beginning)
        self._closing_search.restart()

    def _leave_block(self) -> None:
        self._recording = False
        self._in_tail = False
        self._last_char = ""
        self._step = self._read_outside


def _is_prose(text: str) -> bool:
    """Whether a text has several words and no markup."""
    return "<" not in text and not text.lstrip().startswith("```") and len(text.split(None, 2)) > 1
