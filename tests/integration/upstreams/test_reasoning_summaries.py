"""Readable thoughts are a summary if the client requests one, in every dialect, and are sent back to the model."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from openai import AsyncOpenAI

from tests import databases
from tests.serving import Gateway, serving
from tests.upstream import Script, ScriptedUpstream, chat_chunk, chat_json, chat_sse, json_reply, responses_sse
from tests.upstream.builders import CHAT_USAGE, either, message_item, response_snapshot, text_events

PIECES = [f"piece {number}, " for number in range(40)]
"""Enough deltas in a row that most of them are forwarded by template."""

THOUGHT = "".join(PIECES)
WISHES: list[dict[str, Any]] = [
    {"reasoning": {"summary": "auto"}},
    {"reasoning": {"summary": "concise"}},
    {"reasoning": {"generate_summary": "detailed"}},
]
PART: dict[str, Any] = {"type": "reasoning_text", "text": THOUGHT}
REASONING: dict[str, Any] = {"id": "rs_1", "type": "reasoning", "summary": [], "content": [PART]}


def thinking_chat() -> Script:
    chunks = [chat_chunk({"role": "assistant", "reasoning_content": piece}) for piece in PIECES]
    end = [chat_chunk({"content": "Good day."}), chat_chunk({}, "stop"), chat_chunk(usage=CHAT_USAGE)]
    return either(chat_sse([*chunks, *end]), chat_json("Good day.", reasoning_content=THOUGHT))


def thinking_responses() -> Script:
    place: dict[str, Any] = {"item_id": "rs_1", "output_index": 0, "content_index": 0}
    output = [REASONING, message_item("Good day.")]
    message = [{**event, "output_index": 1} for event in text_events("Good day.") if "output_index" in event]
    events: list[dict[str, Any]] = [
        {"type": "response.created", "response": response_snapshot("in_progress")},
        {"type": "response.output_item.added", "output_index": 0, "item": {**REASONING, "content": []}},
        {"type": "response.content_part.added", **place, "part": {**PART, "text": ""}},
        *({"type": "response.reasoning_text.delta", **place, "delta": piece} for piece in PIECES),
        {"type": "response.reasoning_text.done", **place, "text": THOUGHT},
        {"type": "response.content_part.done", **place, "part": PART},
        {"type": "response.output_item.done", "output_index": 0, "item": REASONING},
        *message,
        {"type": "response.completed", "response": response_snapshot("completed", output)},
    ]
    return either(responses_sse(events), json_reply(response_snapshot("completed", output)))


SCRIPTS = {"chat": ("/chat/completions", thinking_chat), "responses": ("/responses", thinking_responses)}


@pytest.fixture
async def upstream() -> AsyncIterator[ScriptedUpstream]:
    async with ScriptedUpstream() as running:
        for path, script in SCRIPTS.values():
            running.on(path, script())
        yield running


@pytest.fixture
def gateway(upstream: ScriptedUpstream, tmp_path: Path) -> Iterator[Gateway]:
    providers = {
        name: {"type": "openai_compatible", "base_url": upstream.url, "dialects": [name]} for name in SCRIPTS
    } | {"demo": {"type": "scripted"}}
    models: dict[str, Any] = {name: {"provider": name} for name in providers}
    # A limit of calls makes the gateway translate what it would relay.
    models["translated"] = {"provider": "responses", "model": "responses", "max_tool_calls_per_turn": 8}
    store = {"url": databases.ready_sqlite(tmp_path / "state.db")}
    with serving({"providers": providers, "models": models, "store": store}) as running:
        yield running


@pytest.fixture
async def client(gateway: Gateway) -> AsyncIterator[AsyncOpenAI]:
    async with AsyncOpenAI(base_url=gateway.v1, api_key="none", max_retries=0) as running:
        yield running


MODELS = pytest.mark.parametrize("model", ["chat", "responses", "translated"])


async def respond(client: AsyncOpenAI, *, stream: bool, **params: Any) -> tuple[dict[str, Any], list[Any]]:
    """The response as JSON, and the events of its stream."""
    if not stream:
        return (await client.responses.create(**params)).model_dump(exclude_none=True), []
    events = [event async for event in await client.responses.create(stream=True, **params)]
    return events[-1].response.model_dump(exclude_none=True), events


@MODELS
@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize("wish", WISHES, ids=str)
async def test_thoughts_are_a_summary_if_requested(
    model: str, stream: bool, wish: dict[str, Any], client: AsyncOpenAI
) -> None:
    response, events = await respond(client, stream=stream, model=model, input="Hi", **wish)
    thought, answer = response["output"]
    assert thought["summary"] == [{"type": "summary_text", "text": THOUGHT}]
    assert not thought.get("content")
    assert answer["content"][0]["text"] == "Good day."
    if stream:
        kinds = [event.type for event in events if event.type.startswith("response.reasoning")]
        assert kinds == [
            "response.reasoning_summary_part.added",
            *["response.reasoning_summary_text.delta"] * len(PIECES),
            "response.reasoning_summary_text.done",
            "response.reasoning_summary_part.done",
        ]
        deltas = [event for event in events if event.type == "response.reasoning_summary_text.delta"]
        assert "".join(event.delta for event in deltas) == THOUGHT
        assert {event.summary_index for event in deltas} == {0}
        assert [event.sequence_number for event in events] == list(range(len(events)))


@MODELS
@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize("params", [{}, {"reasoning": {"effort": "low"}}, {"reasoning": {"summary": None}}], ids=str)
async def test_thoughts_stay_text_without_such_a_request(
    model: str, stream: bool, params: dict[str, Any], client: AsyncOpenAI
) -> None:
    response, events = await respond(client, stream=stream, model=model, input="Hi", **params)
    assert response["output"][0]["content"] == REASONING["content"]
    assert response["output"][0]["summary"] == []
    assert not [event.type for event in events if "summary" in event.type]


@MODELS
@pytest.mark.parametrize("params", [*WISHES[:1], {}], ids=["summary", "text"])
@pytest.mark.parametrize("with_id", [True, False], ids=["with its id", "without"])
async def test_thoughts_of_both_forms_are_sent_back_to_the_model(
    model: str, params: dict[str, Any], with_id: bool, client: AsyncOpenAI, upstream: ScriptedUpstream
) -> None:
    first, _ = await respond(client, stream=True, model=model, input="Hi", store=False, **params)
    items = [item if with_id else {key: item[key] for key in item if key != "id"} for item in first["output"]]
    history: Any = [{"role": "user", "content": "Hi"}, *items, {"role": "user", "content": "And?"}]
    await respond(client, stream=True, model=model, input=history, store=False, **params)
    assert sent_thoughts(upstream.requests[-1].json) == [THOUGHT]


def sent_thoughts(body: dict[str, Any]) -> list[str]:
    """The thoughts that an upstream got, in the form that servers of open models read."""
    if "messages" in body:
        return [message["reasoning_content"] for message in body["messages"] if "reasoning_content" in message]
    thoughts = [item for item in body["input"] if item.get("type") == "reasoning"]
    assert all("id" in item and "summary" in item for item in thoughts), "the API requires both"
    return ["".join(part["text"] for part in item["content"]) for item in thoughts]


@MODELS
@pytest.mark.parametrize("params", [*WISHES[:1], {}], ids=["summary", "text"])
async def test_stored_thoughts_of_both_forms_are_sent_back_to_the_model(
    model: str, params: dict[str, Any], client: AsyncOpenAI, upstream: ScriptedUpstream
) -> None:
    first, _ = await respond(client, stream=True, model=model, input="Hi", **params)
    await respond(client, stream=True, model=model, input="And?", previous_response_id=first["id"], **params)
    assert sent_thoughts(upstream.requests[-1].json) == [THOUGHT]


@pytest.mark.parametrize(
    ("params", "loss"),
    [
        ({"summary": "auto"}, None),
        ({"summary": "concise"}, "reasoning.summary=as auto"),
        ({"generate_summary": "detailed"}, "reasoning.generate_summary=as auto"),
    ],
    ids=str,
)
async def test_a_request_for_plain_thoughts_loses_nothing(
    params: dict[str, Any], loss: str | None, gateway: Gateway
) -> None:
    async with httpx.AsyncClient(trust_env=False, timeout=60) as client:
        body = {"model": "chat", "input": "Hi", "reasoning": params}
        reply = await client.post(f"{gateway.v1}/responses", json=body)
    assert reply.headers.get("x-gateway-loss") == loss


async def test_the_scripted_model_has_thoughts_too(client: AsyncOpenAI) -> None:
    body: dict[str, Any] = {"model": "demo", "input": "Hi", "stream": True}
    plain, _ = await respond(client, **body, reasoning={"effort": "low"})
    summarized, _ = await respond(client, **body, reasoning={"effort": "low", "summary": "auto"})
    assert plain["output"][0]["content"][0]["text"] == summarized["output"][0]["summary"][0]["text"]
