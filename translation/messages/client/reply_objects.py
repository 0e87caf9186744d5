"""Builds the parts that streamed and whole messages share: content blocks and their deltas, usage, the stop reason."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, Literal, TypeAlias

import orjson

from translation.messages.client.mcp_servers import build_mcp_result, build_mcp_use
from translation.messages.client.messages_history import CALL_CARRIER_PREFIX, SIGNATURE_CARRIER_PREFIX
from translation.messages.client.searches import build_search_result, build_search_use, has_pages
from translation.representation.events import (
    FINISH_MESSAGE,
    STOP_DETAILS_FACT,
    STOP_SEQUENCE_FACT,
    Finished,
    FinishReason,
    Usage,
)
from translation.representation.item_seal import ItemSeal, seal_item
from translation.representation.items import read_span, text_of
from translation.representation.json_types import Item, Json, mapping_or_empty
from translation.tools.arguments import parse_past_arguments
from translation.tools.searches import is_paused

ThinkingView: TypeAlias = Literal["text", "omitted", "none"]
"""The client's view of the model's thinking. `omitted`: only the sealed data that it can send back. `none`: nothing but
the data of calls."""

BLANK_LINE: Final = "\n\n"

_STOP_REASONS: Final[Mapping[FinishReason, str]] = {
    "stop": "end_turn",
    "other": "end_turn",
    "tool_calls": "tool_use",
    "length": "max_tokens",
    "content_filter": "refusal",
}

_OWN_STOP_REASONS: Final = frozenset({"pause_turn", "model_context_window_exceeded"})
"""Reasons of an upstream of the same API that no Finished event can express."""

_MAX_ARGS_BYTES: Final = 2**31
"""In messages and in their streams, arguments are an object, whatever their length."""

REQUIRED_COUNTS: Final = ("input_tokens", "output_tokens")
"""The counts that the usage of every message has in this API."""

_SERVICE_TIERS: Final = {"default": "standard", "priority": "priority"}


def choose_thinking_view(body: Json) -> ThinkingView:
    """Returns what the client of a request gets of the model's thinking.

    A client that does not ask for thinking expects the answer in the first block, so it gets none. What a later turn
    needs of a call it gets all the same.
    """
    thinking = body.get("thinking") or {}
    if thinking.get("type") in (None, "disabled"):
        return "none"
    return "omitted" if thinking.get("display") == "omitted" else "text"


def build_head(message_id: str, model: str, usage: Json) -> Json:
    """Returns a message without content, as a stream begins with it."""
    return {
        "id": message_id,
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": usage,
    }


def build_message_usage(counts: Usage | None, facts: Mapping[str, Any]) -> Json:
    """Returns the usage object. The API requires numbers, so a count that is not known is 0.

    Its `input_tokens` exclude tokens read from a cache or written to it.
    """
    counts = counts or Usage()
    read, written = counts.cache_read or 0, counts.cache_write or 0
    usage: Json = {
        "input_tokens": max((counts.input or 0) - read - written, 0),
        "cache_creation_input_tokens": written,
        "cache_read_input_tokens": read,
        "output_tokens": counts.output or 0,
    }
    if counts.reasoning is not None:
        usage["output_tokens_details"] = {"thinking_tokens": counts.reasoning}
    if (tier := _SERVICE_TIERS.get(facts.get("service_tier") or "")) is not None:
        usage["service_tier"] = tier
    return usage


def complete_usage(reported: Any, known: Usage | None, required: Sequence[str] = REQUIRED_COUNTS) -> Json:
    """Returns the usage object that an upstream of the same API `reported`, with the `required` counts that it lacks.

    Official clients fail at a usage without numbers. The counts are those that are `known` so far, else 0. Without an
    object they are all of them. Returns `reported` itself if nothing is missing.
    """
    if not isinstance(reported, dict):
        return build_message_usage(known, {})
    missing = [key for key in required if reported.get(key) is None]
    if not missing:
        return reported
    counts = build_message_usage(known, {})
    return {**reported, **{key: counts[key] for key in missing}}


def build_stop(finished: Finished, *, called: bool, refused: bool, facts: Mapping[str, Any]) -> Json:
    """Returns `stop_reason` and `stop_sequence`. `called`: the client has calls to answer. `refused`: the model said
    that it refuses."""
    sequence = facts.get(STOP_SEQUENCE_FACT)
    reason = _STOP_REASONS[finished.reason]
    if finished.raw_reason in _OWN_STOP_REASONS:
        reason = finished.raw_reason
    elif reason in ("end_turn", "tool_use"):
        reason = "tool_use" if called else "stop_sequence" if sequence else "refusal" if refused else "end_turn"
    stop = {"stop_reason": reason, "stop_sequence": sequence if reason == "stop_sequence" else None}
    remarks = finished.remarks
    if reason == "refusal" and FINISH_MESSAGE in remarks:
        explanation = remarks.pop(FINISH_MESSAGE)
        details = facts.get(STOP_DETAILS_FACT) or {"category": None, "explanation": explanation}
        stop["stop_details"] = {"type": "refusal", **details}
    return {**stop, **remarks}


def build_blocks(item: Item, view: ThinkingView, seal: ItemSeal | None) -> Iterator[Json]:
    """Yields the content blocks of a whole item. An item that the API cannot represent has none."""
    match item["type"]:
        case "message":
            yield from _build_text_blocks(item)
        case "reasoning":
            yield from build_thinking_blocks(item, view, seal)
        case "function_call":
            yield {
                "type": "tool_use",
                "id": item["call_id"],
                "name": item["name"],
                "input": parse_past_arguments(item.get("arguments") or "", "", [], max_bytes=_MAX_ARGS_BYTES),
            }
            yield from build_call_carrier(item, seal)
        case "mcp_call":
            yield build_mcp_use(item, item.get("arguments") or "")
            yield build_mcp_result(item)
        case "web_search_call":
            yield build_search_use(item)
            yield from build_search_outcome(item, seal)


def _build_text_blocks(item: Item) -> Iterator[Json]:
    for part in item.get("content") or ():
        text = text_of(item["type"], part)
        if text.strip():  # the API refuses other blocks when a client sends them back
            citations = [citation for entry in part.get("annotations") or () if (citation := cite_url(entry, text))]
            yield {"type": "text", "text": text, **({"citations": citations} if citations else {})}


def cite_url(annotation: Any, text: str) -> Json | None:
    """Returns the citation for an annotation of a text; None if it does not cite a URL.

    Citations of documents need the document's place in the request, which annotations do not have.
    """
    match annotation:
        case {"type": "url_citation", "url": str(url)}:
            start, end = read_span(annotation)
            return {
                "type": "web_search_result_location",
                "url": url,
                "title": annotation.get("title") or url,  # the AI SDK requires a text
                "cited_text": text[start:end],
                "encrypted_index": "",
            }
    return None


def build_thinking_blocks(item: Item, view: ThinkingView, seal: ItemSeal | None) -> Iterator[Json]:
    """Yields the blocks of a whole reasoning item."""
    if view == "none":
        yield from _build_signature_carrier(item, seal)
        return
    parts = [*(item.get("summary") or ()), *(item.get("content") or ())]
    text = BLANK_LINE.join(filter(None, (text_of("reasoning", part) for part in parts)))
    signature = seal_item(item, seal)
    if view == "omitted" and (text or signature):
        yield {"type": "thinking", "thinking": "", "signature": signature}
    elif text:
        yield {"type": "thinking", "thinking": text, "signature": signature}
    elif signature:
        yield {"type": "redacted_thinking", "data": signature}


def _build_signature_carrier(item: Item, seal: ItemSeal | None) -> Iterator[Json]:
    """Yields a block with the data of calls in a reasoning item, which their upstream needs back, if there is any.

    Gemini refuses a call without its signature, whether or not the client sees the thinking beside it. The client was
    not given the thinking, so that another model lacks nothing of it: `is_signature_only` holds for what is sealed.
    https://ai.google.dev/gemini-api/docs/thought-signatures
    """
    details = item.get("details")
    listed = details if isinstance(details, list) else ()
    data = [{**detail, "thought": False} for detail in listed if "call_id" in mapping_or_empty(detail)]
    if data and (sealed := seal_item({"id": item["id"], "type": "reasoning", "summary": [], "details": data}, seal)):
        yield {"type": "redacted_thinking", "data": SIGNATURE_CARRIER_PREFIX + sealed}


def build_search_outcome(item: Item, seal: ItemSeal | None) -> Iterator[Json]:
    """Yields the result block of a search that has ended; none if the API paused before it ran.

    If the data that the upstream needs back fits into no page, another block carries it.
    """
    if is_paused(item):
        yield from build_call_carrier(item, seal)
        return
    result = build_search_result(item, seal_item(item, seal))
    yield result
    if not has_pages(result["content"]):
        yield from build_call_carrier(item, seal)


def build_call_carrier(item: Item, seal: ItemSeal | None) -> Iterator[Json]:
    """Yields a block with the data of a call that the upstream needs back, if there is any. It follows the call."""
    if data := seal_item(item, seal):
        yield {"type": "redacted_thinking", "data": CALL_CARRIER_PREFIX + data}


def split_block(block: Json) -> tuple[Json, list[Json]]:
    """Returns a whole block as it starts in a stream, and the deltas that complete it.

    Clients read texts and inputs from the deltas, so that no block starts with one. Other blocks start whole. `block`
    may be of an upstream: thinking may lack its signature, and the input of a call may be a text that was cut off.
    Raises KeyError or TypeError for a block that is malformed.
    """
    match block["type"]:
        case "text":
            citations = [{"type": "citations_delta", "citation": each} for each in block.get("citations") or ()]
            start = {key: value for key, value in block.items() if key != "citations" or not value}
            return {**start, "text": ""}, [{"type": "text_delta", "text": _read_text(block, "text")}, *citations]
        case "thinking":
            texts = {key: text for key in ("thinking", "signature") if (text := _read_text(block, key))}
            deltas = [{"type": f"{key}_delta", key: text} for key, text in texts.items()]
            return {**block, "thinking": "", "signature": ""}, deltas
        case _ if "input" in block:
            given = block["input"]
            text = given if isinstance(given, str) else orjson.dumps(given).decode()
            return {**block, "input": {}}, [{"type": "input_json_delta", "partial_json": text}]
        case _:
            return block, []


def _read_text(block: Json, key: str) -> str:
    """Returns a text of a block; an empty one if the block lacks it. Raises TypeError for another value."""
    text = block.get(key)
    if not isinstance(text, str | None):
        raise TypeError("a text is not a string")
    return text or ""
