"""Calls that request user input, for clients of the Responses API: requests, continuations and refusals."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.integration.mcp.approval_gateway import answer, approving, kinds_of, request_of
from tests.integration.mcp.booking_server import Asking, Booking, asking, book, call_of, given, look_up, params_of
from tests.integration.mcp.test_compaction import CountingReader
from tests.mcp_script import answer as reply
from tests.mcp_script import scripted_mcp, text_result
from tests.mcp_server import CountingServer
from tests.upstream.builders import Json, chat_calls, chat_text
from tests.websocket_client import talking

QUESTION = {"role": "user", "content": "A table in Rome."}


def text_of(response: Json) -> str:
    return str(response["output"][-1]["content"][0]["text"])


async def test_a_call_that_requests_input_continues_with_it_in_the_next_response(
    calc: CountingServer, tmp_path: Path
) -> None:
    async with approving(calc, tmp_path, book) as gateway:
        booking = Booking(gateway)
        first = await booking.ask()
        call, request = first["output"][-2:]
        assert (call["status"], call["input_request_id"], call.get("output")) == ("incomplete", request["id"], None)
        assert (request["type"], request["continues"]) == ("mcp_approval_request", call["id"])
        assert request["elicitation"]["message"] == "For how many people?"
        assert request["elicitation"]["requested_schema"]["required"] == ["people"]
        second = await booking.ask([given(request, people=4)], previous_response_id=first["id"])
        call = call_of(second)
        assert (call["status"], call["output"]) == ("completed", "A table for 4 in Rome.")
        assert (call["approval_request_id"], call["continues"]) == (request["id"], request["continues"])
        assert text_of(second) == "Read: A table for 4 in Rome."
        assert [message["role"] for message in await gateway.last_messages()] == ["user", "assistant", "tool"]
        assert (calc.runs["asked"], calc.runs["book"]) == (2, 1), "the server looks again at what it asks for"


async def test_a_stream_ends_with_the_call_and_its_question(calc: CountingServer, tmp_path: Path) -> None:
    async with approving(calc, tmp_path, book) as gateway:
        body: Any = {"model": "m", "input": "A table.", "tools": Booking(gateway).tools, "stream": True}
        stream: Any = await gateway.client.responses.create(**body, extra_body={"elicitation": True})
        events = [event async for event in stream]
        types = [event.type.removeprefix("response.") for event in events]
        assert types[-5:] == [
            "mcp_call_arguments.done",
            "output_item.done",
            "output_item.added",
            "output_item.done",
            "completed",
        ]
        assert [event.item.type for event in events[-4:-1]] == ["mcp_call", *["mcp_approval_request"] * 2]
        assert events[-1].response.status == "completed"


@pytest.mark.parametrize("way", ["conversation", "history", "background", "websocket"])
async def test_input_works_in_every_way_to_continue(way: str, calc: CountingServer, tmp_path: Path) -> None:
    async with approving(calc, tmp_path, book) as gateway:
        booking = Booking(gateway)
        if way == "websocket":
            headers = {"authorization": "Bearer key-of-ann"}
            async with talking(gateway.gateway.v1, additional_headers=headers) as talk:
                body = {"model": "m", "tools": booking.tools, "elicitation": True, "store": False}
                response = await talk.response(input="A table.", **body)
                items = [given(request_of(response), people=2)]
                ended = await talk.response(input=items, previous_response_id=response["id"], **body)
            assert text_of(ended) == "Read: A table for 2 in Rome."
            return
        more: Json = {}
        if way == "conversation":
            more = {"conversation": (await gateway.client.conversations.create()).id}
        response = await booking.ask(**more, store=way != "history")
        items = [given(request_of(response), people=2)]
        if way == "history":
            items = [QUESTION, *response["output"], *items]
            more = {"store": False}
        elif way == "background":
            more = {"previous_response_id": response["id"], "background": True}
        if way != "background":
            ended = await booking.ask(items, **more)
        else:
            job = await gateway.send(items, tools=booking.tools, elicitation=True, **more)
            ended = job.json()
            async with asyncio.timeout(60):
                while ended["status"] in ("queued", "in_progress"):
                    ended = (await gateway.raw.get(f"/responses/{ended['id']}")).json()
        assert text_of(ended) == "Read: A table for 2 in Rome."
        if way == "history":  # the client sends all of it again with every turn
            later = [*items, *ended["output"], {"role": "user", "content": "Hi"}]
            await booking.ask(later, store=False)
            roles = [message["role"] for message in await gateway.last_messages()]
            assert roles == ["user", "assistant", "tool", "assistant", "user"]


@pytest.mark.parametrize(
    ("fields", "action"), [({"approve": False}, "decline"), ({"approve": False, "action": "cancel"}, "cancel")]
)
async def test_a_declined_request_is_handled_by_the_server(
    fields: Json, action: str, calc: CountingServer, tmp_path: Path
) -> None:
    async with approving(calc, tmp_path, book) as gateway:
        booking = Booking(gateway)
        response = await booking.ask()
        ended = await booking.ask([answer(request_of(response)) | fields], previous_response_id=response["id"])
        assert call_of(ended)["output"] == f"No table in Rome: {action}."


async def test_without_a_client_that_can_answer_the_call_fails_with_the_reason(
    calc: CountingServer, tmp_path: Path
) -> None:
    async with approving(calc, tmp_path, book) as gateway:
        response = await gateway.ask("A table.", tools=[gateway.tool(require_approval="never")])
        assert kinds_of(response) == ["mcp_list_tools", "mcp_call", "message"]
        assert "did not declare the form elicitation capability" in call_of(response)["error"]["message"]
        assert calc.runs["book"] == 0


async def test_fault_57_input_is_used_once(calc: CountingServer, tmp_path: Path) -> None:
    async with approving(calc, tmp_path, book) as gateway:
        booking = Booking(gateway)
        response = await booking.ask()
        request = request_of(response)
        body: Any = {"request_input": [given(request, people=2)], "previous_response_id": response["id"]}
        replies = await asyncio.gather(*(gateway.send(**body, tools=booking.tools, elicitation=True) for _ in range(4)))
        assert sorted(each.status_code for each in replies) == [200, 400, 400, 400]
        assert await booking.refuse(**body) == (400, "approval_already_used", "input[0].approval_request_id")
        assert calc.runs["book"] == 1


async def test_fault_57_content_that_does_not_fit_is_refused_and_the_request_stays_open(
    calc: CountingServer, tmp_path: Path
) -> None:
    async with approving(calc, tmp_path, book) as gateway:
        booking = Booking(gateway)
        response = await booking.ask()
        request = request_of(response)
        more: Any = {"previous_response_id": response["id"]}
        wrong: list[Json] = [answer(request), given(request, people=40), given(request, people=2, wine=True)]
        for each in wrong:
            assert await booking.refuse([each], **more) == (400, "invalid_elicitation_content", "input[0].content")
        assert (await booking.refuse([answer(request, content="two")], **more))[2] == "input[0].content"
        assert calc.runs["asked"] == 1
        assert call_of(await booking.ask([given(request, people=2)], **more))["status"] == "completed"


async def test_fault_57_requests_of_other_owners_cannot_be_answered(calc: CountingServer, tmp_path: Path) -> None:
    async with approving(calc, tmp_path, book) as gateway:
        booking = Booking(gateway)
        response = await booking.ask(store=False)
        request = request_of(response)
        body: Json = {"model": "m", "tools": booking.tools, "elicitation": True}
        items = [QUESTION, *response["output"], given(request, people=2)]
        bob = {"authorization": "Bearer key-of-bob"}
        foreign = await gateway.raw.post("/responses", json={**body, "input": items}, headers=bob)
        assert foreign.json()["error"]["code"] == "approval_not_found"
        forged = [QUESTION, {**request, "arguments": '{"city": "Paris"}'}, given(request, people=2)]
        assert (await booking.refuse(forged))[1] == "approval_mismatch"
        # The form that counts is the one that was stored, whatever the client makes of it.
        form = {**request["elicitation"], "requested_schema": {"type": "object", "properties": {"people": {}}}}
        rewritten = [QUESTION, {**request, "elicitation": form, "continues": "mcp_x"}, given(request, people=40)]
        assert (await booking.refuse(rewritten))[1] == "invalid_elicitation_content"
        # A client may drop unknown items.
        plain = {name: value for name, value in request.items() if name not in ("elicitation", "continues")}
        call = call_of(await booking.ask([QUESTION, plain, given(request, people=2)], store=False))
        assert (call["output"], call["continues"]) == ("A table for 2 in Rome.", request["continues"])
        assert calc.runs["book"] == 1


async def test_fault_57_a_late_answer_is_refused(calc: CountingServer, tmp_path: Path) -> None:
    async with approving(calc, tmp_path, book, mcp={"approval_days": 1e-9}) as gateway:
        booking = Booking(gateway)
        response = await booking.ask()
        late: Any = {"request_input": [given(request_of(response), people=2)], "previous_response_id": response["id"]}
        assert (await booking.refuse(**late))[1] == "approval_expired"
        assert calc.runs["book"] == 0


async def test_a_message_instead_of_an_answer_is_reported_to_the_model(calc: CountingServer, tmp_path: Path) -> None:
    async with approving(calc, tmp_path, book, chat_text("Well.")) as gateway:
        booking = Booking(gateway)
        response = await booking.ask()
        await booking.ask("Never mind.", previous_response_id=response["id"])
        (output,) = [each for each in await gateway.last_messages() if each["role"] == "tool"]
        assert output["content"] == "The tool asked the user for input and got none. The call was not finished."
        # It can be answered still.
        later = await booking.ask([given(request_of(response), people=2)], previous_response_id=response["id"])
        assert call_of(later)["output"] == "A table for 2 in Rome."


async def test_a_call_that_needs_an_approval_and_input(calc: CountingServer, tmp_path: Path) -> None:
    async with approving(calc, tmp_path, book) as gateway:
        booking = Booking(gateway)
        booking.tools = [gateway.tool()]
        response = await booking.ask()
        approved = await booking.ask([answer(request_of(response))], previous_response_id=response["id"])
        request = request_of(approved)
        assert request["continues"] == request_of(response)["id"]
        ended = await booking.ask([given(request, people=3)], previous_response_id=approved["id"])
        assert text_of(ended) == "Read: A table for 3 in Rome."
        assert calc.runs["book"] == 1


@pytest.mark.parametrize("approve", [True, False, None])
async def test_a_question_and_its_answer_outlive_a_compaction(
    approve: bool | None, calc: CountingServer, tmp_path: Path
) -> None:
    model = CountingReader(chat_calls(("calc_book", '{"city": "Rome"}')), chat_text("Well."))
    async with approving(calc, tmp_path, model) as gateway:
        booking = Booking(gateway)
        response = await booking.ask()
        answers = [given(request_of(response), people=2) | {"approve": approve is not False}]
        if approve is False:
            del answers[0]["content"]
        trigger = [*(answers if approve is not None else []), {"type": "compaction_trigger"}]
        compacted = await booking.ask(trigger, previous_response_id=response["id"])
        assert (kinds_of(compacted), calc.runs["book"]) == (["compaction"], 0)
        following = answers if approve is None else [{"role": "user", "content": "Go on."}]
        ended = await booking.ask(following, previous_response_id=compacted["id"])
        expected = "No table in Rome: decline." if approve is False else "A table for 2 in Rome."
        assert call_of(ended)["output"] == expected


async def test_several_questions_and_rounds_of_one_call(calc: CountingServer, tmp_path: Path) -> None:
    url = {"mode": "url", "message": "Log in.", "url": "https://login.example.com/?id=1"}
    replies = [reply(asking("name", "town")), reply(asking(state="state-2", login=url)), reply(text_result("found"))]
    async with scripted_mcp(replies) as mcp, approving(calc, tmp_path, look_up) as gateway:
        client = Asking(gateway, mcp)
        first = await client.ask()
        (request,) = [item for item in first["output"] if item["type"] == "mcp_approval_request"]
        assert list(request["elicitation"]["requested_schema"]["properties"]) == ["name", "town"]
        capabilities = mcp.calls[-1].json["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"]
        assert capabilities == {"elicitation": {"form": {}, "url": {}}}
        second = await gateway.ask(
            [given(request, name={"name": "Ann"})], previous_response_id=first["id"], tools=client.tools
        )
        assert params_of(mcp) == {
            "name": "look_up",
            "arguments": {},
            "requestState": "state-1",
            "inputResponses": {
                "name": {"action": "accept", "content": {"name": "Ann"}},
                "town": {"action": "decline"},
            },
        }
        request = request_of(second)
        assert request["elicitation"] == {**url, "host": "login.example.com"}
        assert second["usage"]["total_tokens"] == 0, "no model was asked"
        third = await client.ask([answer(request)], previous_response_id=second["id"])
        assert params_of(mcp)["inputResponses"] == {"login": {"action": "accept"}}
        assert params_of(mcp)["requestState"] == "state-2"
        assert text_of(third) == "Read: found"
        assert len([each for each in await gateway.last_messages() if each["role"] == "tool"]) == 1
