"""Builds what streamed and whole chat replies share: calls, finish reasons, usage, citations, images, errors."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal, TypeAlias

from translation.parsers.text_calls import TOOL_WARNINGS
from translation.representation.events import NATIVE_REASON, Failed, Finished, FinishReason, Usage
from translation.representation.items import TEXT_FIELDS, NewId
from translation.representation.json_types import Item, Json

ReplyField: TypeAlias = Literal["content", "refusal", "reasoning", "arguments", "input"]

REPLY_FIELDS: dict[tuple[str, str | None], ReplyField] = {
    ("message", "output_text"): "content",
    ("message", "refusal"): "refusal",
    ("reasoning", "reasoning_text"): "reasoning",
    ("reasoning", "summary_text"): "reasoning",
    ("function_call", None): "arguments",
    ("custom_tool_call", None): "input",
}
"""(item type, part type or None for the item itself) -> chat's field for its text. Chat has no field for any other."""

SERVICE_TIERS = frozenset({"auto", "default", "flex", "scale", "priority", "fast"})
"""The values that the official SDK's chat types accept. The Responses API has more."""

_FILTER_REASONS: Final = (
    *("BLOCKLIST", "PROHIBITED_CONTENT", "RECITATION", "SAFETY", "SPII"),
    *("IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION", "IMAGE_SAFETY"),
)
"""Gemini's own reasons, which its chat API and gateways before it pass on, some in lower case.
https://ai.google.dev/api/generate-content#FinishReason"""

FINISH_REASONS: dict[str, FinishReason] = {
    "stop": "stop",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "length": "length",
    "model_length": "length",  # Mistral
    "content_filter": "content_filter",
    "max_tokens": "length",  # gateways before Anthropic's models, as the next
    "refusal": "content_filter",
    "model_context_window_exceeded": "length",  # Z.ai, as the next
    "sensitive": "content_filter",
    "STOP": "stop",  # Gemini, as the next
    "MAX_TOKENS": "length",
    **dict.fromkeys(_FILTER_REASONS, "content_filter"),
    **dict.fromkeys(map(str.lower, _FILTER_REASONS), "content_filter"),
}
"""A chat upstream's `finish_reason` -> the reason of a Finished event. A value that is not listed is `other`."""

_CHAT_FINISH_REASONS = {
    "stop": "stop",
    "tool_calls": "stop",
    "other": "stop",
    "length": "length",
    "content_filter": "content_filter",
}
"""Reason of a Finished event -> chat's. `build_finish` makes it `tool_calls` if there are calls and nothing was cut."""


def is_filter_reason(finish_reason: Any) -> bool:
    """Returns whether an upstream's finish reason says that a content filter ended the reply."""
    return FINISH_REASONS.get(str(finish_reason)) == "content_filter"


def read_finish_reason(finish_reason: Any, *, called: bool) -> FinishReason:
    """Returns the reason of a Finished event for a choice's. A choice that `called` a tool may end with `stop`."""
    reason = FINISH_REASONS.get(str(finish_reason), "other")
    return "tool_calls" if called and reason == "stop" else reason


CUT_REASONS = frozenset(reason for reason, end in FINISH_REASONS.items() if end in ("length", "content_filter"))
"""An upstream's finish reasons after which the last tool call may be incomplete."""

_UNCHANGED_REASONS = ("stop", "length", "content_filter")
"""An upstream's finish reasons that need no change in a reply without calls."""

_ERROR_TYPES = {
    "context_length_exceeded": ("invalid_request_error", "context_length_exceeded"),
    "insufficient_quota": ("insufficient_quota", "insufficient_quota"),
    "invalid_prompt": ("invalid_request_error", "invalid_prompt"),
    "rate_limit_exceeded": ("rate_limit_error", "rate_limit_exceeded"),
    "rate_limited": ("rate_limit_error", "rate_limit_exceeded"),
    "tool_call_parse_error": ("tool_call_parse_error", "tool_call_parse_error"),
}
"""Code of a Failed event -> OpenAI's type and code. Any other code is a `server_error` with that code."""


PARAGRAPH_GAP = "\n\n"

MCP_CALLS = "mcp_calls"
"""The fact with the calls of hosted tools, and their key in `extensions`: items as the Responses API has them."""

IMAGE_ITEM: Final = "image_generation_call"

_DATA_URL: Final = re.compile(r"data:image/([A-Za-z0-9.+-]+);base64,(.+)", re.DOTALL)


def is_own_paragraph(key: tuple[int, int | None], part_type: str | None) -> bool:
    """Whether `PARAGRAPH_GAP` separates a reasoning part from the reasoning before it. `key` is (item, part) index.

    Summary parts are paragraphs. Raw reasoning that an upstream interleaves with text is one text, cut anywhere.
    """
    return bool(key[1]) or part_type == "summary_text"


def iter_texts(item: Item) -> Iterator[tuple[int | None, str | None, str]]:
    """Yields (part index, part type, text) for each text of a whole item that chat can represent.

    Index and type are `None` for the arguments or input of a call.
    """
    call_field = REPLY_FIELDS.get((item["type"], None))
    if call_field is not None and item.get(call_field):
        yield None, None, item[call_field]
    parts = [*(item.get("summary") or ()), *(item.get("content") or ())]
    for index, part in enumerate(parts):
        text_field = TEXT_FIELDS.get((item["type"], part.get("type")))
        if text_field is not None and part.get(text_field.key):
            yield index, part["type"], part[text_field.key]


def build_call(item: Item, text: str) -> Json:
    """Returns a chat tool call for a call item. `text` is the part of its arguments or input that the object holds."""
    kind, key = ("custom", "input") if item["type"] == "custom_tool_call" else ("function", "arguments")
    return {"id": item["call_id"], "type": kind, kind: {"name": item["name"], key: text}}


def flatten_text(content: Any) -> str:
    """Returns the text of `content`, which should be a string and may also be a list of parts or a number."""
    match content:
        case str():
            return content
        case list():
            return "".join(map(flatten_text, content))
        case {"text": str(text)}:
            return text
        case int() | float():
            return str(content)
        case _:
            return ""


def build_citation(annotation: Any) -> Json | None:
    """Returns a chat annotation for a Responses one, `None` if it does not cite a URL: chat knows no other citation."""
    match annotation:
        case {"type": "url_citation", **cited}:
            return {"type": "url_citation", "url_citation": cited}
        case _:
            return None


def build_finish(finished: Finished, *, called: bool, legacy: bool) -> Json:
    """Returns a choice's `finish_reason` as an object to merge. `legacy` is for clients that sent `functions`.

    For a reason that chat does not have, `native_finish_reason`, OpenRouter's field, holds the upstream's own value.
    """
    reason = _CHAT_FINISH_REASONS[finished.reason]
    if reason == "stop" and called:
        reason = "function_call" if legacy else "tool_calls"
    return {"finish_reason": reason, **finished.remarks}


def normalize_finish_reason(choice: Json, *, called: bool, legacy: bool) -> bool:
    """Gives an upstream's choice one of chat's finish reasons, in place. Returns whether it changed.

    Upstreams send `stop` after calls, values of their own, or none in a whole reply.
    """
    reported = choice.get("finish_reason")
    if reported in _UNCHANGED_REASONS and not called:
        return False
    raw_reason = str(reported or "stop")
    finish = build_finish(Finished(FINISH_REASONS.get(raw_reason, "other"), raw_reason), called=called, legacy=legacy)
    if finish["finish_reason"] == reported:
        return False
    choice |= {**finish, **{key: choice[key] for key in (NATIVE_REASON,) if choice.get(key)}}
    return True


def build_image_item(image: Any, new_id: NewId) -> Item | None:
    """Returns the item for an entry of `images` or an image part of the content; None if it has no image data.

    https://openrouter.ai/docs/features/multimodal/image-generation
    """
    match image:
        case {"image_url": {"url": str(url)}} | {"image_url": str(url)}:
            if (data := _DATA_URL.fullmatch(url)) is not None:
                item = {"id": new_id("ig"), "type": IMAGE_ITEM, "status": "completed"}
                return {**item, "result": data[2], "output_format": data[1]}
    return None


def build_image_entry(item: Item) -> Json | None:
    """Returns the entry of `images` for an image that the upstream has made; None for any other item."""
    if item["type"] != IMAGE_ITEM or not item.get("result"):
        return None
    url = f"data:image/{item.get('output_format') or 'png'};base64,{item['result']}"
    return {"type": "image_url", "image_url": {"url": url}}


def build_usage(counts: Usage | None) -> Json | None:
    """Returns chat's usage object, `None` if the upstream did not report input and output: no count is made up."""
    if counts is None or counts.input is None or counts.output is None:
        return None
    usage: Json = {
        "prompt_tokens": counts.input,
        "completion_tokens": counts.output,
        "total_tokens": counts.input + counts.output,
    }
    prompt = {"cached_tokens": counts.cache_read, "cache_write_tokens": counts.cache_write}
    if prompt := {key: count for key, count in prompt.items() if count is not None}:
        usage["prompt_tokens_details"] = prompt
    if counts.reasoning is not None:
        usage["completion_tokens_details"] = {"reasoning_tokens": counts.reasoning}
    return usage


def build_facts(facts: Mapping[str, Any]) -> Json:
    """Returns a reply's `service_tier` and `system_fingerprint`, each if known and valid in chat."""
    fields: Json = {}
    if facts.get("service_tier") in SERVICE_TIERS:
        fields["service_tier"] = facts["service_tier"]
    if isinstance(facts.get("system_fingerprint"), str):
        fields["system_fingerprint"] = facts["system_fingerprint"]
    return fields


def build_warnings(facts: Mapping[str, Any]) -> Json:
    """Returns `tool_warnings`, the problems of a reply's calls, if there are any. Chat itself has no such key."""
    return {TOOL_WARNINGS: facts[TOOL_WARNINGS]} if facts.get(TOOL_WARNINGS) else {}


def build_error(failed: Failed) -> Json:
    """Returns OpenAI's `error` object for a turn that failed."""
    kind, code = _ERROR_TYPES.get(failed.code, ("server_error", failed.code))
    return {"message": failed.message, "type": kind, "param": failed.param, "code": code}


def flatten_annotation(annotation: Json) -> Json:
    """Returns a citation in the form of Responses. Chat nests it under its type. Responses requires every field."""
    kind = annotation.get("type")
    nested = annotation.get(kind) if isinstance(kind, str) else None
    if kind != "url_citation" or not isinstance(nested, dict):
        return annotation
    return {"type": kind, "url": "", "title": "", "start_index": 0, "end_index": 0, **nested}
