"""Stored responses as clients see them: a server on a socket, the official SDK, both databases."""

from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack
from typing import Any

import httpx
import pytest
from openai import AsyncOpenAI, BadRequestError, NotFoundError

from tests.serving import Gateway, serving
from tests.upstream import ScriptedUpstream
from tests.upstream.builders import chat_calls, chat_sse, chat_text, error_reply, responses_text, text_chunks

Json = dict[str, Any]
StartGateway = Callable[..., Gateway]


@pytest.fixture
async def upstream() -> AsyncIterator[ScriptedUpstream]:
    async with ScriptedUpstream() as up:
        up.on("/chat/completions", chat_text("Hi", " there"))
        up.on("/responses", responses_text("Hi", " there"))
        yield up


@pytest.fixture
async def client(upstream: ScriptedUpstream, store_url: str) -> AsyncIterator[AsyncOpenAI]:
    provider = {"type": "openai_compatible", "base_url": upstream.url}
    config = {
        "store": {"url": store_url},
        "providers": {"chat": provider, "both": {**provider, "dialects": ["chat", "responses"]}},
        "models": {"relayed": {"provider": "both"}, "*": {"provider": "chat"}},
    }
    with ExitStack() as running:
        gateway = running.enter_context(serving(config))
        async with AsyncOpenAI(base_url=gateway.v1, api_key="none", max_retries=0) as client:
            yield client


def sent_messages(upstream: ScriptedUpstream) -> list[tuple[str, str]]:
    """Returns (role, text) of the messages in the last upstream request, chat or Responses."""
    body = upstream.requests[-1].json
    return [(one["role"], _text(one["content"])) for one in body.get("messages") or body["input"]]


def _text(content: Any) -> str:
    return content if isinstance(content, str) else "".join(part["text"] for part in content)


MODELS = pytest.mark.parametrize("model", ["translated", "relayed"])


@MODELS
async def test_a_stored_response_equals_the_reply(client: AsyncOpenAI, model: str) -> None:
    created = await client.responses.create(model=model, input="Hello", metadata={"a": "b"})
    assert (created.to_dict()["store"], created.output_text) == (True, "Hi there")
    assert created.id.startswith("resp_")
    assert len(created.id) > 36
    assert await client.responses.retrieve(created.id) == created


@MODELS
async def test_the_last_event_of_a_stream_equals_the_stored_response(client: AsyncOpenAI, model: str) -> None:
    events = [event async for event in await client.responses.create(model=model, input="Hello", stream=True)]
    final = events[-1]
    assert final.type == "response.completed"
    held = {event.response.id for event in events if hasattr(event, "response")}
    assert held == {final.response.id}
    assert (await client.responses.retrieve(final.response.id)).to_dict() == final.response.to_dict()


@MODELS
@pytest.mark.parametrize("stream", [False, True])
async def test_a_chain_is_sent_to_the_upstream_without_its_instructions(
    client: AsyncOpenAI, upstream: ScriptedUpstream, model: str, stream: bool
) -> None:
    first = await client.responses.create(model=model, input="One", instructions="Be brief.")
    second: Any = await client.responses.create(model=model, input="Two", previous_response_id=first.id, stream=stream)
    if stream:
        second = [event async for event in second][-1].response
    assert second.previous_response_id == first.id
    assert sent_messages(upstream) == [("user", "One"), ("assistant", "Hi there"), ("user", "Two")]
    sent = upstream.requests[-1].json
    assert not sent.keys() & {"previous_response_id", "conversation", "background", "resumable", "instructions"}
    assert not sent.get("store")
    third = await client.responses.create(model=model, input="Three", previous_response_id=second.id)
    assert [text for role, text in sent_messages(upstream) if role == "user"] == ["One", "Two", "Three"]
    assert third.previous_response_id == second.id


async def test_two_children_of_one_parent_do_not_share_history(client: AsyncOpenAI, upstream: ScriptedUpstream) -> None:
    root = await client.responses.create(model="m", input="Root")
    left = await client.responses.create(model="m", input="Left", previous_response_id=root.id)
    right = await client.responses.create(model="m", input="Right", previous_response_id=root.id)
    for parent, before in ((left, "Left"), (right, "Right")):
        await client.responses.create(model="m", input="Leaf", previous_response_id=parent.id)
        assert [text for role, text in sent_messages(upstream) if role == "user"] == ["Root", before, "Leaf"]


async def test_a_deleted_response_in_the_middle_is_still_history_of_later_responses(
    client: AsyncOpenAI, upstream: ScriptedUpstream
) -> None:
    first = await client.responses.create(model="m", input="One")
    second = await client.responses.create(model="m", input="Two", previous_response_id=first.id)
    third = await client.responses.create(model="m", input="Three", previous_response_id=second.id)
    await client.responses.delete(second.id)
    with pytest.raises(NotFoundError):
        await client.responses.retrieve(second.id)
    with pytest.raises(BadRequestError) as refused:
        await client.responses.create(model="m", input="Again", previous_response_id=second.id)
    assert (refused.value.code, refused.value.param) == ("previous_response_not_found", "previous_response_id")
    await client.responses.create(model="m", input="Four", previous_response_id=third.id)
    assert [text for role, text in sent_messages(upstream) if role == "user"] == ["One", "Two", "Three", "Four"]


@pytest.mark.parametrize("status", ["completed", "incomplete"])
async def test_a_call_and_its_output_are_part_of_a_chain(
    status: str, client: AsyncOpenAI, upstream: ScriptedUpstream
) -> None:
    upstream.on("/chat/completions", chat_calls(("add", '{"a":1}')), chat_text("Done"), chat_text("Yes"))
    tools: Any = [{"type": "function", "name": "add", "parameters": {"type": "object"}, "strict": False}]
    first = await client.responses.create(model="m", input="Add", tools=tools)
    call: Any = first.output[-1]
    output: Any = {"type": "function_call_output", "call_id": call.call_id, "output": "2", "status": status}
    second = await client.responses.create(model="m", input=[output], tools=tools, previous_response_id=first.id)
    await client.responses.create(model="m", input="Sure?", tools=tools, previous_response_id=second.id)
    roles = [[message["role"] for message in request.json["messages"]] for request in upstream.requests[-2:]]
    assert roles == [["user", "assistant", "tool"], ["user", "assistant", "tool", "assistant", "user"]]


async def test_an_item_that_the_history_has_already_is_refused(client: AsyncOpenAI, upstream: ScriptedUpstream) -> None:
    """The model would read it twice."""
    conversation = await client.conversations.create()
    first = await client.responses.create(model="m", input="One")
    kept = await client.responses.create(model="m", input="One", conversation=conversation.id)
    question = (await client.responses.input_items.list(first.id)).data[0].to_dict()
    count = len(upstream.requests)
    previous, conversed = {"previous_response_id": first.id}, {"conversation": conversation.id}
    cases: list[tuple[Json, Json]] = [
        (first.output[0].to_dict(), previous),
        (question, previous),
        ({"type": "item_reference", "id": first.output[0].id}, previous),
        (kept.output[0].to_dict(), conversed),
    ]
    for item, continued in cases:
        again: Any = [{"role": "user", "content": "Two"}, item]
        with pytest.raises(BadRequestError) as refused:
            await client.responses.create(model="m", input=again, **continued)
        message = f"Duplicate item found with id {item['id']}. Remove duplicate items from your input and try again."
        assert (refused.value.param, refused.value.body["message"]) == ("input", message)  # type: ignore[index]
    assert len(upstream.requests) == count
    # An item of another response is none of the history's.
    elsewhere: Any = [first.output[0].to_dict(), {"role": "user", "content": "Two", "id": "msg_mine"}]
    await client.responses.create(model="m", input=elsewhere, conversation=conversation.id)


async def test_unstored_responses_write_nothing(client: AsyncOpenAI) -> None:
    answered = await client.responses.create(model="m", input="Hello", store=False)
    assert answered.to_dict()["store"] is False
    with pytest.raises(NotFoundError):
        await client.responses.retrieve(answered.id)
    with pytest.raises(BadRequestError):
        await client.responses.create(model="m", input="More", previous_response_id=answered.id)
    assert (await client.get("/responses", cast_to=httpx.Response)).json()["data"] == []


async def test_a_request_that_got_an_error_instead_of_a_response_leaves_nothing(
    client: AsyncOpenAI, upstream: ScriptedUpstream
) -> None:
    upstream.on("/chat/completions", error_reply(400, "no such thing"))
    for stream in (False, True):
        with pytest.raises(BadRequestError):
            await client.responses.create(model="m", input="Hello", stream=stream)
    assert (await client.get("/responses", cast_to=httpx.Response)).json()["data"] == []


async def test_a_stream_that_broke_off_is_stored_as_failed(client: AsyncOpenAI, upstream: ScriptedUpstream) -> None:
    upstream.on("/chat/completions", chat_sse(text_chunks("Hi")[:2], done=False))
    events = [event async for event in await client.responses.create(model="m", input="Hello", stream=True)]
    final: Any = events[-1]
    assert final.type == "response.failed"
    assert (await client.responses.retrieve(final.response.id)).to_dict() == final.response.to_dict()


async def test_items_can_be_referred_to_by_their_ids(client: AsyncOpenAI, upstream: ScriptedUpstream) -> None:
    first = await client.responses.create(model="m", input="One")
    given: Any = [{"type": "item_reference", "id": first.output[0].id}, {"role": "user", "content": "Two"}]
    await client.responses.create(model="m", input=given)
    assert sent_messages(upstream) == [("assistant", "Hi there"), ("user", "Two")]
    unknown: Any = [{"role": "user", "content": "Two"}, {"type": "item_reference", "id": "msg_unknown"}]
    with pytest.raises(NotFoundError) as refused:
        await client.responses.create(model="m", input=unknown)
    assert refused.value.param == "input[1].id"


async def test_items_sent_with_one_id_are_each_listed_once(client: AsyncOpenAI) -> None:
    first = await client.responses.create(model="m", input="One")
    reference: Any = {"type": "item_reference", "id": first.output[0].id}
    again: Any = {"type": "message", "role": "user", "id": "msg_own", "content": "Two"}
    second = await client.responses.create(model="m", input=[reference, again, reference, again])
    for order in ("asc", "desc"):
        pages = client.responses.input_items.list(second.id, order=order, limit=1)
        ids = [item.id async for item in pages]
        assert len(ids) == len(set(ids)) == 4


async def test_a_conversation_provides_its_items_and_receives_the_turns(
    client: AsyncOpenAI, upstream: ScriptedUpstream
) -> None:
    conversation = await client.conversations.create(items=[{"type": "message", "role": "user", "content": "Zero"}])
    answered = await client.responses.create(model="m", input="One", conversation=conversation.id)
    assert answered.conversation is not None
    assert answered.conversation.id == conversation.id
    assert sent_messages(upstream) == [("user", "Zero"), ("user", "One")]
    await client.responses.create(model="m", input="Two", conversation={"id": conversation.id}, stream=False)
    assert sent_messages(upstream) == [("user", "Zero"), ("user", "One"), ("assistant", "Hi there"), ("user", "Two")]
    items = [item async for item in client.conversations.items.list(conversation.id, order="asc")]
    assert [item.type for item in items] == ["message"] * 5


@MODELS
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
async def test_a_conversation_provides_its_items_to_an_unstored_response_and_receives_nothing(
    client: AsyncOpenAI, upstream: ScriptedUpstream, model: str, stream: bool
) -> None:
    conversation = await client.conversations.create(items=[{"type": "message", "role": "user", "content": "Zero"}])
    body: Json = {"model": model, "input": "One", "conversation": conversation.id, "store": False}
    async with httpx.AsyncClient(timeout=60) as plain:
        reply = await plain.post(f"{client.base_url}responses", json={**body, "stream": stream})
        refused = await plain.post(f"{client.base_url}responses", json=body, headers={"x-gateway-strict": "true"})
    assert (reply.status_code, reply.headers["x-gateway-loss"]) == (200, "conversation=not extended")
    assert sent_messages(upstream) == [("user", "Zero"), ("user", "One")]
    assert len((await client.conversations.items.list(conversation.id)).data) == 1
    assert (refused.status_code, refused.json()["error"]["param"]) == (400, "conversation")


async def test_a_response_of_a_conversation_is_not_continued_without_its_items(client: AsyncOpenAI) -> None:
    conversation = await client.conversations.create(items=[{"type": "message", "role": "user", "content": "Zero"}])
    turn = await client.responses.create(model="m", input="One", conversation=conversation.id)
    with pytest.raises(BadRequestError) as refused:
        await client.responses.create(model="m", input="Two", previous_response_id=turn.id)
    assert (refused.value.code, refused.value.param) == ("previous_response_in_conversation", "previous_response_id")
    assert conversation.id in refused.value.message


NO_STATE: list[tuple[Json, str, int]] = [
    ({"previous_response_id": "resp_unknown"}, "previous_response_id", 400),
    ({"conversation": "conv_unknown"}, "conversation", 404),
    ({"previous_response_id": "resp_a", "conversation": "conv_b"}, "previous_response_id", 400),
    ({"background": True, "store": False}, "background", 400),
    ({"conversation": "conv_a", "store": False}, "conversation", 404),
    ({"resumable": True, "store": False, "stream": True}, "resumable", 400),
    ({"resumable": True}, "resumable", 400),
    ({"previous_response_id": "a\0b"}, "previous_response_id", 400),
    ({"previous_response_id": "a" * 5000}, "previous_response_id", 400),
]


async def test_invalid_state_parameters_are_refused_by_name(client: AsyncOpenAI, upstream: ScriptedUpstream) -> None:
    async with httpx.AsyncClient(timeout=60) as plain:
        for more, param, status in NO_STATE:
            body = {"model": "m", "input": "Hello", **more}
            answer = await plain.post(f"{client.base_url}responses", json=body)
            assert (answer.status_code, answer.json()["error"]["param"]) == (status, param), more
    assert upstream.requests == []


async def test_losses_are_stored_with_the_response(client: AsyncOpenAI) -> None:
    async with httpx.AsyncClient(base_url=str(client.base_url), timeout=60) as plain:
        for more in ({}, {"stream": True}, {"background": True}):
            body = {"model": "m", "input": "Hello", "max_tool_calls": 1, **more}
            answer = await plain.post("responses", json=body)
            assert answer.headers["x-gateway-loss"] == "max_tool_calls=dropped"
        listed = (await plain.get("responses")).json()["data"]
        assert len(listed) == 3
        for one in listed:
            stored = await plain.get(f"responses/{one['id']}")
            assert stored.headers["x-gateway-loss"] == "max_tool_calls=dropped"
        lossless = (await plain.post("responses", json={"model": "m", "input": "Hello"})).json()
        assert "x-gateway-loss" not in (await plain.get(f"responses/{lossless['id']}")).headers


async def test_losses_are_stored_with_the_completion(client: AsyncOpenAI) -> None:
    params = {"model": "m", "messages": [{"role": "user", "content": "Hello"}], "store": True}
    async with httpx.AsyncClient(base_url=str(client.base_url), timeout=60) as plain:
        for stream in (False, True):
            body = {**params, "stream": stream, "thinking": True}
            answer = await plain.post("chat/completions", json=body)
            assert answer.headers["x-gateway-loss"] == "thinking=dropped"
        listed = (await plain.get("chat/completions")).json()["data"]
        assert len(listed) == 2
        for one in listed:
            path = f"chat/completions/{one['id']}"
            for kept in (await plain.get(path), await plain.post(path, json={"metadata": {"k": "v"}})):
                assert (kept.json()["id"], kept.headers["x-gateway-loss"]) == (one["id"], "thinking=dropped")
        lossless = (await plain.post("chat/completions", json=params)).json()
        assert "x-gateway-loss" not in (await plain.get(f"chat/completions/{lossless['id']}")).headers


async def test_a_stored_completion_can_be_found_again(client: AsyncOpenAI) -> None:
    messages: Any = [{"role": "user", "content": "Hello"}]
    whole = await client.chat.completions.create(model="m", messages=messages, store=True, metadata={"k": "v"})
    stream = await client.chat.completions.create(model="m", messages=messages, store=True, stream=True)
    streamed = [chunk async for chunk in stream]
    for completion_id in (whole.id, streamed[0].id):
        stored = await client.chat.completions.retrieve(completion_id)
        assert stored.choices[0].message.content == "Hi there"
        input_items = [message async for message in client.chat.completions.messages.list(completion_id)]
        assert [message.content for message in input_items] == ["Hello"]
    found = [one.id async for one in client.chat.completions.list(metadata={"k": "v"})]
    assert found == [whole.id]


async def test_a_completion_is_stored_only_if_requested(client: AsyncOpenAI) -> None:
    messages: Any = [{"role": "user", "content": "Hello"}]
    answered = await client.chat.completions.create(model="relayed", messages=messages)
    with pytest.raises(NotFoundError):
        await client.chat.completions.retrieve(answered.id)
