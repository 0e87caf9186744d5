"""MCP servers that are added, changed and removed while the gateway runs: SIGHUP, as its users send it."""

import asyncio
import signal
from pathlib import Path
from typing import Any

import httpx
import yaml

from tests.integration.mcp.operator_servers.operator_gateway import CHILD, configured, using
from tests.integration.mcp.tool_gateway import error_text, items_of
from tests.mcp_server import mcp_server
from tests.polling import wait_until
from tests.serving import Command, command
from tests.upstream import ScriptedUpstream, chat_calls, chat_text, closed_port
from tests.upstream.builders import Json

DEAD = {"url": f"http://127.0.0.1:{closed_port()}/mcp"}


def config(upstream: ScriptedUpstream, **servers: Json) -> Json:
    return {
        "server": {"drain_s": 1},
        "store": {"url": None},
        "tools": {"mcp": configured(**servers) | {"removal_grace_s": 0.1}},
        "providers": {"up": {"type": "openai_compatible", "base_url": upstream.url}},
        "models": {"m": {"provider": "up"}},
    }


async def reload(server: Command, tree: Json) -> None:
    before = server.read_log().count("configuration_")
    server.log.with_name("config.yaml").write_text(yaml.safe_dump(tree))
    server.process.send_signal(signal.SIGHUP)
    await wait_until(lambda: server.read_log().count("configuration_") > before)


async def test_a_reload_ends_calls_of_a_removed_server_and_serves_added_ones(tmp_path: Path) -> None:
    with mcp_server() as calc:
        async with ScriptedUpstream() as upstream, httpx.AsyncClient(timeout=60, trust_env=False) as client:
            upstream.on("/chat/completions", chat_calls(("child_hang", "{}")), chat_text("Done."))
            server = command(config(upstream, child={"stdio": CHILD}), tmp_path, forked=True)
            running = await asyncio.to_thread(server.__enter__)
            try:

                async def ask(*labels: str) -> Any:
                    body = {"model": "m", "input": "Hi", "tools": using(*labels)}
                    return (await client.post(f"{running.v1}/responses", json=body)).json()

                async def get(path: str) -> Any:
                    return (await client.get(f"{running.url}{path}")).json()

                assert await get("/readyz") == {"status": "ready", "mcp_servers": {"child": {"status": "not_used"}}}
                hanging = asyncio.get_running_loop().create_task(ask("child"))
                await wait_until(lambda: "tool_started" in running.read_log())

                await reload(running, config(upstream, calc={"url": calc.url}, dead=DEAD))
                (call,) = items_of(await hanging, "mcp_call")
                assert error_text(call) == "server_removed: the server was removed from the configuration"
                upstream.on("/chat/completions", chat_calls(("calc_add", '{"a": 2, "b": 3}')), chat_text("5"))
                (call,) = items_of(await ask("calc"), "mcp_call")
                assert call["output"] == "5"
                assert (await ask("child"))["error"]["code"] == "unknown_server_label"
                await wait_until(lambda: "mcp_server_failed" in running.read_log())
                ready = await get("/readyz")
                assert ready["status"] == "ready", "the state of a server is information"
                assert ready["mcp_servers"]["calc"]["status"] == "ready"
                assert ready["mcp_servers"]["dead"] == {"status": "failed", "reason": "connection_closed"}
                listed, dead = (await get("/v1/gateway/mcp-servers"))["data"]
                assert listed["tools"][0]["model_name"] == "calc_add"
                assert (dead["server_label"], dead["tools"]) == ("dead", [])

                same = {"stdio": CHILD, "prefix": "calc"}
                await reload(running, config(upstream, calc={"url": calc.url}, other=same))
                assert "calc and other have the same prefix" in running.read_log()
                assert [*(await get("/readyz"))["mcp_servers"]] == ["calc", "dead"], "the running set stays"
            finally:
                await asyncio.to_thread(server.__exit__, None, None, None)
