"""Recognizes errors that upstreams report in forms or words of their own, and builds those about long contexts."""

import re
from collections.abc import Collection
from typing import Final

from translation.errors import Unrepresentable
from translation.representation.json_types import Json

CONTEXT_OVERFLOW: Final = "context_length_exceeded"
"""The code of a Failed event that means: the prompt does not fit the model's context."""

_MESSAGE_KEYS: Final = ("message", "msg", "detail")
"""Keys under which they have the text."""

_OVERFLOW_CODES = frozenset({"context_length_exceeded", "exceed_context_size_error", "string_above_max_length"})

_OVERFLOW_PATTERN = re.compile(
    r"maximum context length"
    r"|context[ _](?:length|window|size|limit)[^.]{0,40}(?:exceed|too|larg|small|overflow)"
    r"|(?:exceed|larger than|longer than|over)[^.]{0,60}(?:context|max(?:imum)?[ _](?:model[ _])?(?:length|tokens|len))"
    r"|longer than the maximum model length"
    r"|prompt is too long"
    r"|input (?:is )?too long"
    r"|too many (?:input |prompt )?tokens"
    r"|(?:input|prompt)[^.]{0,40}exceed[^.]{0,40}tokens?",
    re.IGNORECASE,
)
"""Matches error messages of OpenAI, vLLM, llama.cpp, Anthropic, Gemini, Mistral, Ollama and OpenRouter."""


def build_limit_error(max_output_tokens: int, window: int, param: str = "max_output_tokens") -> Unrepresentable:
    """Returns the error for a limit of the answer that is longer than the model's context.

    Some engines cut such answers silently.
    """
    return Unrepresentable(
        f"'{param}' is {max_output_tokens}, and the model's context is {window} tokens for input and answer: ask for "
        "fewer",
        param=param,
    )


def is_context_overflow(message: str, code: str | None = None) -> bool:
    """Whether an upstream's error message or code means that the prompt is longer than the context."""
    return code in _OVERFLOW_CODES or _OVERFLOW_PATTERN.search(message) is not None


def find_bare_error(chunk: Json, reply_keys: Collection[str]) -> str | None:
    """Returns the text of an object that is an error, and no part of a reply: it has none of `reply_keys`.

    `{"detail": "…"}` and `{"code": …, "message": "…"}` are such objects. Returns None for any other object.
    """
    if any(key in chunk for key in reply_keys):
        return None
    if text := next((text for key in _MESSAGE_KEYS if isinstance(text := chunk.get(key), str) and text), None):
        return text
    return str(chunk["detail"]) if chunk.get("detail") else None
