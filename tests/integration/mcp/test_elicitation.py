"""Calls that ask the user for input, for clients of the Responses API: who is asked, what goes on, what is refused."""

import asyncio
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.integration.mcp.approval_gateway import Approving, answer, approving, kinds_of, request_of
from tests.integration.mcp.test_compaction import CountingReader
from tests.mcp_script import LOOK_UP, ScriptedMcp, list_result, scripted_mcp, sse_answer, text_result
from tests.mcp_script import answer as reply
from tests.mcp_server import CountingServer, mcp_server
from tests.upstream.builders import Json, chat_calls, chat_text, json_reply
from tests.upstream.script import Exchange, Script
from tests.websocket_client import talking

QUESTION = {"role": "user", "content": "A table in Rome."}
FORM: Json = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}


async def book(exchange: Exchange) -> None:
    """Calls `book` after a user message, and tells its output after that."""
    last = exchange.request.json["messages"][-1]
    calls = chat_calls(("calc_book", '{"city": "Rome"}'))
    await (calls if last["role"] == "user" else chat_text(f"Read: {last['content']}"))(exchange)


async def look_up(exchange: Exchange) -> None:
    last = exchange.request.json["messages"][-1]
    calls = chat_calls(("lookup_look_up", "{}"))
    await (calls if last["role"] == "user" else chat_text(f"Read: {last['content']}"))(exchange)


def asking(*keys: str, state: str | None = "state-1", **forms: Json) -> Json:
    """The result of a call that asks for forms of these keys, and for others as they are."""
    requests = {key: {"mode": "form", "message": f"The {key}?", "requestedSchema": FORM} for key in keys} | forms
    wire = {key: {"method": "elicitation/create", "params": params} for key, params in requests.items()}
    return {"resultType": "input_required", "inputRequests": wire, **({} if state is None else {"requestState": state})}


def given(request: Json, **content: Any) -> Json:
    return answer(request, content=content)


def call_of(response: Json) -> Json:
    (item,) = [item for item in response["output"] if item["type"] == "mcp_call"]
    return dict(item)


def params_of(mcp: ScriptedMcp) -> Json:
    """The parameters of the last call that the server received, without metadata."""
    params: Json = mcp.calls[-1].json["params"]
    return {name: value for name, value in params.items() if name != "_meta"}


def text_of(response: Json) -> str:
    return str(response["output"][-1]["content"][0]["text"])


class Booking:
    """A client that can answer, and the tool `book` of a server that asks. `client` parses strictly."""

    def __init__(self, gateway: Approving) -> None:
        self.gateway = gateway
        self.tools = [gateway.tool(require_approval="never")]

    async def ask(self, request_input: Any = "A table in Rome.", **more: Any) -> Json:
        return await self.gateway.ask(request_input, tools=self.tools, extra_body={"elicitation": True}, **more)

    async def refuse(self, request_input: Any, **more: Any) -> tuple[int, str | None, str | None]:
        return await self.gateway.refuse(request_input, tools=self.tools, elicitation=True, **more)


async def test_a_call_that_asks_for_input_goes_on_with_it_in_the_next_response(
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
                asked = await talk.response(input="A table.", **body)
                items = [given(request_of(asked), people=2)]
                ended = await talk.response(input=items, previous_response_id=asked["id"], **body)
            assert text_of(ended) == "Read: A table for 2 in Rome."
            return
        more: Json = {}
        if way == "conversation":
            more = {"conversation": (await gateway.client.conversations.create()).id}
        asked = await booking.ask(**more, store=way != "history")
        items = [given(request_of(asked), people=2)]
        if way == "history":
            items = [QUESTION, *asked["output"], *items]
            more = {"store": False}
        elif way == "background":
            more = {"previous_response_id": asked["id"], "background": True}
        if way != "background":
            ended = await booking.ask(items, **more)
        else:
            job = await gateway.send(items, tools=booking.tools, elicitation=True, **more)
            ended = job.json()
            async with asyncio.timeout(20):
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
async def test_a_user_who_declines_is_the_servers_to_deal_with(
    fields: Json, action: str, calc: CountingServer, tmp_path: Path
) -> None:
    async with approving(calc, tmp_path, book) as gateway:
        booking = Booking(gateway)
        asked = await booking.ask()
        ended = await booking.ask([answer(request_of(asked)) | fields], previous_response_id=asked["id"])
        assert call_of(ended)["output"] == f"No table in Rome: {action}."


async def test_without_a_client_that_can_answer_nobody_is_asked_and_the_call_says_so(
    calc: CountingServer, tmp_path: Path
) -> None:
    async with approving(calc, tmp_path, book) as gateway:
        response = await gateway.ask("A table.", tools=[gateway.tool(require_approval="never")])
        assert kinds_of(response) == ["mcp_list_tools", "mcp_call", "message"]
        assert "did not declare the form elicitation capability" in call_of(response)["error"]["message"]
        assert calc.runs["book"] == 0


async def test_fault_57_input_is_given_once(calc: CountingServer, tmp_path: Path) -> None:
    async with approving(calc, tmp_path, book) as gateway:
        booking = Booking(gateway)
        asked = await booking.ask()
        request = request_of(asked)
        body: Any = {"request_input": [given(request, people=2)], "previous_response_id": asked["id"]}
        replies = await asyncio.gather(*(gateway.send(**body, tools=booking.tools, elicitation=True) for _ in range(4)))
        assert sorted(each.status_code for each in replies) == [200, 400, 400, 400]
        assert await booking.refuse(**body) == (400, "approval_already_used", "input[0].approval_request_id")
        assert calc.runs["book"] == 1


async def test_fault_57_content_that_does_not_fit_is_refused_and_the_question_stays_open(
    calc: CountingServer, tmp_path: Path
) -> None:
    async with approving(calc, tmp_path, book) as gateway:
        booking = Booking(gateway)
        asked = await booking.ask()
        request = request_of(asked)
        more: Any = {"previous_response_id": asked["id"]}
        wrong: list[Json] = [answer(request), given(request, people=40), given(request, people=2, wine=True)]
        for each in wrong:
            assert await booking.refuse([each], **more) == (400, "invalid_elicitation_content", "input[0].content")
        assert (await booking.refuse([answer(request, content="two")], **more))[2] == "input[0].content"
        assert calc.runs["asked"] == 1
        assert call_of(await booking.ask([given(request, people=2)], **more))["status"] == "completed"


async def test_fault_57_what_others_were_asked_for_cannot_be_answered(calc: CountingServer, tmp_path: Path) -> None:
    async with approving(calc, tmp_path, book) as gateway:
        booking = Booking(gateway)
        asked = await booking.ask(store=False)
        request = request_of(asked)
        body: Json = {"model": "m", "tools": booking.tools, "elicitation": True}
        items = [QUESTION, *asked["output"], given(request, people=2)]
        bob = {"authorization": "Bearer key-of-bob"}
        foreign = await gateway.raw.post("/responses", json={**body, "input": items}, headers=bob)
        assert foreign.json()["error"]["code"] == "approval_not_found"
        forged = [QUESTION, {**request, "arguments": '{"city": "Paris"}'}, given(request, people=2)]
        assert (await booking.refuse(forged))[1] == "approval_mismatch"
        # The form that counts is the one that was stored, whatever the client makes of it.
        form = {**request["elicitation"], "requested_schema": {"type": "object", "properties": {"people": {}}}}
        rewritten = [QUESTION, {**request, "elicitation": form, "continues": "mcp_x"}, given(request, people=40)]
        assert (await booking.refuse(rewritten))[1] == "invalid_elicitation_content"
        # A client may drop what it does not know.
        plain = {name: value for name, value in request.items() if name not in ("elicitation", "continues")}
        call = call_of(await booking.ask([QUESTION, plain, given(request, people=2)], store=False))
        assert (call["output"], call["continues"]) == ("A table for 2 in Rome.", request["continues"])
        assert calc.runs["book"] == 1


async def test_fault_57_an_answer_that_comes_too_late_is_refused(calc: CountingServer, tmp_path: Path) -> None:
    async with approving(calc, tmp_path, book, mcp={"approval_days": 1e-9}) as gateway:
        booking = Booking(gateway)
        asked = await booking.ask()
        late: Any = {"request_input": [given(request_of(asked), people=2)], "previous_response_id": asked["id"]}
        assert (await booking.refuse(**late))[1] == "approval_expired"
        assert calc.runs["book"] == 0


async def test_a_message_instead_of_an_answer_tells_the_model_that_there_is_none(
    calc: CountingServer, tmp_path: Path
) -> None:
    async with approving(calc, tmp_path, book, chat_text("Well.")) as gateway:
        booking = Booking(gateway)
        asked = await booking.ask()
        await booking.ask("Never mind.", previous_response_id=asked["id"])
        (output,) = [each for each in await gateway.last_messages() if each["role"] == "tool"]
        assert output["content"] == "The tool asked the user for input and got none. The call was not finished."
        # It can be answered still.
        later = await booking.ask([given(request_of(asked), people=2)], previous_response_id=asked["id"])
        assert call_of(later)["output"] == "A table for 2 in Rome."


async def test_a_call_that_needs_an_approval_and_input(calc: CountingServer, tmp_path: Path) -> None:
    async with approving(calc, tmp_path, book) as gateway:
        booking = Booking(gateway)
        booking.tools = [gateway.tool()]
        asked = await booking.ask()
        approved = await booking.ask([answer(request_of(asked))], previous_response_id=asked["id"])
        request = request_of(approved)
        assert request["continues"] == request_of(asked)["id"]
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
        asked = await booking.ask()
        answers = [given(request_of(asked), people=2) | {"approve": approve is not False}]
        if approve is False:
            del answers[0]["content"]
        trigger = [*(answers if approve is not None else []), {"type": "compaction_trigger"}]
        compacted = await booking.ask(trigger, previous_response_id=asked["id"])
        assert (kinds_of(compacted), calc.runs["book"]) == (["compaction"], 0)
        following = answers if approve is None else [{"role": "user", "content": "Go on."}]
        ended = await booking.ask(following, previous_response_id=compacted["id"])
        expected = "No table in Rome: decline." if approve is False else "A table for 2 in Rome."
        assert call_of(ended)["output"] == expected


class Asking(Booking):
    """The same before a server that answers what a test scripts."""

    def __init__(self, gateway: Approving, mcp: ScriptedMcp) -> None:
        super().__init__(gateway)
        self.tools = [gateway.tool(server_label="lookup", server_url=mcp.url, require_approval="never")]


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


NOT_TO_BE_ASKED: dict[str, tuple[Json, str]] = {
    "sampling": (
        {
            "resultType": "input_required",
            "inputRequests": {"a": {"method": "sampling/createMessage", "params": {"messages": [], "maxTokens": 9}}},
        },
        "sampling/createMessage, which is refused",
    ),
    "an address without encryption": (
        asking(x={"mode": "url", "message": "Log in.", "url": "http://login.example.com"}),
        "an address that is not https",
    ),
    "a state that is too large": (asking("name", state="x" * 70_000), "its state has more than 65536 bytes"),
    "forms that are too large": (
        asking(x={"mode": "form", "message": "x" * 70_000, "requestedSchema": FORM}),
        "its forms have more than 65536 bytes",
    ),
}


@pytest.mark.parametrize(("result", "reason"), NOT_TO_BE_ASKED.values(), ids=NOT_TO_BE_ASKED)
async def test_fault_57_what_nobody_can_be_asked_for_fails_the_call(
    result: Json, reason: str, calc: CountingServer, tmp_path: Path
) -> None:
    async with scripted_mcp(reply(result)) as mcp, approving(calc, tmp_path, look_up) as gateway:
        call = call_of(await Asking(gateway, mcp).ask())
        assert (call["status"], len(mcp.calls)) == ("failed", 1)
        text = call["error"]["content"][0]["text"]
        assert text.startswith("input_required: ")
        assert reason in text


async def test_fault_57_a_call_may_ask_a_limited_number_of_times(calc: CountingServer, tmp_path: Path) -> None:
    limits = {"input_rounds": 1}
    async with (
        scripted_mcp(reply(asking("name"))) as mcp,
        approving(calc, tmp_path, look_up, mcp=limits) as gateway,
    ):
        client = Asking(gateway, mcp)
        first = await client.ask()
        second = await client.ask([given(request_of(first), name="Ann")], previous_response_id=first["id"])
        assert "more than 1 times (tools.mcp.input_rounds)" in call_of(second)["error"]["content"][0]["text"]


async def test_a_server_that_wants_to_be_called_again_is(calc: CountingServer, tmp_path: Path) -> None:
    later = {"resultType": "input_required", "requestState": "soon"}
    async with (
        scripted_mcp([reply(later), reply(later), reply(text_result("found"))]) as mcp,
        approving(calc, tmp_path, look_up) as gateway,
    ):
        call = call_of(await gateway.ask(tools=Asking(gateway, mcp).tools))
        assert (call["output"], len(mcp.calls)) == ("found", 3)
        assert params_of(mcp)["requestState"] == "soon"


async def test_a_call_whose_tool_has_changed_since_it_asked_does_not_go_on(
    calc: CountingServer, tmp_path: Path
) -> None:
    async with (
        scripted_mcp(reply(asking("name"))) as mcp,
        scripted_mcp(reply(text_result("found"))) as other,
        approving(calc, tmp_path, look_up) as gateway,
    ):
        client = Asking(gateway, mcp)
        first = await client.ask()
        client.tools[0]["server_url"] = other.url
        second = await client.ask([given(request_of(first), name="Ann")], previous_response_id=first["id"])
        assert "The tool has changed since it asked" in str(call_of(second)["error"])
        assert not other.calls, "what the user gave is for another server"


async def test_input_for_a_server_that_is_away_can_be_given_later(calc: CountingServer, tmp_path: Path) -> None:
    lists: list[Script] = [reply(list_result(LOOK_UP)), json_reply({}, 500), reply(list_result(LOOK_UP))]
    calls = [reply(asking("name")), reply(text_result("found"))]
    async with (
        scripted_mcp(calls, methods={"tools/list": lists}) as mcp,
        approving(calc, tmp_path, look_up) as gateway,
    ):
        client = Asking(gateway, mcp)
        first = await client.ask()
        body: Any = {"request_input": [given(request_of(first), name="Ann")], "previous_response_id": first["id"]}
        away = await gateway.send(**body, tools=client.tools)
        assert away.status_code == 424
        assert call_of(await client.ask(**body))["output"] == "found"


async def test_credentials_are_in_no_question(calc: CountingServer, tmp_path: Path) -> None:
    form = {"mode": "form", "message": "Is the-secret-token yours?", "requestedSchema": FORM}
    replies = [reply(asking(state="the-secret-token", x=form)), reply(text_result("found"))]
    async with scripted_mcp(replies) as mcp, approving(calc, tmp_path, look_up) as gateway:
        client = Asking(gateway, mcp)
        client.tools[0]["authorization"] = "the-secret-token"
        first = await client.ask()
        request = request_of(first)
        assert request["elicitation"]["message"] == "Is [hidden] yours?"
        await client.ask([given(request, name="Ann")], previous_response_id=first["id"])
        assert params_of(mcp)["requestState"] == "the-secret-token", "the state is the server's own"


WHO: Json = {"mode": "form", "message": "Who?", "requestedSchema": FORM}
WHILE_OPEN: Json = {"jsonrpc": "2.0", "id": "q1", "method": "elicitation/create", "params": WHO}


async def test_fault_57_an_older_server_that_asks_while_the_call_is_open_is_declined_by_name(
    calc: CountingServer, tmp_path: Path
) -> None:
    failing = text_result("I need a name.", isError=True)
    replies = [sse_answer(failing, WHILE_OPEN), sse_answer(text_result("Hello, you."), WHILE_OPEN)]
    async with (
        scripted_mcp(replies, era="legacy") as mcp,
        approving(calc, tmp_path, look_up) as gateway,
    ):
        body: Any = {"tools": Asking(gateway, mcp).tools, "elicitation": True}
        failed, said = [await gateway.send("Hi", **body) for _ in replies]
        for response in (failed, said):
            assert response.headers["x-gateway-loss"] == "tools=input for lookup.look_up declined"
            assert kinds_of(response.json()) == ["mcp_list_tools", "mcp_call", "message"]
        reasons = [part["text"] for part in call_of(failed.json())["error"]["content"]]
        assert reasons[0] == "I need a name."
        assert reasons[1].startswith("input_declined: the tool asked for more input while the call was open")
        assert call_of(said.json())["output"] == "Hello, you."
        streamed = await gateway.send("Hi", **body, stream=True)
        assert "x-gateway-loss" not in streamed.headers
        response_id = streamed.text.partition('"id":"')[2].partition('"')[0]
        stored = await gateway.raw.get(f"/responses/{response_id}")
        assert stored.headers["x-gateway-loss"] == "tools=input for lookup.look_up declined"


async def test_fault_57_a_call_beside_one_that_asks_in_vain_is_none(calc: CountingServer, tmp_path: Path) -> None:
    two = chat_calls(("lookup_look_up", "{}"), ("lookup_other", "{}"))
    lists = reply(list_result(LOOK_UP, {**LOOK_UP, "name": "other"}))

    async def answer_call(exchange: Exchange) -> None:
        is_asking = exchange.request.json["params"]["name"] == "look_up"
        await (sse_answer(text_result("a"), WHILE_OPEN) if is_asking else sse_answer(text_result("b")))(exchange)

    async with (
        scripted_mcp(answer_call, era="legacy", methods={"tools/list": lists}) as mcp,
        approving(calc, tmp_path, two, chat_text("Done.")) as gateway,
    ):
        response = await gateway.send("Hi", tools=Asking(gateway, mcp).tools)
        assert response.headers["x-gateway-loss"] == "tools=input for lookup.look_up declined"


async def test_fault_57_real_older_servers_are_told_that_nobody_can_be_asked(
    calc: CountingServer, tmp_path: Path
) -> None:
    """A tool that looks first whether it can ask, and one that does not."""
    with mcp_server(is_older=True) as older:
        servers = {"calc": {"url": older.url, "approval": "never"}}
        calls = [chat_calls((f"calc_{name}", '{"city": "Rome"}')) for name in ("book", "greet")]
        scripts = [calls[0], chat_text("Hm."), calls[1], chat_text("Hm.")]
        async with approving(calc, tmp_path, *scripts, mcp={"servers": servers}) as gateway:
            body: Any = {"tools": [{"type": "mcp", "server_label": "calc"}], "elicitation": True}
            looking, asking_anyway = [await gateway.send("A table.", **body) for _ in range(2)]
            assert "did not declare the form elicitation capability" in str(call_of(looking.json())["error"])
            reason = call_of(asking_anyway.json())["error"]["message"]
            assert reason.startswith("Elicitation not supported; input_declined: the tool asked for more input while")
            assert asking_anyway.headers["x-gateway-loss"] == "tools=input for calc.greet declined"


async def test_without_a_store_nobody_is_asked(calc: CountingServer, tmp_path: Path) -> None:
    async with approving(calc, tmp_path, book, store={"url": None}) as gateway:
        response = await gateway.send("A table.", tools=Booking(gateway).tools, elicitation=True)
        assert response.status_code == httpx.codes.OK, response.text
        assert "did not declare" in call_of(response.json())["error"]["message"]
