"""File searches of the gateway in Chat Completions, Messages, AG-UI and Gemini, and those that a model's configuration
adds."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import anthropic
import httpx
import openai
import pytest

from gateway.config.settings import parse_settings
from tests.agui_client import AguiThread, user
from tests.integration.file_search.file_gateway import ANSWER, CATS, SEARCHED, place_state, search, searching
from tests.integration.mcp.tool_gateway import Hosting, hosting, items_of
from tests.upstream import chat_calls, chat_text
from tests.upstream.builders import (
    chat_chunk,
    chat_sse,
    either,
    json_reply,
    response_snapshot,
    responses_sse,
    responses_text,
)
from tests.upstream.script import Script

USER: Final[Any] = [{"role": "user", "content": "Hi"}]
TEXT: Final = "Cats 🐈 sleep (猫) ."
LOSS: Final = "output.file_citation=not reported"
_NAME, _ARGUMENTS = search("sleeping cats")
_CALL: Final = {"index": 0, "id": "call_0", "type": "function", "function": {"name": _NAME, "arguments": _ARGUMENTS}}
LOOKING: Final = chat_sse(
    [
        chat_chunk({"role": "assistant", "content": "Let me look."}),
        chat_chunk({"tool_calls": [_CALL]}),
        chat_chunk({}, finish_reason="tool_calls"),
    ]
)
"""A text, and a search behind it."""
ANN, BOB = "ann-key-0123456789", "bob-key-0123456789"


def file_search(store_id: str, **more: Any) -> Any:
    return {"type": "file_search", "vector_store_ids": [store_id], **more}


@asynccontextmanager
async def shared(folder: Path, *scripts: Script, **config: Any) -> AsyncIterator[tuple[Hosting, str]]:
    """Serves a model whose configuration names a store that another key owns. Yields it for a client of that model."""
    state = place_state(folder)
    keys = [{"name": "ann", "key": ANN}, {"name": "bob", "key": BOB}]
    async with hosting(**state, auth={"keys": keys}) as served:
        ann = served.client.with_options(api_key=ANN)
        file = await ann.files.create(file=("cats.txt", CATS.encode()), purpose="assistants")
        store = await ann.vector_stores.create()
        entry = await ann.vector_stores.files.create_and_poll(file.id, vector_store_id=store.id)
        assert entry.status == "completed"
    models = {"m": {"provider": "up", "tools": {"file_search": {"vector_store_ids": [store.id]}}}}
    whole = {**state, "auth": {"keys": keys}, "models": models, **config}
    async with hosting(*(scripts or SEARCHED), **whole) as served:
        yield served._replace(client=served.client.with_options(api_key=BOB)), store.id


async def test_a_chat_completion_has_citations_and_calls_in_its_extensions(tmp_path: Path) -> None:
    async with searching(tmp_path) as (served, store_id):
        completion = await served.client.chat.completions.create(
            model="m", messages=USER, tools=[file_search(store_id)], extra_body={"extensions": True}
        )
        read = served.model.requests[1].json["messages"][-1]["content"]
    found = completion.model_dump()
    message = found["choices"][0]["message"]
    assert message["content"] == TEXT
    assert message["annotations"] is None
    assert "【1】 cats[1].txt" in read
    (citation,) = found["extensions"]["file_citations"]
    assert (citation["type"], citation["filename"]) == ("file_citation", "cats[1].txt")
    assert citation["index"] == TEXT.index(".")
    (call,) = found["extensions"]["mcp_calls"]
    assert (call["type"], call["queries"]) == ("file_search_call", ["sleeping cats"])
    assert [result["text"] for result in call["results"]] == [CATS]
    assert "losses" not in found["choices"][0]


async def test_a_chat_stream_has_citations_in_the_one_text_of_all_rounds(tmp_path: Path) -> None:
    async with searching(tmp_path, LOOKING, chat_text(*ANSWER)) as (served, store_id):
        stream = await served.client.chat.completions.create(
            model="m", messages=USER, tools=[file_search(store_id)], stream=True, extra_body={"extensions": True}
        )
        chunks = [chunk.model_dump() async for chunk in stream]
    text = "".join(chunk["choices"][0]["delta"]["content"] or "" for chunk in chunks if chunk["choices"])
    assert text == f"Let me look.\n\n{TEXT}"
    (citation,) = next(chunk["extensions"]["file_citations"] for chunk in chunks if chunk.get("extensions"))
    assert citation["index"] == len(text) - 1


@pytest.mark.parametrize("streamed", [False, True])
async def test_an_answer_without_a_place_for_citations_names_the_loss(tmp_path: Path, streamed: bool) -> None:
    async with searching(tmp_path) as (served, store_id):
        reply: Any = await served.client.chat.completions.create(
            model="m", messages=USER, tools=[file_search(store_id)], stream=streamed
        )
        ends = [chunk async for chunk in reply] if streamed else [reply]
    choices = [end.choices[0].model_dump() for end in ends if end.choices]
    assert choices[-1]["losses"] == [LOSS]
    assert "【" not in str(choices)


async def test_a_bad_tool_is_refused_by_name_in_chat(tmp_path: Path) -> None:
    async with searching(tmp_path) as (served, store_id):
        refusals: Any = (
            (file_search("vs_unknown"), 404, "tools[0].vector_store_ids"),
            ({"type": "file_search"}, 400, "tools[0].vector_store_ids"),
            (file_search(store_id, max_num_results=0), 400, "tools[0].max_num_results"),
        )
        for tool, status, param in refusals:
            with pytest.raises(openai.APIStatusError) as refused:
                await served.client.chat.completions.create(model="m", messages=USER, tools=[tool])
            body: Any = refused.value.body
            assert (refused.value.status_code, body["param"]) == (status, param), tool
        assert served.model.requests == []


async def test_an_agui_run_has_the_call_its_result_and_the_citation(tmp_path: Path) -> None:
    async with searching(tmp_path) as (served, store_id), agui(served) as http:
        forwarded = {"model": "m", "tools": [file_search(store_id)]}
        events = await AguiThread(http, forwardedProps=forwarded).run(user("Hi"))
    (start,) = [event for event in events if event["type"] == "TOOL_CALL_START"]
    (result,) = [event for event in events if event["type"] == "TOOL_CALL_RESULT"]
    (custom,) = [event for event in events if event["type"] == "CUSTOM" and event["name"] == "annotation"]
    assert start["toolCallName"] == "file_search"
    assert result["toolCallId"] == start["toolCallId"]
    assert "cats" in result["content"]
    annotation = custom["value"]["annotation"]
    text = "".join(event["delta"] for event in events if event["type"] == "TEXT_MESSAGE_CONTENT")
    assert (text, annotation["type"], annotation["index"]) == (TEXT, "file_citation", TEXT.index("."))


async def test_a_model_searches_the_stores_of_its_configuration_for_every_key(tmp_path: Path) -> None:
    async with shared(tmp_path, *SEARCHED * 3) as (served, store_id):
        response = (await served.client.responses.create(model="m", input="Hi")).model_dump()
        named = await served.client.responses.create(model="m", input="Hi", tools=[file_search(store_id)])
        completion = await served.client.chat.completions.create(model="m", messages=USER)
        with pytest.raises(openai.NotFoundError):
            await served.client.vector_stores.retrieve(store_id)
    (item,) = items_of(response, "file_search_call")
    assert (item["status"], item["queries"]) == ("completed", ["sleeping cats"])
    (annotation,) = items_of(response, "message")[0]["content"][0]["annotations"]
    assert (annotation["type"], annotation["filename"]) == ("file_citation", "cats.txt")
    assert named.output_text == completion.choices[0].message.content == TEXT


@pytest.mark.parametrize("streamed", [False, True])
async def test_messages_get_the_answer_of_a_models_search_and_the_loss_of_its_citations(
    tmp_path: Path, streamed: bool
) -> None:
    async with shared(tmp_path) as (served, _), anthropic_client(served) as client:
        if streamed:
            async with client.messages.stream(model="m", max_tokens=100, messages=USER) as stream:
                events = [event.model_dump() async for event in stream]
                message: Any = await stream.get_final_message()
            (end,) = [event for event in events if event["type"] == "message_delta"]
            losses = end["delta"].get("losses") or end.get("losses")
        else:
            message = await client.messages.create(model="m", max_tokens=100, messages=USER)
            losses = message.model_dump()["losses"]
    assert [block.type for block in message.content] == ["text"]
    assert [getattr(block, "text", "") for block in message.content] == [TEXT]
    assert losses == [LOSS]
    assert message.stop_reason == "end_turn"


async def test_a_store_of_the_configuration_that_is_gone_is_named_before_the_model_is_asked(tmp_path: Path) -> None:
    models = {"m": {"provider": "up", "tools": {"file_search": {"vector_store_ids": ["vs_gone"]}}}}
    async with hosting(**place_state(tmp_path), models=models) as served:
        with pytest.raises(openai.NotFoundError) as refused:
            await served.client.responses.create(model="m", input="Hi")
        assert served.model.requests == []
    body: Any = refused.value.body
    assert (body["param"], body["code"]) == ("model", "vector_store_not_found")


async def test_a_search_of_the_request_replaces_that_of_the_model_and_opens_no_other_store(tmp_path: Path) -> None:
    async with shared(tmp_path, chat_calls(search("cats")), chat_text("None.")) as (served, store_id):
        own = await served.client.vector_stores.create()
        response = await served.client.responses.create(model="m", input="Hi", tools=[file_search(own.id)])
        read = served.model.requests[-1].json["messages"][-1]["content"]
    assert "No results" in read
    assert store_id not in str(response)


def test_a_model_cannot_search_files_without_a_store() -> None:
    models = {"m": {"provider": "up", "tools": {"file_search": {"vector_store_ids": ["vs_1"]}}}}
    config: Any = {"providers": {"up": {"type": "scripted"}}, "models": models}
    parse_settings(config, environ={})
    with pytest.raises(Exception, match=r"models\.m\.tools\.file_search.*write store\.url"):
        parse_settings({**config, "store": {"url": None}}, environ={})


@asynccontextmanager
async def agui(served: Hosting) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=served.url.removesuffix("/v1"), timeout=60) as http:
        yield http


def anthropic_client(served: Hosting) -> anthropic.AsyncAnthropic:
    return anthropic.AsyncAnthropic(base_url=served.url.removesuffix("/v1"), api_key=BOB, max_retries=0)


_CALL_ITEM: Final = {
    "type": "function_call",
    "id": "fc_1",
    "call_id": "call_1",
    "name": _NAME,
    "arguments": _ARGUMENTS,
    "status": "completed",
}
CALLING: Final = either(
    responses_sse(
        [
            {"type": "response.created", "response": response_snapshot("in_progress")},
            {
                "type": "response.output_item.added",
                "output_index": 0,
                "item": {**_CALL_ITEM, "arguments": "", "status": "in_progress"},
            },
            {"type": "response.output_item.done", "output_index": 0, "item": _CALL_ITEM},
            {"type": "response.completed", "response": response_snapshot("completed", [_CALL_ITEM])},
        ]
    ),
    json_reply(response_snapshot("completed", [_CALL_ITEM])),
)


@pytest.mark.parametrize("capability", ["hosted_tools", "relayed_tools"])
async def test_an_upstream_that_searches_itself_gets_only_stores_that_are_not_of_this_server(
    tmp_path: Path, capability: str
) -> None:
    provider = {"dialects": ["responses"], "capabilities": {capability: ["file_search"]}}
    async with searching(tmp_path, provider=provider) as (served, store_id):
        served.model.on("/responses", CALLING, responses_text(*ANSWER), responses_text("Theirs."))
        here = await served.client.responses.create(model="m", input="Hi", tools=[file_search(store_id)])
        there = await served.client.responses.create(model="m", input="Hi", tools=[file_search("vs_theirs")])
        both: Any = {"type": "file_search", "vector_store_ids": ["vs_theirs", store_id]}
        with pytest.raises(openai.NotFoundError) as refused:
            await served.client.responses.create(model="m", input="Hi", tools=[both])
        offered = [request.json["tools"] for request in served.model.requests]
    assert here.output_text == TEXT
    assert there.output_text == "Theirs."
    assert [[tool["type"] for tool in tools] for tools in offered] == [["function"], ["function"], ["file_search"]]
    assert offered[-1][0]["vector_store_ids"] == ["vs_theirs"]
    assert store_id not in str(offered), "ids of this server never leave it"
    body: Any = refused.value.body
    assert (body["param"], body["code"]) == ("tools[0].vector_store_ids", "vector_store_not_found")
    assert "vs_theirs" in body["message"]
