"""providers/http/upstream_errors.py"""

import pytest

from providers.http.upstream_errors import build_retry_headers, resolve_status
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
