"""Threads and runs of AG-UI that are stored: one run at a time, and each run once."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any, NamedTuple

import httpx
import orjson
import pytest
from sqlalchemy import update

from gateway.state.database.database import Database
from gateway.state.database.tables import conversations
from tests.agui_client import PATIENCE_S, AguiThread, run_input, user
from tests.agui_events import Json, kinds_of, read_run, text_of
from tests.state.served.agui_replicas import two_replicas
from tests.upstream import Pause, ScriptedUpstream, Step
from tests.upstream.builders import chat_calls, chat_chunk, chat_sse, chat_text, data_frame, error_reply, sse_reply

TOOL = {"name": "get_weather", "description": "Weather.", "parameters": {"type": "object"}}


class Served(NamedTuple):
    """Two replicas on one database, before one upstream."""

    upstream: ScriptedUpstream
    first: httpx.AsyncClient
    second: httpx.AsyncClient

    def sent_messages(self) -> list[tuple[str, Any]]:
        """Returns (role, text) of the messages in the last upstream request."""
        return [(message["role"], message.get("content")) for message in self.upstream.requests[-1].json["messages"]]


@pytest.fixture
async def served(store_url: str) -> AsyncIterator[Served]:
    async with (
        ScriptedUpstream() as upstream,
        two_replicas(store_url, upstream.url, {"resumable": True}) as (first, second),
    ):
        yield Served(upstream, first, second)


async def response_of(served: Served, events: list[Json]) -> Json:
    found: Json = (await served.second.get(f"/v1/responses/{events[0]['metadata']['responseId']}")).json()
    return found


async def thread_items(served: Served, events: list[Json]) -> list[Json]:
    conversation = (await response_of(served, events))["conversation"]["id"]
    found: list[Json] = (await served.second.get(f"/v1/conversations/{conversation}/items?order=asc")).json()["data"]
    return found


async def test_a_thread_is_a_conversation_and_a_run_is_a_response(served: Served) -> None:
    served.upstream.on("/chat/completions", chat_text("Hi", " Ada."), chat_text("Ada."))
    thread = AguiThread(served.first)
    first = await thread.run(user("I am Ada."))
    assert text_of(first) == "Hi Ada."
    second = await thread.run(user("Who am I?", "u2"))
    assert text_of(second) == "Ada."
    assert served.sent_messages() == [("user", "I am Ada."), ("assistant", "Hi Ada."), ("user", "Who am I?")]
    response = await response_of(served, second)
    assert (response["status"], response["model"]) == ("completed", "m")
    assert [item["role"] for item in await thread_items(served, second)] == ["user", "assistant", "user", "assistant"]
    conversation = (await served.first.get(f"/v1/conversations/{response['conversation']['id']}")).json()
    assert conversation["metadata"] == {"agui_thread": "t", "agui_run": response["id"]}


async def test_fault_81_the_same_run_is_replayed_and_not_run_again(served: Served) -> None:
    served.upstream.on("/chat/completions", chat_calls(("get_weather", '{"city":"Paris"}')))
    body = run_input(user("Weather?"), tools=[TOOL])
    replies = [await http.post("/v1/agui", json=body) for http in (served.first, served.second, served.first)]
    runs = [read_run(reply.content) for reply in replies]
    assert len(served.upstream.requests) == 1
    assert kinds_of(runs[0]) == kinds_of(runs[1])
    assert runs[0][-1] == runs[1][-1] == runs[2][-1]
    assert runs[0][-1]["outcome"]["pendingToolCallIds"] == ["call_0"]
    assert replies[1].headers["content-type"].startswith("text/event-stream")


async def test_a_run_id_with_another_question_is_refused(served: Served) -> None:
    served.upstream.on("/chat/completions", chat_text("Red"), chat_text("Blue"))
    thread = [user("A colour?", "u1")]
    first = read_run((await served.first.post("/v1/agui", json=run_input(*thread))).content)
    thread += [{"id": "a1", "role": "assistant", "content": text_of(first)}, user("Another?", "u2")]
    refused = await served.second.post("/v1/agui", json=run_input(*thread))
    assert (refused.status_code, refused.json()["error"]["code"]) == (400, "run_id_reused")
    assert refused.json()["error"]["param"] == "runId"
    second = read_run((await served.second.post("/v1/agui", json=run_input(*thread, run="r2"))).content)
    assert text_of(second) == "Blue"
    for body, text in ((run_input(thread[0]), "Red"), (run_input(*thread, run="r2"), "Blue")):
        replayed = await served.first.post("/v1/agui", json=body)
        assert text_of(read_run(replayed.content)) == text
    assert len(served.upstream.requests) == 2


async def test_fault_82_a_second_run_on_a_thread_has_to_wait(served: Served) -> None:
    go_on = asyncio.Event()
    chunks: list[Step] = [data_frame(chat_chunk({"content": "One"})), Pause(go_on), data_frame(chat_chunk({}, "stop"))]
    served.upstream.on("/chat/completions", sse_reply(*chunks), chat_text("Two"))
    first = run_input(user("One?"))
    async with served.first.stream("POST", "/v1/agui", json=first) as reply:
        pieces = reply.aiter_bytes()
        received = await anext(pieces)
        for body in (first, run_input(user("Two?"), run="r2")):
            for http in (served.first, served.second):
                refused = await http.post("/v1/agui", json=body)
                assert (refused.status_code, refused.json()["error"]["code"]) == (409, "run_in_progress")
        other = await served.second.post("/v1/agui", json=run_input(user("Two?"), thread="t2"))
        assert text_of(read_run(other.content)) == "Two"
        go_on.set()
        received += b"".join([piece async for piece in pieces])
    assert text_of(read_run(received)) == "One"
    again = await served.second.post("/v1/agui", json=run_input(user("Two?"), run="r2"))
    assert again.status_code == 200


async def test_runs_that_begin_at_once_are_one(served: Served) -> None:
    go_on = asyncio.Event()
    served.upstream.on("/chat/completions", sse_reply(Pause(go_on), data_frame(chat_chunk({"content": "x"}, "stop"))))
    bodies = [run_input(user("x"), run=f"r{number}") for number in range(4)]
    sent = [
        asyncio.ensure_future(http.post("/v1/agui", json=body))
        for body, http in zip(bodies, [served.first, served.second] * 2, strict=True)
    ]
    done, pending = await asyncio.wait(sent, return_when=asyncio.FIRST_COMPLETED)
    while len(done) < 3:
        more, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
        done |= more
    assert {task.result().status_code for task in done} == {409}
    go_on.set()
    (last,) = pending
    assert (await last).status_code == 200
    assert len(served.upstream.requests) == 1


async def test_a_client_that_leaves_stops_its_run_and_the_thread_continues(served: Served) -> None:
    chunks: list[Step] = [data_frame(chat_chunk({"content": "One"})), Pause(asyncio.Event())]
    served.upstream.on("/chat/completions", sse_reply(*chunks), chat_text("Two"))
    body = run_input(user("One?"))
    async with served.first.stream("POST", "/v1/agui", json=body) as reply:
        await anext(reply.aiter_bytes())
    async with asyncio.timeout(PATIENCE_S):
        while (replayed := await served.second.post("/v1/agui", json=body)).status_code == 409:
            pass
    events = read_run(replayed.content)
    assert (text_of(events), events[-1]["outcome"]) == ("One", {"type": "cancelled"})
    old = {**body, "protocolVersion": None}
    assert read_run((await served.first.post("/v1/agui", json=old)).content)[-1]["code"] == "cancelled"
    partial = {"id": "msg_x", "role": "assistant", "content": "One"}
    after = run_input(user("One?"), partial, user("Two?", "u2"), run="r2")
    assert text_of(read_run((await served.first.post("/v1/agui", json=after)).content)) == "Two"
    assert served.sent_messages() == [("user", "One?"), ("assistant", "One"), ("user", "Two?")]


async def test_a_run_that_fails_before_its_first_event_is_an_http_error_and_can_be_sent_again(served: Served) -> None:
    served.upstream.on("/chat/completions", error_reply(500, "broken"), chat_text("Hi"))
    body = run_input(user("Hello"))
    failed = await served.first.post("/v1/agui", json=body)
    assert (failed.status_code, failed.json()["error"]["code"]) == (502, "upstream_error")
    async with asyncio.timeout(PATIENCE_S):
        while (reply := await served.first.post("/v1/agui", json=body)).status_code == 409:
            pass
    assert text_of(read_run(reply.content)) == "Hi"


async def test_a_run_that_fails_in_the_middle_is_replayed_as_that(served: Served) -> None:
    chunks = [data_frame(chat_chunk({"content": "One"})), data_frame({"error": {"message": "broken", "code": "x"}})]
    served.upstream.on("/chat/completions", sse_reply(*chunks))
    body = run_input(user("One?"))
    first = read_run((await served.first.post("/v1/agui", json=body)).content)
    assert first[-1]["type"] == "RUN_ERROR"
    replayed = read_run((await served.second.post("/v1/agui", json=body)).content)
    assert (text_of(replayed), replayed[-1]) == ("One", first[-1])


async def test_a_run_whose_end_cannot_be_stored_ends_once_and_as_a_failure(served: Served, database: Database) -> None:
    go_on = asyncio.Event()
    chunks: list[Step] = [data_frame(chat_chunk({"content": "One"})), Pause(go_on), data_frame(chat_chunk({}, "stop"))]
    served.upstream.on("/chat/completions", sse_reply(*chunks), chat_text("Two"))
    async with served.first.stream("POST", "/v1/agui", json=run_input(user("One?"))) as reply:
        pieces = reply.aiter_bytes()
        received = await anext(pieces)
        async with database.write_transaction() as connection:
            await connection.exec_driver_sql("ALTER TABLE items RENAME TO hidden_items")
        go_on.set()
        received += b"".join([piece async for piece in pieces])
    events = read_run(received)
    assert (text_of(events), events[-1]["type"]) == ("One", "RUN_ERROR")
    async with database.write_transaction() as connection:
        await connection.exec_driver_sql("ALTER TABLE hidden_items RENAME TO items")
    after = run_input(user("One?"), user("Two?", "u2"), run="r2")
    async with asyncio.timeout(PATIENCE_S):
        while (reply := await served.second.post("/v1/agui", json=after)).status_code == 409:
            pass
    assert text_of(read_run(reply.content)) == "Two"


async def test_messages_that_the_user_deleted_leave_the_thread(served: Served) -> None:
    served.upstream.on("/chat/completions", chat_text("One"), chat_text("Two"))
    thread = AguiThread(served.first)
    await thread.run(user("Say a number."))
    thread.messages.pop()
    second = await thread.run()
    assert text_of(second) == "Two"
    assert served.sent_messages() == [("user", "Say a number.")]
    items = await thread_items(served, second)
    assert [item["content"][0]["text"] for item in items] == ["Say a number.", "Two"]


async def test_the_result_of_a_frontend_tool_is_the_next_run(served: Served) -> None:
    served.upstream.on("/chat/completions", chat_calls(("get_weather", "{}")), chat_text("Sunny."))
    thread = AguiThread(served.first, tools=[TOOL])
    first = await thread.run(user("Weather?"))
    (call_id,) = first[-1]["outcome"]["pendingToolCallIds"]
    second = await thread.run({"id": "x", "role": "tool", "toolCallId": call_id, "content": "sun"})
    assert text_of(second) == "Sunny."
    assert [role for role, _ in served.sent_messages()] == ["user", "assistant", "tool"]
    types = [item["type"] for item in await thread_items(served, second)]
    assert types == ["message", "function_call", "function_call_output", "message"]


async def test_a_thread_with_an_unanswered_call_continues(served: Served) -> None:
    served.upstream.on("/chat/completions", chat_calls(("get_weather", "{}")), chat_text("Well."))
    thread = AguiThread(served.first, tools=[TOOL])
    await thread.run(user("Weather?"))
    assert text_of(await thread.run(user("Never mind.", "u2"))) == "Well."
    assert [role for role, _ in served.sent_messages()] == ["user", "assistant", "tool", "user"]
    assert "not answered" in served.sent_messages()[2][1]


async def test_a_run_that_is_not_to_be_stored_is_not(served: Served) -> None:
    served.upstream.on("/chat/completions", chat_sse([chat_chunk({"content": "Hi"}, "stop")]))
    body = run_input(user("Hello"), forwardedProps={"store": False})
    for _ in range(2):
        assert text_of(read_run((await served.first.post("/v1/agui", json=body)).content)) == "Hi"
    assert len(served.upstream.requests) == 2
    assert (await served.first.get("/v1/responses")).json()["data"] == []


async def test_the_state_of_a_thread_is_restored_on_every_replica(served: Served) -> None:
    served.upstream.on("/chat/completions", chat_text("Hi"))
    await AguiThread(served.first).run(user("Hello"), state={"page": 3})
    body = run_input(user("Hello"), run="again", state={})
    events = read_run((await served.second.post("/v1/agui", json=body)).content)
    assert events[1] == {"type": "STATE_SNAPSHOT", "snapshot": {"page": 3}}
    replayed = read_run((await served.first.post("/v1/agui", json=body)).content)
    assert replayed[:2] == events[:2]
    response = await response_of(served, events)
    conversation = (await served.first.get(f"/v1/conversations/{response['conversation']['id']}")).json()
    assert conversation["agui_state"] == {"page": 3}
    shown = run_input(user("Hello"), run="shown", forwardedProps={"include_state": True})
    reply = await served.second.post("/v1/agui", json=shown)
    assert "x-gateway-loss" not in reply.headers
    assert '{"page":3}' in served.sent_messages()[0][1]
    reset = run_input(user("Hello"), run="reset", forwardedProps={"reset_state": True})
    assert "STATE_SNAPSHOT" not in kinds_of(read_run((await served.second.post("/v1/agui", json=reset)).content))
    conversation = (await served.first.get(f"/v1/conversations/{response['conversation']['id']}")).json()
    assert "agui_state" not in conversation


async def test_a_state_that_is_too_large_is_refused_by_name(served: Served, database: Database) -> None:
    served.upstream.on("/chat/completions", chat_text("Hi"))
    body = run_input(user("Hello"), state={"text": "x" * 262_144})
    refused = await served.first.post("/v1/agui", json=body)
    assert (refused.status_code, refused.json()["error"]["code"]) == (400, "state_too_large")
    assert refused.json()["error"]["param"] == "state"
    # One that was stored while more was allowed goes on.
    first = await AguiThread(served.first).run(user("Hello"), state={"a": 1})
    conversation = (await response_of(served, first))["conversation"]["id"]
    async with database.write_transaction() as connection:
        stored = {"id": conversation, "metadata": {"agui_run": first[0]["metadata"]["responseId"]}}
        text = orjson.dumps({**stored, "agui_state": body["state"]}).decode()
        await connection.execute(update(conversations).where(conversations.c.id == conversation).values(body=text))
    restored = read_run((await served.second.post("/v1/agui", json=run_input(user("Hello"), run="r9"))).content)
    assert restored[1]["snapshot"] == body["state"]
    unstored = {**body, "forwardedProps": {"store": False}}
    reply = await served.first.post("/v1/agui", json=unstored)
    assert (reply.status_code, reply.headers["x-gateway-loss"]) == (200, "state=not sent")
