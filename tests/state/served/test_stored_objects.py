"""Stored objects with the official SDK, which validates every reply, and with requests that it would never send."""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from openai import BadRequestError, NotFoundError, OpenAI

from tests.polling import block_until
from tests.serving import Gateway, serving

CONFIG = {"providers": {"demo": {"type": "scripted"}}, "models": {"*": {"provider": "demo"}}}
Json = dict[str, Any]


@pytest.fixture
def gateway(store_url: str) -> Iterator[Gateway]:
    with serving({**CONFIG, "store": {"url": store_url}}) as running:
        yield running


def user(text: str) -> Any:
    return {"type": "message", "role": "user", "content": text}


def texts(items: Any) -> list[str]:
    return [item.content[0].text for item in items]


def test_a_conversation_is_created_changed_and_deleted(client: OpenAI) -> None:
    made = client.conversations.create(items=[user("one")], metadata={"a": "b"})
    assert made.id.startswith("conv_")
    assert client.conversations.retrieve(made.id) == made
    changed = client.conversations.update(made.id, metadata={"c": "d"})
    assert (changed.metadata, changed.created_at) == ({"c": "d"}, made.created_at)
    assert client.conversations.update(made.id, metadata=None).metadata == {}
    gone = client.conversations.delete(made.id)
    assert (gone.id, gone.object, gone.deleted) == (made.id, "conversation.deleted", True)
    with pytest.raises(NotFoundError) as unknown:
        client.conversations.retrieve(made.id)
    assert unknown.value.body == {
        "message": f"Conversation with id '{made.id}' not found.",
        "type": "invalid_request_error",
        "param": None,
        "code": None,
    }


def test_items_are_added_listed_retrieved_and_removed(client: OpenAI) -> None:
    conversation = client.conversations.create()
    said = [user(str(number)) for number in range(5)]
    added = client.conversations.items.create(conversation.id, items=said)
    assert texts(added.data) == ["0", "1", "2", "3", "4"]
    assert (added.first_id, added.last_id, added.has_more) == (added.data[0].id, added.data[4].id, False)
    listed = client.conversations.items
    assert texts(listed.list(conversation.id, limit=2)) == ["4", "3", "2", "1", "0"]
    assert texts(listed.list(conversation.id, limit=2, order="asc")) == ["0", "1", "2", "3", "4"]
    second = added.data[1]
    assert second.id is not None
    taken = listed.retrieve(second.id, conversation_id=conversation.id, include=["reasoning.encrypted_content"])
    assert taken == second
    assert listed.delete(second.id, conversation_id=conversation.id) == conversation
    assert texts(listed.list(conversation.id, order="asc", limit=3)) == ["0", "2", "3", "4"]
    with pytest.raises(NotFoundError):
        listed.retrieve(second.id, conversation_id=conversation.id)
    assert listed.list(client.conversations.create().id).data == []


def test_every_kind_of_item_can_be_stored(client: OpenAI) -> None:
    calls: list[Any] = [
        {"role": "developer", "content": [{"type": "input_text", "text": "be kind"}]},
        {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c", "output": "done"},
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}]},
        {"role": "assistant", "content": "hello"},
        {"type": "message", "id": "mine/1", "role": "user", "content": "with an id"},
    ]
    conversation = client.conversations.create(items=calls)
    items = client.conversations.items.list(conversation.id, order="asc").data
    kinds = ["message", "function_call", "function_call_output", "reasoning", "message", "message"]
    assert [item.type for item in items] == kinds
    assert client.conversations.items.retrieve("mine/1", conversation_id=conversation.id) == items[5]


def test_a_reference_stands_for_its_item(client: OpenAI) -> None:
    answer = client.responses.create(model="demo", input="hello").output[0]
    conversation = client.conversations.create(items=[{"type": "item_reference", "id": str(answer.id)}])
    (kept,) = client.conversations.items.list(conversation.id).data
    assert (kept.id, kept.type) == (answer.id, "message")


NOT_OF_A_CONVERSATION: list[tuple[str, Json, str]] = [
    ("/conversations", {"items": [user("x")] * 21}, "items"),
    ("/conversations", {"items": "x"}, "items"),
    ("/conversations", {"items": [user("x"), {"type": "message", "role": "user"}]}, "items[1].content"),
    ("/conversations", {"items": [{"type": "message", "id": "a", **user("x")}] * 2}, "items[1].id"),
    ("/conversations", {"metadata": {str(number): "x" for number in range(17)}}, "metadata"),
    ("/conversations", {"metadata": {"k" * 65: "x"}}, f"metadata.{'k' * 65}"),
    ("/conversations", {"metadata": {"k": "x" * 513}}, "metadata.k"),
    ("/conversations", {"metadata": {"k": 1}}, "metadata.k"),
    ("/conversations", {"meta": {}}, "meta"),
    ("/conversations/{id}", {}, "metadata"),
    ("/conversations/{id}", {"metadata": "x"}, "metadata"),
    ("/conversations/{id}/items", {}, "items"),
    ("/conversations/{id}/items", {"items": None}, "items"),
    ("/conversations/{id}/items", {"items": [user("x")] * 21}, "items"),
    ("/conversations/{id}/items", {"items": [{"type": "message", "id": "known", **user("x")}]}, "items[0].id"),
    ("/conversations/{id}/items?include[]=x", {"items": []}, "include"),
]


def test_items_that_a_conversation_cannot_have_are_refused_by_name(http: httpx.Client) -> None:
    known = {"items": [{**user("there"), "id": "known"}]}
    for path, body, param in NOT_OF_A_CONVERSATION:
        conversation = http.post("/conversations", json=known).json()["id"]
        refused = http.post(path.replace("{id}", conversation), json=body)
        assert (refused.status_code, refused.json()["error"]["param"]) == (400, param), (path, body)
        assert len(http.get(f"/conversations/{conversation}/items").json()["data"]) == 1, (path, body)


def test_references_to_nothing_are_not_found_by_name(http: httpx.Client) -> None:
    refused = http.post("/conversations", json={"items": [user("x"), {"type": "item_reference", "id": "msg_no"}]})
    assert (refused.status_code, refused.json()["error"]["param"]) == (404, "items[1].id")


def test_responses_are_listed_read_and_deleted(client: OpenAI, http: httpx.Client) -> None:
    made = [client.responses.create(model="demo", input=f"hello {number}") for number in range(3)]
    listed = http.get("/responses", params={"limit": 2}).json()
    assert [row["id"] for row in listed["data"]] == [made[2].id, made[1].id]
    assert (listed["object"], listed["last_id"], listed["has_more"]) == ("list", made[1].id, True)
    rest = http.get("/responses", params={"after": made[1].id}).json()
    assert ([row["id"] for row in rest["data"]], rest["has_more"]) == ([made[0].id], False)
    assert client.responses.retrieve(made[0].id, include=["message.output_text.logprobs"]) == made[0]
    gone = http.delete(f"/responses/{made[0].id}").json()
    assert gone == {"id": made[0].id, "object": "response.deleted", "deleted": True}
    client.responses.delete(made[1].id)
    with pytest.raises(NotFoundError):
        client.responses.retrieve(made[1].id)


def test_input_items_are_those_of_the_request(client: OpenAI) -> None:
    first = client.responses.create(model="demo", input="before")
    said = [user("one"), user("two"), user("three")]
    made = client.responses.create(model="demo", input=said, previous_response_id=first.id)
    listed = client.responses.input_items.list(made.id, limit=2)
    assert texts(listed) == ["three", "two", "one"]
    assert texts(client.responses.input_items.list(made.id, order="asc", include=[])) == ["one", "two", "three"]


def test_stored_completions_are_listed_filtered_changed_and_deleted(client: OpenAI) -> None:
    made = [
        client.chat.completions.create(
            model=model, messages=[user_message(model)], store=True, metadata={"topic": topic, "user": "1"}
        )
        for model, topic in (("small", "a"), ("small", "b"), ("large", "a"))
    ]
    stored = client.chat.completions

    def ids(**which: Any) -> list[str]:
        return [one.id for one in stored.list(limit=1, **which)]

    assert ids() == [one.id for one in made]
    assert ids(order="desc") == [one.id for one in reversed(made)]
    assert ids(model="small", metadata={"topic": "a", "user": "1"}) == [made[0].id]
    assert stored.retrieve(made[0].id).choices == made[0].choices
    changed = stored.update(made[0].id, metadata={"topic": "c"})
    assert changed.to_dict()["metadata"] == {"topic": "c"}
    assert ids(metadata={"topic": "a"}) == [made[2].id]
    gone = stored.delete(made[0].id)
    assert (gone.id, gone.object, gone.deleted) == (made[0].id, "chat.completion.deleted", True)
    with pytest.raises(NotFoundError):
        stored.retrieve(made[0].id)


def user_message(text: str) -> Any:
    return {"role": "user", "content": text}


def test_messages_of_a_completion_are_listed_in_parts(gateway: Gateway) -> None:
    # The SDK types every stored message as the assistant's own, which no question is.
    with OpenAI(base_url=gateway.v1, api_key="none", max_retries=0) as client:
        parts: Any = {"role": "user", "content": [{"type": "text", "text": "two"}]}
        made = client.chat.completions.create(model="demo", messages=[user_message("one"), parts], store=True)
        messages = list(client.chat.completions.messages.list(made.id, limit=1))
        assert [(one.content, one.role) for one in messages] == [("one", "user"), ("two", "user")]
        assert len({one.id for one in messages}) == 2
        shown = (messages[1].content_parts or [])[0]
        assert shown.to_dict() == parts["content"][0]
        last = client.chat.completions.messages.list(made.id, order="desc", after=messages[1].id)
        assert [one.content for one in last] == ["one"]


NOT_OF_A_LIST = {
    "limit=0": "limit",
    "limit=101": "limit",
    "order=x": "order",
    "after=nothing": "after",
    "after=": "after",
    "page=2": "page",
}


def test_every_list_refuses_the_same(client: OpenAI, http: httpx.Client) -> None:
    response = client.responses.create(model="demo", input="hello")
    conversation = client.conversations.create()
    completion = client.chat.completions.create(model="demo", messages=[user_message("hi")], store=True)
    for path in (
        "/responses",
        f"/responses/{response.id}/input_items",
        f"/conversations/{conversation.id}/items",
        "/chat/completions",
        f"/chat/completions/{completion.id}/messages",
    ):
        for query, param in NOT_OF_A_LIST.items():
            refused = http.get(f"{path}?{query}")
            assert (refused.status_code, refused.json()["error"]["param"]) == (400, param), f"{path}?{query}"


NOT_OF_A_RESPONSE = {
    "starting_after=1": "starting_after",
    "stream=true&starting_after=x": "starting_after",
    "stream=yes": "stream",
    "include[]=x": "include",
    "expand=all": "expand",
}


def test_unsupported_queries_of_a_response_are_refused_by_name(client: OpenAI, http: httpx.Client) -> None:
    made = client.responses.create(model="demo", input="hello")
    for query, param in NOT_OF_A_RESPONSE.items():
        refused = http.get(f"/responses/{made.id}?{query}")
        assert (refused.status_code, refused.json()["error"]["param"]) == (400, param), query


def test_an_invalid_filter_is_refused_by_name(client: OpenAI) -> None:
    with pytest.raises(BadRequestError) as refused:
        client.chat.completions.list(extra_query={"metadata": "a"})
    assert refused.value.param == "metadata"


def test_a_running_server_deletes_expired_objects(store_url: str) -> None:
    old = {"url": store_url, "ttl_days": 1e-6, "sweep_s": 0.05}
    with serving({**CONFIG, "store": old}) as gateway, httpx.Client(base_url=gateway.v1, timeout=60) as http:
        made = http.post("/responses", json={"model": "demo", "input": "hello"}).json()["id"]
        block_until(lambda: http.get(f"/responses/{made}").status_code == 404, "it is still there")
        assert http.get("/responses").json()["data"] == []
