"""Web searches of the gateway in Chat Completions, Messages and AG-UI, and what the doctor says of the engine."""

import asyncio
from typing import Any, Final

import anthropic
import httpx
import orjson
import pytest

from gateway.config.settings import parse_settings
from gateway.doctor.search_engine import examine_engine
from tests.agui_client import AguiThread, user
from tests.integration.web_search.search_gateway import Searching, search, searching
from tests.integration.web_search.web_server import WebReply, json_reply, web_server
from tests.upstream import chat_calls, chat_text
from tests.upstream.builders import Json

MODEL: Final = (chat_calls(search("rain")), chat_text("☔ Rain 【1】."))
TWO_ROUNDS: Final = (
    chat_calls(search("rain")),
    chat_calls(search("snow")),
    chat_text("Rain 【1】."),
)


def link(served: Searching) -> str:
    return f"([127.0.0.1]({served.rain}))"


async def test_a_chat_completion_has_the_citations_of_all_rounds() -> None:
    async with searching(*MODEL) as served:
        completion = await served.gateway.client.chat.completions.create(
            model="m",
            messages=[{"role": "user", "content": "Hi"}],
            web_search_options={
                "search_context_size": "low",
                "user_location": {"type": "approximate", "approximate": {"country": "DE"}},
            },
        )
    message = completion.choices[0].message
    content = message.content or ""
    assert content == f"☔ Rain {link(served)}."
    (annotation,) = message.annotations or []
    cited = annotation.url_citation
    assert content[cited.start_index : cited.end_index] == link(served)
    assert (cited.url, cited.title) == (served.rain, "Rain")
    assert message.tool_calls is None


async def test_a_chat_stream_has_the_citations() -> None:
    async with searching(*MODEL) as served:
        stream = await served.gateway.client.chat.completions.create(
            model="m", messages=[{"role": "user", "content": "Hi"}], web_search_options={}, stream=True
        )
        deltas = [chunk.choices[0].delta.model_dump(exclude_unset=True) async for chunk in stream if chunk.choices]
    content = "".join(delta.get("content") or "" for delta in deltas)
    (annotation,) = [each for delta in deltas for each in delta.get("annotations") or ()]
    span = annotation["url_citation"]
    assert content[span["start_index"] : span["end_index"]] == link(served)


SEARCH_TOOL: Final[Any] = {"type": "web_search_20250305", "name": "web_search", "max_uses": 1}


async def test_a_message_has_the_blocks_of_the_search_and_its_citations() -> None:
    async with searching(*MODEL) as served, anthropic_client(served) as client:
        message = await client.messages.create(
            model="m", max_tokens=100, messages=[{"role": "user", "content": "Hi"}], tools=[SEARCH_TOOL]
        )
    use, result, text = (block.model_dump() for block in message.content)
    assert (use["type"], use["name"], use["input"]) == ("server_tool_use", "web_search", {"query": "rain"})
    assert (result["type"], result["tool_use_id"]) == ("web_search_tool_result", use["id"])
    assert [(each["url"], each["title"]) for each in result["content"]] == [(served.rain, "Rain")]
    (citation,) = text["citations"]
    assert (citation["type"], citation["url"]) == ("web_search_result_location", served.rain)
    assert citation["cited_text"] == link(served)
    assert message.usage.server_tool_use is not None
    assert message.usage.server_tool_use.web_search_requests == 1
    assert message.stop_reason == "end_turn"


async def test_a_message_may_search_no_more_than_it_says() -> None:
    async with searching(*TWO_ROUNDS) as served, anthropic_client(served) as client:
        async with client.messages.stream(
            model="m", max_tokens=100, messages=[{"role": "user", "content": "Hi"}], tools=[SEARCH_TOOL]
        ) as stream:
            message = await stream.get_final_message()
        assert len(served.web.requests_of("/search")) == 1
        assert served.results_of().startswith("max_uses_exceeded")
    errors = [block.content for block in message.content if block.type == "web_search_tool_result"]
    assert [getattr(each, "error_code", None) for each in errors] == [None, "max_uses_exceeded"]
    assert message.usage.server_tool_use is not None
    assert message.usage.server_tool_use.web_search_requests == 1


async def test_a_message_with_a_history_of_searches_reads_and_cites_them() -> None:
    async with searching(*MODEL, chat_text("Yes 【1】.")) as served, anthropic_client(served) as client:
        first = await client.messages.create(
            model="m", max_tokens=100, messages=[{"role": "user", "content": "Hi"}], tools=[SEARCH_TOOL]
        )
        history: Any = [
            {"role": "user", "content": "Hi"},
            {"role": "assistant", "content": [block.model_dump(exclude_none=True) for block in first.content]},
            {"role": "user", "content": "Sure?"},
        ]
        second = await client.messages.create(model="m", max_tokens=100, messages=history, tools=[SEARCH_TOOL])
        read = served.gateway.model.requests[-1].json["messages"]
    assert any("【1】 Rain" in str(message.get("content")) and message["role"] == "tool" for message in read)
    assert second.content[0].model_dump()["citations"][0]["url"] == served.rain


async def test_a_failed_search_is_an_error_in_messages() -> None:
    async with searching(*MODEL, web={"/search": WebReply(status=500)}) as served, anthropic_client(served) as client:
        message = await client.messages.create(
            model="m", max_tokens=100, messages=[{"role": "user", "content": "Hi"}], tools=[SEARCH_TOOL]
        )
    result = message.content[1].model_dump()
    assert result["content"]["error_code"] == "unavailable"
    assert message.usage.server_tool_use is None


async def test_an_agui_run_has_the_call_and_the_citation() -> None:
    async with searching(*MODEL) as served:
        root = served.gateway.url.removesuffix("/v1")
        async with httpx.AsyncClient(base_url=root, timeout=60) as http:
            thread = AguiThread(http, forwardedProps={"model": "m", "tools": [{"type": "web_search"}]})
            events = await thread.run(user("Hi"))
    starts = [event for event in events if event["type"] == "TOOL_CALL_START"]
    results = [event for event in events if event["type"] == "TOOL_CALL_RESULT"]
    (custom,) = [event for event in events if event["type"] == "CUSTOM" and event["name"] == "annotation"]
    assert len(starts) == 1
    assert served.rain in results[0]["content"]
    assert custom["value"]["annotation"]["url"] == served.rain


DOCTOR: Final[dict[str, tuple[WebReply, str, str]]] = {
    "sound": (json_reply({"results": [{"url": "https://a.example/"}]}), "pass", "1 results"),
    "json is off": (WebReply(status=403), "fail", "search.formats"),
    "rate limited": (WebReply(status=429), "fail", "rate limit"),
    "nothing": (json_reply({"results": []}), "fail", "no results"),
    "no json": (WebReply(b"<html>"), "fail", "no JSON"),
}


@pytest.mark.parametrize(("reply", "verdict", "text"), DOCTOR.values(), ids=DOCTOR)
async def test_the_doctor_says_what_is_wrong_with_the_engine(reply: WebReply, verdict: str, text: str) -> None:
    async with web_server({"/search": reply}) as web:
        config: Json = {"tools": {"web_search": {"engine": "searxng", "url": web.url}}}
        settings = parse_settings(config, environ={})
        diagnosis = await asyncio.to_thread(examine_engine, settings)
    assert diagnosis is not None
    (finding,) = diagnosis.findings
    assert finding.verdict == verdict
    assert text in f"{finding.detail} {finding.advice}"
    assert diagnosis.failed == (verdict == "fail")
    assert examine_engine(parse_settings({}, environ={})) is None
    assert orjson.dumps(diagnosis.as_json())


def anthropic_client(served: Searching) -> anthropic.AsyncAnthropic:
    return anthropic.AsyncAnthropic(
        base_url=served.gateway.url.removesuffix("/v1"), api_key="gateway-key-1", max_retries=0
    )
