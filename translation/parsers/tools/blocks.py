"""Tool calls between an opening and a closing tag, anywhere in a text."""

import re
from abc import abstractmethod
from typing import Final

from translation.parsers.tools.call_json import CallReader
from translation.parsers.tools.parser_output import Said, Text, Unreadable
from translation.parsers.tools.steps import CUT, StepParser, may_become

_LAYOUT: Final = re.compile(r"[\s`}\],;]*")
"""What may stand between the value of a block and its closing tag: the end of a code fence, one bracket too many."""

_MOST_REREADS: Final = 8
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
        super().__init__(self._outside)
        self._tag = tag
        self._closing = closing
        self._value = re.compile(f"[{re.escape(values)}<]")
        self._more = values if several else ""
        self._fault = ""
        self._unclosed = False
        """Whether a closing tag that comes now belongs to a block that is over."""
        self._reader: CallReader | None = None
        self._rereads = _MOST_REREADS
        self._searched = 0
        """How many pieces of `_raw` have no closing tag in them, with what follows them."""
        self._before = ""
        """The end of those pieces."""

    @abstractmethod
    def _may_open(self, tail: str) -> bool:
        """Whether this, from the last `<` on, may become an opening tag."""

    @abstractmethod
    def _new_reader(self, opening: re.Match[str]) -> CallReader:
        """What reads a value of the block that this tag opened."""

    def _of_nothing(self, opening: re.Match[str], raw: str) -> list[Said]:
        """What a closed block without any value says."""
        return [Unreadable(raw, "there is no call in it", cut=False)]

    def _end(self, held: str) -> list[Said]:
        if self._step == self._outside:
            return [Text(held)]
        if self._step == self._after or (self._reader is not None and self._reader.between):
            return []
        return [Unreadable(self._recorded(held), self._fault or CUT, cut=True)]

    def _outside(self, text: str, at: int, said: list[Said]) -> int | None:
        found = self._tag.search(text, at)
        end = self._begun(text, at) if found is None else found.start()
        if end > at:
            said.append(Text(text[at:end]))
            return end
        if found is None:
            return None
        if found[0] != self._closing:
            self._open(found)
        elif self._unclosed:
            self._unclosed = False
        else:
            said.append(Text(found[0]))
        return found.end()

    def _begun(self, text: str, at: int) -> int:
        """Where a tag begins that is not yet whole, or else the end."""
        start = text.rfind("<", at)
        if start == -1:
            return len(text)
        return start if may_become(self._closing, text, start) or self._may_open(text[start:]) else len(text)

    def _open(self, opening: re.Match[str]) -> None:
        self._record(opening[0])
        self._opening = opening
        self._unclosed = False
        self._fault = ""
        self._reader = None
        self._step = self._seek

    def _seek(self, text: str, at: int, said: list[Said]) -> int | None:
        found = self._value.search(text, at)
        if found is None:
            return len(text)
        if found.start() > at:
            return found.start()
        if text[at] == "<":
            return self._close_or_pass(text, at, said)
        self._begin_value()
        return at

    def _begin_value(self) -> None:
        self._reader = self._new_reader(self._opening)
        self._step = self._read

    def _read(self, text: str, at: int, said: list[Said]) -> int:
        reader = self._reader
        assert reader is not None
        end = reader.feed(text, at, said)
        if reader.started:
            self._fault = ""
        if reader.whole:
            self._step = self._after
        elif reader.why:
            self._fault = reader.why
            self._step = self._spoiled if reader.started else self._seek
            self._reader = None
            if self._rereads and self._is_closed(text[at:end]):
                self._close_within(self._recorded(text[at:end]), said)
        return end

    def _is_closed(self, more: str) -> bool:
        """Whether a closing tag is in what was recorded. Values that are no calls may come by the thousand, so each of
        them looks only at what is new."""
        self._before += "".join(self._raw[self._searched :])
        found = self._closing in self._before + more
        self._before = self._before[1 - len(self._closing) :]
        self._searched = len(self._raw)
        return found

    def _close_within(self, raw: str, said: list[Said]) -> None:
        """A string that nobody closed goes on over the closing tag, up to where something breaks it: end the block at
        the tag after all, and read again what came after it."""
        self._rereads -= 1
        end = raw.index(self._closing) + len(self._closing)
        said.append(Unreadable(raw[:end], self._fault, cut=False))
        self._again = raw[end:]
        self._leave()

    def _after(self, text: str, at: int, said: list[Said]) -> int | None:
        found = _LAYOUT.match(text, at)
        if found is not None and found.end() > at:
            return found.end()
        if text.startswith(self._closing, at):
            self._leave()
            return at + len(self._closing)
        if may_become(self._closing, text, at):
            return None
        if text[at] in self._more:
            self._record()
            self._begin_value()
        else:
            self._unclosed = True
            self._leave()
        return at

    def _spoiled(self, text: str, at: int, said: list[Said]) -> int | None:
        start = text.find("<", at)
        if start == -1:
            return len(text)
        return start if start > at else self._close_or_pass(text, at, said)

    def _close_or_pass(self, text: str, at: int, said: list[Said]) -> int | None:
        """At a `<` where no value is being read."""
        if text.startswith(self._closing, at):
            end = at + len(self._closing)
            raw = self._recorded(text[at:end])
            if self._fault:
                said.append(Unreadable(raw, self._fault, cut=False))
            else:
                said += self._of_nothing(self._opening, raw)
            self._leave()
            return end
        return None if may_become(self._closing, text, at) else at + 1

    def _record(self, beginning: str = "") -> None:
        super()._record(beginning)
        self._searched, self._before = 0, ""

    def _leave(self) -> None:
        self._recording = False
        self._step = self._outside
