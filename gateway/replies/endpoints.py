"""Client APIs as data: the row of functions with which requests of an API are read, and its replies are written."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, NoReturn, Protocol, TypeAlias

from gateway.replies.recorder import ForegroundRecorder, Lease, RenderLosses
from gateway.replies.reply_streams import FrameEncoder, Relay
from gateway.sealing.reply_seal import ReasoningSeal
from gateway.state.store import Store
from providers.base import Batch, Dialect
from translation.framing.sse import KEEP_ALIVE_COMMENT
from translation.hygiene.call_tracker import DEFAULT_RULES, CallRules
from translation.representation.events import Event, Failed, Usage
from translation.representation.item_seal import ItemSeal
from translation.representation.json_types import Json
from translation.representation.param_names import ParamNames
from translation.representation.profile import DEFAULT_PROFILE, Profile
from translation.representation.turn import LoweredRequest, Turn


@dataclass(slots=True)
class ReplyIdentity:
    """The id of a reply, its time of creation in epoch seconds, and the model name that the client asked for."""

    id: str
    created: int
    model: str


class SentStream(NamedTuple):
    """The part of a stream of the Responses API that was sent: its events, and the last sequence number."""

    events: Sequence[Event]
    last_sequence_number: int


@dataclass(slots=True)
class Presentation:
    """The presentation of replies to the client, by the settings and the route.

    `reported_model` is the model name that a relay reports; None leaves the upstream's name.
    """

    reasoning_fields: frozenset[str]
    max_frame_bytes: int
    clock: Callable[[], int]
    reported_model: str | None = None
    profile: Profile = DEFAULT_PROFILE
    """The profile of the upstream: where a relayed reply has its reasoning."""
    is_stored: bool = False
    """Whether the gateway stores the reply. A relayed reply then has the gateway's id and time of creation."""
    scrub: Callable[[str], str] = str
    """Removes secrets and addresses from an upstream's error message, for the client to read."""
    item_seal: ItemSeal | None = None
    """Seals output items of the Responses API; None leaves them unchanged."""
    call_rules: CallRules = DEFAULT_RULES
    """The rules that the tool calls of a relayed reply must follow."""
    summarizes_reasoning: bool = False
    """Whether the client gets the readable reasoning of a relayed response as a summary."""
    hides_thinking: bool = False
    """Whether a client of the Messages API gets no thinking, although the request has the parameter."""
    sent_stream: SentStream | None = None
    """The part of this reply that another process sent; None for a new reply."""


class Lift(Protocol):
    """Lifts a validated body to its turn.

    `model` replaces the body's model name. `relayed` means that the turn only serves to check a body that is relayed.
    """

    def __call__(self, body: Json, /, *, relayed: bool = False, model: str | None = None) -> Turn: ...


class RelayBody(Protocol):
    """Builds the body for an upstream of the same dialect from a client's body, for the upstream's `model` name."""

    def __call__(self, body: Json, profile: Profile, /, *, model: str) -> LoweredRequest: ...


class ReplyCollector(Protocol):
    """Collects the events of a turn into one JSON reply.

    `result` returns it once all batches were fed. `failed` is the event of a failed turn.
    """

    @property
    def failed(self) -> Failed | None: ...
    def feed(self, batch: Batch, /) -> None: ...
    def result(self) -> Json: ...


class ThreadedRequest(Protocol):
    """A request as the next turn of a thread."""

    @property
    def history_count(self) -> int:
        """The number of items that the lifted turn begins with and the request does not have."""
        ...

    @property
    def history_tokens(self) -> int | None:
        """The number of tokens of the history, if it is known."""
        ...

    def build_endpoint(self) -> "Endpoint":
        """Returns the endpoint for this turn alone, whose lifted turn begins with the history."""
        ...

    def make_recorder(
        self, store: Store, lease: Lease, owner: str, render_losses: RenderLosses, *, begin_delay_s: float
    ) -> ForegroundRecorder:
        """Returns the recorder that stores the turn's response while it is produced."""
        ...


class LoadedThread(Protocol):
    """A thread as stored before a turn."""

    @property
    def has_turns(self) -> bool: ...
    def add_turn(
        self, endpoint: "Endpoint", body: Json, identity: ReplyIdentity, seal: ReasoningSeal | None
    ) -> ThreadedRequest:
        """Lifts a validated body of the endpoint as the next turn. Raises InvalidRequest."""
        ...


LoadThread: TypeAlias = Callable[[Store, str, Json], Awaitable[LoadedThread | None]]
"""Loads the thread that the validated body of an owner's request names; None if it names none.

Raises InvalidRequest, NotFound and StoreUnavailable."""


def _relay_nothing(*_arguments: object, **_keywords: object) -> NoReturn:
    """The relay functions of an API without relay. They are not called, because `allows_relay` is False."""
    raise AssertionError("this API is never relayed")


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """One client API: its functions, whose first argument is the client's body, and its settings."""

    dialect: Dialect
    id_prefix: str
    param_names: ParamNames
    add_defaults: Callable[[Json, Mapping[str, Any]], Json]
    """Returns a valid body with an operator's defaults, which have the names of either of OpenAI's APIs."""
    validate: Callable[[Json], None]
    validate_merged: Callable[[Json], None] | None = None
    """Validates a body to which the defaults of its model were added; None if `validate` does."""
    lift: Lift
    relay_body: RelayBody = _relay_nothing
    encoder: Callable[[Json, ReplyIdentity, Presentation], FrameEncoder]
    collector: Callable[[Json, ReplyIdentity, Presentation], ReplyCollector]
    relay: Callable[[Json, ReplyIdentity, Presentation], Relay] = _relay_nothing
    relay_json: Callable[[Json, Json, ReplyIdentity, Presentation], Json] = _relay_nothing
    """Returns the client's JSON reply for (body, upstream's JSON reply, identity, presentation). Raises TurnFailed."""
    collect_relayed_stream: Callable[[Json, bytes, ReplyIdentity, Presentation], Json] = _relay_nothing
    """Returns the client's JSON reply for (body, stream, identity, presentation), where an upstream sent a stream
    although JSON was requested. Raises TurnFailed."""
    read_usage: Callable[[Json], Usage | None] = _relay_nothing
    """Returns the token counts of the `usage` object of a relayed JSON reply."""
    allows_relay: bool = True
    """Whether replies of an upstream with the same dialect may be relayed."""
    allows_storage: bool = True
    """Whether replies may be stored."""
    allows_jobs: bool = True
    """Whether replies may outlive their HTTP request."""
    keepalive: bytes = KEEP_ALIVE_COMMENT
    """The keep-alive frame."""
    reply_headers: Callable[[], dict[str, str]] | None = None
    """Returns headers that every reply of the API has; None if there are none."""
    normalize: Callable[[Json], Json] | None = None
    """Returns a body in the one spelling that `validate` expects; None if the API has only one."""
    count_tools: Callable[[Json], int] | None = None
    """Returns the number of tools in a body; None if each is an entry of `tools`."""
    stream_type: bytes | None = None
    """The media type of a stream; None if it consists of server-sent events."""
    joins_texts: bool = False
    """Whether its clients join the texts of all rounds of hosted tools, so that each must be a paragraph."""
    carries_seals: bool = False
    """Whether its clients send back sealed reasoning without requesting it, including reasoning of other servers."""
    load_thread: LoadThread | None = None
    """Loads the thread of a request, if the API has threads that are stored responses; None if it has none."""
    add_header_params: Callable[[Json, Mapping[bytes, bytes]], Json] | None = None
    """Returns a body with parameters that the API's clients send as headers or leave out; None if there are none."""
