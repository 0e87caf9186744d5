"""Web searches by a tool of an MCP server: clients get the items, events and citations of a web search."""

from typing import Any, Final

import pytest

from tests.integration.mapped_tools.mapped_gateway import (
    RAIN,
    WEB_SEARCH,
    MappedServer,
    call,
    mapped_server,
    mapping,
)
from tests.integration.mcp.tool_gateway import items_of
from tests.upstream import chat_calls, chat_text

ONE: Final = {"find_pages": WEB_SEARCH}
MODEL: Final = (chat_calls(call("web_search", queries=["rain"])), chat_text("It rains 🌧 【", "1】."))
LINK: Final = f"([weather.example]({RAIN}))"


async def test_a_response_has_the_items_events_and_citations_of_a_search() -> None:
    with mapped_server() as server:
        async with mapping(*MODEL, server=server, mappings=ONE) as served:
            stream = await served.gateway.client.responses.create(
                model="m",
                input="Hi",
                tools=[{"type": "web_search"}],
                stream=True,
                include=["web_search_call.action.sources"],
            )
            events: list[Any] = [event async for event in stream]
            offered = served.gateway.model.requests[0].json["tools"]
            read = served.read_by_model()
    assert [each["function"]["name"] for each in offered] == ["web_search"], "pages are not opened"
    assert server.calls == [("find_pages", {"q": "rain", "count": 8})]
    assert f"【1】 Rain [7] {RAIN}\nIt rains [9] today." in read
    assert "【2】 Snow https://snow.example/" in read
    assert [event.type for event in events if "web_search" in event.type] == [
        "response.web_search_call.in_progress",
        "response.web_search_call.searching",
        "response.web_search_call.completed",
    ]
    search, message = events[-1].response.model_dump()["output"]
    assert (search["status"], search["action"]["queries"]) == ("completed", ["rain"])
    assert [each["url"] for each in search["action"]["sources"]] == [RAIN, "https://snow.example/"]
    (content,) = message["content"]
    (annotation,) = content["annotations"]
    assert content["text"] == f"It rains 🌧 {LINK}."
    assert content["text"][annotation["start_index"] : annotation["end_index"]] == LINK
    assert (annotation["url"], annotation["title"]) == (RAIN, "Rain [7]")


async def test_the_parameters_of_the_tool_reach_the_server() -> None:
    tool: Any = {
        "type": "web_search",
        "search_context_size": "low",
        "user_location": {"type": "approximate", "country": "de", "city": "Köln"},
        "filters": {"allowed_domains": ["weather.example"], "blocked_domains": ["ads.example"]},
    }
    with mapped_server() as server:
        async with mapping(*MODEL, server=server, mappings=ONE) as served:
            reply = await served.gateway.client.responses.with_raw_response.create(model="m", input="Hi", tools=[tool])
            read = served.read_by_model()
    assert server.calls == [
        ("find_pages", {"q": "rain", "count": 5, "country": "DE", "only": ["weather.example"]}),
    ]
    assert "snow.example" not in read, "rules hold for what the server finds, too"
    assert reply.headers["x-gateway-loss"] == "tools[0].user_location.city=dropped"


async def test_each_query_of_the_model_is_a_call() -> None:
    model = (chat_calls(call("web_search", queries=["rain", "snow"])), chat_text("Done."))
    with mapped_server() as server:
        settings = {"find_pages": {**WEB_SEARCH, "arguments": {"query": "q"}}}
        async with mapping(*model, server=server, mappings=settings) as served:
            response = await served.gateway.ask({"type": "web_search"})
    assert sorted(arguments["q"] for _, arguments in server.calls) == ["rain", "snow"]
    assert len(items_of(response, "web_search_call")) == 1


@pytest.fixture(scope="module")
def shared_server() -> Any:
    with mapped_server() as server:
        yield server


async def test_a_key_that_may_not_use_the_server_has_no_search(shared_server: MappedServer) -> None:
    keys = [{"name": "limited", "key": "gateway-key-1", "mcp_servers": ["other"]}]
    async with mapping(chat_text("Hi."), server=shared_server, mappings=ONE, auth={"keys": keys}) as served:
        reply = await served.gateway.client.responses.with_raw_response.create(
            model="m", input="Hi", tools=[{"type": "web_search"}]
        )
    assert reply.headers["x-gateway-loss"] == "tools[0]=web_search left out"


async def test_a_model_offers_the_search_with_every_request(shared_server: MappedServer) -> None:
    models = {"m": {"provider": "up", "tools": {"web_search": True}}}
    async with mapping(*MODEL, server=shared_server, mappings=ONE, models=models) as served:
        response = await served.gateway.ask()
    assert len(items_of(response, "web_search_call")) == 1
