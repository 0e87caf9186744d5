"""gateway/tools/exchange_factory.py: the MCP library is imported while other requests go on."""

import json
import subprocess
import sys

PROGRAM = """
import asyncio, json, sys, time
from gateway.tools.exchange_factory import load_tool_library

async def main():
    before = "mcp" in sys.modules
    loading = asyncio.ensure_future(load_tool_library())
    turns = 0
    while not loading.done():
        await asyncio.sleep(0)
        turns += 1
    await loading
    after = "mcp" in sys.modules
    task = asyncio.ensure_future(load_tool_library())
    await asyncio.sleep(0)
    print(json.dumps({"before": before, "after": after, "turns": turns, "loads_once": task.done()}))

asyncio.run(main())
"""


def test_the_event_loop_continues_while_the_library_is_imported() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, check=True, text=True, timeout=60)
    result = json.loads(done.stdout)
    assert (result["before"], result["after"], result["loads_once"]) == (False, True, True)
    assert result["turns"] > 20
