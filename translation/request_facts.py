"""What a request asks of a gateway besides its turn, in the words of the Responses API. Each client API reads it once.

Every default says that the request asks for nothing. Attributes of slots are read several times as fast as those of
tuples, and each request reads some forty. Nobody changes facts that others have: see `RequestFacts.copy`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from operator import attrgetter
from typing import Final, Literal, TypeAlias

from translation.representation.json_types import Json

RelayedFeature: TypeAlias = Literal[
    "context_keys",
    "documents",
    "failed_results",
    "other_blocks",
    "search_results",
    "text_format",
    "thinking",
    "tool_choice",
    "typed_tools",
]
"""What some servers leave out of a request in an API that they have, without an error."""


@dataclass(frozen=True, slots=True)
class ContextFacts:
    """How a request wants an input that is long to be shortened."""

    is_compacted: bool = False
    """Whether the context is compacted once it has more tokens than a threshold."""
    compact_threshold: int | None = None
    """The lowest threshold in tokens; None if the request leaves it to the server."""
    has_trigger: bool = False
    """Whether the reply is a compaction of the whole input instead of an answer."""
    is_truncated: bool = False
    """Whether the oldest items of an input that is too long may be left out."""
    needs_compaction: bool = field(init=False)
    """Whether the request asks for compaction of its context, now or at a threshold."""
    is_managed: bool = field(init=False)
    """Whether the request asks for compaction or truncation of its context."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "needs_compaction", self.is_compacted or self.has_trigger)
        object.__setattr__(self, "is_managed", self.needs_compaction or self.is_truncated)


@dataclass(frozen=True, slots=True)
class StateFacts:
    """How a request refers to stored state, and whether its reply becomes part of it."""

    is_stored: bool = False
    """Whether the reply is stored, where there is a store."""
    has_lasting_ids: bool = False
    """Whether later requests may refer to the ids of the reply if an upstream gets this body unchanged."""
    in_background: bool = False
    """Whether no client waits for the reply."""
    is_resumable: bool | None = None
    """Whether the stream of the reply can be resumed; None if the request leaves it to the server."""
    previous_id: str | None = None
    """The response that the request continues."""
    conversation_id: str | None = None
    """The conversation that the request continues."""
    thread: Json | None = None
    """The thread of the Messages API that the request begins or continues."""


@dataclass(frozen=True, slots=True)
class ToolFacts:
    """Which tools a request names that somebody other than its client runs."""

    hosted: Sequence[Json] = ()
    """The tools that a host or an upstream may run, such as MCP servers, as tools of the Responses API."""
    servers: Sequence[Json] = ()
    """Those of them that lifting leaves out, because the body has them elsewhere than among its tools."""
    max_calls: int | None = None
    """The most calls of such tools in one reply; None if the request has no limit."""
    kinds: frozenset[str] = frozenset()
    """The kinds of tools that an upstream must know to get this body unchanged."""
    is_single_call: bool = False
    """Whether the form of the reply has room for one call only."""
    reports_events: bool = False
    """Whether the client asked for events about the tools that the gateway runs."""
    takes_input: bool = False
    """Whether the client can give input that calls of tools request."""
    credentials: Sequence[str] = ()
    """The credentials that the tools carry, which must not be quoted."""


_NO_CONTEXT: Final = ContextFacts()
_NO_STATE: Final = StateFacts()
_NO_TOOLS: Final = ToolFacts()


@dataclass(slots=True)
class RequestFacts:
    """The facts of one validated request that decide how it is served."""

    streams: bool = False
    """Whether the client asked for a stream."""
    choices: int = 1
    context: ContextFacts = _NO_CONTEXT
    state: StateFacts = _NO_STATE
    tools: ToolFacts = _NO_TOOLS
    input_value: str | Sequence[Json] | None = None
    """The input of the Responses API, which may have sealed content, references and items to store."""
    sets_thinking: bool = False
    """Whether the request turns thinking on or off by a parameter that a relay does not write. Chat's relay writes
    all."""
    features: frozenset[RelayedFeature] = frozenset()
    """The features that an upstream must have to get this body unchanged, in an API that some servers have in part."""
    starts_thinking: bool = False
    """Whether the request turns thinking on, in an API whose replies have thinking only if the client expects it."""
    has_extensions: bool = False
    """Whether the client asked for fields that only this gateway has."""
    needs_translation: bool = False
    """Whether the request has parameters that no upstream understands as the client sent them."""
    adds_stop: bool = False
    """Whether the request has stop sequences in an API that has none. Upstreams with that API may have them too."""
    wants_summary: bool = False
    """Whether the client wants a summary of the reasoning. Many clients display only summaries."""
    wants_sealed_reasoning: bool = False
    """Whether the client wants reasoning in a form that it can send back."""
    cache_key: str | None = None
    """The key by which the client groups requests for prompt caches."""
    is_obfuscated: bool = False
    """Whether the deltas of the stream are padded."""
    lists_models: bool = False
    """Whether the client lists models of the upstream, of which the upstream chooses the one that answers."""

    def copy(self) -> "RequestFacts":
        """Returns the same facts, of which the caller may change some.

        `dataclasses.replace` takes several times as long.
        """
        return RequestFacts(*_read_values(self))


_read_values: Final = attrgetter(*(each.name for each in fields(RequestFacts)))
