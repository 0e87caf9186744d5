"""providers/http/upstream_errors.py"""

from typing import Any

import orjson
import pytest

from providers.http.upstream_errors import (
    build_retry_headers,
    describe_system_refusal,
    parse_error_object,
    resolve_status,
)
from translation.representation.json_types import Json

KEY = {"details": [{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID"}]}
ELSE = {"details": [7, {"reason": "BILLING_DISABLED"}]}


@pytest.mark.parametrize(("error", "status"), [(KEY, 401), (ELSE, 400), ({"details": "no"}, 400), ({}, 400)])
def test_a_bad_key_is_not_the_clients_mistake(error: Json, status: int) -> None:
    assert resolve_status(400, error) == status


WAITS = {
    "34s": "34",
    "33.2s": "34",
    "12.000s": "12",
    "soon": None,
    "9" * 5000 + "s": None,
    "1." + "9" * 5000 + "s": None,
    "\u0663s": None,
    "-1s": None,
    "5": None,
}


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


def _report(*filtered: str) -> Json:
    return {name: {"filtered": name in filtered, "severity": "high"} for name in ("hate", "jailbreak", "violence")}


_STOPPED: Json = {"index": 0, "finish_reason": "content_filter", "message": {"role": "assistant"}}
FILTERED: dict[str, tuple[Json, str]] = {
    "a prompt": (
        {
            "error": {
                "message": "The response was filtered.",
                "code": "content_filter",
                "innererror": {"code": "ResponsibleAIPolicyViolation", "content_filter_result": _report("jailbreak")},
            }
        },
        "The response was filtered (filtered: jailbreak)",
    ),
    "a message that names the filter": (
        {
            "error": {
                "message": "Blocked for hate.",
                "code": "content_filter",
                "innererror": {"content_filter_result": _report("hate")},
            }
        },
        "Blocked for hate.",
    ),
    "an error without a report": ({"error": {"message": "Blocked.", "code": "content_filter"}}, "Blocked."),
    "a completion": (
        {"object": "chat.completion", "choices": [{**_STOPPED, "content_filter_results": _report("hate", "violence")}]},
        "the upstream's content filter stopped the reply (filtered: hate, violence)",
    ),
    "a completion with a report of its prompt": (
        {"choices": [_STOPPED], "prompt_filter_results": [{"content_filter_results": _report("jailbreak")}]},
        "the upstream's content filter stopped the reply (filtered: jailbreak)",
    ),
    "a completion without reports": ({"choices": [_STOPPED, 5]}, "the upstream's content filter stopped the reply"),
}


@pytest.mark.parametrize("case", FILTERED)
def test_a_refusal_by_a_content_filter_names_the_filters(case: str) -> None:
    body, message = FILTERED[case]
    error = parse_error_object(orjson.dumps(body))
    assert (error["code"], error["message"]) == ("content_filter", message)


@pytest.mark.parametrize("choices", [[], "no", [{"finish_reason": "stop"}]])
def test_a_completion_that_no_filter_stopped_is_no_error_of_a_filter(choices: Any) -> None:
    assert "code" not in parse_error_object(orjson.dumps({"choices": choices}))
