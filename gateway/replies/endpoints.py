"""Client APIs as data: the functions that validate, lift, encode, collect and relay. Has the rows of OpenAI's APIs."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, NoReturn, Protocol

from gateway.errors import TurnFailed
from gateway.replies.reply_streams import FrameEncoder, Relay, relay_buffered_stream
from gateway.replies.stored_chat import StoredChatEncoder, StoredChatRelay
from providers.base import Batch, Dialect
from translation.chat.client.completion import CompletionCollector
from translation.chat.client.encode import ChatEncoder
from translation.chat.client.lift import lift as lift_chat
from translation.chat.client.schema import validate as validate_chat
from translation.chat.reasoning import list_text_fields
from translation.chat.relaying import answer as chat_answer
from translation.chat.relaying.relay import ChatRelay
from translation.chat.relaying.request import relay_body as chat_relay_body
from translation.chat.reply_forms import build_completion
from translation.chat.usage import read_usage as read_chat_usage
from translation.framing.sse import KEEP_ALIVE_COMMENT
from translation.hygiene.call_rules import DEFAULT_RULES, CallRules
from translation.representation.events import Event, Failed, Usage
from translation.representation.item_seal import ItemSeal
from translation.representation.json_types import Json
from translation.representation.profile import DEFAULT_PROFILE, Profile
from translation.representation.turn import LoweredRequest, Turn
from translation.responses.client.encode import ResponsesEncoder
from translation.responses.client.initial_response import new_response
from translation.responses.client.lift import lift as lift_responses
from translation.responses.client.snapshot import Snapshot
from translation.responses.relaying.relay import ResponsesRelay
from translation.responses.relaying.request import relay_body as responses_relay_body
from translation.responses.relaying.whole_response import failure_of_response, relay_response
from translation.responses.schema.request import validate as validate_responses
from translation.responses.usage import read_usage as read_responses_usage


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


def _relay_nothing(*_arguments: object, **_keywords: object) -> NoReturn:
    """The relay functions of an API without relay. They are not called, because `allows_relay` is False."""
    raise AssertionError("this API is never relayed")


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """One client API: its functions, whose first argument is the client's body, and its settings."""

    dialect: Dialect
    id_prefix: str
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
    input_key: str | None = None
    """The client's name of the input; None if it is the dialect's name."""
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
    add_header_params: Callable[[Json, Mapping[bytes, bytes]], Json] | None = None
    """Returns a body with parameters that the API's clients send as headers or leave out; None if there are none."""


def _includes_usage(body: Json) -> bool:
    return bool((body.get("stream_options") or {}).get("include_usage"))


def uses_legacy_functions(body: Json) -> bool:
    """Whether a chat body uses the legacy `functions`, so that its client expects `function_call` in the reply."""
    return bool(body.get("functions")) and not body.get("tools")


def _response_head(body: Json, identity: ReplyIdentity) -> Json:
    return new_response(body, response_id=identity.id, created_at=identity.created, model=identity.model)


def _responses_encoder(body: Json, identity: ReplyIdentity, presentation: Presentation) -> ResponsesEncoder:
    encoder = ResponsesEncoder(_response_head(body, identity), presentation.clock, presentation.item_seal)
    if presentation.sent_stream is not None:
        encoder.restore(*presentation.sent_stream)
    return encoder


def _responses_collector(body: Json, identity: ReplyIdentity, presentation: Presentation) -> Snapshot:
    return Snapshot(_response_head(body, identity), presentation.clock, presentation.item_seal)


def _chat_encoder(body: Json, identity: ReplyIdentity, presentation: Presentation) -> FrameEncoder:
    encoder = ChatEncoder(
        completion_id=identity.id,
        created=identity.created,
        model=identity.model,
        reasoning_fields=presentation.reasoning_fields,
        include_usage=_includes_usage(body),
        extensions=bool(body.get("extensions")),
        legacy_functions=uses_legacy_functions(body),
    )
    return StoredChatEncoder(encoder) if presentation.is_stored else encoder


def _chat_collector(body: Json, identity: ReplyIdentity, presentation: Presentation) -> CompletionCollector:
    return CompletionCollector(
        completion_id=identity.id,
        created=identity.created,
        model=identity.model,
        reasoning_fields=presentation.reasoning_fields,
        extensions=bool(body.get("extensions")),
        legacy_functions=uses_legacy_functions(body),
    )


def _chat_relay(body: Json, identity: ReplyIdentity, presentation: Presentation) -> Relay:
    relay = ChatRelay(
        model=presentation.reported_model,
        identity={"id": identity.id, "created": identity.created, "model": identity.model},
        stored=presentation.is_stored,
        reasoning_fields=presentation.reasoning_fields,
        upstream_fields=list_text_fields(presentation.profile),
        include_usage=_includes_usage(body),
        max_frame_bytes=presentation.max_frame_bytes,
        choices=body.get("n") or 1,
        call_rules=presentation.call_rules,
        legacy_functions=uses_legacy_functions(body),
        scrub=presentation.scrub,
    )
    return StoredChatRelay(relay) if presentation.is_stored else relay


def _collect_chat_relay(body: Json, stream: bytes, identity: ReplyIdentity, presentation: Presentation) -> Json:
    with_usage = {**body, "stream_options": {"include_usage": True}}
    return build_completion(relay_buffered_stream(_chat_relay(with_usage, identity, presentation), stream))


def _relay_chat_json(body: Json, upstream_reply: Json, identity: ReplyIdentity, presentation: Presentation) -> Json:
    if (failed := chat_answer.failure_of(upstream_reply)) is not None:
        failed.redact(presentation.scrub)
        raise TurnFailed(failed)
    completion = chat_answer.relay_completion(
        upstream_reply,
        model=presentation.reported_model,
        reasoning_fields=presentation.reasoning_fields,
        upstream_fields=list_text_fields(presentation.profile),
        call_rules=presentation.call_rules,
        legacy_functions=uses_legacy_functions(body),
    )
    return completion | {"id": identity.id, "created": identity.created} if presentation.is_stored else completion


def _responses_relay(body: Json, identity: ReplyIdentity, presentation: Presentation) -> ResponsesRelay:
    return ResponsesRelay(
        model=presentation.reported_model,
        initial_response=_response_head(body, identity),
        is_stored=presentation.is_stored,
        max_frame_bytes=presentation.max_frame_bytes,
        scrub=presentation.scrub,
        seal=presentation.item_seal,
        calls=presentation.call_rules,
        summarizes_reasoning=presentation.summarizes_reasoning,
    )


def _relay_responses_json(
    body: Json, upstream_reply: Json, identity: ReplyIdentity, presentation: Presentation
) -> Json:
    if (failed := failure_of_response(upstream_reply)) is not None:
        failed.redact(presentation.scrub)
        raise TurnFailed(failed)
    return relay_response(
        upstream_reply,
        model=presentation.reported_model,
        initial_response=_response_head(body, identity),
        is_stored=presentation.is_stored,
        seal=presentation.item_seal,
        calls=presentation.call_rules,
        summarizes_reasoning=presentation.summarizes_reasoning,
    )


def _collect_responses_relay(body: Json, stream: bytes, identity: ReplyIdentity, presentation: Presentation) -> Json:
    relay = _responses_relay(body, identity, presentation)
    relay_buffered_stream(relay, stream)
    assert relay.response is not None  # a stream that did not fail ends with a response
    return relay.response


CHAT = Endpoint(
    dialect="chat",
    id_prefix="chatcmpl",
    validate=validate_chat,
    lift=lift_chat,
    relay_body=chat_relay_body,
    encoder=_chat_encoder,
    collector=_chat_collector,
    relay=_chat_relay,
    relay_json=_relay_chat_json,
    collect_relayed_stream=_collect_chat_relay,
    joins_texts=True,
    read_usage=read_chat_usage,
)

RESPONSES = Endpoint(
    dialect="responses",
    id_prefix="resp",
    validate=validate_responses,
    lift=lift_responses,
    relay_body=responses_relay_body,
    encoder=_responses_encoder,
    collector=_responses_collector,
    relay=_responses_relay,
    relay_json=_relay_responses_json,
    collect_relayed_stream=_collect_responses_relay,
    read_usage=read_responses_usage,
)

ENDPOINTS: dict[Dialect, Endpoint] = {endpoint.dialect: endpoint for endpoint in (CHAT, RESPONSES)}
"""The APIs whose replies are stored, and whose jobs can be resumed."""
