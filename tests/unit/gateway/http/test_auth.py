"""API keys and their principals."""

import hashlib
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pydantic import ValidationError

from gateway.config.auth_settings import ApiKeySettings, AuthSettings, LimitSettings
from gateway.errors import NotAuthenticated
from gateway.http.auth import ANONYMOUS, Authenticator, Principal

AUTH = AuthSettings.model_validate(
    {"keys": [{"name": "team-a", "key": "key-of-a", "models": ["gpt-*"]}, {"name": "team-ü", "key": "schlüssel"}]}
)

TEAM_A = Principal("team-a", ("gpt-*",), key_name="team-a")


@pytest.mark.parametrize(
    ("header", "principal"),
    [
        ("Bearer key-of-a", TEAM_A),
        ("bearer key-of-a", TEAM_A),
        ("Bearer  key-of-a ", TEAM_A),
        ("Bearer schlüssel", Principal("team-ü", ("*",), key_name="team-ü")),
    ],
    ids=["as OpenAI's clients send it", "in lower case", "with spaces", "beyond ASCII"],
)
def test_a_known_key_is_its_principal(header: str, principal: Principal) -> None:
    assert Authenticator(AUTH).authenticate({b"authorization": header.encode()}) == principal


@pytest.mark.parametrize(
    "headers",
    [
        {b"x-api-key": b"key-of-a"},
        {b"x-api-key": b" key-of-a "},
        {b"x-api-key": b"key-of-a", b"authorization": b"Basic dXNlcjpwYXNz"},
        {b"x-api-key": b"key-of-a", b"authorization": b"Bearer"},
        {b"x-api-key": b"another", b"authorization": b"Bearer key-of-a"},
    ],
    ids=["alone", "with spaces", "beside a proxy's password", "beside no key", "beside another key"],
)
def test_a_key_is_also_accepted_as_x_api_key(headers: dict[bytes, bytes]) -> None:
    assert Authenticator(AUTH).authenticate(headers) == TEAM_A


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {b"x-api-key": b""},
        {b"x-api-key": b"Bearer key-of-a"},
        {b"x-api-key": b"key-of-a", b"authorization": b"Bearer unknown"},
        {b"authorization": b""},
        {b"authorization": b"Bearer"},
        {b"authorization": b"Bearer "},
        {b"authorization": b"key-of-a"},
        {b"authorization": b"Basic key-of-a"},
        {b"authorization": b"Bearer key-of-A"},
        {b"authorization": b"Bearer key-of-a2"},
    ],
    ids=[
        "none",
        "x-api-key empty",
        "x-api-key with a scheme",
        "x-api-key beside an unknown key",
        "empty",
        "no key",
        "blank",
        "no scheme",
        "another scheme",
        "another case",
        "another key",
    ],
)
def test_anything_else_is_refused(headers: dict[bytes, bytes]) -> None:
    with pytest.raises(NotAuthenticated) as refusal:
        Authenticator(AUTH).authenticate(headers)
    assert refusal.value.headers == {"www-authenticate": "Bearer"}
    assert "key-of" not in refusal.value.message


@pytest.mark.parametrize("headers", [{}, {b"authorization": b"Bearer anything"}], ids=["without a key", "with any key"])
def test_without_configured_keys_everyone_is_anonymous(headers: dict[bytes, bytes]) -> None:
    assert Authenticator(None).authenticate(headers) == ANONYMOUS


def authenticate(sent: str, **settings: Any) -> Principal:
    auth = AuthSettings.model_validate({"keys": [{"name": "new-key", **settings}, {"name": "b", "key": "key-of-b"}]})
    return Authenticator(auth).authenticate({b"authorization": f"Bearer {sent}".encode()})


def test_keys_of_one_owner_are_different_keys_of_the_same_principal() -> None:
    principal = authenticate("key-of-new", key="key-of-new", owner="team-a")
    assert (principal.owner, principal.key_name) == ("team-a", "new-key")


@pytest.mark.parametrize("render", [str.lower, str.upper])
def test_a_key_may_be_known_by_its_hash(render: Callable[[str], str]) -> None:
    key_sha256 = render(hashlib.sha256("schlüssel".encode()).hexdigest())
    assert authenticate("schlüssel", key_sha256=key_sha256).key_name == "new-key"
    with pytest.raises(NotAuthenticated):
        authenticate(key_sha256, key_sha256=key_sha256)  # the hash is no key


@pytest.mark.parametrize(
    ("expires_in", "is_valid"), [(timedelta(minutes=1), True), (timedelta(0), False), (timedelta(minutes=-1), False)]
)
def test_a_key_is_refused_from_its_expiry_on(expires_in: timedelta, *, is_valid: bool) -> None:
    expires_at = datetime.now(UTC) + expires_in
    if is_valid:
        assert authenticate("key-of-a", key="key-of-a", expires_at=expires_at).key_name == "new-key"
        return
    with pytest.raises(NotAuthenticated, match="the API key expired at 20") as refusal:
        authenticate("key-of-a", key="key-of-a", expires_at=expires_at)
    assert refusal.value.hint == "new-key, expired"


@pytest.mark.parametrize(
    ("key", "hint"),
    [
        (b"", "none"),
        (b"x" * 19, "19 characters"),
        (b"x" * 16 + b"wxyz", "...wxyz, 20 characters"),
        (b"x" * 20 + b"\x1b[1m", "...?[1m, 24 characters"),
        (b"x" * 20 + b"\xff", "...xxx\ufffd, 21 characters"),
    ],
)
def test_the_hint_at_an_unknown_key_has_no_more_than_its_end(key: bytes, hint: str) -> None:
    with pytest.raises(NotAuthenticated) as refusal:
        Authenticator(AUTH).authenticate({b"x-api-key": key})
    assert refusal.value.hint == hint


def test_limits_of_a_key_replace_those_of_the_configuration_one_by_one() -> None:
    own = LimitSettings(files=5, websockets=7)
    keys = [
        {"name": "own", "key": "key-own", "limits": {"files": 3, "event_log_mb": 0.5}},
        {"name": "plain", "key": "key-plain"},
    ]
    authenticator = Authenticator(AuthSettings.model_validate({"keys": keys}), own)
    limits = authenticator.authenticate({b"authorization": b"Bearer key-own"}).limits
    assert limits == own.model_copy(update={"files": 3, "event_log_mb": 0.5})
    assert authenticator.authenticate({b"authorization": b"Bearer key-plain"}).limits is None


@pytest.mark.parametrize("name", LimitSettings.model_fields)
def test_every_limit_can_be_replaced_for_one_key(name: str) -> None:
    settings = ApiKeySettings.model_validate({"name": "a", "key": "k", "limits": {name: 1}})
    limits = LimitSettings().replace_by(settings.limits)
    assert limits is not None
    assert limits.model_dump() == LimitSettings().model_dump() | {name: 1}
    for wrong in (0, True, "many"):
        with pytest.raises(ValidationError):
            ApiKeySettings.model_validate({"name": "a", "key": "k", "limits": {name: wrong}})
