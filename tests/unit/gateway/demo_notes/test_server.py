"""gateway/demo_notes: the MCP server that ships with the gateway."""

import pytest
from mcp.client.client import Client
from mcp_types import TextContent

from gateway.demo_notes import server


async def call(client: Client, name: str, **arguments: object) -> tuple[bool, str]:
    result = await client.call_tool(name, arguments)
    (content,) = result.content
    assert isinstance(content, TextContent)
    return bool(result.is_error), content.text


async def test_notes_are_stored_found_and_listed() -> None:
    async with Client(server.build_notes_server()) as client:
        tools = (await client.list_tools()).tools
        hints = {tool.name: tool.annotations is not None and tool.annotations.read_only_hint for tool in tools}
        assert hints == {"create_note": False, "search": True, "list_notes": True}
        assert await call(client, "list_notes") == (False, "no note")
        assert await call(client, "create_note", text="Green tiger") == (False, "note 1")
        assert await call(client, "create_note", text="red river") == (False, "note 2")
        assert await call(client, "search", text="tiger") == (False, "Green tiger")
        assert await call(client, "search", text="castle") == (False, "no note")
        assert await call(client, "list_notes") == (False, "Green tiger\nred river")


async def test_impossible_requests_are_errors_of_the_tool(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "_MAX_NOTES", 1)
    async with Client(server.build_notes_server()) as client:
        assert await call(client, "create_note", text="x" * 10_001) == (True, "a note may have 10000 characters")
        assert (await call(client, "create_note", title="no text"))[0]
        assert await call(client, "erase") == (True, "there is no tool erase")
        assert await call(client, "create_note", text="one") == (False, "note 1")
        assert await call(client, "create_note", text="two") == (True, "there are 1 notes already")
