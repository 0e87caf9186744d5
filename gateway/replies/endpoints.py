"""Client APIs as data: the row of functions with which requests of an API are read, and its replies are written."""

from collections.abc import Awaitable, Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from gateway.replies.event_stream import SSE_FRAMING, StreamFraming
from gateway.replies.recorder import FindHeaders, ForegroundRecorder, ReplyRecorder
from gateway.replies.reply_streams import FrameEncoder, Relay
from gateway.sealing.reply_seal import ReasoningSeal
from gateway.state.store import Lease, Store
from providers.base import Batch, Capabilities, RelayedDialect, RelayExchange
from translation.encoding.visible_output import TEXT_ITEMS
from translation.hygiene.call_tracker import DEFAULT_RULES, CallRules
from translation.representation.events import Event, Failed, FinishReason, Usage
from translation.representation.item_seal import ItemSeal
from translation.representation.json_types import Item, Json
from translation.representation.loss import Loss
from translation.representation.param_names import ParamNames
from translation.representation.profile import Profile
from translation.representation.turn import LoweredRequest, Turn
from translation.request_facts import RequestFacts


@dataclass(slots=True)
class ReplyIdentity:
    """The id of a reply, its time of creation in epoch seconds, and the model name that the client asked for.

    `prompt` is the stored prompt that the request used, as the reply echoes it.
    """

    id: str
    created: int
    model: str
    prompt: Json | None = None


class SentStream(NamedTuple):
    """The part of a stream of the Responses API that was sent: its events, and the last sequence number."""

    events: Sequence[Event]
    last_sequence_number: int


@dataclass(frozen=True, slots=True)
class TargetPresentation:
    """What the presentation of all replies of one target has in common, by the settings and the route."""

    reasoning_fields: frozenset[str]
    max_frame_bytes: int
    clock: Callable[[], int]
    reported_model: str | None
    """The model name that a relay reports; None leaves the upstream's name."""
    profile: Profile
    """The profile of the upstream: where a relayed reply has its reasoning."""


@dataclass(slots=True)
class Presentation:
    """The presentation of one reply to the client."""

    common: TargetPresentation
    is_stored: bool
    """Whether the gateway stores the reply. A relayed reply then has the gateway's id and time of creation."""
    scrub: Callable[[str], str]
    """Removes secrets and addresses from an upstream's error message, for the client to read."""
    item_seal: ItemSeal | None = field(default=None, init=False)
    """Seals output items of the Responses API; None leaves them unchanged."""
    call_rules: CallRules = field(default=DEFAULT_RULES, init=False)
    """The rules that the tool calls of a relayed reply must follow."""
    summarizes_reasoning: bool = field(default=False, init=False)
    """Whether the client gets the readable reasoning of a relayed response as a summary."""
    hides_thinking: bool = field(default=False, init=False)
    """Whether a client of the Messages API gets no thinking, although the request has the parameter."""
    sent_stream: SentStream | None = field(default=None, init=False)
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

    def fit_to_seal(self, seal: ReasoningSeal | None) -> "ThreadedRequest":
        """Returns the turn for another target of its request, whose reply the same recorder stores."""
        ...

    def make_recorder(
        self, store: Store, lease: Lease, owner: str, find_headers: FindHeaders, *, begin_delay_s: float
    ) -> ForegroundRecorder:
        """Returns the recorder that stores the turn's response while it is produced."""
        ...


class LoadedThread(Protocol):
    """A thread as stored before a turn."""

    @property
    def has_turns(self) -> bool: ...
    @property
    def weight(self) -> int:
        """The weight of its items (`dataplane/body_weight.py`)."""
        ...

    def restore_body(self, body: Json) -> Json:
        """Returns the body of the next turn with the parameters that the thread keeps.

        Raises InvalidRequest for a parameter that differs from that of the thread.
        """
        ...

    def add_turn(
        self,
        endpoint: "Endpoint",
        body: Json,
        facts: RequestFacts,
        identity: ReplyIdentity,
        seal: ReasoningSeal | None,
    ) -> ThreadedRequest:
        """Lifts a restored body of the endpoint, which has these facts, as the next turn. Raises InvalidRequest."""
        ...


class ThreadForm(NamedTuple):
    """How threads of an API are stored. Replies outside of threads are not."""

    load: Callable[[Store, str, Json], Awaitable[LoadedThread]]
    """Loads the thread that an owner's request names, by that parameter of it.

    Raises InvalidRequest, NotFound and StoreUnavailable.
    """


class FitRelayedInput(Protocol):
    """Returns a relayed body with an input that its upstream accepts, and the losses in the turn's parameter names.

    `seal` unseals items of the input. `has_history`: the input begins with stored items. Raises InvalidRequest, and
    StoreUnavailable if the key to sealed items cannot be loaded.
    """

    def __call__(
        self, body: Json, seal: ReasoningSeal | None, profile: Profile, /, *, has_history: bool
    ) -> LoweredRequest: ...


class ApplyCompaction(Protocol):
    """Returns the turn whose last compaction item replaces the items before it. Raises InvalidRequest.

    `native` says that the upstream has compaction items of its own.
    """

    def __call__(self, turn: Turn, /, *, native: bool) -> Turn: ...


class ContextForm(NamedTuple):
    """How requests of an API manage their context."""

    apply_compaction: ApplyCompaction
    truncate_relay: Callable[[Json, Callable[[Json], RelayExchange], Callable[[Loss], None]], RelayExchange]
    """Returns the relay of a body that leaves out the oldest items as long as its upstream refuses it as too long. The
    functions make the relay of a body, and report a loss."""
    set_threshold: Callable[[Json, int], Json]
    """Returns the body with this threshold of tokens for its compaction."""
    list_extra_params: Callable[[Json], Json]
    """Returns the parameters of the body that the API does not have. Some change how an upstream runs its model."""


class UpstreamInput(NamedTuple):
    """What the gateway decides of the body of a continued request."""

    items: Sequence[Item] | None = None
    """The history and the request's own items; None if the input is the client's own."""
    adds_sealed_reasoning: bool = False
    """Whether the upstream is asked for reasoning that can be sent back, without the client having asked for it."""
    streams: bool | None = None
    """Whether the upstream streams; None if the client decides."""


class PeekedOptions(NamedTuple):
    """What a body says that has not been validated."""

    is_stored: bool
    streams: bool


@dataclass(frozen=True, slots=True, eq=False)
class ResponseForm:
    """How bodies of the Responses API are echoed by their responses, and continued upstream."""

    echo: Callable[[bool, bool, Json, Profile], Json]
    """Returns the body as its response echoes it, for (whether it is stored, whether it runs in the background, body,
    profile): parameters that the gateway decides have their effective values."""
    echo_storage: Callable[[Json, bool, bool], Json]
    """Returns the body as the responses of all upstreams echo it, for (body, whether it is stored, whether it runs in
    the background)."""
    continue_upstream: Callable[[Json, UpstreamInput], Json]
    """Returns the body for the upstream, which stores nothing: it has the whole history as its input."""
    set_input: Callable[[Json, Sequence[Item]], Json]
    """Returns the body with these items as its input."""
    remove_input: Callable[[Json], Json]
    """Returns the body without its input."""
    peek: Callable[[Json], PeekedOptions]
    """Reads a body that has not been validated."""
    allows_jobs: bool = True
    """Whether responses may outlive their HTTP requests."""


class CompletionForm(NamedTuple):
    """How completions of an API are stored."""

    remove_storage: Callable[[Json], Json]
    """Returns the body without parameters about its storage, which the gateway has."""
    make_recorder: Callable[[Store, str, Json, FindHeaders], ReplyRecorder]
    """Returns the recorder of the completion, for (store, owner, body, losses)."""


def _count_entries_of_tools(body: Json) -> int:
    return len(tools) if isinstance(tools := body["tools"], list) else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestForm:
    """How requests of an API are read. The first argument of its functions is the client's body."""

    validate: Callable[[Json], None]
    validate_merged: Callable[[Json], None] | None = None
    """Validates a body to which the defaults of its model were added; None if `validate` does."""
    keep_known: Callable[[Json], Json] | None = None
    """Returns the known part of a body that is not valid, but may be to an upstream with this API; None if the API is
    not relayed. Raises InvalidRequest if the body is malformed, so that no upstream can take it."""
    add_defaults: Callable[[Json, Mapping[str, Any]], Json]
    """Returns a valid body with an operator's defaults, which have the names of either of OpenAI's APIs."""
    read_facts: Callable[[Json], RequestFacts]
    """Returns the facts of a validated body to which the defaults of its model were added."""
    lift: Lift
    names_file: Callable[[Json], bool] | None = None
    """Whether a validated body names a file by its id, for an API whose bodies that are relayed are lifted without
    their items; None if the items tell."""
    merge_prompt: Callable[[Json, Json, Any], tuple[Json, int]] | None = None
    """Returns a body with a stored prompt in place of its reference to one, and the characters of the prompt there, for
    the prompt's content and the values of its variables; None if the API has no prompts. Raises InvalidRequest."""
    normalize: Callable[[Json], Json] | None = None
    """Returns a body in the one spelling that `validate` expects; None if the API has only one."""
    share_tools: Callable[[Json], Json] | None = None
    """Returns a body whose tools are those of an earlier one, if they are the same. It may be invalid."""
    tools_param: str = "tools"
    """The parameter with the tools."""
    count_tools: Callable[[Json], int] = _count_entries_of_tools
    """Returns the number of tools in a body that has this parameter."""
    add_header_params: Callable[[Json, Mapping[bytes, bytes]], Json] | None = None
    """Returns a body with parameters that the API's clients send as headers or leave out; None if there are none."""
    own_params: frozenset[str] = frozenset()
    """Parameters for the gateway alone. They are neither forwarded nor echoed."""
    expects_thinking: Callable[[Json], bool] | None = None
    """Whether the client of a body without the model's defaults expects thinking; None if it gets what there is."""
    continues_prefill: bool = False
    """Whether a last message of the assistant asks the model to continue it."""

    def adapt_from(self, validate: Callable[[Json], None]) -> "RequestForm":
        """Returns the form of an API whose bodies, which `validate` checks, are adapted to bodies of this form.

        What reads a body as its client sent it is left out. What reads an adapted one stays.
        """
        return RequestForm(
            validate=validate,
            validate_merged=self.validate_merged or self.validate,
            add_defaults=self.add_defaults,
            read_facts=self.read_facts,
            lift=self.lift,
            names_file=self.names_file,
            own_params=self.own_params,
            expects_thinking=self.expects_thinking,
            continues_prefill=self.continues_prefill,
        )

    def remove_own_params(self, body: Json) -> Json:
        """Returns a body without the parameters for the gateway alone."""
        return {name: value for name, value in body.items() if name not in self.own_params}


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplyForm:
    """How replies of an API are written."""

    encoder: Callable[[Json, ReplyIdentity, Presentation], FrameEncoder]
    collector: Callable[[Json, ReplyIdentity, Presentation], ReplyCollector]
    show_reply: Callable[[Json, Json], Json] | None = None
    """Returns the JSON reply to a body as its client gets it, if what is stored has more; None if it never has."""
    stream: StreamFraming = SSE_FRAMING
    build_headers: Callable[[], dict[str, str]] | None = None
    """Returns headers that every reply has; None if there are none."""
    relays_headers: bool = False
    """Whether clients get headers of a relayed reply."""
    visible_items: frozenset[str] | None = TEXT_ITEMS
    """The types of items that clients are shown; None if all are. Other output is a loss, or a failure if it is all."""
    joins_texts: bool = False
    """Whether clients join the texts of all rounds of hosted tools, so that each must be a paragraph."""
    has_hosted_items: bool = False
    """Whether the API has items and events for calls that the gateway runs."""
    cites_files: bool = False
    """Whether replies can cite files, and not only URLs."""
    shows_search_results: bool = False
    """Whether the result of a search is shown with its pages."""
    has_seals: bool = True
    """Whether requests and replies have a place for sealed reasoning."""
    carries_seals: bool = False
    """Whether clients send back sealed reasoning without requesting it, including reasoning of other servers."""


def _remove_params(body: Json, names: Container[str]) -> Json:
    return {name: value for name, value in body.items() if name not in names}


def _add_no_items(_body: Json) -> bool:
    return False


@dataclass(frozen=True, slots=True, kw_only=True)
class RelaySpec:
    """How requests are relayed to an upstream with the same API."""

    dialect: RelayedDialect
    build_body: RelayBody
    make_relay: Callable[[Json, ReplyIdentity, Presentation], Relay]
    build_json: Callable[[Json, Json, ReplyIdentity, Presentation], Json]
    """Returns the client's JSON reply for (body, upstream's JSON reply, identity, presentation). Raises TurnFailed."""
    collect_stream: Callable[[Json, bytes, ReplyIdentity, Presentation], Json]
    """Returns the client's JSON reply for (body, stream, identity, presentation), where an upstream sent a stream
    although JSON was requested. Raises TurnFailed."""
    is_filtered: Callable[[Json], bool]
    """Returns whether a content filter ended a relayed JSON reply before it had content."""
    read_usage: Callable[[Json], Usage | None]
    """Returns the token counts of the `usage` object of a relayed JSON reply."""
    read_finish_reason: Callable[[Json], FinishReason | None]
    """Returns why the model stopped, by the upstream's JSON reply, from which `build_json` has built the client's."""
    remove_params: Callable[[Json, Container[str]], Json] = _remove_params
    """Returns a body without these parameters, which its upstream does not take."""
    adds_items: Callable[[Json], bool] = _add_no_items
    """Whether a body makes its upstream add items to the input, so that calls in it may lack their outputs."""
    fit_input: FitRelayedInput | None = None
    """Makes the input of a relayed body one that its upstream accepts; None if every input is."""
    needs_no_checks: Callable[[Json, Capabilities], bool] | None = None
    """Whether an upstream with these capabilities accepts a relayed body as it is. Without it, each body is checked."""
    has_other_kinds: bool = False
    """Whether the API has the kinds of tools that `Capabilities.relayed_kinds` lists."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """One client API, also called its row. What the API does not have is None."""

    name: str
    """The name of its folder, which stored jobs have too."""
    id_prefix: str
    param_names: ParamNames
    request: RequestForm
    reply: ReplyForm
    relay: RelaySpec | None = None
    storage: ResponseForm | CompletionForm | ThreadForm | None = None
    """How replies are stored: as responses, as completions, or as turns of a thread."""
    context: ContextForm | None = None
    """How requests manage their context."""
