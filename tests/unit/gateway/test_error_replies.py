"""Every failure has one reply with the keys of OpenAI's errors, which contains no credentials of the upstream."""

from collections.abc import Iterator
from typing import Any

import orjson
import pytest

from gateway.config.settings import Settings
from gateway.error_replies import (
    ERROR_REPLIES,
    FAILURE_REPLIES,
    REJECTION_REPLIES,
    build_failed_event,
    build_message_with_place,
    build_openai_error_body,
    read_error_headers,
    resolve_error_reply,
)
from gateway.errors import (
    CredentialsNotStored,
    EventLogFull,
    GatewayError,
    IdempotencyKeyInUse,
    IdempotencyKeyReused,
    MethodNotAllowed,
    OwnerLimitReached,
    RunInProgress,
    ShuttingDown,
    StorageQuotaExceeded,
    StoredFailure,
    TooManyConnections,
    TooManyQueued,
    TurnFailed,
    UnknownModel,
    VectorStoreQuotaExceeded,
)
from gateway.http.error_forms import bind_failure, build_error_reply
from gateway.logs import clear_fields, read_bound_fields
from providers.errors import (
    ContextLengthExceeded,
    ProviderError,
    UpstreamModelNotFound,
    UpstreamOverloaded,
    UpstreamRateLimited,
    UpstreamRejected,
    UpstreamUnauthorized,
)
from translation.errors import InvalidRequest, ProtocolViolation, TranslationError, Unrepresentable
from translation.representation.events import Failed

ROOTS: tuple[type[Exception], ...] = (GatewayError, ProviderError, TranslationError)


def below(kind: type[Exception]) -> Iterator[type[Exception]]:
    for child in kind.__subclasses__():
        yield child
        yield from below(child)


KINDS = [kind for root in ROOTS for kind in below(root)]
ROWLESS = {
    TurnFailed,  # its row depends on the failure that it carries
    StoredFailure,  # the same
    OwnerLimitReached,  # never raised itself: each limit has a class and a row
}


LIMITS_WITHOUT_A_KEY = {TooManyQueued}
"""What one connection may do is fixed."""


def stored_failure(code: str) -> StoredFailure:
    return StoredFailure({"id": "resp_1", "error": {"code": "server_error", "type": code, "message": "boom"}}, {})


def example(kind: type[Exception]) -> Exception:
    if kind is ShuttingDown:
        return ShuttingDown()
    if kind in (RunInProgress, IdempotencyKeyReused, IdempotencyKeyInUse):
        return kind()
    if kind is StoredFailure:
        return stored_failure("upstream_error")
    if kind is CredentialsNotStored:
        return CredentialsNotStored()
    if kind is TurnFailed:
        return TurnFailed(Failed("upstream_error", "boom", "input"))
    if issubclass(kind, InvalidRequest):
        return kind("boom", param="input")
    if kind in (StorageQuotaExceeded, VectorStoreQuotaExceeded):
        return kind("boom", limit="limits.files")
    if issubclass(kind, EventLogFull):
        return kind(1.0)
    if kind is UnknownModel:
        return kind("boom", "there is none")
    return kind("boom")


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_failure_has_a_row_of_its_own(kind: type[Exception]) -> None:
    assert kind in ERROR_REPLIES or kind in ROWLESS


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_the_log_names_the_limit_that_refused_a_request(kind: type[Exception]) -> None:
    """Each limit is a key of the configuration, and each refusal with 429 by the gateway itself has one."""
    error = example(kind)
    clear_fields()
    bind_failure(error)
    limit = read_bound_fields().get("limit")
    is_refusal = isinstance(error, GatewayError) and ERROR_REPLIES.get(kind, ERROR_REPLIES[Exception]).status == 429
    is_limit = (is_refusal and kind not in LIMITS_WITHOUT_A_KEY) or kind is TooManyConnections
    assert (limit is not None) == is_limit
    if limit is not None:
        section, _, key = str(limit).rpartition(".")
        found: Any = Settings
        for name in section.split("."):
            found = found.model_fields[name].annotation
        assert key in found.model_fields


@pytest.mark.parametrize("kind", [*KINDS, ValueError], ids=lambda kind: kind.__name__)
def test_every_error_has_all_four_keys(kind: type[Exception]) -> None:
    error = example(kind) if kind is not ValueError else ValueError("secret of the code")
    reply = build_error_reply(error)
    assert 400 <= reply.status_code < 600
    assert reply.headers["content-type"] == "application/json"
    body = orjson.loads(reply.body)
    assert body.keys() == {"error"}
    assert body["error"].keys() == {"message", "type", "param", "code"}
    assert body["error"]["message"]
    assert "secret" not in body["error"]["message"]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_a_stream_ends_with_the_error_of_the_http_reply(kind: type[Exception]) -> None:
    error = example(kind)
    body, event = build_openai_error_body(error)["error"], build_failed_event(error)
    assert (event.message, event.param) == (body["message"], body["param"])
    assert event.code == (body["code"] or body["type"])


@pytest.mark.parametrize(
    "error",
    [
        UpstreamUnauthorized("Incorrect API key provided: sk-upstream", status=401),
        UpstreamUnauthorized("sk-upstream may not do that", status=403),
        TurnFailed(Failed("upstream_unauthorized", "the upstream refused the gateway's own credentials")),
    ],
    ids=["401", "403", "inside a good reply"],
)
def test_an_upstream_that_refuses_our_key_is_not_the_clients_401(error: Exception) -> None:
    reply = build_error_reply(error)
    assert reply.status_code == 502
    assert b"sk-upstream" not in reply.body
    assert b"upstream_unauthorized" in reply.body


STATUSES = {
    400: (400, "upstream_rejected"),
    402: (429, "insufficient_quota"),
    405: (502, "upstream_error"),
    408: (504, "upstream_timeout"),
    409: (409, "conflict"),
    410: (400, "upstream_rejected"),
    413: (413, "request_too_large"),
    415: (502, "upstream_error"),
    422: (400, "upstream_rejected"),
    302: (502, "upstream_error"),
    500: (502, "upstream_error"),
    504: (504, "upstream_timeout"),
}


@pytest.mark.parametrize(("status", "expected"), STATUSES.items())
def test_an_upstreams_status_becomes_ours(status: int, expected: tuple[int, str]) -> None:
    row = resolve_error_reply(UpstreamRejected("boom", status=status))
    assert (row.status, row.code) == expected


NAMED: dict[str, tuple[Exception, int, str]] = {
    "a rate limit": (UpstreamRateLimited("slow", status=429), 429, "rate_limit_exceeded"),
    "a quota": (UpstreamRateLimited("pay", status=429, code="insufficient_quota"), 429, "insufficient_quota"),
    "a quota by its type": (
        UpstreamRateLimited("pay", status=429, kind="insufficient_quota"),
        429,
        "insufficient_quota",
    ),
    "a quota inside a good reply": (TurnFailed(Failed("insufficient_quota", "pay")), 429, "insufficient_quota"),
    "an overload": (UpstreamOverloaded("busy", status=529), 503, "upstream_overloaded"),
    "a long prompt": (ContextLengthExceeded("long", status=400), 400, "context_length_exceeded"),
    "an unknown model upstream": (UpstreamModelNotFound("who", status=404), 404, "model_not_found"),
    "an unknown model here": (UnknownModel("who", "there is none"), 404, "model_not_found"),
    "a field that is missing": (
        InvalidRequest("x", param="model", code="missing_required_parameter"),
        400,
        "missing_required_parameter",
    ),
    "a field nobody can honour": (Unrepresentable("x", param="tools"), 400, "unsupported_parameter"),
    "a protocol broken": (ProtocolViolation("x"), 502, "upstream_garbled"),
}


@pytest.mark.parametrize(("error", "status", "code"), NAMED.values(), ids=NAMED)
def test_each_kind_of_failure_has_its_own_code(error: Exception, status: int, code: str) -> None:
    row = resolve_error_reply(error)
    assert (row.status, row.code) == (status, code)


@pytest.mark.parametrize(
    ("code", "status"), [*((code, row.status) for code, row in FAILURE_REPLIES.items()), ("other", 502)]
)
def test_a_failure_inside_a_good_reply_gets_the_status_it_should_have_had(code: str, status: int) -> None:
    assert resolve_error_reply(TurnFailed(Failed(code, "boom"))).status == status


def test_no_row_of_a_rejection_blames_the_client_for_the_gateways_request() -> None:
    assert all(row.status not in (401, 403, 404) for row in REJECTION_REPLIES.values())


def test_retry_headers_are_forwarded() -> None:
    assert read_error_headers(UpstreamRateLimited("slow", status=429, headers={"retry-after": "7"})) == {
        "retry-after": "7"
    }
    assert read_error_headers(ShuttingDown()) == {"retry-after": "1"}
    assert read_error_headers(MethodNotAllowed("x", headers={"allow": "POST"})) == {"allow": "POST"}
    assert read_error_headers(ValueError("x")) == {}


def test_an_invalid_call_is_a_502_of_its_own_type() -> None:
    error = TurnFailed(Failed("tool_call_parse_error", "no call"))
    assert resolve_error_reply(error).status == 502
    assert build_openai_error_body(error)["error"]["type"] == build_failed_event(error).code == "tool_call_parse_error"


OWN_CODES: dict[str, tuple[Exception, str | None]] = {
    "a refusal": (UpstreamRejected("no", status=400, code="invalid_schema"), "invalid_schema"),
    "an overflow": (ContextLengthExceeded("no", status=400, code="string_above_max_length"), "string_above_max_length"),
    "the same code": (ContextLengthExceeded("no", status=400, code="context_length_exceeded"), None),
    "a status as code": (UpstreamRejected("no", status=400, code="400"), None),
    "no code": (UpstreamRejected("no", status=400), None),
    "a hidden code": (UpstreamRejected("no", status=400, code="[hidden]"), None),
    "a sentence": (UpstreamRejected("no", status=400, code="not a code"), None),
    "a long one": (UpstreamRejected("no", status=400, code="x" * 65), None),
    "the gateway's own credentials": (UpstreamUnauthorized("no", status=401, code="invalid_api_key"), None),
    "another failure": (InvalidRequest("no", param="input"), None),
}


@pytest.mark.parametrize(("error", "code"), OWN_CODES.values(), ids=OWN_CODES)
def test_the_code_of_an_upstream_is_beside_the_gateways(error: Exception, code: str | None) -> None:
    body = build_openai_error_body(error)["error"]
    assert body.get("upstream_code") == code
    assert body["code"] != code


@pytest.mark.parametrize(
    ("code", "status"),
    [
        ("rate_limit_exceeded", 429),
        ("upstream_timeout", 504),
        ("context_length_exceeded", 400),
        ("upstream_rejected", 400),
        ("model_not_found", 404),
        ("upstream_unauthorized", 502),
        ("external_connector_error", 424),
        ("interrupted", 503),
        ("a code of an upstream", 502),
    ],
)
def test_a_stored_failure_has_the_status_of_its_code(code: str, status: int) -> None:
    reply = build_error_reply(stored_failure(code))
    error = orjson.loads(reply.body)["error"]
    assert (reply.status_code, error["code"], error["message"]) == (status, code, "boom (response resp_1)")


@pytest.mark.parametrize(
    ("message", "param", "expected"),
    [
        (
            "No call comes before this output.",
            "messages[1].content[0]",
            "messages[1].content[0]: No call comes before this output.",
        ),
        ("Invalid value for 'tools[0].name'.", "tools[0].name", "Invalid value for 'tools[0].name'."),
        ("messages[1] is the result of a tool.", "messages[1].tool_name", "messages[1] is the result of a tool."),
        ("This model does not support prefill.", "messages", "This model does not support prefill."),
        ("The body is empty.", None, "The body is empty."),
    ],
    ids=["a place", "a place that is named", "an entry that is named", "a field", "the body"],
)
def test_a_message_names_the_place_where_the_api_has_no_key_for_it(
    message: str, param: str | None, expected: str
) -> None:
    assert build_message_with_place(InvalidRequest(message, param=param)) == expected
