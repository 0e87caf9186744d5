"""Credentials of tools are found and removed wherever a request has them."""

from typing import Any

import pytest

from translation.errors import InvalidRequest
from translation.tools.credentials import (
    list_credentials,
    remove_body_credentials,
    remove_credentials,
    remove_item_credentials,
)

SERVER = {"type": "mcp", "server_label": "s", "server_url": "https://mcp.example"}
MCP = {**SERVER, "authorization": "token-of-mcp", "headers": {"x-key": "Bearer key-of-mcp"}}
FUNCTION = {"type": "function", "name": "authorization", "parameters": {"headers": 1}}
SPACE = {"type": "namespace", "name": "n", "tools": [FUNCTION, MCP]}
FOUND = {"type": "tool_search_output", "tools": [MCP, FUNCTION]}
MESSAGE = {"role": "user", "content": "hi"}

BODIES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "a tool": ({"tools": [FUNCTION, MCP]}, {"tools": [FUNCTION, SERVER]}),
    "a tool of a namespace": ({"tools": [SPACE]}, {"tools": [{**SPACE, "tools": [FUNCTION, SERVER]}]}),
    "a tool of an item": (
        {"input": [MESSAGE, FOUND]},
        {"input": [MESSAGE, {**FOUND, "tools": [SERVER, FUNCTION]}]},
    ),
}


@pytest.mark.parametrize(("body", "removed"), BODIES.values(), ids=BODIES)
def test_credentials_are_found_and_removed(body: dict[str, Any], removed: dict[str, Any]) -> None:
    assert list_credentials(body) == ["token-of-mcp", "Bearer key-of-mcp", "key-of-mcp"]
    assert remove_body_credentials(body) == removed
    assert not list_credentials(removed)


BARE: dict[str, dict[str, Any]] = {
    "nothing": {},
    "a text": {"input": "hi", "tools": None},
    "functions": {"input": [MESSAGE], "tools": [FUNCTION]},
    "a server without any": {
        "input": [{**FOUND, "tools": "odd"}],
        "tools": [SERVER, {**SERVER, "authorization": ""}, 1],
    },
}


@pytest.mark.parametrize("body", BARE.values(), ids=BARE)
def test_a_request_may_have_none(body: dict[str, Any]) -> None:
    assert list_credentials(body) == []


def test_bodies_without_credentials_are_unchanged() -> None:
    items, tools = [MESSAGE], [FUNCTION]
    assert remove_item_credentials(items) is items
    assert remove_credentials(tools) is tools
    assert remove_credentials(None) is None


def test_tokens_of_servers_in_a_request_of_messages_are_found() -> None:
    servers = [{"type": "url", "name": "a"}, {"type": "url", "name": "b", "authorization_token": "Bearer token-of-b"}]
    assert not list_credentials({"mcp_servers": servers[:1]})
    assert list_credentials({"mcp_servers": servers}) == ["Bearer token-of-b", "token-of-b"]


@pytest.mark.parametrize(
    ("count", "chars", "code"),
    [(1, 8193, "credential_too_long"), (300, 10, "too_many_credentials"), (100, 8000, "too_many_credentials")],
)
def test_credentials_over_the_bounds_are_refused(count: int, chars: int, code: str) -> None:
    tools = [{"type": "mcp", "server_label": f"s{number}", "authorization": "x" * chars} for number in range(count)]
    with pytest.raises(InvalidRequest) as refused:
        list_credentials({"tools": tools})
    assert (refused.value.code, refused.value.param) == (code, "tools")


@pytest.mark.parametrize("items", [[1, 2, 3], ["use the tools"], [None], "tools"])
def test_the_input_of_other_apis_has_no_credentials(items: Any) -> None:
    assert list_credentials({"input": items}) == []
    assert remove_body_credentials({"input": items}) == {"input": items}
