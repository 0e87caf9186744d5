"""Errors of Gemini's API, and replies that end with a failure."""

from typing import Any

import pytest

from translation.gemini.upstream.gemini_failures import failure_from_block, failure_from_finish, failure_in
from translation.representation.events import Failed

KEY = {"status": "INVALID_ARGUMENT", "message": "API key not valid", "details": [7, {"reason": "API_KEY_INVALID"}]}
OVERFLOW = "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576)."

FAILURES: dict[str, tuple[Any, str]] = {
    "an overload": ({"status": "UNAVAILABLE", "message": "m"}, "upstream_overloaded"),
    "a quota": ({"status": "RESOURCE_EXHAUSTED", "message": "m"}, "rate_limited"),
    "too late": ({"status": "DEADLINE_EXCEEDED", "message": "m"}, "upstream_timeout"),
    "a key": (KEY, "upstream_unauthorized"),
    "a permission": ({"status": "PERMISSION_DENIED", "message": "key AIza…"}, "upstream_unauthorized"),
    "a prompt too long": ({"status": "INVALID_ARGUMENT", "message": OVERFLOW}, "context_length_exceeded"),
    "anything else": ({"status": "INTERNAL", "message": "m", "details": 7}, "upstream_error"),
    "a status that is none": ({"status": ["x"], "message": 7}, "upstream_error"),
    "words": ("boom", "upstream_error"),
}


@pytest.mark.parametrize(("error", "code"), FAILURES.values(), ids=FAILURES)
def test_each_failure_has_its_error_class(error: Any, code: str) -> None:
    failed = failure_in(error)
    assert failed.code == code
    assert failed.message
    assert "key" not in failed.message


def test_messages_about_the_end_are_in_the_failure() -> None:
    assert failure_from_finish("OTHER", {}) == Failed("upstream_error", "the model stopped with OTHER")
    assert failure_from_finish("OTHER", {"finishMessage": "m"}).message == "the model stopped with OTHER: m"
    assert failure_from_block({"blockReason": "SAFETY"}).message == "the upstream blocked the prompt (SAFETY)"
    assert failure_from_block({"blockReason": "X", "blockReasonMessage": "m"}).message.endswith("(X): m")
