"""Threads of the Messages API are stored, continue on every replica, and are visible to their owner only."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any, NamedTuple

import httpx
import pytest

from tests.agui_client import PATIENCE_S
from tests.mcp_server import CountingServer
from tests.polling import reach
from tests.state.served.agui_replicas import two_replicas
from tests.unit.support.stream_checks.messages_order import check_message, check_message_stream
from tests.upstream import Pause, Reply, ScriptedUpstream
from tests.upstream.builders import (
    SSE,
    chat_calls,
    chat_chunk,
    chat_sse,
    chat_text,
    data_frame,
    text_chunks,
)
from tests.upstream.script import Exchange

Json = dict[str, Any]
CREATE: Json = {"type": "create"}
TOOL: Json = {"name": "add", "input_schema": {"type": "object", "properties": {"a": {"type": "integer"}}}}
KEYS = [{"name": name, "key": f"key-of-{name}-0123456"} for name in ("ada", "bob")]


class Served(NamedTuple):
    """Two replicas on one database, before one upstream."""

    upstream: ScriptedUpstream
    first: httpx.AsyncClient
    second: httpx.AsyncClient

    def received(self) -> list[tuple[str, Any]]:
        """Returns (role, text) of the messages in the last upstream request."""
        return [(message["role"], message.get("content")) for message in self.upstream.requests[-1].json["messages"]]


@pytest.fixture
async def served(store_url: str) -> AsyncIterator[Served]:
    async with (
        ScriptedUpstream() as upstream,
        two_replicas(store_url, upstream.url, auth={"keys": KEYS}, egress={"allow": ["127.0.0.1"]}) as (first, second),
    ):
        yield Served(upstream, first, second)


async def post(client: httpx.AsyncClient, text: str | None, thread: Json, *, key: str = "ada", **more: Any) -> Json:
    """A message, or the body of an error; streamed with `stream`."""
    messages = [] if text is None else [{"role": "user", "content": text}]
    body = {"model": "m", "max_tokens": 50, "messages": messages, "thread": thread, **more}
    reply = await client.post("/v1/messages", json=body, headers={"x-api-key": f"key-of-{key}-0123456"})
    if reply.status_code != 200:
        return {"status": reply.status_code, **reply.json()["error"]}
    if more.get("stream"):
        return check_message_stream(reply.content)
    if "mcp_servers" not in more:  # blocks of a beta
        check_message(reply.json())
    found: Json = reply.json()
    return found


def after(message: Json) -> Json:
    return {"type": "continue", "previous_message_id": message["id"]}


@pytest.mark.parametrize("stream", [False, True])
async def test_a_thread_continues_on_every_replica(served: Served, *, stream: bool) -> None:
    served.upstream.on("/chat/completions", chat_text("Hi", " Ada."), chat_text("Ada."), chat_text("Bye."))
    first = await post(served.first, "I am Ada.", CREATE, system="Be kind.", stream=stream)
    second = await post(served.second, "Who am I?", after(first), stream=stream)
    third = await post(served.first, "Bye", after(second), stream=stream)
    assert [message["content"][0]["text"] for message in (first, second, third)] == ["Hi Ada.", "Ada.", "Bye."]
    assert len({message["id"] for message in (first, second, third)}) == 3
    assert served.received() == [
        ("system", "Be kind."),
        ("user", "I am Ada."),
        ("assistant", "Hi Ada."),
        ("user", "Who am I?"),
        ("assistant", "Ada."),
        ("user", "Bye"),
    ]


async def test_results_of_tools_follow_the_calls_of_the_thread(served: Served) -> None:
    thought = [chat_chunk({"role": "assistant", "reasoning_content": "Hm."}), *text_chunks("3")]
    served.upstream.on("/chat/completions", chat_calls(("add", '{"a":1}')), chat_sse(thought), chat_text("Yes"))
    asks: Json = {"thinking": {"type": "adaptive"}}
    first = await post(served.first, "Add.", CREATE, tools=[TOOL], stream=True, **asks)
    (call,) = first["content"]
    result = {"type": "tool_result", "tool_use_id": call["id"], "content": "2"}
    second = await post(served.second, None, after(first), messages=[{"role": "user", "content": [result]}], **asks)
    assert [block["type"] for block in second["content"]] == ["thinking", "text"]
    assert served.upstream.requests[1].json["tools"] == served.upstream.requests[0].json["tools"]
    third = await post(served.first, "Sure?", after(second), **asks)
    assert third["content"][0]["text"] == "Yes"
    assert served.received() == [
        ("user", "Add."),
        ("assistant", None),
        ("tool", "2"),
        ("assistant", "3"),
        ("user", "Sure?"),
    ]
    assert served.upstream.requests[-1].json["messages"][3]["reasoning_content"] == "Hm."


async def test_tools_that_messages_change_stay_changed(served: Served) -> None:
    served.upstream.on("/chat/completions", chat_text("1"), chat_text("2"), chat_text("3"))
    late = {**TOOL, "name": "late", "defer_loading": True}
    names = {"type": "tool_reference", "name": "late"}, {"type": "tool_reference", "name": "add"}
    change = [{"type": "tool_addition", "tool": names[0]}, {"type": "tool_removal", "tool": names[1]}]
    body = {"role": "user", "content": "Go"}
    first = await post(served.first, "Hello", CREATE, tools=[TOOL, late])
    second = await post(served.first, None, after(first), messages=[{"role": "system", "content": change}, body])
    await post(served.first, "On", after(second))
    offered = [[tool["function"]["name"] for tool in request.json["tools"]] for request in served.upstream.requests]
    assert offered == [["add"], ["late"], ["late"]]


async def test_a_message_that_cannot_be_continued_is_an_error_that_clients_recover_from(served: Served) -> None:
    served.upstream.on("/chat/completions", chat_text("Hi"))
    message = await post(served.first, "Hello", CREATE)
    headers = {"x-api-key": "key-of-ada-0123456"}
    unthreaded = await served.first.post("/v1/responses", json={"model": "m", "input": "Hi"}, headers=headers)
    missing = ["msg_unknown", "\0", "x" * 1000, unthreaded.json()["id"]]
    errors = [await post(served.second, "On", after({"id": name})) for name in missing]
    errors.append(await post(served.second, "On", after(message), key="bob"))
    deleted = await served.second.delete(f"/v1/responses/{message['id']}", headers=headers)
    assert deleted.status_code == 200
    errors.append(await post(served.first, "On", after(message)))
    for error in errors:
        assert (error["status"], error["type"]) == (404, "not_found_error"), error
        assert error["details"] == {"error_code": "thread_not_found"}


async def test_a_thread_is_a_chain_of_responses(served: Served) -> None:
    served.upstream.on("/chat/completions", chat_text("Hi"), chat_text("Ada"), chat_text("Yes"))
    headers = {"authorization": "Bearer key-of-ada-0123456"}
    first = await post(served.first, "I am Ada.", CREATE, system="Be kind.")
    second = await post(served.first, "Who?", after(first))
    response = (await served.second.get(f"/v1/responses/{second['id']}", headers=headers)).json()
    assert (response["status"], response["previous_response_id"]) == ("completed", first["id"])
    assert (response["instructions"], response["output"][0]["content"][0]["text"]) == ("Be kind.", "Ada")
    items = (await served.second.get(f"/v1/responses/{first['id']}/input_items", headers=headers)).json()["data"]
    assert [item["content"] for item in items] == [[{"type": "input_text", "text": "I am Ada."}]]
    body = {"model": "m", "input": "Sure?", "previous_response_id": second["id"]}
    assert (await served.first.post("/v1/responses", json=body, headers=headers)).status_code == 200
    assert [text for _, text in served.received()] == ["I am Ada.", "Hi", "Who?", "Ada", "Sure?"]


async def test_a_thread_keeps_its_system_prompt_and_tools(served: Served) -> None:
    served.upstream.on("/chat/completions", chat_text("Hi"), chat_text("Yes"))
    first = await post(served.first, "Hello", CREATE, system="Be kind.")
    error = await post(served.first, "On", after(first), system="Be rude.")
    assert (error["status"], error["details"]) == (400, {"error_code": "thread_fingerprint_mismatch"})
    assert (await post(served.first, "On", after(first), system="Be kind."))["stop_reason"] == "end_turn"
    error = await post(served.first, None, CREATE)
    assert (error["status"], error["message"]) == (
        400,
        "Invalid value for 'messages': it must not be shorter than 1.",
    )


async def test_a_message_that_failed_cannot_be_continued(served: Served) -> None:
    silence = asyncio.Event()
    begun = tuple(map(data_frame, text_chunks("Hi")[:2]))
    served.upstream.on("/chat/completions", Reply(headers=SSE, body=(*begun, Pause(silence))))
    body = {"model": "m", "max_tokens": 50, "messages": [{"role": "user", "content": "Hello"}], "thread": CREATE}
    headers = {"x-api-key": "key-of-ada-0123456"}

    async def next_error(details: Json, message: Json) -> Json:
        """Returns the error of a request that continues the message, once it has these details."""
        async with asyncio.timeout(PATIENCE_S):
            while True:
                error = await post(served.second, "On", after(message))
                if error.get("details") == details:
                    return error

    async with served.first.stream("POST", "/v1/messages", json={**body, "stream": True}, headers=headers) as streamed:
        lines = aiter(streamed.aiter_lines())
        assert await anext(lines) == "event: message_start"
        message = json.loads((await anext(lines)).removeprefix("data: "))["message"]
        assert (await next_error({"error_code": "thread_continue_in_flight"}, message))["status"] == 400
    assert (await next_error({"error_code": "thread_not_found"}, message))["status"] == 404
    silence.set()


async def test_of_requests_that_continue_one_message_at_once_one_alone_is_run(served: Served) -> None:
    served.upstream.on("/chat/completions", chat_text("Hi"), chat_text("Ada"), chat_text("Yes"))
    first = await post(served.first, "I am Ada.", CREATE)
    clients = (served.first, served.second) * 3
    posts = (post(client, f"Who? {number}", after(first), stream=number < 3) for number, client in enumerate(clients))
    replies = await asyncio.gather(*posts)
    (second,) = (reply for reply in replies if "error_code" not in (reply.get("details") or {}))
    assert second["content"][0]["text"] == "Ada"
    losers = [reply for reply in replies if reply is not second]
    assert {reply["status"] for reply in losers} == {400}
    assert {reply["details"]["error_code"] for reply in losers} <= {
        "thread_continue_in_flight",
        "thread_already_continued",
    }
    assert len(served.upstream.requests) == 2
    assert (await post(served.second, "Sure?", after(second)))["content"][0]["text"] == "Yes"
    assert len(served.received()) == 5


async def test_a_message_that_was_continued_names_the_message_to_continue(served: Served) -> None:
    """A client that has not received that message finds it there, and may delete it to send its own again."""
    served.upstream.on("/chat/completions", chat_text("Hi"), chat_text("Ada"), chat_text("Bob"))
    headers = {"x-api-key": "key-of-ada-0123456"}
    first = await post(served.first, "I am Ada.", CREATE)
    branch = {"model": "m", "input": "A branch", "previous_response_id": first["id"]}
    assert (await served.first.post("/v1/responses", json=branch, headers=headers)).status_code == 200
    second = await post(served.first, "Who?", after(first))
    error = await post(served.second, "Who?", after(first))
    assert (error["status"], error["type"]) == (400, "invalid_request_error")
    assert error["details"] == {"error_code": "thread_already_continued"}
    assert f"continued by '{second['id']}'" in error["message"]
    lost = await served.second.get(f"/v1/responses/{second['id']}", headers=headers)
    assert lost.json()["output"][0]["content"][0]["text"] == second["content"][0]["text"]
    await served.second.delete(f"/v1/responses/{second['id']}", headers=headers)
    assert (await post(served.first, "Who?", after(first)))["type"] == "message"


@pytest.mark.parametrize("stream", [False, True])
async def test_a_message_can_be_continued_again_after_a_failure(served: Served, *, stream: bool) -> None:
    begun = data_frame(text_chunks("A")[1])
    served.upstream.on("/chat/completions", chat_text("Hi"), Reply(status=500), Reply(headers=SSE, body=(begun,)))
    first = await post(served.first, "I am Ada.", CREATE)
    assert (await post(served.first, "Who?", after(first), stream=stream))["status"] == 502
    headers = {"x-api-key": "key-of-ada-0123456"}
    body = {"model": "m", "max_tokens": 50, "thread": after(first), "messages": [{"role": "user", "content": "Who?"}]}
    cut = await served.second.post("/v1/messages", json={**body, "stream": stream}, headers=headers)
    assert b"broke off" in cut.content, cut.text
    served.upstream.on("/chat/completions", chat_text("Ada"))
    assert (await post(served.first, "Who?", after(first), stream=stream))["content"][0]["text"] == "Ada"
    assert [role for role, _ in served.received()] == ["user", "assistant", "user"]


@pytest.mark.parametrize("stream", [False, True])
async def test_a_message_can_be_continued_again_after_its_client_has_left(served: Served, *, stream: bool) -> None:
    silence = asyncio.Event()
    begun, reached = Reply(headers=SSE, body=(*map(data_frame, text_chunks("Ad")[:2]), Pause(silence))), asyncio.Event()

    async def begin(exchange: Exchange) -> None:
        reached.set()
        await begun(exchange)

    served.upstream.on("/chat/completions", chat_text("Hi"), begin, chat_text("Ada"))
    first = await post(served.first, "I am Ada.", CREATE)
    leaving = asyncio.create_task(post(served.first, "Who?", after(first), stream=stream))
    async with asyncio.timeout(PATIENCE_S):
        await reach(reached, leaving)
        assert (await post(served.second, "Who?", after(first)))["details"]["error_code"] == "thread_continue_in_flight"
        leaving.cancel()
        while (reply := await post(served.second, "Who?", after(first))).get("details") is not None:
            assert reply["details"] == {"error_code": "thread_continue_in_flight"}
    assert reply["content"][0]["text"] == "Ada"
    silence.set()


async def test_calls_of_a_server_are_stored_and_its_token_is_not(served: Served, calc: CountingServer) -> None:
    call = chat_calls(("calc_add", '{"a": 2, "b": 3}'))
    served.upstream.on("/chat/completions", call, chat_text("It is 5."), chat_text("Yes"))
    server = {"type": "url", "name": "calc", "url": calc.url, "authorization_token": "token-of-calc-0123456"}
    toolset = {"type": "mcp_toolset", "mcp_server_name": "calc"}
    first = await post(served.first, "2 + 3?", CREATE, mcp_servers=[server], tools=[toolset])
    assert [block["type"] for block in first["content"]] == ["mcp_tool_use", "mcp_tool_result", "text"]
    headers = {"x-api-key": "key-of-ada-0123456"}
    stored = await served.second.get(f"/v1/responses/{first['id']}", headers=headers)
    assert [item["type"] for item in stored.json()["output"]] == ["mcp_call", "message"]
    assert "token-of-calc" not in stored.text
    await post(served.second, "Sure?", after(first), mcp_servers=[server])
    assert [role for role, _ in served.received()] == ["user", "assistant", "tool", "assistant", "user"]


async def test_tools_of_a_server_stay_with_the_thread(store_url: str, calc: CountingServer) -> None:
    """The tools that the gateway runs come from the request that began the thread, as all its tools do."""
    config: Json = {"auth": {"keys": KEYS}, "egress": {"allow": ["127.0.0.1"]}}
    config["tools"] = {"mcp": {"servers": {"calc": {"url": calc.url, "approval": "never"}}}}
    toolset = {"type": "mcp_toolset", "mcp_server_name": "calc", "configs": {"fail": {"enabled": False}}}
    async with ScriptedUpstream() as upstream, two_replicas(store_url, upstream.url, **config) as (first, second):
        add = chat_calls(("calc_add", '{"a": 2, "b": 3}'))
        upstream.on("/chat/completions", chat_text("Hi"), add, chat_text("It is 5."))
        begun = await post(first, "Hi", CREATE, tools=[toolset], mcp_servers=[])
        found = await post(second, "2 + 3?", after(begun), mcp_servers=[])
        offered = [[tool["function"]["name"] for tool in request.json["tools"]] for request in upstream.requests]
    assert [block["type"] for block in found["content"]] == ["mcp_tool_use", "mcp_tool_result", "text"]
    assert "calc_fail" not in offered[0]
    assert offered[0] == offered[1] == offered[2]
