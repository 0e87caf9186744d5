"""Token counts as Gemini reports them. https://ai.google.dev/api/generate-content#UsageMetadata"""

from translation.decoding.usage_counts import clamp_part, read_count
from translation.representation.events import Usage
from translation.representation.json_types import Json


def read_usage(reported: Json, before: Usage | None = None) -> Usage:
    """Make sense of a `usageMetadata`, given what the same stream reported before it. `raw` is the object as it came.

    Thoughts are counted beside the answer, and what tools read beside the prompt: both are inside ours. Chunks report
    the counts so far, so a count that is left out, or is smaller, is the one before.
    """
    written, thought = read_count(reported.get("candidatesTokenCount")), read_count(reported.get("thoughtsTokenCount"))
    prompt, tools = read_count(reported.get("promptTokenCount")), read_count(reported.get("toolUsePromptTokenCount"))
    earlier = before or Usage()
    usage = Usage(
        input=_latest(_sum(prompt, tools), earlier.input),
        output=_latest(_sum(written, thought), earlier.output),
        cache_read=_latest(read_count(reported.get("cachedContentTokenCount")), earlier.cache_read),
        reasoning=_latest(thought, earlier.reasoning),
        raw=reported,
    )
    usage.cache_read = clamp_part(usage.cache_read, usage.input)
    usage.reasoning = clamp_part(usage.reasoning, usage.output)
    return usage


def _sum(one: int | None, other: int | None) -> int | None:
    return None if one is None and other is None else (one or 0) + (other or 0)


def _latest(count: int | None, before: int | None) -> int | None:
    return before if count is None else max(count, before or 0)
