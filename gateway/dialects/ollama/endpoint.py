"""Ollama's chat and generate APIs as data: the functions that validate, lift, encode and collect them."""

import time
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Final

from gateway.replies.endpoints import Endpoint, Presentation, ReplyForm, ReplyIdentity, RequestForm
from gateway.replies.event_stream import StreamFraming
from translation.ollama.client.collect import OllamaCollector
from translation.ollama.client.defaults import add_defaults
from translation.ollama.client.encode import OllamaEncoder
from translation.ollama.client.lift import lift_chat, lift_generate, read_facts
from translation.ollama.client.param_names import PARAM_NAMES
from translation.ollama.client.reply_lines import LineHead
from translation.ollama.client.schema import validate_chat, validate_generate
from translation.representation.json_types import Json

LINES_TYPE: Final = b"application/x-ndjson"

_SECOND_NS: Final = 1_000_000_000


def format_time(epoch_ns: int) -> str:
    """Returns a time as in RFC 3339, with nanoseconds."""
    seconds, nanoseconds = divmod(epoch_ns, _SECOND_NS)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{nanoseconds:09d}Z"


def begin_reply(body: Json, model: str, *, is_chat: bool) -> LineHead:
    """Returns the common members of the lines of the reply to a body. The reply begins now."""
    return LineHead(
        model=model,
        created_at=format_time(time.time_ns()),
        is_chat=is_chat,
        # Without `think` a model thinks if it can, and its client gets the thinking.
        shows_thinking=body.get("think") is not False,
        clock_ns=time.perf_counter_ns,
        wants_logprobs=bool(body.get("logprobs")),
    )


def _encoder(body: Json, identity: ReplyIdentity, _presentation: Presentation, *, is_chat: bool) -> OllamaEncoder:
    return OllamaEncoder(begin_reply(body, identity.model, is_chat=is_chat))


def _collector(body: Json, identity: ReplyIdentity, _presentation: Presentation, *, is_chat: bool) -> OllamaCollector:
    return OllamaCollector(begin_reply(body, identity.model, is_chat=is_chat))


OLLAMA_CHAT: Final = Endpoint(
    name="ollama",
    id_prefix="ollama",
    param_names=PARAM_NAMES,
    request=RequestForm(
        validate=validate_chat, add_defaults=add_defaults, read_facts=read_facts, lift=lift_chat, continues_prefill=True
    ),
    reply=ReplyForm(
        encoder=partial(_encoder, is_chat=True),
        collector=partial(_collector, is_chat=True),
        stream=StreamFraming(LINES_TYPE),
    ),
)

OLLAMA_GENERATE: Final = replace(
    OLLAMA_CHAT,
    param_names=replace(PARAM_NAMES, overflow_input="prompt"),
    request=replace(OLLAMA_CHAT.request, validate=validate_generate, lift=lift_generate),
    reply=replace(
        OLLAMA_CHAT.reply, encoder=partial(_encoder, is_chat=False), collector=partial(_collector, is_chat=False)
    ),
)
