"""The interface of a kind of tools: it finds its tools in requests, and opens the executors that run them."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from gateway.tools.executors.executor import ToolExecutor
from translation.errors import InvalidRequest
from translation.hosted.call_forms import CallForm
from translation.hosted.citations.citation_table import CitationTable
from translation.hosted.tool_search.deferred_tools import DeferredTools
from translation.representation.json_types import Json
from translation.representation.loss import Loss


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponseContext:
    """Facts about the response whose executors are opened."""

    owner: str = ""
    """The owner of the request, whose share of what all use is counted."""
    scrub: Callable[[str], str] = str
    """Removes the credentials of the request from texts."""
    can_ask: bool = False
    """Whether the client can be asked for the approval of a call."""
    takes_input: Callable[[], bool] = lambda: False
    """Whether the client can be asked for input of a call. It is known when calls are run."""
    sees_images: bool = False
    trained_tools: Collection[str] = ()
    """The hosted tools that the model knows from its training, and is offered in that form."""
    deferred: DeferredTools = field(default_factory=DeferredTools)
    """The tools that the model does not see before a search has loaded them. They are known when calls are run."""
    citations: CitationTable = field(default_factory=CitationTable)
    """What the markers in results stand for: an executor adds what it finds, and writes the marker beside it."""


def find_unread_keys(
    holder: Mapping[str, Any], position: int, known: Collection[str], path: str = ""
) -> Iterable[Loss]:
    """Yields the losses of keys that an object of the tool at a position has, and whoever runs the tool does not know.

    `path` is the place of the object in the tool, such as `user_location.`. Only null means what an absent key means:
    nobody knows whether `false`, 0 or an empty value does, of a key that is not known.
    """
    for key, value in holder.items():
        if key not in known and value is not None:
            yield Loss(f"tools[{position}].{path}{key:.50}", "dropped")


def find_only_tool(tools: Sequence[Json], is_own: Callable[[Json], bool], duplicate: str) -> int | None:
    """Returns the position of the tool that belongs to a kind; None without one.

    Raises InvalidRequest with the message `duplicate` if there are several.
    """
    positions = [position for position, tool in enumerate(tools) if is_own(tool)]
    if len(positions) > 1:
        raise InvalidRequest(duplicate, param=f"tools[{positions[1]}]", code="duplicate_tool")
    return positions[0] if positions else None


class ToolKind(Protocol):
    """A kind of tools that the gateway runs. There is one object for a configuration."""

    @property
    def forms(self) -> Mapping[str, CallForm]:
        """The forms of its calls, by the types of their items."""
        ...

    def runs_tool(self, tool: Json) -> bool:
        """Whether the gateway runs this tool of a request, in the form of the Responses API. It may also be a tool
        choice."""
        ...

    async def prepare(self, tools: Sequence[Json], added: Sequence[Json], owner: str) -> "ToolKind":
        """Returns the kind for one request, once it has looked at what its hosted tools name.

        `added` are the tools that the configuration of the model adds. Raises StoreUnavailable.
        """
        ...

    def restrict_to_key(self, allowed_servers: Sequence[str]) -> "ToolKind":
        """Returns the kind for a key that may use the operator's MCP servers whose labels match one of these
        patterns."""
        ...

    def leave_to_upstream(self, hosted_tools: Collection[str]) -> "ToolKind":
        """Returns the kind for an upstream that runs tools of these types itself."""
        ...

    def find_losses(self, tools: Sequence[Json]) -> Iterable[Loss]:
        """Returns what cannot be honoured of those of these tools that the gateway runs. `tools` are all of a request,
        for the positions in messages."""
        ...

    def open_executors(self, tools: Sequence[Json], context: ResponseContext) -> list[ToolExecutor]:
        """Returns the executors of the tools of a request. `tools` are all of them, for the positions in messages.

        Nothing is connected yet. Raises InvalidRequest for tools that cannot be run as the request names them.
        """
        ...
