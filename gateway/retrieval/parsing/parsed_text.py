"""How a file is parsed, and the results: its chunks, or the reason why it cannot be read."""

from typing import Final, Literal, NamedTuple, TypeAlias

ParsingFault: TypeAlias = Literal["invalid_file", "unsupported_file", "server_error"]
"""The codes of `last_error` of a file in a vector store."""

MAX_INFLATED: Final = 100_000_000
"""The most bytes that the parts of a zip file may have together, when they are inflated."""


class UnreadableFile(Exception):
    """A file without a text. `message` is one plain sentence for the client; it has no path and no part of the file."""

    def __init__(self, code: ParsingFault, message: str) -> None:
        super().__init__(message)
        self.code: Final[ParsingFault] = code
        self.message = message


class ServiceNeeded(Exception):
    """A file is more than a text, and a parser service is to convert it. `kind` is what it is, as the ending of a name,
    such as `.pdf`."""

    def __init__(self, kind: str) -> None:
        super().__init__(kind)
        self.kind: Final = kind


ReadingMethod: TypeAlias = Literal["builtin", "markitdown", "service", "service_reply"]
"""Who reads the text of a file: the gateway, MarkItDown, or a parser service. With `service_reply` the file is what
such a service has replied. The gateway itself reads everything that is only a text."""


class IndexedChunk(NamedTuple):
    """A chunk of a text: its first character, the one behind it, and its terms with blanks between them."""

    start: int
    end: int
    terms: str


class ParsingBounds(NamedTuple):
    """The limits for parsing one file."""

    seconds: float = 60
    memory_mb: int = 1024
    """The address space of the child, beside what it has when it starts."""

    characters: int = 20_000_000

    tokens: int = 5_000_000
    """The most word pieces of the text."""
