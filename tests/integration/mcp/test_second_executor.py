"""A second kind of hosted tools, which is not MCP: its items and events reach every client API.

The kind searches a dictionary. It is what a page of `docs/extending.md` describes: a form, an executor and a kind.
"""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import httpx
import orjson
import pytest

from gateway.tools import host
from gateway.tools.executors.executor import Allows, CacheKey, ListedTools, OnProgress, ToolExecutor, ToolSource
from gateway.tools.executors.kind import ResponseContext
from tests.databases import ready_sqlite
from tests.integration.mcp.tool_gateway import Hosting, hosting, items_of
from tests.upstream import chat_calls, chat_text
from tests.upstream.builders import Json
from translation.hosted.call_forms import CallForm, CallView, PastHostedCall
from translation.hosted.calls import HostedCall
from translation.hosted.citations.citables import CitablePage
from translation.hosted.citations.citation_table import (
    CitationTable,
    build_result_details,
    read_result_details,
    write_marker,
)
from translation.hosted.outcomes import ToolOutcome, build_execution_error
from translation.hosted.tools import HostedTool, ToolKey
from translation.representation.loss import Loss

WEB_SEARCH: Final = "web_search"
PAGES: Final = {"rain": ("https://weather.example/rain", "Rain", "It rains.")}
SEARCH: Final = (WEB_SEARCH, '{"query": "rain"}')
DEFINITION: Final[Json] = {
    "name": WEB_SEARCH,
    "description": "Searches the web.",
    "input_schema": {"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]},
    "annotations": {"read_only": True},
}


class SearchForm(CallForm):
    """Items of the type `web_search_call`, whose phases are those of OpenAI's API."""

    item_type = "web_search_call"
    id_prefix = "ws"
    run_phases = ("searching",)

    def build_fields(self, call: CallView) -> Json:
        return {**(call.outcome.fields or {})}

    def read_past(self, item: Json) -> PastHostedCall:
        arguments = orjson.dumps({"query": (item.get("action") or {}).get("query") or ""}).decode()
        text, citables = read_result_details(item.get("details")) or ("A search took place.", {})
        return PastHostedCall(WEB_SEARCH, WEB_SEARCH, arguments, text, citables)


FORM: Final = SearchForm()


class SearchExecutor:
    """Searches the dictionary."""

    source = ToolSource(label=WEB_SEARCH, shows_list=False, has_clean_lists=True)
    cache_key = CacheKey([{"label": WEB_SEARCH}])

    def __init__(self, citations: CitationTable) -> None:
        self._citations = citations

    def list_secrets(self) -> Sequence[str]:
        return ()

    def find_known_tools(self, allows: Allows) -> ListedTools | None:
        return ListedTools([DEFINITION])

    async def list_tools(self, allows: Allows, *, must_be_fresh: bool = False) -> ListedTools:
        return ListedTools([DEFINITION])

    def keep_list(self) -> None: ...

    def build_tools(self, definitions: Sequence[Json]) -> list[HostedTool]:
        return [
            HostedTool(
                key=ToolKey(WEB_SEARCH, each["name"]),
                parameters=each["input_schema"],
                description=each["description"],
                needs_approval=False,
                prefix="",
                form=FORM,
                choice_type=WEB_SEARCH,
                is_repeatable=True,
            )
            for each in definitions
        ]

    async def run(self, call: HostedCall, deadline_s: float, on_progress: OnProgress | None = None) -> ToolOutcome:
        query = orjson.loads(call.arguments)["query"]
        action: Json = {"type": "search", "query": query, "queries": [query]}
        if query not in PAGES:
            return build_execution_error("search_unavailable: nothing is known about this")
        url, title, text = PAGES[query]
        action["sources"] = [{"type": "url", "url": url}]
        page = CitablePage(url, title)
        number = self._citations.add(page)
        output = f"{write_marker(number)} {title} {url}\n{text}"
        return ToolOutcome(
            output=output, fields={"action": action, "details": build_result_details(output, {number: page})}
        )

    async def close(self) -> None: ...


class SearchKind:
    """Runs the tool `web_search` of a request, unless its upstream does."""

    forms: Mapping[str, CallForm] = {FORM.item_type: FORM}

    def __init__(self, *, is_on: bool = True) -> None:
        self._is_on = is_on

    def runs_tool(self, tool: Json) -> bool:
        return self._is_on and str(tool.get("type")).startswith(WEB_SEARCH)

    async def prepare(self, tools: Sequence[Json], added: Sequence[Json], owner: str) -> "SearchKind":
        return self

    def restrict_to_key(self, allowed_servers: Sequence[str]) -> "SearchKind":
        return self

    def leave_to_upstream(self, hosted_tools: Collection[str]) -> "SearchKind":
        return SearchKind(is_on=WEB_SEARCH not in hosted_tools)

    def find_losses(self, tools: Sequence[Json]) -> Sequence[Loss]:
        return ()

    def open_executors(self, tools: Sequence[Json], context: ResponseContext) -> list[ToolExecutor]:
        return [SearchExecutor(context.citations)] if any(map(self.runs_tool, tools)) else []


@pytest.fixture(autouse=True)
def search_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "KIND_BUILDERS", (lambda _settings: SearchKind(),))


MODEL: Final = (chat_calls(SEARCH), chat_text("It rains 🌧 【", "1】."))
LINK: Final = "([weather.example](https://weather.example/rain))"
ANSWER: Final = f"It rains 🌧 {LINK}."
READ_PAGE: Final = "【1】 Rain https://weather.example/rain\nIt rains."


async def test_a_response_has_the_items_and_the_events_of_a_search() -> None:
    async with hosting(*MODEL) as gateway:
        stream = await gateway.client.responses.create(
            model="m", input="Hi", tools=[{"type": "web_search"}], stream=True
        )
        events: list[Any] = [event async for event in stream]
        offered = gateway.model.requests[0].json["tools"]
        second = await gateway.last_request()
    assert [each["function"]["name"] for each in offered] == ["web_search"]
    assert second["messages"][-1]["content"] == READ_PAGE
    assert [event.type for event in events if "web_search" in event.type] == [
        "response.web_search_call.in_progress",
        "response.web_search_call.searching",
        "response.web_search_call.completed",
    ]
    response = events[-1].response.model_dump()
    assert [item["type"] for item in response["output"]] == ["web_search_call", "message"]
    assert response["output"][0]["action"]["query"] == "rain"
    assert response["output"][0]["id"].startswith("ws_")
    assert not {"details", "citables"} & response["output"][0].keys()
    assert response["output"][0]["action"].get("sources") is None, "they are sent if the client includes them"
    assert "".join(event.delta for event in events if event.type == "response.output_text.delta") == ANSWER
    (cited,) = [event for event in events if event.type == "response.output_text.annotation.added"]
    (annotation,) = response["output"][1]["content"][0]["annotations"]
    assert cited.annotation.model_dump() == annotation
    assert (annotation["url"], annotation["title"]) == ("https://weather.example/rain", "Rain")
    assert ANSWER[annotation["start_index"] : annotation["end_index"]] == LINK
    assert response["tools"][0]["type"] == "web_search"


async def test_a_search_that_fails_is_a_failed_item_and_the_reply_continues() -> None:
    async with hosting(chat_calls((WEB_SEARCH, '{"query": "snow"}')), chat_text("Sorry.")) as gateway:
        response = await gateway.ask({"type": "web_search"})
        assert (await gateway.last_request())["messages"][-1]["content"].startswith("search_unavailable")
    assert items_of(response, "web_search_call")[0]["status"] == "failed"
    assert response["status"] == "completed"


async def test_a_choice_of_the_search_forces_it_in_the_first_round_only() -> None:
    own = {"type": "function", "name": "own", "parameters": {"type": "object", "properties": {}}}
    body = {"model": "m", "input": "Hi", "tools": [{"type": "web_search"}, own], "tool_choice": {"type": "web_search"}}
    async with hosting(*MODEL) as gateway:
        await _post(gateway, "/responses", body)
        first, second = (request.json for request in gateway.model.requests)
    assert first["tool_choice"] == "required", "the upstream can force a call, and not a tool"
    assert [each["function"]["name"] for each in first["tools"]] == ["web_search"]
    assert second["tool_choice"] == "auto"
    assert [each["function"]["name"] for each in second["tools"]] == ["own", "web_search"]


async def test_a_search_of_the_history_is_a_call_for_the_model(tmp_path: Path) -> None:
    store = {"url": ready_sqlite(tmp_path / "state.db")}
    async with hosting(*MODEL, chat_text("Yes.")) as gateway_without_store:
        first = await gateway_without_store.ask({"type": "web_search"})
        await gateway_without_store.ask(
            {"type": "web_search"}, input=[*first["output"], {"role": "user", "content": "Sure?"}]
        )
        roles = [message["role"] for message in (await gateway_without_store.last_request())["messages"]]
    assert roles == ["assistant", "tool", "assistant", "user"]
    async with hosting(*MODEL, chat_text("Yes 【1】."), store=store) as gateway:
        stored = await gateway.ask({"type": "web_search"})
        again = await gateway.ask({"type": "web_search"}, previous_response_id=stored["id"], input="Sure?")
        messages = (await gateway.last_request())["messages"]
    assert [message["role"] for message in messages] == ["user", "assistant", "tool", "assistant", "user"]
    assert messages[2]["content"] == READ_PAGE, "the model reads the results of the earlier turn, and cites them"
    assert again["output"][0]["content"][0]["text"] == f"Yes {LINK}."
    assert len(again["output"][0]["content"][0]["annotations"]) == 1


async def test_sources_are_shown_to_clients_that_include_them(tmp_path: Path) -> None:
    sources = [{"type": "url", "url": "https://weather.example/rain"}]
    include: Any = ["web_search_call.action.sources"]
    async with hosting(*MODEL, *MODEL, store={"url": ready_sqlite(tmp_path / "state.db")}) as gateway:
        hidden = await gateway.ask({"type": "web_search"})
        shown = await gateway.ask({"type": "web_search"}, include=include)
        later = (await gateway.client.responses.retrieve(hidden["id"], include=include)).model_dump()
        plain = (await gateway.client.responses.retrieve(shown["id"])).model_dump()
        reply = await _post(gateway, "/responses", {"model": "m", "input": "Hi", "include": include})
    found = [each["output"][0]["action"].get("sources") for each in (hidden, shown, later, plain)]
    assert found == [None, sources, sources, None]
    assert "x-gateway-loss" in reply.headers, "without a search there is nothing to include"


@pytest.mark.parametrize("streams", [False, True])
async def test_a_chat_completion_is_the_answer_of_all_rounds(streams: bool) -> None:
    body = {"model": "m", "messages": [{"role": "user", "content": "Hi"}], "web_search_options": {}, "stream": streams}
    async with hosting(*MODEL) as gateway:
        reply = await _post(gateway, "/chat/completions", body)
        assert len(gateway.model.requests) == 2
    assert LINK in reply.text.replace("\\/", "/")
    assert '"start_index":11' in reply.text.replace(" ", "")
    assert "tool_calls" not in reply.text
    assert "x-gateway-loss" not in reply.headers


async def test_a_chat_completion_with_extensions_has_the_calls() -> None:
    body = {"model": "m", "messages": [{"role": "user", "content": "Hi"}], "web_search_options": {}, "extensions": True}
    async with hosting(*MODEL) as gateway:
        completion = (await _post(gateway, "/chat/completions", body)).json()
    (call,) = completion["extensions"]["mcp_calls"]
    assert (call["type"], call["action"]["query"]) == ("web_search_call", "rain")
    assert "details" not in call


@pytest.mark.parametrize("streams", [False, True])
async def test_a_message_has_the_blocks_of_a_search(streams: bool) -> None:
    body = {
        "model": "m",
        "max_tokens": 100,
        "messages": [{"role": "user", "content": "Hi"}],
        "tools": [{"type": "web_search_20250305", "name": "web_search"}],
        "stream": streams,
    }
    async with hosting(*MODEL) as gateway:
        reply = await _post(gateway, "/messages", body)
        assert len(gateway.model.requests) == 2
    for part in ("server_tool_use", "web_search_tool_result", LINK, "web_search_result_location"):
        assert part in reply.text
    if not streams:
        assert [block["type"] for block in reply.json()["content"]] == [
            "server_tool_use",
            "web_search_tool_result",
            "text",
        ]


async def test_a_background_response_journals_what_the_model_read(tmp_path: Path) -> None:
    store = {"url": ready_sqlite(tmp_path / "state.db")}
    async with hosting(*MODEL, store=store) as gateway:
        created = await gateway.ask({"type": "web_search"}, background=True)
        while created["status"] in ("queued", "in_progress"):
            created = (await gateway.client.responses.retrieve(created["id"])).model_dump()
    assert created["status"] == "completed"
    assert [item["type"] for item in created["output"]] == ["web_search_call", "message"]


async def _post(gateway: Hosting, path: str, body: Json) -> httpx.Response:
    async with httpx.AsyncClient(timeout=60) as client:
        reply = await client.post(gateway.url + path, json=body, headers={"anthropic-version": "2023-06-01"})
    assert reply.status_code == 200, reply.text
    return reply
