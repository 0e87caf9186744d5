"""Replies of several rounds whose upstreams share their turns: each round has its own attempts, each tool runs once."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import httpx
import pytest

from tests.integration.mcp.tool_gateway import calc_tool
from tests.mcp_server import CountingServer
from tests.serving import serving
from tests.upstream import ScriptedUpstream
from tests.upstream.builders import chat_calls, chat_text, either
from tests.upstream.script import Close, Reply, Script, reset

Json = dict[str, Any]

ADD = ("calc_add", '{"a": 2, "b": 3}')
CALLS, ANSWER = chat_calls(ADD), chat_text("It is ", "5.")
SSE = {"content-type": "text/event-stream"}
JSON = {"content-type": "application/json"}


def status(code: int, **headers: str) -> Script:
    return Reply(code, {**JSON, **headers}, b'{"error": {"message": "no"}}', framing="length")


CUT = either(Reply(headers=SSE, body=[b": hi\n\n", Close()]), Reply(headers=JSON, body=[b'{"id"', Close()]))
"""An end before any content."""

CUT_LATE = Reply(headers=SSE, body=[b'data: {"choices": [{"index": 0, "delta": {"content": "It"}}]}\n\n', Close()])
"""An end after content."""


class Asked(NamedTuple):
    status: int
    headers: Mapping[str, str]
    response: Json
    """The response, or the error."""

    @property
    def kinds(self) -> list[str]:
        return [item["type"] for item in self.response["output"]]


class Shared(NamedTuple):
    first: ScriptedUpstream
    second: ScriptedUpstream
    v1: str
    calc: CountingServer

    async def ask(self, *, stream: bool, **more: Any) -> Asked:
        body = {"model": "m", "input": "2 + 3?", "tools": [calc_tool(self.calc)], "stream": stream, **more}
        async with httpx.AsyncClient(timeout=60) as client:
            reply = await client.post(f"{self.v1}/responses", json=body)
        if not (stream and reply.status_code == 200):
            return Asked(reply.status_code, reply.headers, reply.json())
        events = [json.loads(line[6:]) for line in reply.text.splitlines() if line.startswith("data: {")]
        ends = [each for each in events if each["type"] in ("response.completed", "response.failed")]
        assert len(ends) == 1
        return Asked(200, reply.headers, ends[0]["response"])


@asynccontextmanager
async def sharing(calc: CountingServer, first: list[Script], second: list[Script], **row: Any) -> AsyncIterator[Shared]:
    """Serves `m` by two upstreams, of which the second is asked if the first cannot be."""
    calc.reset()
    async with ScriptedUpstream() as one, ScriptedUpstream() as two:
        one.on("/chat/completions", *first)
        two.on("/chat/completions", *second)
        config = {
            "server": {"drain_s": 0.2},
            "egress": {"allow": ["127.0.0.1"]},
            "providers": {
                "one": {"type": "openai_compatible", "base_url": one.url},
                "two": {"type": "openai_compatible", "base_url": two.url},
            },
            "models": {"m": {"upstreams": [{"provider": "one"}, {"provider": "two", "tier": 1, **row}]}},
        }
        running = serving(config)
        server = running.__enter__()
        try:
            yield Shared(one, two, server.v1, calc)
        finally:
            # In a thread: while it stops it still talks to servers of this event loop.
            await asyncio.to_thread(running.__exit__, None, None, None)


FAULTS: dict[str, Script] = {
    "status 503": status(503),
    "status 500": status(500),
    "status 429": status(429),
    "status 401": status(401),
    "reset": reset,
    "an end before content": CUT,
}


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
async def test_a_round_that_fails_goes_to_the_next_upstream_with_the_calls_made(
    fault: Script, stream: bool, calc: CountingServer
) -> None:
    async with sharing(calc, [CALLS, fault], [ANSWER]) as shared:
        asked = await shared.ask(stream=stream)
        messages = shared.second.requests[-1].json["messages"]
    assert asked.kinds == ["mcp_list_tools", "mcp_call", "message"]
    assert asked.response["output"][-1]["content"][0]["text"] == "It is 5."
    assert [message["role"] for message in messages] == ["user", "assistant", "tool"]
    assert messages[-1]["content"] == "5"
    assert calc.runs["add"] == 1
    if not stream:
        assert (asked.headers["x-gateway-upstream"], asked.headers["x-gateway-attempts"]) == ("two", "3")


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
async def test_the_first_round_is_repeated_and_the_next_prefers_its_upstream(
    fault: Script, stream: bool, calc: CountingServer
) -> None:
    async with sharing(calc, [fault, ANSWER], [CALLS, ANSWER], tier=0, weight=1e-9) as shared:
        asked = await shared.ask(stream=stream)
        counts = len(shared.first.requests), len(shared.second.requests)
    assert asked.kinds == ["mcp_list_tools", "mcp_call", "message"]
    assert counts == (1, 2)
    assert calc.runs["add"] == 1


@pytest.mark.parametrize("stream", [False, True])
async def test_a_round_that_all_refuse_ends_the_reply_with_the_calls_made(stream: bool, calc: CountingServer) -> None:
    async with sharing(calc, [CALLS, status(503)], [status(503)]) as shared:
        asked = await shared.ask(stream=stream)
        counts = len(shared.first.requests), len(shared.second.requests)
    if stream:
        assert asked.response["status"] == "failed"
        assert asked.kinds == ["mcp_list_tools", "mcp_call"]
    else:
        assert (asked.status, asked.response["error"]["code"]) == (503, "upstream_overloaded")
    assert counts == (2, 1)
    assert calc.runs["add"] == 1


async def test_a_round_is_not_repeated_after_its_content_was_sent(calc: CountingServer) -> None:
    async with sharing(calc, [CALLS, CUT_LATE], [ANSWER]) as shared:
        asked = await shared.ask(stream=True)
        assert not shared.second.requests
    assert asked.response["status"] == "failed"
    assert asked.kinds == ["mcp_list_tools", "mcp_call", "message"]


async def test_an_upstream_that_has_no_tools_does_not_take_a_round(calc: CountingServer) -> None:
    async with sharing(calc, [CALLS, status(503)], [ANSWER], capabilities={"tools": False}) as shared:
        asked = await shared.ask(stream=False)
        assert not shared.second.requests
    assert (asked.status, asked.response["error"]["code"]) == (503, "upstream_overloaded")


async def test_the_upstream_of_a_round_gets_its_own_defaults_and_its_losses_are_reported(calc: CountingServer) -> None:
    row = {"request_defaults": {"temperature": 0.25}, "tier": 0, "weight": 1e-9}
    row |= {"capabilities": {"reasoning": False}}
    async with sharing(calc, [status(503)], [CALLS, ANSWER], **row) as shared:
        asked = await shared.ask(stream=False, reasoning={"effort": "low"})
        bodies = [request.json for request in shared.second.requests]
    assert [body.get("temperature") for body in bodies] == [0.25, 0.25]
    assert asked.headers["x-gateway-loss"].startswith("reasoning")
    assert (asked.headers["x-gateway-upstream"], asked.headers["x-gateway-attempts"]) == ("two", "3")


SEALED = [{"type": "reasoning.encrypted", "data": "opaque", "id": "r1", "format": "x", "index": 0}]


@pytest.mark.parametrize(("is_opaque", "second_asked"), [(True, 0), (False, 1)])
async def test_opaque_reasoning_of_a_round_binds_the_next_one(
    is_opaque: bool, second_asked: int, calc: CountingServer
) -> None:
    message: Json = {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "call_0", "type": "function", "function": {"name": ADD[0], "arguments": ADD[1]}}],
        **({"reasoning_details": SEALED} if is_opaque else {"reasoning": "I add."}),
    }
    whole = {"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": [
        {"index": 0, "message": message, "finish_reason": "tool_calls"}
    ]}  # fmt: skip
    thinking = Reply(headers=JSON, body=json.dumps(whole).encode(), framing="length")
    async with sharing(calc, [thinking, status(503)], [ANSWER]) as shared:
        await shared.ask(stream=False)
        assert len(shared.second.requests) == second_asked
