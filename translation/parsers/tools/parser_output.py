"""What is said in text that carries tool calls, and what every parser of such text promises."""

from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

ToolParserName: TypeAlias = Literal["openai", "hermes", "llama", "llama3_json", "mistral", "json", "pythonic"]
"""How a model writes its calls. `openai`: not in its text, so there is no parser for it."""


@dataclass(frozen=True, slots=True)
class PlainText:
    """Text that is no call."""

    text: str


@dataclass(frozen=True, slots=True)
class CallStarted:
    """A call by this name. Its arguments follow."""

    name: str


@dataclass(frozen=True, slots=True)
class CallArguments:
    """More of the arguments of the call that has started. Together they are the text of one JSON object."""

    text: str


@dataclass(frozen=True, slots=True)
class CallEnded:
    """The call that has started is whole."""


@dataclass(frozen=True, slots=True)
class MalformedCall:
    """What was to be a call and is none; the call that has started, if one has, is broken off by it.

    `raw` is what the model wrote of it, `why` is for people, and `cut` says that the text ended in the middle of it.
    """

    raw: str
    reason: str
    truncated: bool


ParserOutput: TypeAlias = PlainText | CallStarted | CallArguments | CallEnded | MalformedCall


class ToolParser(Protocol):
    """Text in, what it says out, incrementally: the sum is the same however the text is cut.

    Only what could still become a call is held back. Every CallStarted is followed by its Arguments, at least `{}`, and
    CallEnded, or by MalformedCall. Text of nothing but spaces at the start, the end, or between calls is not said.
    """

    def feed(self, text: str) -> list[ParserOutput]:
        """Take a piece of text, return what it completes."""
        ...

    def finish(self) -> list[ParserOutput]:
        """The text is complete: what was held back will not become a call."""
        ...
