"""The interface of what finds chunks of files for file searches: vector stores, or a tool of an MCP server."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from gateway.tools.executors.executor import ToolFault
from translation.hosted.tool_report import CallNote
from translation.representation.json_types import Json


class FileSearchFailed(ToolFault):
    """A search has no results. The message is for the model."""


class FoundChunk(NamedTuple):
    """A chunk that a search found. `score` is between 0 and 1; None if it is not known."""

    file_id: str
    filename: str
    text: str
    score: float | None = None
    attributes: Mapping[str, Any] = {}  # never changed

    def to_json(self) -> Json:
        """Returns it as in the `results` of an item."""
        return {
            "file_id": self.file_id,
            "filename": self.filename,
            "score": self.score,
            "attributes": dict(self.attributes),
            "text": self.text,
        }


class FoundChunks(NamedTuple):
    """What a search found, the best first."""

    chunks: Sequence[FoundChunk]
    is_whole: bool = True
    """Whether everything that the request names was searched."""
    notes: Sequence[CallNote] = ()


class FileSearcher(Protocol):
    """Finds chunks for one response."""

    def list_secrets(self) -> Sequence[str]:
        """Returns its current credentials, which are removed from every text that leaves the gateway."""
        ...

    async def check(self) -> None:
        """Makes sure, before the model is asked, that what the request names can be searched. Raises
        VectorStoreNotFound and VectorStoreExpired."""
        ...

    async def search(self, queries: Sequence[str], deadline_s: float) -> FoundChunks:
        """Returns what is found for at least one of the queries. Raises FileSearchFailed."""
        ...
