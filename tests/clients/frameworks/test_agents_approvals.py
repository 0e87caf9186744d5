"""The OpenAI Agents SDK requests approvals of calls that the gateway runs."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clients.client_processes import InstalledClients
from tests.clients.conftest import before, store_section
from tests.mcp_server import CountingServer
from tests.serving import Gateway, serving
from tests.upstream import ScriptedUpstream, chat_calls, chat_text
from tests.upstream.builders import Json
from tests.upstream.script import Exchange

ASKED = ["add", '{"a": 2, "b": 40}']


@pytest.fixture
def hosting(upstream: ScriptedUpstream, tmp_path: Path) -> Iterator[Gateway]:
    """A gateway that may call tools of this machine. Its model calls `add` after each message of the user."""

    async def call_once(exchange: Exchange) -> None:
        last: Json = exchange.request.json["messages"][-1]
        called = chat_calls(("calc_add", ASKED[1]))
        await (called if last["role"] == "user" else chat_text(f"It says: {last['content']}"))(exchange)

    upstream.on("/chat/completions", call_once)
    config = {**before(upstream.url), "store": store_section(tmp_path / "state.db"), "egress": {"allow": ["127.0.0.1"]}}
    with serving(config) as running:
        yield running


@pytest.mark.parametrize(
    ("case", "text", "asked", "runs"),
    [
        ("approved", "It says: 42", 1, 1),
        ("approved_chained", "It says: 42", 1, 1),
        ("approved_streamed", "It says: 42", 1, 1),
        ("approved_twice", "It says: 42", 2, 2),
        ("denied", "It says: The user did not approve this call. It was not run. Reason: Too risky.", 1, 0),
    ],
)
async def test_calls_run_as_the_user_decides(
    case: str, text: str, asked: int, runs: int, clients: InstalledClients, hosting: Gateway, calc: CountingServer
) -> None:
    env = {"BASE_URL": hosting.v1, "MODEL": "some-model", "MCP_URL": calc.url}
    got = await clients.run_program("frameworks/agents_approvals.py", case, **env)
    assert got == {"text": text, "requests": [ASKED] * asked}
    assert calc.runs["add"] == runs
