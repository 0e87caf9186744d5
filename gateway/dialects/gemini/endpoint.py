"""Gemini's API as data: the functions that validate, lift, encode and collect."""

from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Final

from gateway.dialects.gemini.error_form import build_stream_error
from gateway.replies.endpoints import Endpoint, Presentation, ReplyForm, ReplyIdentity, RequestForm
from gateway.replies.event_stream import StreamFraming
from translation.encoding.visible_output import TEXT_ITEMS
from translation.gemini.client.collect import ContentCollector
from translation.gemini.client.defaults import add_defaults
from translation.gemini.client.encode import KEEP_ALIVE, GeminiEncoder, StreamForm
from translation.gemini.client.lift import lift, read_facts
from translation.gemini.client.param_names import PARAM_NAMES
from translation.gemini.client.reply_objects import ReplyHead, shows_thoughts, wants_logprobs
from translation.gemini.client.tools import count_tools
from translation.gemini.client.value_replies import find_value_form
from translation.gemini.schema.counted import validate_counted
from translation.gemini.schema.request import normalize, validate
from translation.representation.json_types import Json


def _head(identity: ReplyIdentity) -> ReplyHead:
    created = datetime.fromtimestamp(identity.created, UTC)
    return ReplyHead(identity.id, identity.model, created.strftime("%Y-%m-%dT%H:%M:%SZ"))


def _encoder(
    body: Json, identity: ReplyIdentity, presentation: Presentation, *, form: StreamForm = "events"
) -> GeminiEncoder:
    return GeminiEncoder(
        _head(identity),
        form=form,
        thoughts=shows_thoughts(body),
        logprobs=wants_logprobs(body),
        value_form=find_value_form(body),
        build_error=build_stream_error,
        seal=presentation.item_seal,
    )


def _collector(body: Json, identity: ReplyIdentity, presentation: Presentation) -> ContentCollector:
    return ContentCollector(
        _head(identity), thoughts=shows_thoughts(body), value_form=find_value_form(body), seal=presentation.item_seal
    )


def _build_keepalive() -> bytes:
    return KEEP_ALIVE


GEMINI: Final = Endpoint(
    name="gemini",
    id_prefix="resp",
    param_names=PARAM_NAMES,
    request=RequestForm(
        validate=validate,
        add_defaults=add_defaults,
        read_facts=read_facts,
        lift=lift,
        normalize=normalize,
        count_tools=count_tools,
        continues_prefill=True,
    ),
    reply=ReplyForm(
        encoder=_encoder,
        collector=_collector,
        stream=StreamFraming(build_keepalive=_build_keepalive),
        visible_items=TEXT_ITEMS | {"image_generation_call"},
        joins_texts=True,
        carries_seals=True,
    ),
)
"""The endpoint of whole replies, and of streams of events. Its requests are never relayed."""

GEMINI_ARRAY: Final = replace(
    GEMINI,
    reply=replace(
        GEMINI.reply,
        encoder=partial(_encoder, form="array"),
        stream=StreamFraming(b"application/json", _build_keepalive),
    ),
)
"""The endpoint of streams that are one JSON array, for clients that do not request events."""

GEMINI_COUNTING: Final = replace(GEMINI, request=replace(GEMINI.request, validate=validate_counted))
"""The endpoint for requests that only count the tokens of their input."""
