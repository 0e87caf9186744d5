"""One session serves the calls of many clients. Events of one call are not reported in the others."""

import asyncio
import sys
from functools import partial
from pathlib import Path

import pytest
from mcp_types import CallToolRequestParams

from gateway.tools.mcp.connection import call_once
from gateway.tools.mcp.results import build_outcome
from gateway.tools.mcp.server import McpServer, StdioCommand
from gateway.tools.mcp.session import McpSession
from providers.egress import EgressClient

SERVER = """
import json, sys

def send(**message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)

expected, calls = int(sys.argv[1]), []
for line in sys.stdin:
    message = json.loads(line)
    method, number = message.get("method"), message.get("id")
    if method == "initialize":
        version = message["params"]["protocolVersion"]
        info = {"name": "asking", "version": "1"}
        send(id=number, result={"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info})
    elif method == "tools/call":
        calls.append(number)
        if len(calls) == expected:
            form = {"type": "object", "properties": {}}
            send(id="question", method="elicitation/create", params={"message": "Who?", "requestedSchema": form})
    elif method is None and number == "question":
        for call in calls:
            send(id=call, result={"content": [{"type": "text", "text": "Hello."}]})
        calls = []
    elif number is not None and method is not None:
        send(id=number, error={"code": -32601, "message": "unknown method"})
"""


@pytest.mark.parametrize(("calls", "is_declined"), [(1, True), (2, False)])
async def test_a_request_without_its_call_belongs_to_the_only_running_call(
    calls: int, is_declined: bool, tmp_path: Path
) -> None:
    script = tmp_path / "server.py"
    script.write_text(SERVER)
    command = StdioCommand(arguments=(sys.executable, str(script), str(calls)), env={}, cwd=None)
    session = McpSession(McpServer(label="asking", command=command), EgressClient())
    try:
        await session.wait_until_open()
        call = partial(call_once, params=CallToolRequestParams(name="greet", arguments={}), max_pages=1)
        results = await asyncio.gather(*(session.request(call, 10.0) for _ in range(calls)))
    finally:
        await session.close()
    assert [build_outcome(result, sees_images=False).has_declined_input for result in results] == [is_declined] * calls
