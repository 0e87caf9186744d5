"""The router of a GPU pool as an upstream: it gets the operator's headers, and the log says which server it chose."""

from pathlib import Path
from typing import Any

import pytest

from tests.faults.client_view import CHAT, GEMINI, MESSAGES, OLLAMA, RESPONSES
from tests.faults.config import config
from tests.faults.server.test_log_of_operators import identified, read_lines, send
from tests.serving import command, serving
from tests.upstream import ScriptedUpstream
from tests.websocket_client import talking

SERVER = "10.1.2.3:8000"
OWN: dict[str, Any] = {
    "x-gateway-inference-objective": "chat",
    "x-gateway-inference-fairness-id": "team-a",
}
"""Headers of the configuration."""
THEIRS = {
    "x-gateway-inference-objective": "mine",
    "X-Gateway-Inference-Fairness-Id": "somebody-else",
    "x-gateway-destination-endpoint-served": "10.6.6.6:1",
    "x-gateway-destination-endpoint": "10.6.6.6:1",
}
"""Headers of a client that wants the share of another."""
SERVED_BY = "x-gateway-destination-endpoint-served"


@pytest.mark.parametrize("path", [CHAT, RESPONSES, MESSAGES, GEMINI, OLLAMA, "/embeddings"])
async def test_the_router_gets_the_operators_headers_and_the_log_the_server(path: str, tmp_path: Path) -> None:
    async with ScriptedUpstream() as upstream:
        upstream.script(identified("chat", x_gateway_destination_endpoint_served=SERVER))
        with command(config(upstream.url, "chat", headers=OWN), tmp_path, forked=True) as gateway:
            replies = [await send(gateway, path, headers=THEIRS)]
            if path != "/embeddings":
                replies.append(await send(gateway, path, stream=True, headers=THEIRS))
        lines = read_lines(gateway.log)
    assert [line["served_by"] for line in lines] == [SERVER] * len(replies)
    for reply in replies:
        assert reply.status_code == 200, reply.text
        assert SERVED_BY not in reply.headers
        assert SERVER not in reply.text
    for request in upstream.requests:
        headers = {name.lower(): value for name, value in request.headers.items()}
        assert {name: headers.get(name) for name in OWN} == OWN
        assert not {SERVED_BY, "x-gateway-destination-endpoint"} & headers.keys()


async def test_without_headers_of_the_operator_those_of_a_client_are_not_sent() -> None:
    async with ScriptedUpstream() as upstream:
        upstream.script(identified("chat"))
        with serving(config(upstream.url, "chat")) as gateway:
            for path in (CHAT, RESPONSES):
                await send(gateway, path, headers=THEIRS)
    for request in upstream.requests:
        assert not [name for name in request.headers if name.lower().startswith("x-gateway-")]


async def test_a_turn_of_a_websocket_says_which_server_was_chosen(tmp_path: Path) -> None:
    async with ScriptedUpstream() as upstream:
        upstream.script(identified("chat", x_gateway_destination_endpoint_served=SERVER))
        with command(config(upstream.url, "chat"), tmp_path, forked=True) as gateway:
            async with talking(gateway.v1) as talk:
                await talk.turn()
    assert [line["served_by"] for line in read_lines(gateway.log, "turn")] == [SERVER]


async def test_a_server_that_is_no_name_is_not_logged(tmp_path: Path) -> None:
    async with ScriptedUpstream() as upstream:
        upstream.script(identified("chat", x_gateway_destination_endpoint_served="x" * 500))
        with command(config(upstream.url, "chat"), tmp_path, forked=True) as gateway:
            await send(gateway, CHAT)
    assert ["served_by" in line for line in read_lines(gateway.log)] == [False]
