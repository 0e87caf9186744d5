"""API keys and their principals."""

import pytest

from gateway.config.auth_settings import AuthSettings
from gateway.errors import NotAuthenticated
from gateway.http.auth import ANONYMOUS, Authenticator, Principal

AUTH = AuthSettings.model_validate(
    {"keys": [{"name": "team-a", "key": "key-of-a", "models": ["gpt-*"]}, {"name": "team-ü", "key": "schlüssel"}]}
)


@pytest.mark.parametrize(
    ("header", "principal"),
    [
        ("Bearer key-of-a", Principal("team-a", ("gpt-*",))),
        ("bearer key-of-a", Principal("team-a", ("gpt-*",))),
        ("Bearer  key-of-a ", Principal("team-a", ("gpt-*",))),
        ("Bearer schlüssel", Principal("team-ü", ("*",))),
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
    assert Authenticator(AUTH).authenticate(headers) == Principal("team-a", ("gpt-*",))


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
