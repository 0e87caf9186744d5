"""Responses requests on their way to a Responses upstream."""

from typing import Any

import pytest

from translation.profile import DEFAULT_PROFILE
from translation.responses.relay_request import relay_body

Json = dict[str, Any]

BODIES: dict[str, tuple[Json, Json]] = {
    "the upstream's name for the model": ({}, {}),
    "nothing that is the gateway's": ({"thinking": None, "extensions": False}, {}),
    "no empty lists of tools and includes": ({"tools": [], "include": []}, {}),
    "full lists": ({"tools": [{"type": "mcp"}], "include": ["x"]}, {"tools": [{"type": "mcp"}], "include": ["x"]}),
    "what only a server with state can honour": ({"previous_response_id": "r"}, {"previous_response_id": "r"}),
    "nulls, which the API takes": ({"temperature": None}, {"temperature": None}),
}


@pytest.mark.parametrize(("asked", "expected"), BODIES.values(), ids=BODIES)
def test_the_upstream_gets(asked: Json, expected: Json) -> None:
    body = {"model": "m", "input": "Hi", **asked}
    assert relay_body(body, DEFAULT_PROFILE, model="theirs") == ({"model": "theirs", "input": "Hi", **expected}, [])
    assert body == {"model": "m", "input": "Hi", **asked}, "the client's body is not changed"
