"""The Responses API as data: the functions that validate, lift, encode, collect and relay it."""

from collections.abc import Callable, Sequence
from typing import Final

from gateway.dialects.responses.body_views import (
    continue_body,
    echo_body,
    echo_storage,
    peek_options,
    remove_input,
    set_input,
)
from gateway.dialects.responses.truncating_relay import TruncatingRelay
from gateway.errors import TurnFailed
from gateway.replies.endpoints import (
    ContextForm,
    Endpoint,
    Presentation,
    RelaySpec,
    ReplyForm,
    ReplyIdentity,
    RequestForm,
    ResponseForm,
)
from gateway.replies.reply_streams import relay_buffered_stream
from gateway.sealing.reply_seal import ReasoningSeal
from providers.base import RelayExchange
from translation.representation.json_types import Json
from translation.representation.loss import Loss
from translation.representation.profile import Profile
from translation.representation.shared_tools import share_tools
from translation.representation.turn import LoweredRequest
from translation.responses.client.defaults import add_defaults
from translation.responses.client.encode import ResponsesEncoder
from translation.responses.client.facts import read_facts
from translation.responses.client.initial_response import new_response
from translation.responses.client.item_view import show_response
from translation.responses.client.lift import lift, list_extra_params, requests_logprobs
from translation.responses.client.param_names import PARAM_NAMES
from translation.responses.client.snapshot import Snapshot
from translation.responses.compaction import apply_compaction_to_body, apply_compaction_to_turn, find_lowest_threshold
from translation.responses.prompts import merge_prompt
from translation.responses.relaying.relay import ResponsesRelay
from translation.responses.relaying.request import adds_items, relay_body
from translation.responses.relaying.whole_response import (
    OwnResponse,
    failure_of_response,
    is_response_filtered,
    read_response_reason,
    relay_response,
)
from translation.responses.schema.request import keep_known, validate
from translation.responses.upstream.lower import lower_items
from translation.responses.usage import read_usage


def _head(body: Json, identity: ReplyIdentity) -> Json:
    return new_response(
        body, response_id=identity.id, created_at=identity.created, model=identity.model, prompt=identity.prompt
    )


def _own_response(body: Json, identity: ReplyIdentity, presentation: Presentation) -> OwnResponse:
    return OwnResponse(presentation.common.reported_model, _head(body, identity), presentation.is_stored)


def _encoder(body: Json, identity: ReplyIdentity, presentation: Presentation) -> ResponsesEncoder:
    included = body.get("include") or ()
    encoder = ResponsesEncoder(_head(body, identity), presentation.common.clock, presentation.item_seal, included)
    if presentation.sent_stream is not None:
        encoder.restore(*presentation.sent_stream)
    return encoder


def _collector(body: Json, identity: ReplyIdentity, presentation: Presentation) -> Snapshot:
    return Snapshot(_head(body, identity), presentation.common.clock, presentation.item_seal)


def _show_reply(body: Json, reply: Json) -> Json:
    return show_response(reply, body.get("include") or ())


def _relay(body: Json, identity: ReplyIdentity, presentation: Presentation) -> ResponsesRelay:
    return ResponsesRelay(
        _own_response(body, identity, presentation),
        max_frame_bytes=presentation.common.max_frame_bytes,
        scrub=presentation.scrub,
        seal=presentation.item_seal,
        calls=presentation.call_rules,
        summarizes_reasoning=presentation.summarizes_reasoning,
    )


def _relay_json(body: Json, upstream_reply: Json, identity: ReplyIdentity, presentation: Presentation) -> Json:
    if (failed := failure_of_response(upstream_reply)) is not None:
        failed.redact(presentation.scrub)
        raise TurnFailed(failed)
    return relay_response(
        upstream_reply,
        _own_response(body, identity, presentation),
        seal=presentation.item_seal,
        calls=presentation.call_rules,
        summarizes_reasoning=presentation.summarizes_reasoning,
        wants_logprobs=requests_logprobs(body),
    )


def _collect_relay(body: Json, stream: bytes, identity: ReplyIdentity, presentation: Presentation) -> Json:
    relay = _relay(body, identity, presentation)
    relay_buffered_stream(relay, stream)
    if relay.response is None:
        raise ValueError("a stream that did not fail ends with a response")
    return relay.response


def _fit_relayed_input(
    body: Json, seal: ReasoningSeal | None, profile: Profile, *, has_history: bool
) -> LoweredRequest:
    body = apply_compaction_to_body(body)
    items = body.get("input")
    if not isinstance(items, list):
        return LoweredRequest(body, ())
    losses: Sequence[Loss]
    if has_history:
        unsealed = items if seal is None else [seal.unseal_item(item) for item in items]
        fitted, losses = lower_items(unsealed, profile)
    elif seal is None:
        return LoweredRequest(body, ())
    else:
        fitted, losses = seal.unseal_relayed_items(items, profile)
    return LoweredRequest({**body, "input": fitted}, losses)


def _truncate_relay(
    body: Json, make_relay: Callable[[Json], RelayExchange], report_loss: Callable[[Loss], None]
) -> RelayExchange:
    # The upstream is not asked to truncate the input, which the gateway does.
    own_body = {name: value for name, value in body.items() if name != "truncation"}
    return TruncatingRelay(own_body, make_relay, report_loss)


def _set_threshold(body: Json, threshold: int) -> Json:
    entry = find_lowest_threshold(body["context_management"])
    return {**body, "context_management": [{**(entry or {}), "compact_threshold": threshold}]}


RESPONSES: Final = Endpoint(
    name="responses",
    id_prefix="resp",
    param_names=PARAM_NAMES,
    request=RequestForm(
        validate=validate,
        keep_known=keep_known,
        share_tools=share_tools,
        add_defaults=add_defaults,
        read_facts=read_facts,
        lift=lift,
        merge_prompt=merge_prompt,
        own_params=frozenset({"tool_events", "elicitation"}),
    ),
    reply=ReplyForm(
        encoder=_encoder,
        collector=_collector,
        show_reply=_show_reply,
        visible_items=None,
        has_hosted_items=True,
        cites_files=True,
    ),
    relay=RelaySpec(
        dialect="responses",
        build_body=relay_body,
        make_relay=_relay,
        build_json=_relay_json,
        collect_stream=_collect_relay,
        is_filtered=is_response_filtered,
        read_usage=read_usage,
        read_finish_reason=read_response_reason,
        adds_items=adds_items,
        fit_input=_fit_relayed_input,
        has_other_kinds=True,
    ),
    storage=ResponseForm(echo_body, echo_storage, continue_body, set_input, remove_input, peek_options),
    context=ContextForm(apply_compaction_to_turn, _truncate_relay, _set_threshold, list_extra_params),
)
