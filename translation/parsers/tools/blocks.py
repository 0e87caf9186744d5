"""The parser of tool calls between an opening and a closing tag, anywhere in a text."""

import re
from abc import abstractmethod
from typing import Final

from translation.parsers.tools.call_json import CallValueReader
from translation.parsers.tools.parser_output import MalformedCall, ParserOutput, PlainText
from translation.parsers.tools.steps import CUT_OFF_REASON, StepParser, may_become

_LAYOUT: Final = re.compile(r"[\s`}\],;]*")
"""What may come between the value of a block and its closing tag: the end of a code fence, an extra bracket."""

_MAX_REREADS: Final = 8
"""The limit per answer, because a reread costs as much as the text that is read again."""


class BlockParser(StepParser):
    """Parses the calls in blocks between tags. Text outside blocks is plain text.

    A block begins with its opening tag; prose and code fences before its first value are skipped. It ends with its
    closing tag, with any other text after its value, or with the end of the text. If a value is no call, the next value
    in the block is tried, until a call has started. A closing tag in a string is part of the string.
    """

    def __init__(self, tag: re.Pattern[str], closing: str, *, values: str, several: bool) -> None:
        """`tag` matches opening tags and the closing tag. `values` are the characters that a value can begin with.

        `several`: a block may hold more than one value.
        """
        super().__init__(self._read_outside)
        self._tag = tag
        self._closing = closing
        self._value_start = re.compile(f"[{re.escape(values)}<]")
        self._next_value_chars = values if several else ""
        self._fault = ""
        self._expects_stray_closing = False
        """Whether the next closing tag belongs to a block that has already ended."""
        self._reader: CallValueReader | None = None
        self._rereads_left = _MAX_REREADS
        self._searched_pieces = 0
        """How many pieces of `_raw` were searched and hold no closing tag."""
        self._searched_tail = ""
        """The last characters of those pieces, in which a closing tag may begin."""

    @abstractmethod
    def _may_open(self, tail: str) -> bool:
        """Whether `tail`, the text from its last `<` on, may become an opening tag."""

    @abstractmethod
    def _new_reader(self, opening: re.Match[str]) -> CallValueReader:
        """Returns the reader for a value of the block that this tag opened."""

    def _read_empty_block(self, opening: re.Match[str], raw: str) -> list[ParserOutput]:
        """Returns the output for a closed block without a value."""
        return [MalformedCall(raw, "there is no call in it", truncated=False)]

    def _finish_step(self, pending: str) -> list[ParserOutput]:
        if self._step == self._read_outside:
            return [PlainText(pending)]
        if self._step == self._read_after_value or (self._reader is not None and self._reader.is_between_calls):
            return []
        return [MalformedCall(self._recorded_text(pending), self._fault or CUT_OFF_REASON, truncated=True)]

    def _read_outside(self, text: str, at: int, output: list[ParserOutput]) -> int | None:
        match = self._tag.search(text, at)
        end = self._partial_tag_start(text, at) if match is None else match.start()
        if end > at:
            output.append(PlainText(text[at:end]))
            return end
        if match is None:
            return None
        if match[0] != self._closing:
            self._open_block(match)
        elif self._expects_stray_closing:
            self._expects_stray_closing = False
        else:
            output.append(PlainText(match[0]))
        return match.end()

    def _partial_tag_start(self, text: str, at: int) -> int:
        """Returns the index where an incomplete tag begins, or else the end of the text."""
        start = text.rfind("<", at)
        if start == -1:
            return len(text)
        return start if may_become(self._closing, text, start) or self._may_open(text[start:]) else len(text)

    def _open_block(self, opening: re.Match[str]) -> None:
        self._start_recording(opening[0])
        self._opening = opening
        self._expects_stray_closing = False
        self._fault = ""
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
        self._begin_value()
        return at

    def _begin_value(self) -> None:
        self._reader = self._new_reader(self._opening)
        self._step = self._read_value

    def _read_value(self, text: str, at: int, output: list[ParserOutput]) -> int:
        reader = self._reader
        assert reader is not None
        end = reader.feed(text, at, output)
        if reader.has_started_call:
            self._fault = ""
        if reader.is_complete:
            self._step = self._read_after_value
        elif reader.fault:
            self._fault = reader.fault
            self._step = self._skip_to_closing_tag if reader.has_started_call else self._seek_value
            self._reader = None
            if self._rereads_left and self._has_closing_tag(text[at:end]):
                self._close_at_inner_tag(self._recorded_text(text[at:end]), output)
        return end

    def _has_closing_tag(self, more: str) -> bool:
        """Whether a closing tag is in the recorded text.

        A block may hold thousands of values that are no calls, so only the text after the last search is searched.
        """
        self._searched_tail += "".join(self._raw[self._searched_pieces :])
        found = self._closing in self._searched_tail + more
        self._searched_tail = self._searched_tail[1 - len(self._closing) :]
        self._searched_pieces = len(self._raw)
        return found

    def _close_at_inner_tag(self, raw: str, output: list[ParserOutput]) -> None:
        """Ends a block at the first closing tag in its recorded text, and reads the text after that tag again.

        A string without a closing quote runs on past the closing tag, until some character makes it invalid.
        """
        self._rereads_left -= 1
        end = raw.index(self._closing) + len(self._closing)
        output.append(MalformedCall(raw[:end], self._fault, truncated=False))
        self._reread = raw[end:]
        self._leave_block()

    def _read_after_value(self, text: str, at: int, output: list[ParserOutput]) -> int | None:
        match = _LAYOUT.match(text, at)
        if match is not None and match.end() > at:
            return match.end()
        if text.startswith(self._closing, at):
            self._leave_block()
            return at + len(self._closing)
        if may_become(self._closing, text, at):
            return None
        if text[at] in self._next_value_chars:
            self._start_recording()
            self._begin_value()
        else:
            self._expects_stray_closing = True
            self._leave_block()
        return at

    def _skip_to_closing_tag(self, text: str, at: int, output: list[ParserOutput]) -> int | None:
        start = text.find("<", at)
        if start == -1:
            return len(text)
        return start if start > at else self._close_or_skip(text, at, output)

    def _close_or_skip(self, text: str, at: int, output: list[ParserOutput]) -> int | None:
        """Handles a `<` outside values: ends the block at a closing tag, else skips the character."""
        if text.startswith(self._closing, at):
            end = at + len(self._closing)
            raw = self._recorded_text(text[at:end])
            if self._fault:
                output.append(MalformedCall(raw, self._fault, truncated=False))
            else:
                output += self._read_empty_block(self._opening, raw)
            self._leave_block()
            return end
        return None if may_become(self._closing, text, at) else at + 1

    def _start_recording(self, beginning: str = "") -> None:
        super()._start_recording(beginning)
        self._searched_pieces, self._searched_tail = 0, ""

    def _leave_block(self) -> None:
        self._recording = False
        self._step = self._read_outside
