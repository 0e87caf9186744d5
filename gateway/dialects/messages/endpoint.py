"""The Messages API as data: the functions that validate, lift, encode, collect and relay it."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from gateway.dialects.messages.error_form import build_request_id_headers
from gateway.dialects.messages.threads import load_message_thread
from gateway.replies.endpoints import (
    Endpoint,
    Presentation,
    RelaySpec,
    ReplyForm,
    ReplyIdentity,
    RequestForm,
    ThreadForm,
)
from gateway.replies.event_stream import StreamFraming
from gateway.replies.reply_streams import relay_buffered_stream
from gateway.sealing.reply_seal import ReasoningSeal
from gateway.sealing.sealer import is_sealed
from translation.decoding.usage import read_message_usage
from translation.messages.client.collect import MessageCollector
from translation.messages.client.defaults import add_defaults
from translation.messages.client.encode import PING_FRAME, MessagesEncoder
from translation.messages.client.lift import lift, lift_count, read_facts
from translation.messages.client.param_names import PARAM_NAMES
from translation.messages.client.parts import has_file_source
from translation.messages.client.reply_objects import ThinkingView, choose_thinking_view
from translation.messages.relaying.calls import accepts_unchecked_inputs, relay_message
from translation.messages.relaying.relay import MessagesRelay, is_message_filtered, read_message_reason
from translation.messages.relaying.reply_forms import build_message
from translation.messages.relaying.request import relay_body, remove_sealed_blocks
from translation.messages.schema.request import (
    keep_known,
    validate,
    validate_count,
    validate_merged,
    validate_merged_count,
)
from translation.representation.json_types import Json
from translation.representation.loss import Loss
from translation.representation.profile import Profile
from translation.representation.turn import LoweredRequest

_BETA_HEADER: Final = b"anthropic-beta"
_VERSION_HEADER: Final = b"anthropic-version"


def add_header_params(body: Json, headers: Mapping[bytes, bytes]) -> Json:
    """Returns the body with version and betas, under the names that the API's hosts without such headers use.

    They are checked as parts of the body.
    """
    named: Json = {}
    if version := headers.get(_VERSION_HEADER):
        named["anthropic_version"] = version.decode("latin-1")
    if (betas := headers.get(_BETA_HEADER)) is not None:
        named["anthropic_beta"] = [name.strip() for name in betas.decode("latin-1").split(",") if name.strip()]
    return {**body, **named} if named else body


def _choose_view(body: Json, presentation: Presentation) -> ThinkingView:
    return "none" if presentation.hides_thinking else choose_thinking_view(body)


def _encoder(body: Json, identity: ReplyIdentity, presentation: Presentation) -> MessagesEncoder:
    return MessagesEncoder(
        message_id=identity.id,
        model=identity.model,
        thinking=_choose_view(body, presentation),
        seal=presentation.item_seal,
    )


def _collector(body: Json, identity: ReplyIdentity, presentation: Presentation) -> MessageCollector:
    return MessageCollector(
        message_id=identity.id,
        model=identity.model,
        thinking=_choose_view(body, presentation),
        seal=presentation.item_seal,
    )


def _relay(body: Json, _identity: ReplyIdentity, presentation: Presentation) -> MessagesRelay:
    return MessagesRelay(
        model=presentation.common.reported_model,
        max_frame_bytes=presentation.common.max_frame_bytes,
        scrub=presentation.scrub,
        accepts_unchecked_inputs=accepts_unchecked_inputs(body),
    )


def _relay_json(_body: Json, upstream_reply: Json, _identity: ReplyIdentity, presentation: Presentation) -> Json:
    return relay_message(upstream_reply, presentation.common.reported_model)


def _collect_relay(body: Json, stream: bytes, identity: ReplyIdentity, presentation: Presentation) -> Json:
    return build_message(relay_buffered_stream(_relay(body, identity, presentation), stream))


def _fit_relayed_input(
    body: Json, _seal: ReasoningSeal | None, _profile: Profile, *, has_history: bool
) -> LoweredRequest:
    losses: list[Loss] = []
    messages = remove_sealed_blocks(body["messages"], is_sealed, losses)
    return LoweredRequest(body if messages is body["messages"] else {**body, "messages": messages}, losses)


MESSAGES: Final = Endpoint(
    name="messages",
    id_prefix="msg",
    param_names=PARAM_NAMES,
    request=RequestForm(
        validate=validate,
        keep_known=keep_known,
        validate_merged=validate_merged,
        add_defaults=add_defaults,
        read_facts=read_facts,
        lift=lift,
        names_file=has_file_source,
        add_header_params=add_header_params,
        expects_thinking=lambda body: body.get("thinking") is not None,
        continues_prefill=True,
    ),
    reply=ReplyForm(
        encoder=_encoder,
        collector=_collector,
        stream=StreamFraming(build_keepalive=lambda: PING_FRAME),
        build_headers=build_request_id_headers,
        relays_headers=True,
        shows_search_results=True,
        carries_seals=True,
    ),
    relay=RelaySpec(
        dialect="messages",
        build_body=relay_body,
        make_relay=_relay,
        build_json=_relay_json,
        collect_stream=_collect_relay,
        is_filtered=is_message_filtered,
        read_usage=read_message_usage,
        read_finish_reason=read_message_reason,
        fit_input=_fit_relayed_input,
    ),
    storage=ThreadForm(load_message_thread),
)

COUNTING: Final = replace(
    MESSAGES,
    request=replace(
        MESSAGES.request,
        validate=validate_count,
        validate_merged=validate_merged_count,
        keep_known=None,
        lift=lift_count,
    ),
)
"""The endpoint for requests that only count the tokens of their input."""
