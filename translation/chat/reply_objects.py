"""What chat replies share, streamed or whole: nouns, finish reasons, usage, citations, errors."""

from collections.abc import Iterator, Mapping
from typing import Any, Literal, TypeAlias

from translation.parsers.text_calls import TOOL_WARNINGS
from translation.representation.events import Failed, Finished, FinishReason, Usage
from translation.representation.json_types import Item, Json
from translation.representation.text_fields import TEXT_FIELDS

ReplyField: TypeAlias = Literal["content", "refusal", "reasoning", "arguments", "input"]

REPLY_FIELDS: dict[tuple[str, str | None], ReplyField] = {
    ("message", "output_text"): "content",
    ("message", "refusal"): "refusal",
    ("reasoning", "reasoning_text"): "reasoning",
    ("reasoning", "summary_text"): "reasoning",
    ("function_call", None): "arguments",
    ("custom_tool_call", None): "input",
}
"""(item type, part type or None for the item itself) -> what chat calls its text. Chat has no word for any other."""

SERVICE_TIERS = frozenset({"auto", "default", "flex", "scale", "priority", "fast"})
"""The closed set of the official SDK's types; the Responses API has more."""

FINISH_REASONS: dict[str, FinishReason] = {
    "stop": "stop",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "length": "length",
    "model_length": "length",  # Mistral
    "content_filter": "content_filter",
}
"""Chat's word -> ours; a word that is not listed is `other`."""

_CHAT_FINISH_REASONS = {
    "stop": "stop",
    "tool_calls": "stop",
    "other": "stop",
    "length": "length",
    "content_filter": "content_filter",
}
"""`tool_calls` only where calls were made (see `ending`), and never for a reply that was cut."""

_UNCHANGED_REASONS = ("stop", "length", "content_filter")
"""Words of an upstream that are chat's own, where no calls were made."""

_ERROR_TYPES = {
    "context_length_exceeded": ("invalid_request_error", "context_length_exceeded"),
    "insufficient_quota": ("insufficient_quota", "insufficient_quota"),
    "invalid_prompt": ("invalid_request_error", "invalid_prompt"),
    "rate_limit_exceeded": ("rate_limit_error", "rate_limit_exceeded"),
    "rate_limited": ("rate_limit_error", "rate_limit_exceeded"),
    "tool_call_parse_error": ("tool_call_parse_error", "tool_call_parse_error"),
}
"""Code of a Failed event -> type and code as OpenAI writes them; any other is a `server_error` under its own code."""


PARAGRAPH_GAP = "\n\n"


def is_own_paragraph(key: tuple[int, int | None], part_type: str | None) -> bool:
    """Whether a reasoning part is set apart, by GAP, from reasoning before it.

    Summaries are paragraphs. Raw reasoning that an upstream interleaves with text is one text, cut anywhere.
    """
    return bool(key[1]) or part_type == "summary_text"


def iter_texts(item: Item) -> Iterator[tuple[int | None, str | None, str]]:
    """(part index, part type, text) of all that a whole item says in chat."""
    own = REPLY_FIELDS.get((item["type"], None))
    if own is not None and item.get(own):
        yield None, None, item[own]
    parts = [*(item.get("summary") or ()), *(item.get("content") or ())]
    for index, part in enumerate(parts):
        channel = TEXT_FIELDS.get((item["type"], part.get("type")))
        if channel is not None and part.get(channel.key):
            yield index, part["type"], part[channel.key]


def build_call(item: Item, text: str) -> Json:
    """A call as chat says it, with this much of its arguments or input."""
    kind, key = ("custom", "input") if item["type"] == "custom_tool_call" else ("function", "arguments")
    return {"id": item["call_id"], "type": kind, kind: {"name": item["name"], key: text}}


def flatten_text(content: Any) -> str:
    """The text of content that should be a string and is a list of parts or a number."""
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
    """A citation as chat says it, or None: chat can cite nothing but URLs."""
    match annotation:
        case {"type": "url_citation", **cited}:
            return {"type": "url_citation", "url_citation": cited}
        case _:
            return None


def build_citations(item: Item) -> Iterator[Json]:
    """All that a whole item cites, as far as chat can say it."""
    for part in item.get("content") or ():
        for annotation in part.get("annotations") or ():
            if (cited := build_citation(annotation)) is not None:
                yield cited


def build_finish(finished: Finished, *, called: bool, legacy: bool) -> Json:
    """A choice's `finish_reason`; `legacy` for clients that sent `functions`.

    A reason chat has no word for is said beside it in the upstream's own, under OpenRouter's name for that.
    """
    reason = _CHAT_FINISH_REASONS[finished.reason]
    if reason == "stop" and called:
        reason = "function_call" if legacy else "tool_calls"
    if finished.reason == "other" and finished.raw_reason:
        return {"finish_reason": reason, "native_finish_reason": finished.raw_reason}
    return {"finish_reason": reason}


def normalize_finish_reason(choice: Json, *, called: bool, legacy: bool) -> bool:
    """Give an upstream's own choice one of chat's finish reasons; whether that changed it.

    Upstreams say `stop` after calls, words of their own, or nothing in a whole answer.
    """
    said = choice.get("finish_reason")
    if said in _UNCHANGED_REASONS and not called:
        return False
    word = str(said or "stop")
    mended = build_finish(Finished(FINISH_REASONS.get(word, "other"), word), called=called, legacy=legacy)
    if mended["finish_reason"] == said:
        return False
    choice |= {**mended, **{key: choice[key] for key in ("native_finish_reason",) if choice.get(key)}}
    return True


def build_usage(counts: Usage | None) -> Json | None:
    """Chat's usage object, or None when the upstream did not report both directions: a count is never made up."""
    if counts is None or counts.input is None or counts.output is None:
        return None
    spelled: Json = {
        "prompt_tokens": counts.input,
        "completion_tokens": counts.output,
        "total_tokens": counts.input + counts.output,
    }
    prompt = {"cached_tokens": counts.cache_read, "cache_write_tokens": counts.cache_write}
    if prompt := {key: count for key, count in prompt.items() if count is not None}:
        spelled["prompt_tokens_details"] = prompt
    if counts.reasoning is not None:
        spelled["completion_tokens_details"] = {"reasoning_tokens": counts.reasoning}
    return spelled


def build_facts(facts: Mapping[str, Any]) -> Json:
    """What a reply says about who made it: `service_tier` and `system_fingerprint`, where known and sayable."""
    spelled: Json = {}
    if facts.get("service_tier") in SERVICE_TIERS:
        spelled["service_tier"] = facts["service_tier"]
    if isinstance(facts.get("system_fingerprint"), str):
        spelled["system_fingerprint"] = facts["system_fingerprint"]
    return spelled


def build_warnings(facts: Mapping[str, Any]) -> Json:
    """What is wrong with the calls of a reply, where something is: a key that chat itself does not have."""
    return {TOOL_WARNINGS: facts[TOOL_WARNINGS]} if facts.get(TOOL_WARNINGS) else {}


def build_error(failed: Failed) -> Json:
    """The `error` object of a stream that ended badly."""
    kind, code = _ERROR_TYPES.get(failed.code, ("server_error", failed.code))
    return {"message": failed.message, "type": kind, "param": failed.param, "code": code}
