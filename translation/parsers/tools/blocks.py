"""Tool calls between an opening and a closing tag, anywhere in a text."""

import re
from abc import abstractmethod
from typing import Final

from translation.parsers.tools.call_json import CallValueReader
from translation.parsers.tools.parser_output import MalformedCall, ParserOutput, PlainText
from translation.parsers.tools.steps import CUT_OFF_REASON, StepParser, may_become

_LAYOUT: Final = re.compile(r"[\s`}\],;]*")
"""What may stand between the value of a block and its closing tag: the end of a code fence, one bracket too many."""

_MAX_REREADS: Final = 8
"""In one answer. Each costs as much as what is read again."""


class BlockParser(StepParser):
    """A block begins with its tag; prose and code fences before its first value are passed over.

    A block ends with its closing tag, with anything that follows its value, or with the text. A value that is no call
    gives way to the next one in the block, until a call has been started. A closing tag in a string is part of it.
    """

    def __init__(self, tag: re.Pattern[str], closing: str, *, values: str, several: bool) -> None:
        """`tag` finds the opening tags and the closing one, `values` are the characters a value begins with.

        `several`: a block may hold more than one.
        """
        super().__init__(self._read_outside)
        self._tag = tag
        self._closing = closing
        self._value_start = re.compile(f"[{re.escape(values)}<]")
        self._next_value_chars = values if several else ""
        self._fault = ""
        self._expects_stray_closing = False
        """Whether a closing tag that comes now belongs to a block that is over."""
        self._reader: CallValueReader | None = None
        self._rereads_left = _MAX_REREADS
        self._searched_pieces = 0
        """How many pieces of `_raw` have no closing tag in them, with what follows them."""
        self._searched_tail = ""
        """The end of those pieces."""

    @abstractmethod
    def _may_open(self, tail: str) -> bool:
        """Whether this, from the last `<` on, may become an opening tag."""

    @abstractmethod
    def _new_reader(self, opening: re.Match[str]) -> CallValueReader:
        """What reads a value of the block that this tag opened."""

    def _read_empty_block(self, opening: re.Match[str], raw: str) -> list[ParserOutput]:
        """What a closed block without any value says."""
        return [MalformedCall(raw, "there is no call in it", truncated=False)]

    def _finish_step(self, pending: str) -> list[ParserOutput]:
        if self._step == self._read_outside:
            return [PlainText(pending)]
        if self._step == self._read_after_value or (self._reader is not None and self._reader.is_between_calls):
            return []
        return [MalformedCall(self._recorded_text(pending), self._fault or CUT_OFF_REASON, truncated=True)]

    def _read_outside(self, text: str, at: int, output: list[ParserOutput]) -> int | None:
        found = self._tag.search(text, at)
        end = self._partial_tag_start(text, at) if found is None else found.start()
        if end > at:
            output.append(PlainText(text[at:end]))
            return end
        if found is None:
            return None
        if found[0] != self._closing:
            self._open_block(found)
        elif self._expects_stray_closing:
            self._expects_stray_closing = False
        else:
            output.append(PlainText(found[0]))
        return found.end()

    def _partial_tag_start(self, text: str, at: int) -> int:
        """Where a tag begins that is not yet whole, or else the end."""
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
        found = self._value_start.search(text, at)
        if found is None:
            return len(text)
        if found.start() > at:
            return found.start()
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
        """Whether a closing tag is in what was recorded. Values that are no calls may come by the thousand, so each of
        them looks only at what is new."""
        self._searched_tail += "".join(self._raw[self._searched_pieces :])
        found = self._closing in self._searched_tail + more
        self._searched_tail = self._searched_tail[1 - len(self._closing) :]
        self._searched_pieces = len(self._raw)
        return found

    def _close_at_inner_tag(self, raw: str, output: list[ParserOutput]) -> None:
        """A string that nobody closed goes on over the closing tag, up to where something breaks it: end the block at
        the tag after all, and read again what came after it."""
        self._rereads_left -= 1
        end = raw.index(self._closing) + len(self._closing)
        output.append(MalformedCall(raw[:end], self._fault, truncated=False))
        self._reread = raw[end:]
        self._leave_block()

    def _read_after_value(self, text: str, at: int, output: list[ParserOutput]) -> int | None:
        found = _LAYOUT.match(text, at)
        if found is not None and found.end() > at:
            return found.end()
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
        """At a `<` where no value is being read."""
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
