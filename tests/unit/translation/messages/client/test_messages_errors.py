"""Encodes failures in the form of the Messages API."""

import pytest

from translation.messages.client.messages_errors import build_error_body, describe_overflow

OVERFLOWS = {
    "This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens.": (
        "prompt is too long: 9000 tokens > 8192 maximum"
    ),
    "This model's maximum context length is 2048 tokens. However, you requested 3000 tokens (1000 in the messages, "
    "2000 in the completion).": (
        "input length and `max_tokens` exceed context limit: 1000 + 2000 > 2048, decrease input length or `max_tokens` "
        "and try again"
    ),
    "This model's maximum context length is 2048 tokens. However, you requested 5000 tokens (3000 in the messages, "
    "2000 in the completion).": "prompt is too long: 3000 tokens > 2048 maximum",
    "The decoder prompt (length 3000) is longer than the maximum model length of 2048.": (
        "prompt is too long: 3000 tokens > 2048 maximum"
    ),
    "request (3000 tokens) exceeds the available context size (2048 tokens), try increasing it": (
        "prompt is too long: 3000 tokens > 2048 maximum"
    ),
    "prompt is too long: 219898 tokens > 200000 maximum": "prompt is too long: 219898 tokens > 200000 maximum",
    "The input token count (1,200,000) exceeds the maximum number of tokens allowed (1,048,575).": (
        "prompt is too long: 1200000 tokens > 1048575 maximum"
    ),
    "Prompt contains 36000 tokens, too large for model with 32768 maximum context length": (
        "prompt is too long: 36000 tokens > 32768 maximum"
    ),
    "model claude-3-5-sonnet-20241022: the maximum context length is 200000 tokens, prompt too long": (
        "prompt is too long: model claude-3-5-sonnet-20241022: the maximum context length is 200000 tokens, prompt too "
        "long"
    ),
    "This model's maximum context length is 8192 tokens (request id 1764000000)": (
        "prompt is too long: This model's maximum context length is 8192 tokens (request id 1764000000)"
    ),
    "context length is 4096 tokens; port 18080: prompt has 5000 tokens": (
        "prompt is too long: 5000 tokens > 4096 maximum"
    ),
    "context length is 4096, model prompt-20241022 is full": (
        "prompt is too long: context length is 4096, model prompt-20241022 is full"
    ),
    "You passed 4097 input tokens and requested 9000 output tokens. However, the model's context length is only 4096 "
    "tokens.": "prompt is too long: 4097 tokens > 4096 maximum",
    "the maximum of gpt-4-32k was passed: 40000 tokens": (
        "prompt is too long: the maximum of gpt-4-32k was passed: 40000 tokens"
    ),
    "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000, decrease input length": (
        "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000, decrease input length"
    ),
    "the context is full": "prompt is too long: the context is full",
    "Prompt is too long": "Prompt is too long",
    "the context window is 4096 tokens": "prompt is too long: the context window is 4096 tokens",
}


@pytest.mark.parametrize(("message", "expected"), OVERFLOWS.items())
def test_a_prompt_that_is_too_long_has_the_message_clients_look_for(message: str, expected: str) -> None:
    assert describe_overflow(message) == expected


@pytest.mark.parametrize(
    ("code", "status", "kind"),
    [
        ("context_length_exceeded", 400, "invalid_request_error"),
        ("insufficient_quota", 429, "billing_error"),
        ("rate_limit_exceeded", 429, "rate_limit_error"),
        ("upstream_overloaded", 529, "overloaded_error"),
        ("upstream_timeout", 504, "timeout_error"),
        ("model_not_found", 404, "not_found_error"),
        ("invalid_api_key", 401, "authentication_error"),
        ("request_too_large", 413, "request_too_large"),
        ("invalid_value", 400, "invalid_request_error"),
        (None, 409, "invalid_request_error"),
        ("upstream_error", 502, "api_error"),
        ("store_unavailable", 529, "overloaded_error"),
    ],
)
def test_failures_have_the_types_of_the_api(code: str | None, status: int, kind: str) -> None:
    body = build_error_body("no", code=code, status=status)
    assert body["error"]["type"] == kind
    assert "request_id" not in body


def test_an_error_names_its_request() -> None:
    assert build_error_body("no", code=None, status=400, request_id="req_1") == {
        "type": "error",
        "error": {"type": "invalid_request_error", "message": "no"},
        "request_id": "req_1",
    }


def test_numbers_that_no_context_has_are_not_read() -> None:
    message = f"context length is {'9' * 5000} (1 in the messages, 1 in the completion), limit {'9' * 5000} tokens"
    assert describe_overflow(message) == f"prompt is too long: {message}"
