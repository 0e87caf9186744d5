"""gateway/upstreams/outcomes.py: every failure of an upstream is a row of the table."""

import pytest

from gateway.errors import ShuttingDown, TurnFailed
from gateway.upstreams.outcomes import OUTCOMES, find_outcome
from providers.errors import (
    ConnectionsExhausted,
    ContextLengthExceeded,
    EngineUnavailable,
    ProviderError,
    UpstreamBroken,
    UpstreamGarbled,
    UpstreamModelNotFound,
    UpstreamOverloaded,
    UpstreamRateLimited,
    UpstreamRejected,
    UpstreamTimeout,
    UpstreamUnauthorized,
    UpstreamUnreachable,
)
from translation.errors import InvalidRequest, ProtocolViolation
from translation.representation.events import Failed


def rejected(status: int, code: str | None = None, kind: str | None = None) -> UpstreamRejected:
    return UpstreamRejected("no", status=status, code=code, kind=kind)


ROWS: dict[str, tuple[Exception, str | None]] = {
    "no connection": (UpstreamUnreachable("x"), "unreachable"),
    "broken after sending": (UpstreamUnreachable("x", was_sent=True), "reset"),
    "no connection free": (ConnectionsExhausted("x", status=503), "no_connection_free"),
    "silence": (UpstreamTimeout("x"), "timeout"),
    "broken off": (UpstreamBroken("x"), "broken"),
    "not HTTP": (UpstreamGarbled("x"), "garbled"),
    "not the protocol": (ProtocolViolation("x"), "garbled"),
    "an engine": (EngineUnavailable("x"), "engine_unavailable"),
    "too long": (ContextLengthExceeded("x", status=400), "context_length_exceeded"),
    "no such model": (UpstreamModelNotFound("x", status=404), "not_found"),
    "no such model, by its parameter": (UpstreamModelNotFound("x", status=404, param="model"), "not_found"),
    "no such response": (UpstreamModelNotFound("x", status=404, param="response_id"), "unknown_reference"),
    "400": (rejected(400), "rejected"),
    "401": (UpstreamUnauthorized("x", status=401), "unauthorized"),
    "402": (rejected(402), "quota"),
    "403": (UpstreamUnauthorized("x", status=403), "forbidden"),
    "405": (rejected(405), "rejected"),
    "408": (rejected(408), "request_timeout"),
    "409": (rejected(409), "rejected"),
    "413": (rejected(413), "rejected"),
    "422": (rejected(422), "rejected"),
    "425": (rejected(425), "passing_overload"),
    "429": (UpstreamRateLimited("x", status=429), "rate_limited"),
    "429 of a quota": (UpstreamRateLimited("x", status=429, code="insufficient_quota"), "quota"),
    "429 of a quota by its type": (UpstreamRateLimited("x", status=429, kind="insufficient_quota"), "quota"),
    "500": (rejected(500), "internal_error"),
    "502": (rejected(502), "server_error"),
    "503": (UpstreamOverloaded("x", status=503), "overloaded"),
    "504": (rejected(504), "server_error"),
    "520": (rejected(520), "server_error"),
    "529": (UpstreamOverloaded("x", status=529), "passing_overload"),
    "a redirect": (rejected(302), "server_error"),
    "a filter, 400": (rejected(400, "content_filter"), "content_filter"),
    "a filter, 403": (UpstreamUnauthorized("x", status=403, kind="moderation_blocked"), "content_filter"),
    "a policy": (rejected(400, "content_policy_violation"), "content_filter"),
    "a filter with another status": (rejected(500, "content_filter"), "internal_error"),
    "an overload without its status": (UpstreamOverloaded("x", status=200), "overloaded"),
    "an error of another kind": (ProviderError("x"), "server_error"),
    "a failed event": (TurnFailed(Failed("upstream_error", "x")), "server_error"),
    "a failed event, overloaded": (TurnFailed(Failed("upstream_overloaded", "x")), "overloaded"),
    "a failed event, rate limit": (TurnFailed(Failed("rate_limit_exceeded", "x")), "rate_limited"),
    "a failed event, quota": (TurnFailed(Failed("insufficient_quota", "x")), "quota"),
    "a failed event, prompt": (TurnFailed(Failed("invalid_prompt", "x")), "rejected"),
    "a failed event, end": (TurnFailed(Failed("upstream_truncated", "x")), "broken"),
    "a failed event, window": (TurnFailed(Failed("context_length_exceeded", "x")), "context_length_exceeded"),
    "an invalid request": (InvalidRequest("x", param=None), None),
    "a stopping server": (ShuttingDown(), None),
}


@pytest.mark.parametrize(("error", "name"), ROWS.values(), ids=ROWS)
def test_a_failure_has_its_row(error: Exception, name: str | None) -> None:
    assert find_outcome(error) is (None if name is None else OUTCOMES[name])


def test_every_row_is_the_outcome_of_a_failure() -> None:
    assert {name for _, name in ROWS.values() if name is not None} == set(OUTCOMES)


def test_judgements_of_a_request_say_nothing_against_the_upstream() -> None:
    for outcome in OUTCOMES.values():
        assert not (outcome.proves_alive and outcome.health != "none")
        assert (outcome.judgement is not None) == (outcome.next == "if_configured")
