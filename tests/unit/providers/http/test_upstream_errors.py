"""providers/http/upstream_errors.py"""

import pytest

from providers.http.upstream_errors import build_retry_headers, describe_system_refusal, resolve_status
from translation.representation.json_types import Json

KEY = {"details": [{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID"}]}
ELSE = {"details": [7, {"reason": "BILLING_DISABLED"}]}


@pytest.mark.parametrize(("error", "status"), [(KEY, 401), (ELSE, 400), ({"details": "no"}, 400), ({}, 400)])
def test_a_bad_key_is_not_the_clients_mistake(error: Json, status: int) -> None:
    assert resolve_status(400, error) == status


WAITS = {"34s": "34", "33.2s": "34", "12.000s": "12", "soon": None, "-1s": None, "5": None}


@pytest.mark.parametrize(("delay", "seconds"), WAITS.items())
def test_retry_delays_are_whole_seconds(delay: str, seconds: str | None) -> None:
    told = build_retry_headers({"details": [{"reason": "x"}, {"retryDelay": delay}]})
    assert told == ({"retry-after": seconds} if seconds else {})


def test_without_a_retry_header_there_is_no_delay() -> None:
    assert build_retry_headers({}) == {}


REFUSALS = {
    "System message must be at the beginning.": True,
    "Jinja Exception: System message must be at the beginning. at row 85, column 9": True,
    "system message must be at the beginning": True,
    "System role not supported": True,
    "Only user and assistant roles are supported, with the exception of an initial optional system message!": True,
    "messages[1].role: unknown variant `system`, expected `user` or `assistant`": True,
    "Unexpected role 'system' after role 'user'": True,
    "The system prompt is too long": False,
    "Conversation roles must alternate user/assistant/user/assistant/...": False,
    "the file system is read-only": False,
}


@pytest.mark.parametrize(("message", "is_refusal"), REFUSALS.items())
def test_a_refused_system_message_is_recognised(message: str, is_refusal: bool) -> None:
    described = describe_system_refusal(message)
    assert (described is not None) is is_refusal
    if described is not None:
        assert described.startswith("role 'system' is not supported on this model")
        assert message.rstrip(".") in described
