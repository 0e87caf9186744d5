"""Turns after a search, whose requests have no search: they read its results and may cite them."""

from pathlib import Path
from typing import Any, Final

import pytest

from tests.integration.file_search.file_gateway import ANSWER, CATS, SEARCHED, searching
from tests.integration.mcp.tool_gateway import items_of
from tests.upstream import chat_calls, chat_text

OWN: Final[Any] = {"type": "function", "name": "add", "parameters": {"type": "object"}, "strict": False}


@pytest.mark.parametrize("tools", [(), (OWN,)], ids=["no tool", "a function"])
@pytest.mark.parametrize("way", ["previous_response_id", "conversation", "input", "input of a client"])
async def test_a_turn_without_a_search_reads_and_cites_earlier_results(tmp_path: Path, way: str, tools: Any) -> None:
    async with searching(tmp_path, *SEARCHED, chat_text("Again 【1】", ".")) as (served, store_id):
        create = served.client.responses.create
        search: Any = {"type": "file_search", "vector_store_ids": [store_id]}
        started: dict[str, Any] = {}
        if way == "conversation":
            started["conversation"] = (await served.client.conversations.create()).id
        if way == "input of a client":
            started |= {"store": False, "include": ["file_search_call.results"]}
        first = await create(model="m", input="Hi", tools=[search], **started)
        more: Any = {"input": "Again"}
        if way.startswith("input"):
            more["input"] = [*first.model_dump(exclude_none=True)["output"], {"role": "user", "content": "Again"}]
        else:
            more[way] = started.get(way, first.id)
        raw = await served.client.responses.with_raw_response.create(model="m", tools=[*tools], **more)
        second = raw.parse()
        read = served.model.requests[-1].json["messages"]
    assert [message["role"] for message in read[-4:]] == ["assistant", "tool", "assistant", "user"]
    assert CATS.replace("【7】", "[7]") in read[-3]["content"]
    assert raw.headers["x-gateway-loss"] == "input=annotations dropped", "no other part of the history is lost"
    assert second.output_text == "Again ."
    (annotation,) = items_of(second.model_dump(), "message")[0]["content"][0]["annotations"]
    assert (annotation["type"], annotation["index"]) == ("file_citation", 6)


async def test_a_stream_cites_earlier_results_where_their_markers_were(tmp_path: Path) -> None:
    async with searching(tmp_path, *SEARCHED, chat_text(*ANSWER)) as (served, store_id):
        search: Any = {"type": "file_search", "vector_store_ids": [store_id]}
        first = await served.client.responses.create(model="m", input="Hi", tools=[search])
        stream = await served.client.responses.create(
            model="m", input="Again", previous_response_id=first.id, stream=True
        )
        events: list[Any] = [event async for event in stream]
    text = "".join(event.delta for event in events if event.type == "response.output_text.delta")
    (added,) = [event.annotation for event in events if event.type == "response.output_text.annotation.added"]
    part = events[-1].response.output[-1].content[0]
    assert text == part.text == "Cats 🐈 sleep (猫) ."
    assert added.index == part.annotations[0].index == text.index(".")


async def test_without_its_results_a_search_is_still_told(tmp_path: Path) -> None:
    item: Any = {"type": "file_search_call", "id": "fs_1", "status": "completed", "queries": ["cats"], "results": None}
    async with searching(tmp_path, chat_text("Yes.")) as (served, _):
        await served.ask(input=[item, {"role": "user", "content": "Hi"}], extra_headers={"x-gateway-strict": "true"})
        read = (await served.last_request())["messages"]
    assert read[0]["tool_calls"][0]["function"]["arguments"] == '{"queries":["cats"]}'
    assert "A search took place" in read[1]["content"]


@pytest.mark.parametrize(
    "arguments", ['{"queries": "sleeping cats"}', '{"query": "sleeping cats"}', '{"queries": ["sleeping cats", 3]}']
)
async def test_queries_may_be_written_in_other_ways(tmp_path: Path, arguments: str) -> None:
    async with searching(tmp_path, chat_calls(("file_search", arguments)), chat_text("Yes.")) as (served, store_id):
        response = await served.ask({"type": "file_search", "vector_store_ids": [store_id]})
    (item,) = items_of(response, "file_search_call")
    assert (item["status"], item["queries"]) == ("completed", ["sleeping cats"])
