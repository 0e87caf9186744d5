"""Reads token counts as Gemini reports them. https://ai.google.dev/api/generate-content#UsageMetadata"""

from translation.decoding.usage import clamp_part, read_count
from translation.representation.events import Usage
from translation.representation.json_types import Json


def read_usage(reported: Json, before: Usage | None = None) -> Usage:
    """Returns the counts of a `usageMetadata` object. `before` is what the same stream reported earlier.

    Gemini counts thoughts apart from the answer, and the input of tools apart from the prompt. The returned `output`
    and `input` include them. Each chunk reports the counts so far: a missing or smaller count keeps its earlier value.
    `raw` is Gemini's object, unchanged.
    """
    answer, thoughts = read_count(reported.get("candidatesTokenCount")), read_count(reported.get("thoughtsTokenCount"))
    prompt, tools = read_count(reported.get("promptTokenCount")), read_count(reported.get("toolUsePromptTokenCount"))
    earlier = before or Usage()
    usage = Usage(
        input=_latest(_sum(prompt, tools), earlier.input),
        output=_latest(_sum(answer, thoughts), earlier.output),
        cache_read=_latest(read_count(reported.get("cachedContentTokenCount")), earlier.cache_read),
        reasoning=_latest(thoughts, earlier.reasoning),
        raw=reported,
    )
    usage.cache_read = clamp_part(usage.cache_read, usage.input)
    usage.reasoning = clamp_part(usage.reasoning, usage.output)
    return usage


def _sum(first: int | None, second: int | None) -> int | None:
    return None if first is None and second is None else (first or 0) + (second or 0)


def _latest(count: int | None, before: int | None) -> int | None:
    return before if count is None else max(count, before or 0)
