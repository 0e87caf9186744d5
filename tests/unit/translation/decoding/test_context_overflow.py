"""Recognizes the many messages about a prompt that is too long, and no similar messages."""

import pytest

from translation.decoding.context_overflow import build_limit_error, is_context_overflow

OVERFLOWS = {
    "OpenAI": "This model's maximum context length is 128000 tokens. However, your messages resulted in 130001 tokens.",
    "OpenAI, Responses": "Your input exceeds the context window of this model. Please adjust your input and try again.",
    "vLLM": "The decoder prompt (length 5000) is longer than the maximum model length of 4096.",
    "vLLM, older": "This model's maximum context length is 4096 tokens. However, you requested 5000 tokens.",
    "llama.cpp": "the request exceeds the available context size. try increasing the context size",
    "llama.cpp, newer": "request (5000 tokens) exceeds the available context size (4096 tokens), try increasing it",
    "Anthropic": "prompt is too long: 210000 tokens > 200000 maximum",
    "Gemini": "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
    "Mistral": "Prompt contains 40000 tokens and is too large for model with 32768 maximum context length",
    "OpenRouter": "This endpoint's maximum context length is 32768 tokens. However, you requested about 40000 tokens",
    "Bedrock": "Input is too long for requested model.",
}

OTHERS = {
    "a rate": "Rate limit reached for gpt-4o: Limit 30000 tokens per min, requested 31000.",
    "the answer's length": "max_tokens must be at least 1",
    "a missing model": "The model `long-context` does not exist",
    "nothing": "",
}


@pytest.mark.parametrize("message", OVERFLOWS.values(), ids=OVERFLOWS)
def test_an_overflow_is_recognised_by_its_text(message: str) -> None:
    assert is_context_overflow(message)


@pytest.mark.parametrize("code", ["context_length_exceeded", "exceed_context_size_error", "string_above_max_length"])
def test_an_overflow_is_recognised_by_its_code(code: str) -> None:
    assert is_context_overflow("no", code)


@pytest.mark.parametrize("message", OTHERS.values(), ids=OTHERS)
def test_similar_messages_are_no_overflow(message: str) -> None:
    assert not is_context_overflow(message, "some_code")


def test_a_limit_over_the_window_is_refused_with_both_numbers() -> None:
    error = build_limit_error(5000, 4096, "max_tokens")
    assert error.param == "max_tokens"
    assert str(error).startswith("'max_tokens' is 5000, and the model's context is 4096 tokens")
