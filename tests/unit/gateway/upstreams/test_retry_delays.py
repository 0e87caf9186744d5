"""gateway/upstreams/retry_delays.py: every form in which upstreams say when to try again."""

import time
from collections.abc import Iterator

import pytest

from gateway.upstreams.retry_delays import forbids_retry, read_limit_reset, read_retry_delay, write_retry_headers

NOW = 784111777.0  # Sun, 06 Nov 1994 08:49:37 GMT

DELAYS: dict[str, tuple[dict[str, str], float | None]] = {
    "seconds": ({"retry-after": "7"}, 7.0),
    "spaces": ({"retry-after": " 7 "}, 7.0),
    "decimal seconds": ({"retry-after": "0.25"}, 0.25),
    "zero": ({"retry-after": "0"}, 0.0),
    "milliseconds are more exact": ({"retry-after-ms": "1500", "retry-after": "2"}, 1.5),
    "a date": ({"retry-after": "Sun, 06 Nov 1994 08:49:47 GMT"}, 10.0),
    "the date of RFC 850": ({"retry-after": "Sunday, 06-Nov-94 08:49:47 GMT"}, 10.0),
    "the date of asctime": ({"retry-after": "Sun Nov  6 08:49:47 1994"}, 10.0),
    "a date in the past": ({"retry-after": "Sun, 06 Nov 1994 08:49:27 GMT"}, 0.0),
    "nothing": ({}, None),
    "text": ({"retry-after": "soon"}, None),
    "negative": ({"retry-after": "-1"}, None),
    "not finite": ({"retry-after": "inf"}, None),
    "exponents": ({"retry-after": "1e9"}, None),
    "digits of other scripts": ({"retry-after": "\u0667"}, None),
    "a huge number": ({"retry-after": "9" * 400}, None),
    "a long text": ({"retry-after": "Sun, 06 Nov 1994 08:49:47 GMT" + " " * 100}, None),
    "a date that does not exist": ({"retry-after": "Sun, 99 Nov 1994 08:49:47 GMT"}, None),
    "a year that does not exist": ({"retry-after": "Sun, 06 Nov 99999 08:49:47 GMT"}, None),
    "unreadable milliseconds leave seconds": ({"retry-after-ms": "x", "retry-after": "2"}, 2.0),
}


@pytest.mark.parametrize(("headers", "delay"), DELAYS.values(), ids=DELAYS)
def test_retry_after_is_read_in_every_form(headers: dict[str, str], delay: float | None) -> None:
    assert read_retry_delay(headers, NOW) == delay


@pytest.fixture
def far_from_greenwich(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("far_from_greenwich")
@pytest.mark.parametrize("name", ["a date", "the date of RFC 850", "the date of asctime"])
def test_dates_are_in_greenwich_wherever_the_server_is(name: str) -> None:
    headers, delay = DELAYS[name]
    assert read_retry_delay(headers, NOW) == delay


RESETS: dict[str, tuple[dict[str, str], float | None]] = {
    "seconds": ({"x-ratelimit-reset-requests": "1s"}, 1.0),
    "minutes": ({"x-ratelimit-reset-tokens": "6m0s"}, 360.0),
    "milliseconds": ({"x-ratelimit-reset-requests": "250ms"}, 0.25),
    "hours": ({"x-ratelimit-reset-requests": "1h2m3.5s"}, 3723.5),
    "the later of both": ({"x-ratelimit-reset-requests": "1s", "x-ratelimit-reset-tokens": "2s"}, 2.0),
    "no unit": ({"x-ratelimit-reset-requests": "5"}, None),
    "empty": ({"x-ratelimit-reset-requests": ""}, None),
    "other units": ({"x-ratelimit-reset-requests": "5d"}, None),
    "too long": ({"x-ratelimit-reset-requests": "1" * 80 + "s"}, None),
}


@pytest.mark.parametrize(("headers", "delay"), RESETS.values(), ids=RESETS)
def test_limits_say_when_they_are_reset(headers: dict[str, str], delay: float | None) -> None:
    assert read_limit_reset(headers) == (None if delay is None else pytest.approx(delay))


def test_an_upstream_can_forbid_to_try_again() -> None:
    assert forbids_retry({"x-should-retry": "False"})
    assert not forbids_retry({"x-should-retry": "true"})
    assert not forbids_retry({})


def test_clients_are_told_whole_seconds() -> None:
    assert write_retry_headers(0.0) == {"retry-after": "1"}
    assert write_retry_headers(2.1) == {"retry-after": "3"}
    assert write_retry_headers(0.25, in_milliseconds=True) == {"retry-after": "1", "retry-after-ms": "250"}
