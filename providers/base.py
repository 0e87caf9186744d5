"""The protocols between the gateway and its providers. The gateway depends on this module and on no adapter."""

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, Protocol, TypeAlias, runtime_checkable

from pydantic import Field

from dataplane.source import Source, as_source
from providers.overrides import NO_KEY
from providers.relayed_paths import RelayedPathName
from translation.representation.events import Event
from translation.representation.json_types import Json
from translation.representation.loss import Loss
from translation.representation.profile import Profile
from translation.representation.turn import Turn
from translation.request_facts import RelayedFeature

Batch: TypeAlias = Sequence[Event]
"""The events that one upstream read contained."""

RelayedDialect: TypeAlias = Literal["chat", "responses", "messages"]
"""The client APIs whose requests can be relayed to an upstream that has the same API."""

Dialect: TypeAlias = RelayedDialect | Literal["gemini", "ollama"]
"""The APIs that the gateway offers to clients."""

WireDialect: TypeAlias = Dialect | Literal["anthropic", "harmony"]
"""The dialects that a turn can be lowered to."""

TrainedTool: TypeAlias = Literal["browser"]
"""The hosted tools that models know from their training, and that an upstream has a form for."""

CountMethod: TypeAlias = Literal["none", "responses", "chat", "tokenize", "template", "own", "turn"]
"""How the tokens of an input are counted. `providers/http/token_counting.py` explains each method."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """Facts about an upstream. Requests are checked against them before anything is sent.

    A flag defaults to False, so if an adapter omits it, requests that need the capability are refused with an error;
    nothing is dropped silently. `stop_sequences` defaults to True, because few upstreams lack them. The docstring of a
    field is the description of its key in docs/configuration.md, where "it" is the upstream.
    """

    dialects: frozenset[RelayedDialect] = field(default=frozenset(), metadata=NO_KEY)
    """The client APIs that the upstream has itself. Requests in these dialects can be relayed. The
    provider's own key `dialects` sets them."""
    streaming: bool = False
    """It can stream."""
    tools: bool = False
    """It can call functions."""
    parallel_tools: bool = False
    """It can make several calls in one turn."""
    tool_kinds: frozenset[str] = frozenset({"function"})
    """Kinds of tools that its dialect can express. Other client tools are sent as functions."""
    hosted_tools: frozenset[str] = frozenset()
    """Kinds of tools that the upstream runs itself."""
    relayed_tools: frozenset[str] = frozenset()
    """Kinds of tools that the upstream runs itself on relayed requests."""
    relayed_kinds: frozenset[str] = frozenset()
    """Other kinds of tools that requests which are relayed to its Responses API may have. Requests with kinds that none
    of these keys names are translated. None for a server that leaves such tools out without an error."""
    relayed_features: frozenset[RelayedFeature] = frozenset()
    """What it honours in requests that are relayed to its Messages API: `documents`, `search_results` and
    `other_blocks` than texts, images, thinking, calls and results; `failed_results` (`is_error`), `text_format`
    (`output_config.format`), `thinking` (also `output_config.effort`), `tool_choice` (`none`, a tool by its name, and
    `disable_parallel_tool_use`), `typed_tools`, which Anthropic has defined, and `context_keys` (`compaction`,
    `container`, `context_management`, and `clear_at` and `output_config` of system messages). Requests with others are
    translated. None for a server that leaves them out without an error."""
    trained_tools: frozenset[TrainedTool] = frozenset()
    """Hosted tools that its model knows from its training, and is offered in that form. `browser`: web searches as
    [gpt-oss knows them](tools.md#web-searches-of-gpt-oss). Other tools are offered as the gateway's own functions."""
    input_grammars: bool = False
    """It can hold the input of a custom tool to the tool's grammar, if the tool must be called. Its engine is then
    prompted with token ids."""
    images: bool = False
    """It reads images."""
    audio: bool = False
    """It reads or writes audio."""
    files: bool = False
    """It reads files."""
    reasoning: bool = False
    """Requests can ask for reasoning."""
    sealed_reasoning: bool = False
    """It returns encrypted reasoning on request, and accepts it in later turns."""
    search_sources: bool = False
    """It returns the sources of its web searches on request, as OpenAI does."""
    json_schema: bool = False
    """It can constrain its answers to a JSON schema."""
    logprobs: bool = False
    """It reports log probabilities."""
    stop_sequences: bool = True
    """It ends its replies at stop sequences. Otherwise the gateway [ends them itself](extensions.md#stop-sequences)."""
    service_tiers: bool = False
    """It has service tiers (`service_tier`), and reports the one that it used."""
    choices: bool = False
    """It can return several choices (`n`) to a relayed request."""
    max_context_window: Annotated[int, Field(ge=1)] | None = None
    """The size of the context window: the tokens of prompt and answer together."""
    manages_context: bool = False
    """On relayed requests it compacts and truncates by itself: it knows `context_management`, `truncation` and
    compaction items."""
    counting: CountMethod = "none"
    """How the tokens of an input are counted. `responses`: by its `/responses/input_tokens`. `chat`: by its
    `/chat/completions/input_tokens`. `tokenize`: by vLLM's `/tokenize`. `template`: by llama.cpp's `/apply-template`
    and `/tokenize`. `own`: by the endpoint of the upstream's own API. `turn`: the turn is sent with a limit of one
    token, and the count is in its usage. `none`: not at all."""
    two_pass: bool = False
    """It can continue a prompt of token ids, so that thinking and answer can be two passes."""
    models: bool = False
    """It lists its models at `/models`."""
    # Other models begin a new message after it.
    prefill: bool = False
    """Its models continue a last message of the assistant. Messages requests that end with one are refused
    otherwise."""
    extensions: frozenset[str] = frozenset()
    """Request fields outside the API that it accepts."""
    endpoints: frozenset[RelayedPathName] = frozenset()
    """The endpoints beside the client APIs that it has, such as `embeddings`. Requests to them are relayed as bytes
    (docs/relay.md)."""


class Exchange(Protocol):
    """One turn that was checked and lowered, and is not yet sent."""

    @property
    def losses(self) -> Sequence[Loss]:
        """The parts of the turn that the upstream will not get or will not honour."""
        ...

    def batches(self) -> AsyncGenerator[Batch, None]:
        """Sends the request and yields the events of each upstream read. The last event is Finished or Failed.

        Raises ProviderError, also in the middle of the reply: a reply that breaks off raises instead of ending. Closing
        the generator closes the upstream connection. Call it only once.
        """
        ...


def as_batch_source(exchange: Exchange) -> Source[Batch]:
    """Returns the exchange as a source of batches. It is one itself if its reads may take the fast path."""
    return as_source(exchange, exchange.batches, ())


class RelayExchange(Protocol):
    """One request in a dialect that the upstream has itself. It is not yet sent."""

    @property
    def losses(self) -> Sequence[Loss]:
        """The parts of the request that the upstream gets and will not honour. Parameters have the names of the
        body."""
        ...

    def reads(self) -> AsyncGenerator[bytes, None]:
        """Sends the request as a stream and yields the raw reads of the SSE reply.

        Raises ProviderError, also in the middle of the reply.
        """
        ...

    async def fetch_body(self) -> Json | bytes:
        """Sends the request without streaming. Returns the JSON object of the reply, or the bytes of a stream if the
        upstream streams nevertheless.

        Raises ProviderError.
        """
        ...


def as_read_source(exchange: RelayExchange) -> Source[bytes]:
    """Returns the exchange as a source of reads. It is one itself if its reads may take the fast path."""
    return as_source(exchange, exchange.reads, b"")


@runtime_checkable
class HeaderedReply(Protocol):
    """An exchange whose reply has headers for the client."""

    @property
    def reply_headers(self) -> Mapping[str, str]:
        """The headers for the client, once the reply has begun."""
        ...


@runtime_checkable
class RelayCounter(Protocol):
    """A provider whose upstream counts the tokens of bodies that would be relayed to it."""

    async def count_relayed_tokens(self, dialect: Dialect, body: Json, credentials: Sequence[str] = ()) -> int:
        """Returns the number of input tokens of a body in the upstream's own dialect. Raises ProviderError, which does
        not quote the `credentials` in the body."""
        ...


HeadObserver: TypeAlias = Callable[[Mapping[bytes, bytes]], None]
"""A callback that gets the headers of each reply, by their names in lower case, whatever its status."""


@runtime_checkable
class ShareableProvider(Protocol):
    """A provider that can be one of several upstreams of a name."""

    def share(self, observe_head: HeadObserver, headers: Mapping[str, str]) -> "Provider":
        """Returns a view of this provider that sends each request once, with these headers, and reports the heads of
        replies. It has the same connections, and is not closed."""
        ...

    async def probe(self, path: str) -> bytes | None:
        """Returns the body at a path of the server's root; None if it does not reply with status 200 in time."""
        ...


class Provider(Protocol):
    """An adapter for one configured upstream."""

    @property
    def name(self) -> str:
        """The provider's name in the configuration."""
        ...

    @property
    def capabilities(self) -> Capabilities: ...

    def prepare(self, turn: Turn, profile: Profile) -> Exchange:
        """Lowers the turn, without I/O. Raises Unrepresentable if the upstream cannot honour a part of it."""
        ...

    def prepare_relay(self, dialect: Dialect, body: Json, credentials: Sequence[str] = ()) -> RelayExchange:
        """Prepares a body that is forwarded as it is, without I/O. `dialect` must be in `capabilities.dialects`.

        `credentials` are those in the body, which no error may quote.
        """
        ...

    async def count_tokens(self, turn: Turn, profile: Profile, method: CountMethod) -> int:
        """Returns the exact number of tokens of the turn's input.

        Raises Unrepresentable if this method cannot count the turn, and ProviderError.
        """
        ...

    async def list_models(self) -> Sequence[str]:
        """Returns the names of the upstream's models; empty if it cannot list them. Raises ProviderError."""
        ...

    def redact(self, message: str) -> str:
        """Returns an upstream's message without the upstream's key and address."""
        ...

    async def aclose(self) -> None:
        """Closes pooled connections."""
        ...


@dataclass(frozen=True, slots=True)
class EngineStatus:
    """The state of an embedded engine. `detail` is for people: what the engine is doing, or why it is down."""

    state: Literal["starting", "ready", "down"]
    detail: str | None = None
    running: int = 0
    """The number of requests in progress: the engine's own count if it reports one, else the requests that were sent to
    it and have not ended."""


@runtime_checkable
class ModelInspector(Protocol):
    """A provider whose upstream reports what each of its models can do."""

    async def fetch_model_capabilities(self, model: str, request_fields: Mapping[str, Any]) -> Mapping[str, bool | int]:
        """Returns the known values of `Capabilities` fields for this model, by field name. Never raises.

        `request_fields` are fields of a request. Some of them may change how the model runs.
        """
        ...


@runtime_checkable
class EngineHost(Protocol):
    """A provider that runs an embedded engine."""

    @property
    def name(self) -> str: ...

    @property
    def engine_status(self) -> EngineStatus: ...

    def run_engine(self) -> AbstractAsyncContextManager[None]:
        """Runs the engine until the block ends, and restarts it whenever it dies. Entering the block does not wait for
        the engine to start."""
        ...

    async def wait_until_settled(self) -> None:
        """Waits until the engine is ready or down for the first time."""
        ...
