"""What the gateway knows of an upstream. It depends on this file and on no adapter."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeAlias, runtime_checkable

from translation.representation.events import Event
from translation.representation.json_types import Json
from translation.representation.loss import Loss
from translation.representation.profile import Profile
from translation.representation.turn import Turn

Batch: TypeAlias = Sequence[Event]
"""What one upstream read meant."""

Dialect: TypeAlias = Literal["chat", "responses"]
"""The APIs that clients speak; what an upstream speaks of them is relayed."""

WireDialect: TypeAlias = Dialect | Literal["anthropic", "gemini", "harmony", "ollama"]
"""What turns can be said in."""

CountMethod: TypeAlias = Literal["none", "responses", "chat", "tokenize", "template", "own", "turn"]
"""How an upstream counts the tokens of an input; `providers/http/token_counting.py` has what each means."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """Facts about an upstream, declared once, checked before anything is sent.

    Every flag defaults to "no": an adapter that forgets one refuses loudly instead of dropping the request silently.
    """

    dialects: frozenset[Dialect] = frozenset()
    """Wire formats it speaks itself, so that `relay` works."""
    streaming: bool = False
    tools: bool = False
    parallel_tools: bool = False
    tool_kinds: frozenset[str] = frozenset({"function"})
    """Kinds of tools its own dialect can say; other client-run kinds ride on functions."""
    hosted_tools: frozenset[str] = frozenset()
    """Kinds of tools the upstream runs itself."""
    images: bool = False
    audio: bool = False
    files: bool = False
    reasoning: bool = False
    sealed_reasoning: bool = False
    """It gives its reasoning sealed when asked, and reads it again in later turns."""
    json_schema: bool = False
    logprobs: bool = False
    choices: bool = False
    """Several choices (`n`) can be asked for on a relay."""
    max_context_window: int | None = None
    """Tokens, where known."""
    manages_context: bool = False
    """On a relay it compacts and truncates by itself: `context_management`, `truncation`, compaction items."""
    counting: CountMethod = "none"
    """How it counts the tokens of an input."""
    two_pass: bool = False
    """It can go on from a prompt as tokens, so that thinking and answer can be two runs."""
    models: bool = False
    """It can list what it serves."""
    extensions: frozenset[str] = frozenset()
    """Request fields outside the API it understands."""


class Exchange(Protocol):
    """One turn, checked and lowered, not yet sent."""

    @property
    def losses(self) -> Sequence[Loss]:
        """What the upstream will not be told."""
        ...

    def batches(self) -> AsyncGenerator[Batch, None]:
        """Send it; the events of each upstream read, ending in Finished or Failed.

        Raises ProviderError, also in the middle: a reply that broke off raises instead of ending. Closing the generator
        closes the upstream connection. Call it once.
        """
        ...


class RelayExchange(Protocol):
    """One request in the upstream's own dialect, not yet sent."""

    @property
    def losses(self) -> Sequence[Loss]:
        """What the upstream is told and will not do; parameters under the names that the body has for them."""
        ...

    def reads(self) -> AsyncGenerator[bytes, None]:
        """Send it as a stream; raw reads of the SSE reply. Raises ProviderError, also in the middle."""
        ...

    async def fetch_body(self) -> Json | bytes:
        """Send it as a plain request; the answer, or the bytes of the stream the upstream sent all the same.

        Raises ProviderError.
        """
        ...


class Provider(Protocol):
    """An adapter for one configured upstream."""

    @property
    def name(self) -> str:
        """The name it has in the config."""
        ...

    @property
    def capabilities(self) -> Capabilities: ...

    def prepare(self, turn: Turn, profile: Profile) -> Exchange:
        """Lower the turn; no I/O. Raises Unrepresentable for what the upstream cannot honour."""
        ...

    def prepare_relay(self, dialect: Dialect, body: Json) -> RelayExchange:
        """Forward a body the upstream understands as it is; no I/O. `dialect` must be in `capabilities.dialects`."""
        ...

    async def count_tokens(self, turn: Turn, profile: Profile, method: CountMethod) -> int:
        """The tokens of a turn's input, exactly. Raises Unrepresentable where this way cannot tell, ProviderError."""
        ...

    async def list_models(self) -> Sequence[str]:
        """Names the upstream serves; empty when it cannot list them. Raises ProviderError."""
        ...

    def redact(self, message: str) -> str:
        """The upstream's words without its key and its address."""
        ...

    async def aclose(self) -> None:
        """Close pooled connections."""
        ...


@dataclass(frozen=True, slots=True)
class EngineStatus:
    """How an embedded engine is. `detail` is for people: what it is doing, or why it is down."""

    state: Literal["starting", "ready", "down"]
    detail: str | None = None
    running: int = 0
    """Requests it is at work on: its own count where it tells, else those that were sent to it and are not over."""


@runtime_checkable
class ModelInspector(Protocol):
    """A provider whose upstream tells what each of its models can do."""

    async def fetch_model_capabilities(self, model: str, request_fields: Mapping[str, Any]) -> Mapping[str, bool | int]:
        """Names of `Capabilities` and what they are for this model, as far as that is told. Never raises.

        `asked`: fields of requests, some of which may say how the model is to run.
        """
        ...


@runtime_checkable
class EngineHost(Protocol):
    """A provider that has an engine of its own to keep alive."""

    @property
    def name(self) -> str: ...

    @property
    def engine_status(self) -> EngineStatus: ...

    def run_engine(self) -> AbstractAsyncContextManager[None]:
        """Start the engine, and again whenever it dies, until the block ends; entering does not wait for it."""
        ...

    async def wait_until_settled(self) -> None:
        """Wait until it is ready or down for the first time."""
        ...
