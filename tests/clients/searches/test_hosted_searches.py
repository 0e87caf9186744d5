"""Clients whose tools are searches that the gateway runs: in files, and on the web by a local engine."""

from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

import orjson
import pytest
from openai import AsyncOpenAI

from tests import databases
from tests.clients.client_processes import InstalledClients
from tests.clients.coding_agents.codex import Codex, message_texts
from tests.clients.coding_agents.test_claude_code import ClaudeCode, blocks
from tests.integration.web_search.web_server import WebReply, json_reply, web_server
from tests.serving import Gateway, serving
from tests.upstream import ScriptedUpstream, chat_calls, chat_text
from tests.upstream.script import Exchange

Json = dict[str, Any]
RAIN: Final = "It rains in Cologne today."
STREAMED: Final = pytest.mark.parametrize("streamed", ["", "_streamed"], ids=["whole", "streamed"])
PROGRAMS: Final = (
    "searches/agents_searches.py",
    "searches/langchain_searches.py",
    "searches/ai_sdk_searches.mjs",
)


def call(name: str, **arguments: Any) -> Any:
    return chat_calls((name, orjson.dumps(arguments).decode()))


class Searching(NamedTuple):
    """A gateway with a search engine and a vector store. `rain` is the page that the engine finds."""

    gateway: Gateway
    rain: str
    store_id: str

    @property
    def variables(self) -> dict[str, str]:
        return {"BASE_URL": self.gateway.v1, "MODEL": "some-model", "STORE_ID": self.store_id}


@asynccontextmanager
async def searching(upstream: ScriptedUpstream, folder: Path) -> Any:
    async with web_server({}) as web:
        rain = f"{web.url}/rain"
        web.replies |= {
            "/search": json_reply({"results": [{"url": rain, "title": "Rain", "content": RAIN}]}),
            "/rain": WebReply(f"<title>Rain</title><p>{RAIN}".encode()),
        }
        config = {
            "store": {"url": databases.ready_sqlite(folder / "state.db")},
            "files": {"path": str(folder / "files")},
            "egress": {"allow": ["127.0.0.1"]},
            "tools": {"web_search": {"engine": "searxng", "url": web.url}},
            "providers": {"p": {"type": "openai_compatible", "base_url": upstream.url}},
            "models": {"some-model": {"provider": "p"}, "claude-*": {"provider": "p"}},
        }
        with serving(config) as gateway:
            async with AsyncOpenAI(base_url=gateway.v1, api_key="none", max_retries=0) as client:
                store = await client.vector_stores.create()
                file = await client.files.create(file=("rain.txt", RAIN.encode()), purpose="assistants")
                await client.vector_stores.files.create_and_poll(file.id, vector_store_id=store.id)
            yield Searching(gateway, rain, store.id)


@STREAMED
@pytest.mark.parametrize("program", PROGRAMS)
async def test_the_files_of_the_user_are_searched_and_cited(
    program: str, streamed: str, clients: InstalledClients, upstream: ScriptedUpstream, tmp_path: Path
) -> None:
    upstream.on("/chat/completions", call("file_search", queries=["rain"]), chat_text("It rains ", "【1】", "."))
    async with searching(upstream, tmp_path) as served:
        got = await clients.run_program(program, f"files{streamed}", **served.variables)
    assert got["text"] == "It rains ."
    assert RAIN in upstream.requests[1].json["messages"][-1]["content"]
    if "annotations" in got:
        assert got["items"][-2:] in (["file_search_call", "message"], ["file_search_call", "text"])
        (note,) = got["annotations"]
        place = note.get("index", note.get("file_index"))  # LangChain renames it
        assert (note["type"], note["filename"], place) == ("file_citation", "rain.txt", 9)
    else:
        assert got["tools"] == [["file_search", True]]
        assert got["sources"] == ["rain.txt"]


@STREAMED
@pytest.mark.parametrize("program", PROGRAMS)
async def test_the_web_is_searched_and_cited(
    program: str, streamed: str, clients: InstalledClients, upstream: ScriptedUpstream, tmp_path: Path
) -> None:
    upstream.on("/chat/completions", call("web_search", queries=["rain"]), chat_text("It rains ", "【1】", "."))
    async with searching(upstream, tmp_path) as served:
        got = await clients.run_program(program, f"web{streamed}", **served.variables)
        link = f"([127.0.0.1]({served.rain}))"
    assert got["text"] == f"It rains {link}."
    if "annotations" in got:
        assert got["items"][-2:] in (["web_search_call", "message"], ["web_search_call", "text"])
        (note,) = got["annotations"]
        assert (note["type"], note["url"]) == ("url_citation", served.rain)
        assert got["text"][note["start_index"] : note["end_index"]] == link
    else:
        assert got["tools"] == [["web_search", True]]
        assert got["sources"] == [served.rain]


async def test_codex_searches_the_web(clients: InstalledClients, upstream: ScriptedUpstream, tmp_path: Path) -> None:
    upstream.on("/chat/completions", call("web_search", queries=["rain"]), chat_text("It rains ", "【1】", "."))
    async with searching(upstream, tmp_path) as served:
        codex = Codex(clients, served.gateway.v1, tmp_path)
        events = await codex.do("Does it rain?", "-c", 'web_search="live"')
        link = f"([127.0.0.1]({served.rain}))"
    assert message_texts(events) == [f"It rains {link}."]
    assert [event["item"]["query"] for event in events if event.get("item", {}).get("type") == "web_search"][
        -1
    ] == "rain"


async def test_claude_code_searches_the_web(
    clients: InstalledClients, upstream: ScriptedUpstream, tmp_path: Path
) -> None:
    async def reply(exchange: Exchange) -> None:
        body = exchange.request.json
        offered = {tool["function"]["name"] for tool in body.get("tools", ())}
        has_result = body["messages"][-1]["role"] == "tool"
        if "web_search" in offered:
            script = chat_text("It rains 【1】.") if has_result else call("web_search", queries=["rain"])
        else:
            script = chat_text("It rains.") if has_result else call("WebSearch", query="rain")
        await script(exchange)

    upstream.on("/chat/completions", reply)
    async with searching(upstream, tmp_path) as served:
        claude = ClaudeCode(clients, served.gateway, tmp_path)
        events = await claude.do("Does it rain?", "--allowedTools", "WebSearch", model="claude-opus-4-6")
    assert events[-1]["result"] == "It rains."
    [result] = blocks(events, "tool_result")
    assert f'"url":"{served.rain}"' in result["content"]
