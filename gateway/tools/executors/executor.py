"""The interface of an executor: it lists the tools of one server, or of one hosted tool, and runs their calls.

A kind of tools implements it. What requests and configuration change of it (which tools, which names, which approvals,
which credentials are removed) are wrappers, each of one idea: see `wrappers.py`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Protocol, TypeAlias

from translation.hosted.calls import HostedCall
from translation.hosted.outcomes import ToolOutcome, build_execution_error
from translation.hosted.tools import HostedTool
from translation.representation.json_types import Json

_MAX_NAMED: Final = 20
_NAME_CHARS: Final = 100

OnProgress: TypeAlias = Callable[[float, float | None, str | None], None]
"""A callback that gets the progress of a call, its total if that is known, and a message if there is one."""

Allows: TypeAlias = Callable[[str, bool], bool]
"""Returns whether a tool may be used, from the name of the tool and whether the tool is read-only."""


class ToolFault(Exception):
    """An executor cannot list its tools, or a call has no result. The message is for the client and the model."""

    def as_outcome(self) -> ToolOutcome:
        """Returns the outcome of a call that ended in this fault."""
        return build_execution_error(str(self))


class ListedTools(NamedTuple):
    """The tools of an executor that the request may use, as in an `mcp_list_tools` item: each has a `name`, a
    `description`, an `input_schema`, and `annotations` with `read_only`.

    `left_out` has the names of unusable tools, each with the reason.
    """

    definitions: Sequence[Json]
    left_out: Mapping[str, str] = {}

    def describe_left_out(self) -> str | None:
        """Returns a text for the client about the tools that were left out; None if there are none."""
        if not self.left_out:
            return None
        named = [f"{name[:_NAME_CHARS]}: {reason}" for name, reason in [*self.left_out.items()][:_MAX_NAMED]]
        more = [f"and {len(self.left_out) - _MAX_NAMED} more"] if len(self.left_out) > _MAX_NAMED else []
        return "tools left out: " + "; ".join(named + more)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSource:
    """The place that the tools of an executor come from."""

    label: str
    """The `server` in the keys of its tools. No two executors of a response have the same."""
    is_added: bool = False
    """Whether the configuration of the model names it, and the request does not: the request is served without it."""
    shows_list: bool = True
    """Whether clients see the list of its tools, as an `mcp_list_tools` item."""
    trusts_past_lists: bool = False
    """Whether a list in the input, which the client may have written, is used instead of listing the tools again."""
    has_clean_lists: bool = False
    """Whether its lists have no credentials, so that they need not be redacted for each response."""


@dataclass(frozen=True, slots=True)
class CacheKey:
    """Everything besides its lists that the tools of an executor are built from.

    `rules` is JSON. `objects` are compared by identity, and live as long as a cache has the key.
    """

    rules: Sequence[Json]
    objects: Sequence[object] = field(default=())


class CallExecutor(Protocol):
    """Runs calls."""

    async def run(self, call: HostedCall, deadline_s: float, on_progress: OnProgress | None = None) -> ToolOutcome:
        """Runs a call with checked arguments, and returns its outcome, also if it failed. It may raise ToolFault too.

        Several calls may run at once. `deadline_s` is the remaining time of the response, which may be infinite.
        `on_progress` gets the progress that is reported. The buffered result is bounded. If the task is cancelled, the
        call is cancelled where it runs, and no task of it remains.
        """
        ...


class ToolExecutor(CallExecutor, Protocol):
    """Lists and runs tools for one response."""

    @property
    def source(self) -> ToolSource: ...

    @property
    def cache_key(self) -> CacheKey: ...

    def list_secrets(self) -> Sequence[str]:
        """Returns its current credentials, which are removed from every text that leaves the gateway."""
        ...

    def find_known_tools(self, allows: Allows) -> ListedTools | None:
        """Returns its tools if they are known without asking for them; otherwise None."""
        ...

    async def list_tools(self, allows: Allows, *, must_be_fresh: bool = False) -> ListedTools:
        """Returns its tools. `must_be_fresh`: they are requested even if they are known. Raises ToolFault."""
        ...

    def keep_list(self) -> None:
        """Called instead of the listing methods if the response began in another process with a list, which stays
        until its end."""
        ...

    def build_tools(self, definitions: Sequence[Json]) -> list[HostedTool]:
        """Returns the tools of a list that the request may use. A client may have written the list."""
        ...

    async def close(self) -> None:
        """Closes what was opened for the response."""
        ...
