"""Hosted tools that a tool of an MCP server runs, over every API of clients."""

import threading
from pathlib import Path
from typing import Any, Final

import anthropic
import httpx
import pytest

from tests.agui_client import AguiThread, user
from tests.databases import ready_sqlite
from tests.integration.mapped_tools.mapped_gateway import MappedServer, Mapping, call, mapping
from tests.upstream import chat_calls, chat_text
from tests.upstream.builders import Json

HELLO: Final[Any] = [{"role": "user", "content": "Hi"}]
CALLS: Final[dict[str, tuple[str, tuple[str, str], str]]] = {
    "web_search": ("find_pages", call("web_search", queries=["rain"]), "【1】 Rain"),
    "file_search": ("find_chunks", call("file_search", queries=["cats"]), "【1】 cats[1].txt"),
    "code_interpreter": ("run_code", call("code_interpreter", code="6"), "ran 6"),
}
TOOLS: Final[dict[str, Json]] = {
    "web_search": {"web_search": True},
    "file_search": {"file_search": {"vector_store_ids": ["handbook"]}},
    "code_interpreter": {"code_interpreter": True},
}
PATHS: Final[dict[str, tuple[str, Json]]] = {
    "responses": ("/v1/responses", {"model": "m", "input": "Hi"}),
    "chat": ("/v1/chat/completions", {"model": "m", "messages": HELLO}),
    "messages": ("/v1/messages", {"model": "m", "messages": HELLO, "max_tokens": 100}),
    "gemini": ("/v1beta/models/m:generateContent", {"contents": [{"role": "user", "parts": [{"text": "Hi"}]}]}),
    "ollama": ("/api/chat", {"model": "m", "messages": HELLO, "stream": False}),
    "generate": ("/generate", {"model": "m", "messages": HELLO}),
}


def client_of(served: Mapping) -> httpx.AsyncClient:
    key = {"authorization": "Bearer gateway-key-1"}
    return httpx.AsyncClient(base_url=served.gateway.url.removesuffix("/v1"), headers=key, trust_env=False, timeout=60)


@pytest.mark.parametrize("api", PATHS)
@pytest.mark.parametrize("tool", CALLS)
async def test_a_model_has_the_tool_in_every_api(server: MappedServer, tool: str, api: str) -> None:
    theirs, made, read = CALLS[tool]
    path, body = PATHS[api]
    models = {"m": {"provider": "up", "tools": TOOLS[tool]}}
    model = (chat_calls(made), chat_text("Well 【1】."))
    async with mapping(*model, server=server, models=models) as served, client_of(served) as client:
        reply = await client.post(path, json=body)
        assert reply.status_code == 200, reply.text
        assert read in served.read_by_model()
    assert [name for name, _ in server.calls] == [theirs]
    assert "Well" in reply.text


async def test_a_model_has_the_search_on_a_server_with_a_store(server: MappedServer, tmp_path: Path) -> None:
    models = {"m": {"provider": "up", "tools": TOOLS["file_search"]}}
    model = (chat_calls(CALLS["file_search"][1]), chat_text("Well 【1】."))
    store = {"url": ready_sqlite(tmp_path / "state.db")}
    async with mapping(*model, server=server, models=models, store=store) as served:
        await served.gateway.ask()
    assert server.calls == [("find_chunks", {"q": "cats", "count": 20, "stores": ["handbook"]})]


@pytest.mark.parametrize("tool", CALLS)
async def test_a_tool_that_does_not_answer_in_time_is_a_failed_call(server: MappedServer, tool: str) -> None:
    theirs, made, _ = CALLS[tool]
    released = threading.Event()

    def wait(_: Json) -> Json:
        released.wait(60)
        return {}

    server.answers[theirs] = wait
    model = (chat_calls(made), chat_text("Sorry."))
    try:
        async with mapping(*model, server=server, own={"call_deadline_s": 0.3}) as served:
            response = await served.gateway.ask(AGUI_TOOLS[tool])
            read = served.read_by_model()
    finally:
        released.set()
    (ran,) = [item for item in response["output"] if item["type"] == f"{tool}_call"]
    assert (ran["status"], response["status"]) == ("failed", "completed")
    assert "【" not in read


async def test_a_chat_completion_searches_with_its_own_parameter(server: MappedServer) -> None:
    model = (chat_calls(CALLS["web_search"][1]), chat_text("Rain 【1】."))
    async with mapping(*model, server=server) as served:
        completion = await served.gateway.client.chat.completions.create(
            model="m", messages=HELLO, web_search_options={"search_context_size": "low"}
        )
    (annotation,) = completion.choices[0].message.annotations or []
    assert annotation.url_citation.url == "https://weather.example/rain"
    assert server.calls[0][1]["count"] == 5


async def test_a_chat_completion_has_the_citations_of_files_in_its_extensions(server: MappedServer) -> None:
    model = (chat_calls(CALLS["file_search"][1]), chat_text("Cats 【1】."))
    tools: Any = [{"type": "file_search", "vector_store_ids": ["handbook"]}]
    async with mapping(*model, server=server) as served:
        completion = await served.gateway.client.chat.completions.create(
            model="m", messages=HELLO, tools=tools, extra_body={"extensions": True}
        )
    (citation,) = completion.model_dump()["extensions"]["file_citations"]
    assert (citation["file_id"], citation["filename"]) == ("doc-1", "cats[1].txt")


async def test_a_chat_completion_has_the_code_in_its_extensions(server: MappedServer) -> None:
    models = {"m": {"provider": "up", "tools": {"code_interpreter": True}}}
    model = (chat_calls(CALLS["code_interpreter"][1]), chat_text("It is 6."))
    async with mapping(*model, server=server, models=models) as served:
        completion = await served.gateway.client.chat.completions.create(
            model="m", messages=HELLO, extra_body={"extensions": True}
        )
    (run,) = completion.model_dump()["extensions"]["mcp_calls"]
    assert (run["type"], run["code"], run["outputs"]) == (
        "code_interpreter_call",
        "6",
        [{"type": "logs", "logs": "ran 6"}],
    )
    assert "details" not in run


async def test_a_message_has_the_blocks_of_the_search_and_its_citations(server: MappedServer) -> None:
    model = (chat_calls(CALLS["web_search"][1]), chat_text("Rain 【1】."))
    tools: Any = [{"type": "web_search_20250305", "name": "web_search", "allowed_domains": ["weather.example"]}]
    async with mapping(*model, server=server) as served:
        root = served.gateway.url.removesuffix("/v1")
        async with anthropic.AsyncAnthropic(base_url=root, api_key="gateway-key-1", max_retries=0) as client:
            message = await client.messages.create(model="m", max_tokens=100, messages=HELLO, tools=tools)
    use, result, text = (block.model_dump() for block in message.content)
    assert (use["type"], result["type"]) == ("server_tool_use", "web_search_tool_result")
    assert [each["url"] for each in result["content"]] == ["https://weather.example/rain"]
    assert text["citations"][0]["url"] == "https://weather.example/rain"
    assert server.calls[0][1]["only"] == ["weather.example"]


AGUI_TOOLS: Final[dict[str, Json]] = {
    "web_search": {"type": "web_search"},
    "file_search": {"type": "file_search", "vector_store_ids": ["handbook"]},
    "code_interpreter": {"type": "code_interpreter", "container": {"type": "auto"}},
}
AGUI_RESULTS: Final = {
    "web_search": "https://weather.example/rain",
    "file_search": "cats",
    "code_interpreter": "ran 6",
}


@pytest.mark.parametrize("tool", CALLS)
async def test_an_agui_run_has_the_call_and_its_result(server: MappedServer, tool: str) -> None:
    model = (chat_calls(CALLS[tool][1]), chat_text("Well 【1】."))
    async with mapping(*model, server=server) as served, client_of(served) as client:
        thread = AguiThread(client, forwardedProps={"model": "m", "tools": [AGUI_TOOLS[tool]]})
        events = await thread.run(user("Hi"))
    (start,) = [event for event in events if event["type"] == "TOOL_CALL_START"]
    (result,) = [event for event in events if event["type"] == "TOOL_CALL_RESULT"]
    cited = [event for event in events if event["type"] == "CUSTOM" and event["name"] == "annotation"]
    assert start["toolCallName"] == tool
    assert AGUI_RESULTS[tool] in result["content"]
    assert len(cited) == (0 if tool == "code_interpreter" else 1)
