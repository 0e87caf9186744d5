"""Requests for user input that cannot be answered: invalid forms, limits, changed and older servers."""

from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.integration.mcp.approval_gateway import approving, kinds_of, request_of
from tests.integration.mcp.booking_server import FORM, Asking, Booking, asking, book, call_of, given, look_up, params_of
from tests.mcp_script import LOOK_UP, list_result, scripted_mcp, sse_answer, text_result
from tests.mcp_script import answer as reply
from tests.mcp_server import CountingServer, mcp_server
from tests.upstream.builders import Json, chat_calls, chat_text, json_reply
from tests.upstream.script import Exchange, Script

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
async def test_fault_57_an_unanswerable_request_fails_the_call(
    result: Json, reason: str, calc: CountingServer, tmp_path: Path
) -> None:
    async with scripted_mcp(reply(result)) as mcp, approving(calc, tmp_path, look_up) as gateway:
        call = call_of(await Asking(gateway, mcp).ask())
        assert (call["status"], len(mcp.calls)) == ("failed", 1)
        text = call["error"]["content"][0]["text"]
        assert text.startswith("input_required: ")
        assert reason in text


async def test_fault_57_a_call_may_request_input_a_limited_number_of_times(
    calc: CountingServer, tmp_path: Path
) -> None:
    limits = {"input_rounds": 1}
    async with (
        scripted_mcp(reply(asking("name"))) as mcp,
        approving(calc, tmp_path, look_up, mcp=limits) as gateway,
    ):
        client = Asking(gateway, mcp)
        first = await client.ask()
        second = await client.ask([given(request_of(first), name="Ann")], previous_response_id=first["id"])
        assert "more than 1 times (tools.mcp.input_rounds)" in call_of(second)["error"]["content"][0]["text"]


async def test_a_call_is_repeated_if_its_server_requests_that(calc: CountingServer, tmp_path: Path) -> None:
    later = {"resultType": "input_required", "requestState": "soon"}
    async with (
        scripted_mcp([reply(later), reply(later), reply(text_result("found"))]) as mcp,
        approving(calc, tmp_path, look_up) as gateway,
    ):
        call = call_of(await gateway.ask(tools=Asking(gateway, mcp).tools))
        assert (call["output"], len(mcp.calls)) == ("found", 3)
        assert params_of(mcp)["requestState"] == "soon"


async def test_a_call_whose_tool_changed_after_its_request_does_not_continue(
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


async def test_input_for_an_unavailable_server_can_be_sent_later(calc: CountingServer, tmp_path: Path) -> None:
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


async def test_credentials_are_in_no_request_for_input(calc: CountingServer, tmp_path: Path) -> None:
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


async def test_fault_57_a_request_of_an_older_server_during_a_call_is_declined_by_name(
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


async def test_fault_57_a_call_beside_a_declined_request_is_not_blamed(calc: CountingServer, tmp_path: Path) -> None:
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


async def test_fault_57_requests_of_real_older_servers_are_declined(calc: CountingServer, tmp_path: Path) -> None:
    """One tool checks first whether it may request input, and one does not."""
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


async def test_without_a_store_no_input_is_requested(calc: CountingServer, tmp_path: Path) -> None:
    async with approving(calc, tmp_path, book, store={"url": None}) as gateway:
        response = await gateway.send("A table.", tools=Booking(gateway).tools, elicitation=True)
        assert response.status_code == httpx.codes.OK, response.text
        assert "did not declare" in call_of(response.json())["error"]["message"]
