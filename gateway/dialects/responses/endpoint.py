"""The Responses API as data: the functions that validate, lift, encode, collect and relay it."""

from typing import Final

from gateway.errors import TurnFailed
from gateway.replies.endpoints import Endpoint, Presentation, ReplyIdentity
from gateway.replies.reply_streams import relay_buffered_stream
from translation.representation.json_types import Json
from translation.responses.client.defaults import add_defaults
from translation.responses.client.encode import ResponsesEncoder
from translation.responses.client.initial_response import new_response
from translation.responses.client.lift import lift
from translation.responses.client.param_names import PARAM_NAMES
from translation.responses.client.snapshot import Snapshot
from translation.responses.relaying.relay import ResponsesRelay
from translation.responses.relaying.request import relay_body
from translation.responses.relaying.whole_response import failure_of_response, relay_response
from translation.responses.schema.request import validate
from translation.responses.usage import read_usage


def _head(body: Json, identity: ReplyIdentity) -> Json:
    return new_response(body, response_id=identity.id, created_at=identity.created, model=identity.model)


def _encoder(body: Json, identity: ReplyIdentity, presentation: Presentation) -> ResponsesEncoder:
    encoder = ResponsesEncoder(_head(body, identity), presentation.clock, presentation.item_seal)
    if presentation.sent_stream is not None:
        encoder.restore(*presentation.sent_stream)
    return encoder


def _collector(body: Json, identity: ReplyIdentity, presentation: Presentation) -> Snapshot:
    return Snapshot(_head(body, identity), presentation.clock, presentation.item_seal)


def _relay(body: Json, identity: ReplyIdentity, presentation: Presentation) -> ResponsesRelay:
    return ResponsesRelay(
        model=presentation.reported_model,
        initial_response=_head(body, identity),
        is_stored=presentation.is_stored,
        max_frame_bytes=presentation.max_frame_bytes,
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
        model=presentation.reported_model,
        initial_response=_head(body, identity),
        is_stored=presentation.is_stored,
        seal=presentation.item_seal,
        calls=presentation.call_rules,
        summarizes_reasoning=presentation.summarizes_reasoning,
    )


def _collect_relay(body: Json, stream: bytes, identity: ReplyIdentity, presentation: Presentation) -> Json:
    relay = _relay(body, identity, presentation)
    relay_buffered_stream(relay, stream)
    assert relay.response is not None  # a stream that did not fail ends with a response
    return relay.response


RESPONSES: Final = Endpoint(
    dialect="responses",
    id_prefix="resp",
    param_names=PARAM_NAMES,
    add_defaults=add_defaults,
    validate=validate,
    lift=lift,
    relay_body=relay_body,
    encoder=_encoder,
    collector=_collector,
    relay=_relay,
    relay_json=_relay_json,
    collect_relayed_stream=_collect_relay,
    read_usage=read_usage,
)
