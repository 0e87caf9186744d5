"""Hosted tools that a tool of an MCP server runs, on killed servers: searches are repeated, and code is not."""

from pathlib import Path
from typing import Any, Final

import pytest

from tests.databases import ready_sqlite
from tests.mcp_script import LOOK_UP, scripted_mcp, text_result
from tests.mcp_script import answer as reply
from tests.polling import wait_until
from tests.state.processes.killed_servers import background, has_ended
from tests.state.replicas import Json, client, kill, replica, text
from tests.upstream import ScriptedUpstream
from tests.upstream.builders import chat_calls, chat_text
from tests.upstream.script import Script, silence

pytestmark = pytest.mark.timeout(180)  # servers take long to start where every core is busy

FOUND: Final = '[{"url": "https://a.example/", "text": "It rains.", "name": "a.txt"}]'
SEARCHES: Final[dict[str, tuple[Json, Json]]] = {
    "web_search": ({"query": "q"}, {"url": "url"}),
    "file_search": ({"query": "q"}, {"text": "text", "filename": "name"}),
    "code_interpreter": ({"code": "q"}, {}),
}
TOOLS: Final[dict[str, Json]] = {
    "web_search": {},
    "file_search": {"vector_store_ids": ["handbook"]},
    "code_interpreter": {"container": {"type": "auto"}},
}
CALLS: Final = {
    "web_search": '{"queries": ["rain"]}',
    "file_search": '{"queries": ["rain"]}',
    "code_interpreter": '{"code": "6"}',
}


@pytest.mark.parametrize("tool", SEARCHES)
async def test_a_call_of_a_killed_server_is_repeated_only_if_it_is_a_search(tool: str, tmp_path: Path) -> None:
    store_url = ready_sqlite(tmp_path / "state.db")
    arguments, result = SEARCHES[tool]
    scripts: list[Script] = [silence, reply(text_result(FOUND))]
    async with scripted_mcp(scripts) as mcp, ScriptedUpstream() as upstream:
        mapped = {LOOK_UP["name"]: {"tool": tool, "arguments": arguments, "result": result}}
        servers = {"finder": {"url": mcp.url, "approval": "never", "as": mapped}}
        settings: Any = {"background": background(store_url), "tools": {"mcp": {"servers": servers}}}
        upstream.on("/chat/completions", chat_calls((tool, CALLS[tool])), chat_text("Done."))
        with replica(tmp_path / "first", store_url, upstream.url, **settings) as first:
            async with client(first) as asking:
                job = await asking.create(input="Hi", tools=[{"type": tool, **TOOLS[tool]}], background=True)
                await wait_until(lambda: len(mcp.calls) == 1)
            kill(first)
        with replica(tmp_path / "second", store_url, upstream.url, **settings) as second:
            async with client(second) as asking:
                await wait_until(has_ended, asking, job["id"])
                response = await asking.read(job["id"])
        assert (response["status"], text(response)) == ("completed", "Done.")
        call = response["output"][0]
        (read,) = [each["content"] for each in upstream.requests[-1].json["messages"] if each["role"] == "tool"]
    is_repeated = tool != "code_interpreter"
    assert call["type"] == f"{tool}_call"
    assert (call["status"], len(mcp.calls)) == (("completed", 2) if is_repeated else ("failed", 1))
    assert ("outcome unknown" in read) is not is_repeated
    if not is_repeated:
        assert "not repeated" in read
