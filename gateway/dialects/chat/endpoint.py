"""Chat Completions as data: the functions that validate, lift, encode, collect and relay it."""

from typing import Final

from gateway.dialects.chat.stored_reply import CompletionRecorder, StoredChatEncoder, StoredChatRelay
from gateway.errors import TurnFailed
from gateway.planning.unreported_params import requests_tier
from gateway.replies.endpoints import (
    CompletionForm,
    Endpoint,
    Presentation,
    RelaySpec,
    ReplyForm,
    ReplyIdentity,
    RequestForm,
)
from gateway.replies.reply_streams import FrameEncoder, Relay, relay_buffered_stream
from providers.base import Capabilities
from translation.chat.client.completion import CompletionCollector
from translation.chat.client.defaults import add_defaults
from translation.chat.client.encode import ChatEncoder
from translation.chat.client.facts import read_facts
from translation.chat.client.lift import lift
from translation.chat.client.param_names import PARAM_NAMES
from translation.chat.client.schema import keep_known, uses_legacy_functions, validate
from translation.chat.reasoning import list_text_fields
from translation.chat.relaying import whole_completion
from translation.chat.relaying.choices import ChunkForm
from translation.chat.relaying.chunk_identity import OwnCompletion
from translation.chat.relaying.relay import ChatRelay
from translation.chat.relaying.request import is_plain_request, relay_body
from translation.chat.reply_forms import build_completion
from translation.chat.reply_objects import IMAGE_ITEM
from translation.chat.usage import read_usage
from translation.encoding.visible_output import TEXT_ITEMS
from translation.representation.json_types import Json


def _includes_usage(body: Json) -> bool:
    return bool((body.get("stream_options") or {}).get("include_usage"))


def _encoder(body: Json, identity: ReplyIdentity, presentation: Presentation) -> FrameEncoder:
    encoder = ChatEncoder(
        completion_id=identity.id,
        created=identity.created,
        model=identity.model,
        reasoning_fields=presentation.common.reasoning_fields,
        include_usage=_includes_usage(body),
        extensions=bool(body.get("extensions")),
        legacy_functions=uses_legacy_functions(body),
    )
    return StoredChatEncoder(encoder) if presentation.is_stored else encoder


def _collector(body: Json, identity: ReplyIdentity, presentation: Presentation) -> CompletionCollector:
    return CompletionCollector(
        completion_id=identity.id,
        created=identity.created,
        model=identity.model,
        reasoning_fields=presentation.common.reasoning_fields,
        extensions=bool(body.get("extensions")),
        legacy_functions=uses_legacy_functions(body),
    )


def _relay(body: Json, identity: ReplyIdentity, presentation: Presentation) -> Relay:
    common = presentation.common
    members = {"id": identity.id, "created": identity.created, "model": identity.model}
    relay = ChatRelay(
        OwnCompletion(common.reported_model, members, presentation.is_stored),
        ChunkForm(
            common.reasoning_fields,
            _includes_usage(body),
            body.get("n") or 1,
            uses_legacy_functions(body),
            common.profile,
        ),
        upstream_fields=list_text_fields(common.profile.reasoning_fields),
        max_frame_bytes=common.max_frame_bytes,
        call_rules=presentation.call_rules,
        scrub=presentation.scrub,
    )
    return StoredChatRelay(relay) if presentation.is_stored else relay


def _collect_relay(body: Json, stream: bytes, identity: ReplyIdentity, presentation: Presentation) -> Json:
    with_usage = {**body, "stream_options": {"include_usage": True}}
    return build_completion(relay_buffered_stream(_relay(with_usage, identity, presentation), stream))


def _relay_json(body: Json, upstream_reply: Json, identity: ReplyIdentity, presentation: Presentation) -> Json:
    if (failed := whole_completion.failure_of(upstream_reply)) is not None:
        failed.redact(presentation.scrub)
        raise TurnFailed(failed)
    common = presentation.common
    completion = whole_completion.relay_completion(
        whole_completion.select_requested_choices(
            upstream_reply, body.get("n") or 1, wants_logprobs=bool(body.get("logprobs"))
        ),
        model=common.reported_model,
        reasoning_fields=common.reasoning_fields,
        upstream_fields=list_text_fields(common.profile.reasoning_fields),
        call_rules=presentation.call_rules,
        legacy_functions=uses_legacy_functions(body),
        profile=common.profile,
    )
    return completion | {"id": identity.id, "created": identity.created} if presentation.is_stored else completion


def _needs_no_checks(body: Json, capabilities: Capabilities) -> bool:
    """Whether a body has nothing that an upstream with these capabilities may refuse, as most have."""
    if capabilities.max_context_window is not None and (body.get("max_tokens") or body.get("max_completion_tokens")):
        return False
    if requests_tier(body) and not capabilities.service_tiers:
        return False
    return capabilities.streaming and is_plain_request(body)


def _remove_storage(body: Json) -> Json:
    # OpenAI accepts `metadata` only together with `store: true`.
    return {name: value for name, value in body.items() if name not in ("store", "metadata")}


CHAT: Final = Endpoint(
    name="chat",
    id_prefix="chatcmpl",
    param_names=PARAM_NAMES,
    request=RequestForm(
        validate=validate, keep_known=keep_known, add_defaults=add_defaults, read_facts=read_facts, lift=lift
    ),
    reply=ReplyForm(
        encoder=_encoder,
        collector=_collector,
        visible_items=TEXT_ITEMS | {"custom_tool_call", IMAGE_ITEM},
        joins_texts=True,
        has_seals=False,
    ),
    relay=RelaySpec(
        dialect="chat",
        build_body=relay_body,
        make_relay=_relay,
        build_json=_relay_json,
        collect_stream=_collect_relay,
        is_filtered=whole_completion.is_completion_filtered,
        read_usage=read_usage,
        read_finish_reason=whole_completion.read_completion_reason,
        needs_no_checks=_needs_no_checks,
    ),
    storage=CompletionForm(_remove_storage, CompletionRecorder),
)
