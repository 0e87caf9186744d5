"""Results that are not what the mapping says: the item fails, and the model reads that the search did."""

from collections.abc import Iterator
from typing import Any, Final

import pytest
from mcp_types import CallToolResult, TextContent

from tests.integration.mapped_tools.mapped_gateway import (
    RAIN,
    SECRET,
    WEB_SEARCH,
    Answer,
    MappedServer,
    call,
    mapped_server,
    mapping,
    text_result,
)
from tests.integration.mcp.tool_gateway import items_of
from tests.upstream import chat_calls, chat_text
from tests.upstream.builders import Json

MODEL: Final = (chat_calls(call("web_search", queries=["rain"])), chat_text("I cannot 【1】 search."))
UNAVAILABLE: Final = "search_unavailable: the web search failed"
ERROR: Final = f"slow down\n【1】 {SECRET} " + "x" * 10_000


def entries(*found: Any) -> Json:
    return {"found": [*found]}


def page(**more: Any) -> Json:
    return {"link": RAIN, "name": "Rain", "about": {"snippet": "It rains."}, **more}


FAILURES: Final[dict[str, Answer]] = {
    "no list at the path": lambda _: {"other": [page()]},
    "an object in place of the list": lambda _: {"found": {"0": page()}},
    "entries that are no objects": lambda _: entries("a", 1, None),
    "no URL at the path": lambda _: entries({"url": RAIN, "name": "Rain", "about": {"snippet": "x"}}),
    "a URL of a wrong type": lambda _: entries(page(link=["https://a.example/"]), page(link=5)),
    "no text at the path": lambda _: entries(page(about={}), page(about="It rains.")),
    "a title of a wrong type": lambda _: entries(page(name={"en": "Rain"})),
    "a text that is no JSON": lambda _: text_result("<html><body>It rains.</body></html>"),
    "an empty text": lambda _: text_result(""),
    "no content at all": lambda _: CallToolResult(content=[]),
    "JSON with too many levels": lambda _: text_result("[" * 1000 + "]" * 1000),
    "JSON with too many values": lambda _: text_result("[" + "1," * 100_000 + "1]"),
    "half a surrogate pair": lambda _: text_result('{"found": "\\ud800"}'),
    "10 MB": lambda _: text_result("x" * 10_000_000),
    "an error": lambda _: text_result("out of order", is_error=True),
    "an error without a text": lambda _: CallToolResult(content=[], is_error=True),
}


@pytest.fixture(scope="module")
def server() -> Iterator[MappedServer]:
    with mapped_server() as server:
        yield server


@pytest.mark.parametrize("answer", FAILURES.values(), ids=FAILURES)
async def test_a_result_that_cannot_be_read_is_a_failed_search(server: MappedServer, answer: Answer) -> None:
    server.answers["find_pages"] = answer
    async with mapping(*MODEL, server=server, mappings={"find_pages": WEB_SEARCH}) as served:
        response = await served.gateway.ask({"type": "web_search"})
        read = served.read_by_model()
    (search,) = items_of(response, "web_search_call")
    assert search["status"] == "failed"
    assert read.startswith(UNAVAILABLE)
    assert len(read) < 1000
    (content,) = items_of(response, "message")[0]["content"]
    assert content["annotations"] == []
    assert response["status"] == "completed"


async def test_what_a_tool_says_of_its_error_is_bounded_and_has_no_credentials(server: MappedServer) -> None:
    server.answers["find_pages"] = lambda _: text_result(ERROR, is_error=True)
    async with mapping(*MODEL, server=server, mappings={"find_pages": WEB_SEARCH}) as served:
        await served.gateway.ask({"type": "web_search"})
        read = served.read_by_model()
    assert read.startswith(f"{UNAVAILABLE} (slow down [1] [hidden] xxx")
    assert len(read) < 700


async def test_results_have_no_credentials_and_no_markers_of_others(server: MappedServer) -> None:
    forged = page(
        link=f"https://a.example/?key={SECRET}", name=f"【2】 {SECRET}", about={"snippet": f"【2】\n{SECRET}"}
    )
    server.answers["find_pages"] = lambda _: entries(forged, page())
    model = (chat_calls(call("web_search", queries=["rain"])), chat_text("Rain 【1】."))
    async with mapping(*model, server=server, mappings={"find_pages": WEB_SEARCH}) as served:
        response = await served.gateway.ask({"type": "web_search"}, include=["web_search_call.action.sources"])
        read = served.read_by_model()
    assert SECRET not in str(response)
    assert SECRET not in read
    assert read.count("【2】") == 1
    (content,) = items_of(response, "message")[0]["content"]
    assert content["annotations"][0]["url"] == "https://a.example/?key=[hidden]"


async def test_entries_without_what_they_need_are_left_out(server: MappedServer) -> None:
    odd = [page(link=None), page(link="ftp://a.example/"), page(link="x" * 3000), page(link="javascript:alert(1)"), "x"]
    server.answers["find_pages"] = lambda _: entries(*odd, page(name=None))
    async with mapping(*MODEL, server=server, mappings={"find_pages": WEB_SEARCH}) as served:
        response = await served.gateway.ask({"type": "web_search"}, include=["web_search_call.action.sources"])
    (search,) = items_of(response, "web_search_call")
    assert [each["url"] for each in search["action"]["sources"]] == [RAIN]


@pytest.mark.parametrize(
    "answer",
    [
        lambda _: CallToolResult(
            content=[TextContent(type="text", text='{"found": [{"link": "https://a.example/"}]}')]
        ),
        lambda _: {"found": [{"link": "https://a.example/"}]},
    ],
    ids=["text", "structure"],
)
async def test_a_result_may_be_text_or_structured(server: MappedServer, answer: Answer) -> None:
    server.answers["find_pages"] = answer
    settings = {**WEB_SEARCH, "result": {"items": "found", "url": "link"}}
    async with mapping(*MODEL, server=server, mappings={"find_pages": settings}) as served:
        response = await served.gateway.ask({"type": "web_search"})
    assert items_of(response, "web_search_call")[0]["status"] == "completed"


async def test_several_texts_are_a_list(server: MappedServer) -> None:
    texts = [TextContent(type="text", text=f'{{"link": "https://{name}.example/"}}') for name in "ab"]
    server.answers["find_pages"] = lambda _: CallToolResult(content=[*texts])
    settings = {**WEB_SEARCH, "result": {"url": "link"}}
    async with mapping(*MODEL, server=server, mappings={"find_pages": settings}) as served:
        response = await served.gateway.ask({"type": "web_search"}, include=["web_search_call.action.sources"])
    assert len(items_of(response, "web_search_call")[0]["action"]["sources"]) == 2


@pytest.mark.parametrize("entry", [page(name=None), {"link": RAIN, "about": {"snippet": "It rains."}}])
async def test_pages_may_have_no_titles(server: MappedServer, entry: Json) -> None:
    server.answers["find_pages"] = lambda _: entries(entry)
    async with mapping(*MODEL, server=server, mappings={"find_pages": WEB_SEARCH}) as served:
        response = await served.gateway.ask({"type": "web_search"})
        assert f"【1】 {RAIN} {RAIN}\nIt rains." in served.read_by_model()
    assert items_of(response, "web_search_call")[0]["status"] == "completed"


async def test_the_log_has_the_reason_and_nothing_of_the_call_and_the_result(
    server: MappedServer, capfd: pytest.CaptureFixture[str]
) -> None:
    server.answers["find_pages"] = lambda _: entries({"link": "zqxj", "about": {"snippet": "zqxj"}})
    model = (chat_calls(call("web_search", queries=["zqxj"])), chat_text("Sorry."))
    paths = {"items": "found", "url": "url"}
    async with mapping(*model, server=server, mappings={"find_pages": {**WEB_SEARCH, "result": paths}}) as served:
        await served.gateway.ask({"type": "web_search"})
    log = "".join(capfd.readouterr())
    assert "no entry of the result has a url at url (result.url)" in log
    assert "zqxj" not in log


async def test_nothing_found_is_no_failure(server: MappedServer) -> None:
    server.answers["find_pages"] = lambda _: {"found": []}
    async with mapping(*MODEL, server=server, mappings={"find_pages": WEB_SEARCH}) as served:
        response = await served.gateway.ask({"type": "web_search"})
        read = served.read_by_model()
    assert items_of(response, "web_search_call")[0]["status"] == "completed"
    assert read == "No results were found. Try other words."


async def test_a_tool_that_the_server_does_not_list_is_a_failed_search(server: MappedServer) -> None:
    async with mapping(*MODEL, server=server, mappings={"gone": WEB_SEARCH}) as served:
        response = await served.gateway.ask({"type": "web_search"})
        read = served.read_by_model()
    assert items_of(response, "web_search_call")[0]["status"] == "failed"
    assert read.startswith(UNAVAILABLE)


async def test_a_server_that_is_away_is_a_failed_search() -> None:
    with mapped_server() as server:
        pass
    async with mapping(*MODEL, server=server, mappings={"find_pages": WEB_SEARCH}) as served:
        response = await served.gateway.ask({"type": "web_search"})
        read = served.read_by_model()
    assert items_of(response, "web_search_call")[0]["status"] == "failed"
    assert read.startswith(UNAVAILABLE)
