"""Web searches of upstreams, as the official client of the Messages API gets them and sends them back."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from anthropic import AsyncAnthropic
from anthropic.types import (
    CitationsWebSearchResultLocation,
    Message,
    ServerToolUseBlock,
    WebSearchToolResultBlock,
    WebSearchToolResultError,
)

from tests import databases
from tests.serving import serving
from tests.upstream import Script, ScriptedUpstream, gemini, json_reply
from tests.upstream.anthropic import anthropic_sse, block, closing, given, message, opening, text_block, text_deltas
from tests.upstream.builders import (
    chat_text,
    data_frame,
    either,
    message_item,
    response_snapshot,
    responses_sse,
    sse_reply,
    text_events,
)

Json = dict[str, Any]
SEARCH: Json = {"type": "web_search_20250305", "name": "web_search", "max_uses": 3, "allowed_domains": ["a.org"]}
FUNCTION: Json = {"name": "f", "input_schema": {"type": "object"}}
WHO: Json = {"role": "user", "content": "Who?"}
SURE: Json = {"role": "user", "content": "Sure?"}
FORMS = pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])

# what Anthropic sends of a search
ASKED: Json = {
    "type": "server_tool_use",
    "id": "srvtoolu_1",
    "name": "web_search",
    "input": {},
    "caller": {"type": "direct"},
}
PAGES: list[Json] = [
    {"type": "web_search_result", "url": f"https://{name}.org", "title": name, "encrypted_content": f"cipher-{name}"}
    for name in ("a", "b")
]
TOLD: Json = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": PAGES}
CITED = {"type": "web_search_result_location", "url": "https://a.org", "title": "a", "cited_text": "x"}


def anthropic_search(told: Json = TOLD) -> Script:
    body = {**ASKED, "input": {"query": "who"}}
    citation = {"type": "citations_delta", "citation": CITED}
    events = [
        *block(0, ASKED, *given('{"query": ', '"who"}')),
        *block(1, told),
        *block(2, text_block(), *text_deltas("Shannon."), citation),
    ]
    whole = message(body, told, {**text_block("Shannon."), "citations": [CITED]})
    return either(anthropic_sse([opening(), *events, *closing()]), json_reply(whole))


# what OpenAI sends of a search
FOUND: Json = {
    "id": "ws_1",
    "type": "web_search_call",
    "status": "completed",
    "action": {"type": "search", "query": "who", "sources": [{"type": "url", "url": "https://a.org"}]},
}
CITATION: Json = {"type": "url_citation", "url": "https://a.org", "title": "A", "start_index": 0, "end_index": 7}


def responses_search(item: Json = FOUND) -> Script:
    answer = message_item("Shannon.")
    answer["content"][0]["annotations"] = [CITATION]
    created, _, *text, _ = text_events("Shannon.")
    place = {"item_id": item["id"], "output_index": 0}
    begun = {"id": item["id"], "type": item["type"], "status": "in_progress"}
    events = [
        created,
        {"type": "response.output_item.added", "output_index": 0, "item": begun},
        *({"type": f"response.web_search_call.{phase}", **place} for phase in ("in_progress", "searching")),
        {"type": "response.web_search_call.completed", **place},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        *({**event, "output_index": 1} for event in text[:-3]),
        {
            "type": "response.output_text.annotation.added",
            "item_id": "msg_1",
            "output_index": 1,
            "content_index": 0,
            "annotation_index": 0,
            "annotation": CITATION,
        },
        *({**event, "output_index": 1} for event in text[-3:-1]),
        {"type": "response.output_item.done", "output_index": 1, "item": answer},
        {"type": "response.completed", "response": response_snapshot("completed", [item, answer])},
    ]
    return either(responses_sse(events), json_reply(response_snapshot("completed", [item, answer])))


# what Gemini sends of a search, with the last chunk of its answer
GROUNDING: Json = {
    "webSearchQueries": ["who"],
    "groundingChunks": [{"web": {"uri": "https://a.org", "title": "a"}}],
    "groundingSupports": [{"segment": {"endIndex": 8, "text": "Shannon."}, "groundingChunkIndices": [0]}],
}


def gemini_search() -> Script:
    end, whole = gemini.last(), gemini.last(gemini.text("Shannon."))
    for reply in (end, whole):
        reply["candidates"][0]["groundingMetadata"] = GROUNDING
    streamed = sse_reply(*map(data_frame, (gemini.chunk(gemini.text("Shannon.")), end)))
    return either(streamed, json_reply(whole))


@asynccontextmanager
async def gateway(*scripts: Script, **config: Any) -> AsyncIterator[tuple[AsyncAnthropic, ScriptedUpstream]]:
    async with ScriptedUpstream() as upstream:
        gemini_paths = [f"/models/gemini:{verb}" for verb in ("generateContent", "streamGenerateContent")]
        for path in ("/responses", "/messages", "/chat/completions", *gemini_paths):
            upstream.on(path, *scripts)
        upstream.on("/responses/input_tokens", json_reply({"input_tokens": 7}))
        place = {"base_url": upstream.url, "api_key": "key-1-of-gateway"}
        settings = {
            "providers": {
                "responses": {"type": "openai", "dialects": ["responses"], **place},
                "anthropic": {"type": "anthropic", "dialects": [], **place},
                "relayed": {"type": "anthropic", **place},
                "chat": {"type": "openai_compatible", **place},
                "gemini": {"type": "gemini", **place},
            },
            "models": {name: {"provider": name} for name in ("responses", "anthropic", "relayed", "chat", "gemini")},
            **config,
        }
        with serving(settings) as served:
            async with AsyncAnthropic(base_url=served.url, api_key="none", max_retries=0) as client:
                yield client, upstream


async def ask(client: AsyncAnthropic, model: str, *messages: Any, stream: bool, **more: Any) -> Message:
    body: Any = {"model": model, "max_tokens": 500, "messages": [*messages], "tools": [SEARCH], **more}
    if not stream:
        return await client.messages.create(**body)
    async with client.messages.stream(**body) as events:
        return await events.get_final_message()


def reply(message: Message) -> Json:
    """The message as the next turn of its client has it."""
    return {"role": "assistant", "content": [block.model_dump(exclude_none=True) for block in message.content]}


def pages_of(message: Message) -> Any:
    use, result, answer = message.content
    assert isinstance(use, ServerToolUseBlock)
    assert isinstance(result, WebSearchToolResultBlock)
    assert (use.name, use.input, result.tool_use_id) == ("web_search", {"query": "who"}, use.id)
    assert use.id.startswith("srvtoolu_")
    assert answer.type == "text"
    assert answer.text == "Shannon."
    [citation] = answer.citations or []
    assert isinstance(citation, CitationsWebSearchResultLocation)
    assert citation.url == "https://a.org"
    assert message.stop_reason == "end_turn"
    usage = message.usage.server_tool_use
    assert usage is not None
    assert (usage.web_search_requests, usage.web_fetch_requests) == (1, 0)
    return result.content


@FORMS
async def test_a_search_of_a_responses_upstream_has_its_blocks_and_returns(*, stream: bool) -> None:
    async with gateway(responses_search()) as (client, upstream):
        first = await ask(client, "responses", WHO, stream=stream, tool_choice={"type": "tool", "name": "web_search"})
        [page] = pages_of(first)
        await ask(client, "responses", WHO, reply(first), SURE, stream=stream)
        asked, answered = (request.json for request in upstream.requests)
    assert (page.url, page.title, page.encrypted_content) == ("https://a.org", "https://a.org", "")
    assert asked["tools"] == [{"type": "web_search", "filters": {"allowed_domains": ["a.org"]}}]
    assert (asked["max_tool_calls"], asked["tool_choice"]) == (3, {"type": "web_search"})
    assert asked["include"] == ["web_search_call.action.sources"]
    assert answered["input"][1] == FOUND
    assert answered["input"][2]["content"][0]["annotations"] == [CITATION]


@FORMS
async def test_a_search_of_anthropic_is_sent_back_unchanged(*, stream: bool) -> None:
    async with gateway(anthropic_search()) as (client, upstream):
        first = await ask(client, "anthropic", WHO, stream=stream)
        pages = pages_of(first)
        await ask(client, "anthropic", WHO, reply(first), SURE, stream=stream)
        asked, answered = (request.json for request in upstream.requests)
    assert [(page.url, page.title) for page in pages] == [("https://a.org", "a"), ("https://b.org", "b")]
    assert "cipher" not in first.to_json()
    assert asked["tools"] == [SEARCH]
    assert answered["messages"][1]["content"][:2] == [{**ASKED, "input": {"query": "who"}}, TOLD]


async def test_a_failed_search_is_sent_back_unchanged() -> None:
    error = {"type": "web_search_tool_result_error", "error_code": "max_uses_exceeded"}
    told = {**TOLD, "content": error}
    async with gateway(anthropic_search(told)) as (client, upstream):
        first = await ask(client, "anthropic", WHO, stream=True)
        _, result, *_ = first.content
        assert isinstance(result, WebSearchToolResultBlock)
        assert isinstance(result.content, WebSearchToolResultError)
        assert result.content.error_code == "max_uses_exceeded"
        assert first.usage.server_tool_use is None
        await ask(client, "anthropic", WHO, reply(first), SURE, stream=True)
        assert upstream.requests[1].json["messages"][1]["content"][:2] == [{**ASKED, "input": {"query": "who"}}, told]


async def test_a_search_that_waits_for_the_next_request_is_run_by_it() -> None:
    paused = [opening(), *block(0, ASKED, *given('{"query":"who"}')), *closing("pause_turn")]
    async with gateway(anthropic_sse(paused), anthropic_search()) as (client, upstream):
        first = await ask(client, "anthropic", WHO, stream=True)
        assert first.stop_reason == "pause_turn"
        await ask(client, "anthropic", WHO, reply(first), stream=True)
        await ask(client, "anthropic", WHO, reply(first), SURE, stream=True)
        going_on, answered = (request.json["messages"] for request in upstream.requests[1:])
    assert going_on[1:] == [{"role": "assistant", "content": [{**ASKED, "input": {"query": "who"}}]}]
    assert [message["role"] for message in answered] == ["user"]


@FORMS
async def test_searches_of_gemini_are_blocks_after_the_answer(*, stream: bool) -> None:
    async with gateway(gemini_search()) as (client, upstream):
        forced: Json = {"tool_choice": {"type": "tool", "name": "web_search"}, "tools": [FUNCTION, SEARCH]}
        first = await ask(client, "gemini", WHO, stream=stream, **forced)
        answer, *blocks = first.content
        [page] = pages_of(first.model_copy(update={"content": [*blocks, answer]}))
        history: Any = [WHO, reply(first), SURE]
        again = await client.messages.with_raw_response.create(model="gemini", max_tokens=50, messages=history)
        asked, answered = (request.json for request in upstream.requests)
    assert (page.url, page.title) == ("https://a.org", "a")
    assert (asked["tools"], asked.get("toolConfig")) == ([{"googleSearch": {}}], None)
    assert answered["contents"][1] == {"role": "model", "parts": [{"text": "Shannon."}]}
    # The search is no loss: the API has no place for its own ones.
    assert again.headers["x-gateway-loss"] == "messages=annotations dropped"


async def test_a_forced_search_of_gemini_is_a_loss() -> None:
    async with gateway(gemini_search()) as (client, _):
        tools = [FUNCTION, {"type": "web_search_20250305", "name": "web_search"}]
        forced: Any = {"messages": [WHO], "tools": tools, "tool_choice": {"type": "tool", "name": "web_search"}}
        reply = await client.messages.with_raw_response.create(model="gemini", max_tokens=50, **forced)
    assert reply.headers["x-gateway-loss"] == "tool_choice=not enforced, tools[0]=function left out"


async def test_searches_reach_other_models_as_far_as_they_can() -> None:
    async with gateway(anthropic_search()) as (client, upstream):
        first = reply(await ask(client, "anthropic", WHO, stream=False))
        upstream.on("/responses", responses_search())
        upstream.on("/chat/completions", chat_text("Yes."))
        history: Any = [WHO, first, SURE]
        await ask(client, "responses", *history, stream=False)
        over_chat = await client.messages.with_raw_response.create(
            model="chat",
            max_tokens=50,
            messages=history,
        )
        await ask(client, "relayed", *history, stream=False)
        _, responses, _, relayed = (request.json for request in upstream.requests)
    action = {"type": "search", "query": "who", "sources": [{"type": "url", "url": p["url"]} for p in PAGES]}
    item = responses["input"][1]
    assert item == {"type": "web_search_call", "id": item["id"], "status": "completed", "action": action}
    assert over_chat.headers["x-gateway-loss"] == "messages=annotations dropped"
    # The API itself would refuse what is sealed for another model.
    assert relayed["messages"][1]["content"] == [{"type": "text", "text": "Shannon."}]


async def test_a_thread_keeps_its_searches(tmp_path: Path) -> None:
    url = databases.ready_sqlite(tmp_path / "state.db")
    async with gateway(anthropic_search(), store={"url": url}) as (client, upstream):
        who: Any = WHO
        sure: Any = SURE
        tools: Any = [SEARCH]
        first = await client.beta.messages.create(
            model="anthropic",
            max_tokens=500,
            messages=[who],
            tools=tools,
            extra_body={"thread": {"type": "create"}},
        )
        thread = {"type": "continue", "previous_message_id": first.id}
        await client.beta.messages.create(
            model="anthropic",
            max_tokens=500,
            messages=[sure],
            extra_body={"thread": thread},
        )
        assert upstream.requests[1].json["messages"][1]["content"][:2] == [{**ASKED, "input": {"query": "who"}}, TOLD]


async def test_tokens_of_searches_are_counted() -> None:
    async with gateway(responses_search()) as (client, upstream):
        first = reply(await ask(client, "responses", WHO, stream=False))
        history: Any = [WHO, first, SURE]
        tools: Any = [SEARCH]
        counted = await client.messages.count_tokens(model="responses", messages=history, tools=tools)
        assert counted.input_tokens == 7
        assert upstream.requests[-1].json["input"][1] == FOUND
        assert upstream.requests[-1].json.keys() <= {"model", "input", "tools"}
