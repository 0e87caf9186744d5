"""Errors inside a good reply."""

from typing import Any

import pytest

from translation.chat.upstream.chat_failures import failure_in
from translation.representation.events import Failed

CASES: dict[str, tuple[Any, Failed]] = {
    "an object": ({"message": "boom", "type": "InternalServerError", "code": 500}, Failed("upstream_error", "boom")),
    "a string": ("boom", Failed("upstream_error", "boom")),
    "an overflow as a string": ("prompt is too long", Failed("context_length_exceeded", "prompt is too long")),
    "an object without words": (
        {"code": 500},
        Failed("upstream_error", "the upstream reported an error without saying which"),
    ),
    "a quota": ({"message": "pay", "code": "insufficient_quota"}, Failed("insufficient_quota", "pay")),
    "a rate limit by number": ({"message": "slow", "code": 429}, Failed("rate_limited", "slow")),
    "a rate limit by numeric string": ({"message": "slow", "code": "429"}, Failed("rate_limited", "slow")),
    "a rate limit by type": ({"message": "slow", "type": "rate_limit_error"}, Failed("rate_limited", "slow")),
    "a rate limit in the metadata": (
        {"message": "slow", "code": 502, "metadata": {"error_type": "rate_limit_exceeded"}},
        Failed("rate_limited", "slow"),
    ),
    "an overload": ({"message": "busy", "code": 503}, Failed("upstream_overloaded", "busy")),
    "a timeout": ({"message": "late", "code": 504}, Failed("upstream_timeout", "late")),
    "our own key refused, in words that may quote it": (
        {"message": "Incorrect API key provided: sk-12", "code": "invalid_api_key"},
        Failed("upstream_unauthorized", "the upstream refused the gateway's own credentials"),
    ),
    "our own key refused, by number": (
        {"message": "sk-12?", "code": 401},
        Failed("upstream_unauthorized", "the upstream refused the gateway's own credentials"),
    ),
    "an overflow by text": (
        {"message": "This model's maximum context length is 2048 tokens.", "code": 400},
        Failed("context_length_exceeded", "This model's maximum context length is 2048 tokens."),
    ),
    "an overflow by code": (
        {"message": "no", "code": "context_length_exceeded"},
        Failed("context_length_exceeded", "no"),
    ),
    "an overflow by type": (
        {"message": "no", "type": "exceed_context_size_error", "code": 400},
        Failed("context_length_exceeded", "no"),
    ),
}


@pytest.mark.parametrize(("error", "failed"), CASES.values(), ids=CASES)
def test_an_error_has_a_code_by_meaning(error: Any, failed: Failed) -> None:
    assert failure_in({"error": error}) == failed


def test_the_error_may_be_the_object_itself() -> None:
    assert failure_in({"object": "error", "message": "boom", "code": 400}) == Failed("upstream_error", "boom")


@pytest.mark.parametrize("error", [None, False, {}, ""], ids=repr)
def test_an_empty_error_is_no_failure(error: Any) -> None:
    assert failure_in({"error": error, "choices": []}) is None
