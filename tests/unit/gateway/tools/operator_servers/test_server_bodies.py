"""Settings of MCP servers that administrators send: those of the configuration, except keys for its file only."""

from typing import Any

import pytest

from gateway.tools.operator_servers.server_bodies import find_credential, hide_credentials, read_server_settings
from translation.errors import InvalidRequest

URL = "https://mcp.example.com/mcp"
SECRETS = {
    "url": URL,
    "auth": {"oauth": {"client_id": "gateway", "client_secret": "secret-1"}},
    "headers": {"x-key": "secret-2"},
}

REFUSED: dict[str, tuple[dict[str, Any], str, str]] = {
    "a command": ({"stdio": ["sh"]}, "stdio", "only started for servers of the configuration file"),
    "variables of a command": ({"url": URL, "env": {"A": "b"}}, "env", "only the configuration file may have"),
    "a folder": ({"url": URL, "cwd": "/"}, "cwd", "only the configuration file may have"),
    "a hosted tool": (
        {"url": URL, "as": {"find": {"tool": "web_search"}}},
        "as",
        "only tools of servers of the config",
    ),
    "a token of the environment": (
        {"url": URL, "auth": {"bearer_env": "HOME"}},
        "auth.bearer_env",
        "send the token as `bearer`",
    ),
    "a secret of the environment": (
        {"url": URL, "auth": {"oauth": {"client_id": "a", "client_secret_env": "HOME"}}},
        "auth.oauth.client_secret_env",
        "send the secret as `client_secret`",
    ),
    "a reference to the environment": (
        {"url": URL, "headers": {"x": "a ${HOME}"}},
        "headers.x",
        "`${NAME}` is not replaced",
    ),
    "a header of the connection": ({"url": URL, "headers": {"Host": "a"}}, "headers", "the gateway sets it"),
    "a header that cannot be sent": ({"url": URL, "headers": {"x": "a\nb"}}, "headers", "must be printable ASCII text"),
    "a token that cannot be sent": ({"url": URL, "auth": {"bearer": "a\nb"}}, "auth.bearer", "must be printable"),
    "a login": (
        {"url": URL, "auth": {"oauth": {"grant": "login", "client_id": "a"}}},
        "auth.oauth.grant",
        "use client_credentials",
    ),
    "no address": ({}, "", "write exactly one of url, sse and stdio"),
    "two addresses": ({"url": URL, "sse": URL}, "", "write exactly one of url, sse and stdio"),
    "an unknown key": ({"url": URL, "alow": ["*"]}, "alow", "unknown key; did you mean allow?"),
    "the wrong type": ({"url": URL, "trusted": "maybe"}, "trusted", "write true or false"),
    "no prefix": ({"url": URL, "prefix": ""}, "prefix", "servers that are added need a prefix"),
    "a user in an address": ({"url": "https://user:password@h/mcp"}, "url", "and credentials in auth"),
    "a user in the address for tokens": (
        {
            "url": URL,
            "auth": {"oauth": {"client_id": "a", "client_secret": "b", "token_url": "https://user:password@h/token"}},
        },
        "auth.oauth.token_url",
        "write the address without a user",
    ),
    "a token in two places": (
        {"url": URL, "headers": {"Authorization": "Bearer a"}, "auth": {"bearer": "b"}},
        "",
        "write auth or the header Authorization, not both",
    ),
    "an invalid URL": ({"url": "file:///etc/passwd"}, "url", "write an address such as https://"),
}


@pytest.mark.parametrize(("body", "param", "message"), REFUSED.values(), ids=REFUSED)
def test_keys_that_an_added_server_cannot_have_are_refused_by_name(
    body: dict[str, Any], param: str, message: str
) -> None:
    with pytest.raises(InvalidRequest) as refused:
        read_server_settings("crm", body)
    assert (refused.value.param or "") == param
    assert message in refused.value.message


@pytest.mark.parametrize("label", ["", "1st", "a b", "x" * 33, "ü"])
def test_a_name_that_the_configuration_could_not_have_is_refused(label: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        read_server_settings(label, {"url": URL})
    assert refused.value.param == "server_label"


def test_credentials_are_found_and_hidden() -> None:
    own = read_server_settings("crm", SECRETS)
    assert find_credential(own) == "auth.oauth.client_secret"
    assert sorted(own.list_secrets()) == ["secret-1", "secret-2"]
    hidden = hide_credentials(own)
    assert "secret-" not in str(hidden)
    assert (hidden["url"], hidden["auth"]["oauth"]["client_id"]) == (URL, "gateway")
    assert find_credential(read_server_settings("crm", {"url": URL, "auth": {"bearer": "t"}})) == "auth.bearer"
    assert find_credential(read_server_settings("crm", {"url": URL, "headers": {"x": "t"}})) == "headers"
    assert find_credential(read_server_settings("crm", {"url": URL})) is None


def test_hidden_credentials_can_be_restored() -> None:
    own = read_server_settings("crm", {"url": URL, "approval": {"never": {"tool_names": ["a"]}}, "allow": ["a", "b*"]})
    assert read_server_settings("crm", hide_credentials(own)) == own


@pytest.mark.parametrize("key", ["url", "sse"])
def test_the_query_of_an_address_is_a_credential(key: str) -> None:
    own = read_server_settings("crm", {key: f"{URL}?api_key=secret%2D1&secret-2"})
    assert find_credential(own) == key
    assert own.list_secrets() == ["secret-1", "secret-2"]
    assert hide_credentials(own) == {key: f"{URL}?**********"}


def test_the_query_of_the_address_for_tokens_is_a_credential() -> None:
    oauth = {
        "client_id": "gateway",
        "client_secret": "secret-1",
        "token_url": "https://auth.example.com/t?key=secret-2",
    }
    own = read_server_settings("crm", {"url": URL, "auth": {"oauth": oauth}})
    assert sorted(own.list_secrets()) == ["secret-1", "secret-2"]
    assert hide_credentials(own)["auth"]["oauth"]["token_url"] == "https://auth.example.com/t?**********"
    assert read_server_settings("crm", hide_credentials(own)).address == URL


def test_an_at_sign_after_the_host_is_no_user() -> None:
    assert read_server_settings("crm", {"url": "https://h?user=a@b"}).host == "h"
