"""File searches by a tool of an MCP server: clients get the items and citations of a file search."""

from pathlib import Path
from typing import Any, Final

import pytest
from openai import BadRequestError

from tests.integration.file_search.file_gateway import place_state
from tests.integration.mapped_tools.mapped_gateway import (
    CHUNKS,
    FILE_SEARCH,
    SECRET,
    Answer,
    MappedServer,
    call,
    mapping,
    text_result,
)
from tests.integration.mcp.tool_gateway import items_of
from tests.upstream import chat_calls, chat_text
from tests.upstream.builders import Json

ONE: Final = {"find_chunks": FILE_SEARCH}
MODEL: Final = (chat_calls(call("file_search", queries=["cats"])), chat_text("Cats 🐈 sleep ", "【1】."))
TOOL: Final[Any] = {"type": "file_search", "vector_store_ids": ["handbook"]}
RESULTS: Final[Any] = ["file_search_call.results"]


async def test_a_response_has_the_items_events_and_citations_of_a_search(server: MappedServer) -> None:
    async with mapping(*MODEL, server=server, mappings=ONE) as served:
        tools: Any = [{**TOOL, "max_num_results": 5}]
        stream = await served.gateway.client.responses.create(
            model="m", input="Hi", tools=tools, stream=True, include=RESULTS
        )
        events: list[Any] = [event async for event in stream]
        read = served.read_by_model()
    assert server.calls == [("find_chunks", {"q": "cats", "count": 5, "stores": ["handbook"]})]
    assert "【1】 cats[1].txt (score 0.75)\nA cat sleeps [7] a lot." in read
    assert "【2】 dogs.txt (score 0.25)\nA dog barks." in read
    assert [event.type for event in events if "file_search" in event.type] == [
        "response.file_search_call.in_progress",
        "response.file_search_call.searching",
        "response.file_search_call.completed",
    ]
    search, message = events[-1].response.model_dump()["output"]
    assert (search["status"], search["queries"]) == ("completed", ["cats"])
    assert [(each["file_id"], each["score"]) for each in search["results"]] == [("doc-1", 0.75), ("doc-2", 0.25)]
    (content,) = message["content"]
    assert content["text"] == "Cats 🐈 sleep ."
    assert content["annotations"] == [
        {"type": "file_citation", "file_id": "doc-1", "filename": "cats[1].txt", "index": 13},
    ]


async def test_a_search_needs_no_store_and_no_ids(server: MappedServer) -> None:
    async with mapping(*MODEL, server=server, mappings=ONE, store={"url": None}) as served:
        reply = await served.gateway.client.responses.with_raw_response.create(
            model="m", input="Hi", tools=[{"type": "file_search", "vector_store_ids": []}]
        )
    assert server.calls == [("find_chunks", {"q": "cats", "count": 20})]
    assert "x-gateway-loss" not in reply.headers


async def test_a_search_of_a_store_of_the_gateway_is_run_there(server: MappedServer, tmp_path: Path) -> None:
    model = (*MODEL, *MODEL)
    async with mapping(*model, server=server, mappings=ONE, **place_state(tmp_path)) as served:
        client = served.gateway.client
        store = await client.vector_stores.create()
        file = await client.files.create(file=("own.txt", b"Cats purr."), purpose="assistants")
        await client.vector_stores.files.create_and_poll(file.id, vector_store_id=store.id)
        own = await served.gateway.ask({**TOOL, "vector_store_ids": [store.id]}, include=RESULTS)
        assert server.calls == []
        other = await served.gateway.ask(TOOL, include=RESULTS)
    found = [items_of(response, "file_search_call")[0]["results"][0]["filename"] for response in (own, other)]
    assert found == ["own.txt", "cats【1】.txt"]


async def test_several_queries_are_one_search(server: MappedServer) -> None:
    results: dict[str, list[tuple[str, float | None]]] = {
        "a": [("x", 0.5), ("y", 0.1)],
        "b": [("z", 0.9), ("x", 0.5)],
        "c": [("z", None)],
    }
    server.answers["find_chunks"] = lambda given: {
        "hits": [{"id": each, "body": f"Text {each}.", "rank": rank} for each, rank in results[given["q"]]]
        + [{"rank": 0.3}]
    }
    settings = {
        "find_chunks": {**FILE_SEARCH, "result": {"items": "hits", "file_id": "id", "text": "body", "score": "rank"}}
    }
    for queries, ids in ((["a", "b"], ["z", "x", "y"]), (["a", "c"], ["x", "z", "y"])):
        model = (chat_calls(call("file_search", queries=queries)), chat_text("Done."))
        async with mapping(*model, server=server, mappings=settings) as served:
            response = await served.gateway.ask(TOOL, include=RESULTS)
        (search,) = items_of(response, "file_search_call")
        assert [each["file_id"] for each in search["results"]] == ids
        assert search["results"][0]["filename"] == ids[0], "without a name the file has its id"


NO_SCORE: Final[Json] = {"items": "hits", "filename": "name", "text": "body"}


async def test_what_the_tool_cannot_do_is_a_loss(server: MappedServer) -> None:
    settings = {**FILE_SEARCH, "arguments": {"query": "q"}, "result": NO_SCORE}
    tool: Any = {
        **TOOL,
        "max_num_results": 1,
        "ranking_options": {"score_threshold": 0.5, "hybrid_search": {"embedding_weight": 1, "text_weight": 1}},
    }
    async with mapping(*MODEL, server=server, mappings={"find_chunks": settings}) as served:
        reply = await served.gateway.client.responses.with_raw_response.create(
            model="m", input="Hi", tools=[tool], include=RESULTS
        )
        read = served.read_by_model()
    assert reply.headers["x-gateway-loss"].split(", ") == [
        "tools[0].vector_store_ids=dropped",
        "tools[0].ranking_options.score_threshold=ignored",
        "tools[0].ranking_options.hybrid_search=ignored",
    ]
    (search, _) = reply.parse().model_dump()["output"]
    assert [(each["filename"], each["score"]) for each in search["results"]] == [("cats【1】.txt", None)]
    assert "【1】 cats[1].txt\nA cat" in read


async def test_a_threshold_holds_for_scores_of_the_tool(server: MappedServer) -> None:
    async with mapping(*MODEL, server=server, mappings=ONE) as served:
        response = await served.gateway.ask({**TOOL, "ranking_options": {"score_threshold": 0.5}}, include=RESULTS)
    assert len(items_of(response, "file_search_call")[0]["results"]) == 1


@pytest.mark.parametrize(("threshold", "shown"), [(0.5, ["doc-1"]), (0, ["doc-1", "doc-2", "doc-3"])])
async def test_a_result_without_a_score_is_below_a_threshold(
    server: MappedServer, threshold: float, shown: list[str]
) -> None:
    unscored = {"id": "doc-3", "name": "birds.txt", "body": "A bird sings.", "rank": None}
    server.answers["find_chunks"] = lambda _: {"hits": [*CHUNKS["hits"], unscored]}
    async with mapping(*MODEL, server=server, mappings=ONE) as served:
        tool = {**TOOL, "ranking_options": {"score_threshold": threshold}}
        response = await served.gateway.ask(tool, include=RESULTS)
    assert [each["file_id"] for each in items_of(response, "file_search_call")[0]["results"]] == shown


async def test_a_filter_that_the_tool_does_not_take_is_refused(server: MappedServer) -> None:
    filters = {"type": "eq", "key": "year", "value": 2021}
    async with mapping(*MODEL, server=server, mappings=ONE) as served:
        with pytest.raises(BadRequestError) as refused:
            await served.gateway.ask({**TOOL, "filters": filters})
        assert (refused.value.param, refused.value.code) == ("tools[0].filters", "unsupported_parameter")
        assert served.gateway.model.requests == []


async def test_a_filter_reaches_a_tool_that_takes_it(server: MappedServer) -> None:
    filters = {"type": "eq", "key": "year", "value": 2021}
    settings = {**FILE_SEARCH, "arguments": {"query": "q", "filters": "where"}}
    async with mapping(*MODEL, server=server, mappings={"find_chunks": settings}) as served:
        await served.gateway.ask({**TOOL, "filters": filters})
        with pytest.raises(BadRequestError) as refused:
            await served.gateway.ask({**TOOL, "filters": {"type": "like"}})
    assert server.calls == [("find_chunks", {"q": "cats", "where": filters})]
    assert refused.value.param == "tools[0].filters.type"


FAILURES: Final[dict[str, tuple[Answer, str]]] = {
    "no list": (lambda _: {"hits": {}}, "The search is not available now."),
    "no text": (lambda _: {"hits": [{"id": "a", "name": "b", "rank": 1}]}, "The search is not available now."),
    "scores that are no numbers": (
        lambda _: {"hits": [{"id": "a", "name": "b", "body": "c", "rank": score} for score in ("1", True, None)]},
        "The search is not available now.",
    ),
    "HTML": (lambda _: text_result("<html>"), "The search is not available now."),
    "an error": (
        lambda _: text_result(f"【1】 no index\n{SECRET}", is_error=True),
        "The search failed: [1] no index [hidden]",
    ),
}


@pytest.mark.parametrize(("answer", "text"), FAILURES.values(), ids=FAILURES)
async def test_a_result_that_cannot_be_read_is_a_failed_search(server: MappedServer, answer: Answer, text: str) -> None:
    server.answers["find_chunks"] = answer
    async with mapping(*MODEL, server=server, mappings=ONE) as served:
        response = await served.gateway.ask(TOOL)
        read = served.read_by_model()
    assert items_of(response, "file_search_call")[0]["status"] == "failed"
    assert read == text
    assert items_of(response, "message")[0]["content"][0]["annotations"] == []


async def test_one_query_of_several_may_fail(server: MappedServer) -> None:
    server.answers["find_chunks"] = lambda given: CHUNKS if given["q"] == "cats" else text_result("no", is_error=True)
    model = (chat_calls(call("file_search", queries=["dogs", "cats"])), chat_text("Done."))
    async with mapping(*model, server=server, mappings=ONE) as served:
        response = await served.gateway.ask(TOOL)
    assert items_of(response, "file_search_call")[0]["status"] == "completed"


async def test_a_key_that_may_not_use_the_server_has_no_search(server: MappedServer) -> None:
    keys = [{"name": "limited", "key": "gateway-key-1", "mcp_servers": ["other"]}]
    async with mapping(
        chat_text("Hi."), server=server, mappings=ONE, auth={"keys": keys}, store={"url": None}
    ) as served:
        with pytest.raises(BadRequestError) as refused:
            await served.gateway.client.responses.create(model="m", input="Hi", tools=[TOOL])
        assert served.gateway.model.requests == []
    body: Any = refused.value.body
    assert (body["param"], body["code"]) == ("tools[0]", "unsupported_parameter")
