"""Hosted tools of a name with several upstreams: approvals hold, and no call is run twice for a failed reply."""

from pathlib import Path
from typing import Any

import pytest

from tests.integration.mcp.approval_gateway import ADD, answer, approving, request_of
from tests.mcp_server import CountingServer
from tests.upstream.builders import chat_calls, error_reply

MODELS: Any = {"m": {"upstreams": [{"provider": "up"}, {"provider": "up", "model": "other", "tier": 1}]}}


async def test_a_call_waits_for_its_approval_and_then_runs_once(calc: CountingServer, tmp_path: Path) -> None:
    async with approving(calc, tmp_path, models=MODELS) as gateway:
        response = await gateway.ask()
        assert calc.runs["add"] == 0
        request = request_of(response)
        going_on = await gateway.ask([answer(request)], previous_response_id=response["id"])
    assert calc.runs["add"] == 1
    assert going_on["output"][-1]["content"][0]["text"] == "Read: 5"


@pytest.mark.parametrize("stream", [True, False])
async def test_a_call_that_has_run_is_not_run_again(calc: CountingServer, tmp_path: Path, stream: bool) -> None:
    scripts = [chat_calls(ADD), error_reply(503, "busy")]
    async with approving(calc, tmp_path, *scripts, models=MODELS) as gateway:
        reply = await gateway.send("2 + 3?", tools=[gateway.tool(require_approval="never")], stream=stream)
    assert calc.runs["add"] == 1
    assert (reply.status_code, b"response.failed" in reply.content) == ((200, True) if stream else (503, False))
