"""gateway/config/tool_settings.py: the bounds of a response with hosted tools."""

from typing import Any

import pytest

from gateway.config.settings import parse_settings
from gateway.config.tool_settings import McpSettings
from gateway.config.yaml_file import ConfigError
from translation.hosted.bounds import LoopBounds


@pytest.mark.parametrize(("requested", "calls"), [(None, 64), (3, 3), (1000, 64)])
def test_a_request_lowers_the_limit_of_calls_and_never_raises_it(requested: int | None, calls: int) -> None:
    assert McpSettings().build_bounds(requested).calls == calls


def test_the_bounds_are_those_of_the_configuration() -> None:
    bounds = McpSettings(rounds=2, calls=5, result_chars=200).build_bounds(None)
    assert (bounds.rounds, bounds.calls, bounds.result_chars) == (2, 5, 200)
    bounds = McpSettings(identical_calls=4, errors_in_a_row=7, argument_kb=1.5).build_bounds(None)
    assert (bounds.identical_calls, bounds.errors_in_a_row, bounds.argument_bytes) == (4, 7, 1500)
    default = LoopBounds()
    bounds = McpSettings().build_bounds(None)
    assert (bounds.identical_calls, bounds.errors_in_a_row) == (default.identical_calls, default.errors_in_a_row)
    assert bounds.argument_bytes == default.argument_bytes
    assert bounds.seconds == 600
    assert McpSettings().build_bounds(None, in_background=True).seconds is None


MISTAKES: dict[str, tuple[dict[str, Any], str]] = {
    "no place": ({"a": {}}, "tools.mcp.servers.a: write exactly one of url, sse and stdio"),
    "two places": ({"a": {"url": "http://h/", "stdio": ["x"]}}, "write exactly one of url, sse and stdio"),
    "no address": ({"a": {"url": "mcp.example.com"}}, "tools.mcp.servers.a.url: write an address such as"),
    "a password in the address": ({"a": {"url": "https://u:p@h/mcp"}}, "and credentials in auth"),
    "headers of a command": ({"a": {"stdio": ["x"], "headers": {"a": "b"}}}, "use env for stdio"),
    "variables of an address": (
        {"a": {"url": "http://h/", "env": {"A": "b"}}},
        "env and cwd are for servers with stdio",
    ),
    "an odd prefix": ({"a": {"stdio": ["x"], "prefix": "a b"}}, "tools.mcp.servers.a.prefix: write up to 32 letters"),
    "an odd name": ({"a b": {"stdio": ["x"]}}, "'a b' is not a valid name"),
    "one prefix twice": (
        {"a": {"stdio": ["x"]}, "b": {"stdio": ["x"], "prefix": "A"}},
        "a and b have the same prefix 'A': give one of them another",
    ),
    "two tokens": (
        {"a": {"url": "http://h/", "auth": {"bearer": "t", "oauth": {"client_id": "i", "client_secret": "s"}}}},
        "tools.mcp.servers.a.auth: write bearer or oauth, not both",
    ),
    "a token endpoint without TLS": (
        {
            "a": {
                "url": "http://h/",
                "auth": {"oauth": {"client_id": "i", "client_secret": "s", "token_url": "http://l/"}},
            }
        },
        "token_url: write an https address",
    ),
    "client credentials without a secret": (
        {"a": {"url": "http://h/", "auth": {"oauth": {"client_id": "i"}}}},
        "write client_secret or client_secret_env",
    ),
    "a page without a login": (
        {
            "a": {
                "url": "http://h/",
                "auth": {"oauth": {"client_id": "i", "client_secret": "s", "authorization_url": "https://l/"}},
            }
        },
        "authorization_url is for grant: login",
    ),
    "a login without a page": (
        {"a": {"url": "http://h/", "auth": {"oauth": {"grant": "login", "client_id": "i", "token_url": "https://l/"}}}},
        "write authorization_url too, or neither of the two addresses",
    ),
    "a token in two places": (
        {"a": {"url": "http://h/", "auth": {"bearer": "b"}, "headers": {"AUTHORIZATION": "Bearer a"}}},
        "write auth or the header Authorization, not both",
    ),
    "a header twice": (
        {"a": {"url": "http://h/", "headers": {"X-Key": "a", "x-key": "b"}}},
        "headers has one name twice",
    ),
    "a user in the address for tokens": (
        {
            "a": {
                "url": "http://h/",
                "auth": {"oauth": {"client_id": "i", "client_secret": "s", "token_url": "https://u:p@l/"}},
            }
        },
        "write the address without a user",
    ),
    "a variable that is not set": (
        {"a": {"url": "http://h/", "auth": {"bearer_env": "NO"}}},
        "the environment variable NO",
    ),
}


@pytest.mark.parametrize(("servers", "message"), MISTAKES.values(), ids=MISTAKES)
def test_a_server_that_cannot_be_used_is_refused_at_load(servers: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as refused:
        parse_settings({"tools": {"mcp": {"servers": servers}}}, environ={})
    assert message in str(refused.value)


def test_a_model_with_an_unknown_server_is_refused_with_the_nearest_name() -> None:
    tree = {
        "tools": {"mcp": {"servers": {"github": {"stdio": ["x"]}}}},
        "providers": {"p": {"type": "scripted"}},
        "models": {"m": {"provider": "p", "tools": {"mcp": ["githup"]}}},
    }
    with pytest.raises(
        ConfigError, match=r"models\.m\.tools\.mcp\[0\]: there is no server 'githup'.* did you mean github"
    ):
        parse_settings(tree, environ={})


def test_secrets_of_a_server_are_not_in_its_representation() -> None:
    server = {"url": "http://h/", "auth": {"bearer_env": "TOKEN"}, "headers": {"x-key": "${TOKEN}"}}
    settings = parse_settings({"tools": {"mcp": {"servers": {"a": server}}}}, environ={"TOKEN": "the-token"})
    assert "the-token" not in repr(settings)
    assert settings.tools.mcp.servers["a"].list_secrets() == ["the-token", "the-token"]


APPROVALS: dict[str, tuple[Any, str]] = {
    "an unknown key of a filter": ({"never": {"names": ["a"]}}, "approval.never.names: unknown key; write one of"),
    "a filter with a misspelled name": ({"nevr": {}}, "approval.nevr: unknown key; did you mean never?"),
    "a value of another type in a filter": (
        {"always": {"tool_names": 5}},
        "approval.always.tool_names: write a list",
    ),
    "neither a word nor filters": (5, "approval: write 'always' or 'never', not 5"),
    "another word": ("sometimes", "approval: write 'always' or 'never', not 'sometimes'"),
    "a list": ([1], "approval: write 'always' or 'never', not a list"),
}


@pytest.mark.parametrize(("approval", "message"), APPROVALS.values(), ids=APPROVALS)
def test_a_value_that_may_have_several_forms_is_refused_once_and_by_name(approval: Any, message: str) -> None:
    with pytest.raises(ConfigError) as refused:
        parse_settings({"tools": {"mcp": {"servers": {"a": {"url": "http://h/", "approval": approval}}}}}, environ={})
    assert message in str(refused.value)
    assert str(refused.value).count("tools.mcp.servers.a.approval") == 1
