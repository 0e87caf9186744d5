"""More clients than descriptors: each gets its answer or a refusal that says when to come back, and none is dropped."""

import asyncio
import resource
import shutil
from contextlib import AsyncExitStack
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.faults.client_view import (
    CHAT,
    GEMINI,
    MESSAGES,
    OLLAMA,
    RESPONSES,
    address_of,
    ask,
    ask_with,
    client,
    question,
)
from tests.faults.config import config
from tests.mcp_script import answer, scripted_mcp, text_result
from tests.polling import wait_until
from tests.serving import Command, command
from tests.upstream import Reply, ScriptedUpstream
from tests.upstream.builders import SSE, chat_text
from tests.upstream.faults import CHAT as ANSWER

LIMIT = 64
CLIENTS = 80
CALM_S = 1.0
"""Seconds without another pause after which the log says that accepting has resumed."""
PRLIMIT = shutil.which("prlimit")

REFUSALS = {
    RESPONSES: (503, "upstream_overloaded"),
    CHAT: (503, "upstream_overloaded"),
    MESSAGES: (529, "overloaded_error"),
    GEMINI: (503, "upstream_overloaded"),
    OLLAMA: (503, None),
}
"""The status and the code with which each API says that a server is overloaded."""


def ended_pauses_of(gateway: Command) -> list[tuple[str, datetime]]:
    """Returns the lines of the log about pauses, with their times; none before the last pause has ended."""
    lines = gateway.read_log_lines()
    found = [
        (line["message"], datetime.fromisoformat(line["timestamp"]))
        for line in lines
        if line["message"] in {"accept_paused", "accept_resumed"}
    ]
    return found if found and found[-1][0] == "accept_resumed" else []


def leave_no_descriptor(gateway: Command) -> None:
    """Lowers the limit of the process to its three standard streams. What it has open stays open."""
    _, hard = resource.prlimit(gateway.process.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(gateway.process.pid, resource.RLIMIT_NOFILE, (3, hard))


@pytest.mark.parametrize("store", [None, "sqlite"])
@pytest.mark.parametrize("transport", ["pooled", "httpx"])
async def test_each_of_many_streams_at_once_is_answered(tmp_path: Path, transport: str, store: str | None) -> None:
    assert PRLIMIT is not None, "prlimit is part of util-linux"
    async with ScriptedUpstream() as upstream:
        upstream.script(*[Reply(headers=SSE, body=[ANSWER.stream])] * CLIENTS)
        settings: dict[str, Any] = config(upstream.url, "chat", transport=transport)
        settings["store"] = {"url": store and f"sqlite+aiosqlite:///{tmp_path}/store.db"}
        with command(settings, tmp_path, within=[PRLIMIT, f"--nofile={LIMIT}:{LIMIT}"]) as gateway:
            async with asyncio.timeout(90):
                replies = [ask(gateway.v1, RESPONSES, stream=True) for _ in range(CLIENTS)]
                seen = await asyncio.gather(*replies)
            assert [reply.ending for reply in seen] == ["completed"] * CLIENTS
            reports = await wait_until(lambda: ended_pauses_of(gateway))
        # Many pauses that follow each other are one. On a busy machine there may be time between them.
        assert [message for message, _ in reports] == ["accept_paused", "accept_resumed"] * (len(reports) // 2)
        began, ended = ([time for _, time in reports[first::2]] for first in (0, 1))
        assert all((end - begin).total_seconds() >= CALM_S for begin, end in zip(began, ended, strict=True))


@pytest.mark.parametrize("transport", ["pooled", "httpx"])
async def test_without_a_descriptor_for_the_upstream_every_api_refuses(tmp_path: Path, transport: str) -> None:
    async with ScriptedUpstream() as upstream:
        settings = {
            **config(upstream.url, "chat", server={"reachability_s": 0}, transport=transport, connect_s=0.2),
            "store": {"url": None},
        }
        with command(settings, tmp_path, forked=True) as gateway:
            async with client() as asking:
                # What is imported for the first reply of an API needs descriptors too.
                for path in REFUSALS:
                    upstream.script(Reply(headers=SSE, body=[ANSWER.stream], framing="close"))
                    assert (await ask_with(asking, gateway.v1, path, stream=True)).ending == "completed"
                await wait_until(lambda: upstream.open_connections == 0)
                leave_no_descriptor(gateway)
                for path, (status, code) in REFUSALS.items():
                    body = question(path, stream=True)
                    base = gateway.url if path in (OLLAMA,) else gateway.v1
                    refused = await asking.post(base + address_of(path, body), json=body)
                    assert (path, refused.status_code, refused.headers.get("retry-after")) == (path, status, "1"), (
                        refused.text
                    )
                    assert "no free file descriptor" in refused.text
                    assert (await ask_with(asking, gateway.v1, path, stream=True)).code == code


async def test_a_lack_of_descriptors_for_tools_and_the_store_is_said_by_its_name(tmp_path: Path) -> None:
    async with ScriptedUpstream() as upstream, scripted_mcp(answer(text_result("found"))) as lookup:
        upstream.on("/chat/completions", chat_text("hello"))
        settings = {
            **config(upstream.url, "chat", server={"reachability_s": 0}),
            "egress": {"allow": ["127.0.0.1"]},
            "store": {"url": f"sqlite+aiosqlite:///{tmp_path}/store.db"},
        }
        with command(settings, tmp_path, forked=True) as gateway:
            async with AsyncExitStack() as clients:
                # A connection each: a client opens as many for requests at once as it happens to need.
                asking, *others = [await clients.enter_async_context(client()) for _ in range(12)]

                async def request_with(**tool: object) -> httpx.Response:
                    body = {
                        **question(RESPONSES, stream=False),
                        "tools": [{"type": "mcp", "server_label": "lookup", **tool}],
                    }
                    return await asking.post(gateway.v1 + address_of(RESPONSES, body), json=body)

                # What is imported for the first request with tools needs descriptors too.
                tool = {"server_url": lookup.url, "require_approval": "never"}
                assert (await request_with(**tool)).status_code == 200
                for other in others:
                    assert (await other.get(f"{gateway.url}/healthz")).status_code == 200
                await wait_until(lambda: lookup.upstream.open_connections == 0)
                leave_no_descriptor(gateway)
                refused = await request_with(**tool)
                assert (refused.status_code, refused.json()["error"]["code"]) == (424, "external_connector_error")
                assert "no free file descriptor" in refused.text

                async def read_at_once() -> list[httpx.Response]:
                    """Returns the refused ones. One connection serves all if the requests come one after another."""
                    readers = enumerate((asking, *others))
                    reads = [each.get(f"{gateway.v1}/responses/resp_{number}/input_items") for number, each in readers]
                    replies = await asyncio.gather(*reads)
                    assert {reply.status_code for reply in replies} <= {404, 503}
                    return [reply for reply in replies if reply.status_code == 503]

                assert {reply.headers.get("retry-after") for reply in await wait_until(read_at_once)} == {"1"}
            lines = gateway.read_log_lines()
        why = [line["why"] for line in lines if line["message"] == "store_unavailable"]
        assert set(why) <= {"the gateway has no free file descriptor"}
