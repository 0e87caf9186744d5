"""The outputs of tool parsers, the protocol that every tool parser implements, and a filter of outputs."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol, TypeAlias


@dataclass(frozen=True, slots=True)
class PlainText:
    """Text outside calls."""

    text: str


@dataclass(frozen=True, slots=True)
class CallStarted:
    """A call of the tool `name` has started. Its arguments follow."""

    name: str


@dataclass(frozen=True, slots=True)
class CallArguments:
    """More of the arguments of the open call. Together they are the text of one JSON object."""

    text: str


@dataclass(frozen=True, slots=True)
class CallEnded:
    """The open call is complete."""


@dataclass(frozen=True, slots=True)
class MalformedCall:
    """A call that is invalid or incomplete. It ends the open call, if there is one.

    `raw` is the text that the model wrote, or its beginning if it is very long. `reason` is for people. `truncated`:
    the text ended within the call.
    `is_prose`: the text reads like prose that names the tags of calls, so it is part of the answer.
    """

    raw: str
    reason: str
    truncated: bool
    is_prose: bool = False


ParserOutput: TypeAlias = PlainText | CallStarted | CallArguments | CallEnded | MalformedCall


class ToolParser(Protocol):
    """Parses the text of one answer incrementally. The sum of the outputs does not depend on where the text is cut.

    Only text that could still become a call is held back. Every CallStarted is followed by CallArguments, at least
    `{}`, and CallEnded, or by MalformedCall. Whitespace before, after or between calls is not emitted.
    """

    def feed(self, text: str) -> list[ParserOutput]:
        """Adds text. Returns the outputs that it completes."""
        ...

    def finish(self) -> list[ParserOutput]:
        """Ends the text. Returns the outputs for the text that was held back."""
        ...


class BlankFilter:
    """Removes text of whitespace only before, between and after calls, because it is layout of the chat template.

    Whitespace at the start of other text is held back and sent with the first text that follows it. All other
    whitespace is sent at once.
    """

    def __init__(self) -> None:
        self._spaces: list[str] = []
        self._in_text = False

    def filter_blanks(self, output: Iterable[ParserOutput]) -> list[ParserOutput]:
        """Filters the next outputs. Returns those to send, possibly with whitespace that was held back before."""
        filtered: list[ParserOutput] = []
        for item in output:
            if not isinstance(item, PlainText):
                self._spaces.clear()
                self._in_text = False
                filtered.append(item)
            elif not item.text:
                continue
            elif self._in_text:
                filtered.append(item)
            elif item.text.strip():
                filtered.append(PlainText("".join(self._spaces) + item.text) if self._spaces else item)
                self._spaces.clear()
                self._in_text = True
            else:
                self._spaces.append(item.text)
        return filtered
