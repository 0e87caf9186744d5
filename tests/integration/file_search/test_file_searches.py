"""A model searches the files of its user: the items and events of a search, and the citations in the answer."""

from pathlib import Path
from typing import Any

import openai
import pytest

from tests.integration.file_search.file_gateway import CATS, DOGS, MORE, search, searching
from tests.integration.mcp.tool_gateway import hosting, items_of
from tests.upstream import chat_calls, chat_text, responses_text
from tests.upstream.builders import Json
from tests.upstream.script import Exchange


async def test_a_stream_has_the_item_the_events_and_an_exact_citation(tmp_path: Path) -> None:
    async with searching(tmp_path) as (served, store_id):
        stream = await served.client.responses.create(
            model="m", input="Hi", tools=[{"type": "file_search", "vector_store_ids": [store_id]}], stream=True
        )
        events: list[Any] = [event async for event in stream]
        offered = served.model.requests[0].json["tools"]
        read = served.model.requests[1].json["messages"][-1]["content"]
        response = events[-1].response.model_dump()
        stored = await served.client.responses.retrieve(events[-1].response.id, include=["file_search_call.results"])
    assert [each["function"]["name"] for each in offered] == ["file_search"]
    assert store_id not in str(offered)
    assert "【1】 cats[1].txt (score 0." in read
    assert CATS.replace("【7】", "[7]") in read, "a document cannot forge a marker"
    assert DOGS not in read
    kinds = [event.type for event in events if "file_search" in event.type]
    assert kinds == [f"response.file_search_call.{phase}" for phase in ("in_progress", "searching", "completed")]
    added = next(event for event in events if event.type == "response.output_item.added")
    assert (added.item.queries, added.item.results) == ([], None)
    (item,) = items_of(response, "file_search_call")
    assert (item["status"], item["queries"], item["results"]) == ("completed", ["sleeping cats"], None)
    part = items_of(response, "message")[0]["content"][0]
    assert part["text"] == "Cats 🐈 sleep (猫) ."
    assert "".join(event.delta for event in events if event.type == "response.output_text.delta") == part["text"]
    (annotation,) = part["annotations"]
    assert (annotation["type"], annotation["filename"]) == ("file_citation", "cats[1].txt")
    assert annotation["index"] == part["text"].index(".")
    (whole, *_) = stored.model_dump()["output"]
    (result,) = whole["results"]
    assert (result["filename"], result["text"], result["attributes"]) == (
        "cats【1】.txt",
        CATS,
        {"name": "cats【1】.txt"},
    )
    assert annotation["file_id"] == result["file_id"]


async def test_a_later_turn_can_cite_what_an_earlier_one_found(tmp_path: Path) -> None:
    async with searching(tmp_path, *MORE) as (served, store_id):
        tool: Any = {"type": "file_search", "vector_store_ids": [store_id]}
        first = await served.client.responses.create(model="m", input="Hi", tools=[tool])
        second = await served.client.responses.create(
            model="m", input="Again", tools=[tool], previous_response_id=first.id
        )
    (annotation,) = items_of(second.model_dump(), "message")[0]["content"][0]["annotations"]
    assert second.output_text == "Again ."
    assert (annotation["type"], annotation["filename"]) == ("file_citation", "cats[1].txt")


async def test_filters_thresholds_and_included_results(tmp_path: Path) -> None:
    async with searching(tmp_path, chat_calls(search("cat", "dog")), chat_text("Done.")) as (served, store_id):
        tool: Any = {
            "type": "file_search",
            "vector_store_ids": [store_id],
            "filters": {"type": "eq", "key": "name", "value": "dogs.txt"},
            "max_num_results": 1,
        }
        response = await served.client.responses.create(
            model="m", input="Hi", tools=[tool], include=["file_search_call.results"]
        )
    (item,) = items_of(response.model_dump(), "file_search_call")
    assert item["queries"] == ["cat", "dog"]
    assert [result["filename"] for result in item["results"]] == ["dogs.txt"]


@pytest.mark.parametrize(
    ("more", "status", "param", "code"),
    [
        ({"vector_store_ids": []}, 400, "tools[0].vector_store_ids", None),
        ({"vector_store_ids": ["vs_unknown"]}, 404, "tools[0].vector_store_ids", "vector_store_not_found"),
        ({"max_num_results": 51}, 400, "tools[0].max_num_results", None),
        ({"filters": {"type": "eq", "key": 1, "value": 2}}, 400, "tools[0].filters.key", None),
        ({"ranking_options": {"score_threshold": 7}}, 400, "tools[0].ranking_options.score_threshold", None),
    ],
)
async def test_a_bad_tool_is_refused_before_the_model_is_asked(
    tmp_path: Path, more: Json, status: int, param: str, code: str | None
) -> None:
    async with searching(tmp_path) as (served, store_id):
        with pytest.raises(openai.APIStatusError) as refused:
            await served.ask({"type": "file_search", "vector_store_ids": [store_id], **more})
        assert served.model.requests == []
    body: Any = refused.value.body
    assert (refused.value.status_code, body["param"]) == (status, param)
    assert code is None or body["code"] == code


async def test_a_key_that_nobody_reads_is_a_loss(tmp_path: Path) -> None:
    async with searching(tmp_path) as (served, store_id):
        tool: Any = {"type": "file_search", "vector_store_ids": [store_id], "max_results": 3, "filters": None}
        raw = await served.client.responses.with_raw_response.create(model="m", input="Hi", tools=[tool])
    assert raw.headers["x-gateway-loss"] == "tools[0].max_results=dropped"


async def test_a_call_without_a_query_fails_and_the_model_reads_why(tmp_path: Path) -> None:
    async with searching(tmp_path, chat_calls(("file_search", "{}")), chat_text("Sorry.")) as (served, store_id):
        response = await served.ask({"type": "file_search", "vector_store_ids": [store_id]})
        read = served.model.requests[1].json["messages"][-1]["content"]
    (item,) = items_of(response, "file_search_call")
    assert (item["status"], item["queries"]) == ("failed", [])
    assert "queries" in read
    assert items_of(response, "message")[0]["content"][0]["text"] == "Sorry."


async def test_nothing_found_is_a_completed_search(tmp_path: Path) -> None:
    async with searching(tmp_path, chat_calls(search("elephant")), chat_text("Nothing.")) as (served, store_id):
        response = await served.ask({"type": "file_search", "vector_store_ids": [store_id]})
        read = served.model.requests[1].json["messages"][-1]["content"]
    assert items_of(response, "file_search_call")[0]["status"] == "completed"
    assert "No results were found" in read


@pytest.mark.parametrize("both", [False, True], ids=["one of two", "both"])
async def test_the_model_is_told_of_stores_that_were_deleted_meanwhile(tmp_path: Path, both: bool) -> None:
    async with searching(tmp_path) as (served, store_id):
        stores = served.client.vector_stores
        other_id = (await stores.create()).id
        call = chat_calls(search("sleeping cats"))

        async def delete_and_call(exchange: Exchange) -> None:
            for each in (other_id, store_id) if both else (other_id,):
                await stores.delete(each)
            await call(exchange)

        served.model.on("/chat/completions", delete_and_call, chat_text("Yes."))
        response = await served.ask({"type": "file_search", "vector_store_ids": [other_id, store_id]})
        read = served.model.requests[-1].json["messages"][-1]["content"]
    assert items_of(response, "file_search_call")[0]["status"] == ("failed" if both else "completed")
    assert ("Some of the files are no longer there" in read, "Text from files" in read) == (not both, not both)
    assert "no longer there" in read


@pytest.mark.parametrize("choice", ["auto", "required", {"type": "file_search"}])
async def test_a_server_without_a_store_refuses_the_tool_before_the_model_is_asked(choice: Any) -> None:
    async with hosting(chat_text("Hi."), store={"url": None}) as served:
        with pytest.raises(openai.BadRequestError) as refused:
            await served.ask({"type": "file_search", "vector_store_ids": ["vs_1"]}, tool_choice=choice)
        assert served.model.requests == []
    assert (refused.value.param, refused.value.code) == ("tools[0]", "unsupported_parameter")
    assert "needs a store" in str(refused.value)


@pytest.mark.parametrize("capability", ["hosted_tools", "relayed_tools"])
async def test_without_a_store_an_upstream_may_search_itself(capability: str) -> None:
    provider = {"dialects": ["responses"], "capabilities": {capability: ["file_search"]}}
    async with hosting(store={"url": None}, provider=provider) as served:
        served.model.on("/responses", responses_text("Theirs."))
        response = await served.ask({"type": "file_search", "vector_store_ids": ["vs_1"]})
        (tool,) = (await served.last_request())["tools"]
    assert response["output"][-1]["content"][0]["text"] == "Theirs."
    assert tool["vector_store_ids"] == ["vs_1"]
