"""AG-UI interrupts for calls that need user input: the thread can continue after any answer."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from tests.agui_client import PATIENCE_S, run_input, user
from tests.agui_events import Json, kinds_of, read_run, text_of
from tests.mcp_script import answer as reply
from tests.mcp_script import scripted_mcp, text_result
from tests.mcp_server import CountingServer
from tests.state.served.agui_replicas import two_replicas
from tests.state.served.test_agui_approvals import Served, answers, interrupts_of, results_of
from tests.upstream import ScriptedUpstream
from tests.upstream.builders import chat_calls, chat_text, error_reply

BOOK = chat_calls(("calc_book", '{"city": "Rome"}'))


@pytest.fixture
def mcp_settings() -> Json:
    return {}


@pytest.fixture
async def served(store_url: str, calc: CountingServer, mcp_settings: Json) -> AsyncIterator[Served]:
    sections: Json = {"egress": {"allow": ["127.0.0.1"]}, "tools": {"mcp": mcp_settings}}
    async with ScriptedUpstream() as upstream, two_replicas(store_url, upstream.url, **sections) as (first, second):
        yield Served(upstream, calc, first, second, approval="never")


def content(**fields: object) -> Json:
    return {"status": "resolved", "payload": fields}


async def test_a_call_that_requests_input_continues_with_it_on_another_replica(served: Served) -> None:
    served.upstream.on("/chat/completions", BOOK, chat_text("Booked."), chat_text("Yes."))
    thread = served.thread()
    asking = await thread.run(user("A table in Rome."))
    (interrupt,) = asking[-1]["outcome"]["interrupts"]
    assert (interrupt["reason"], interrupt["message"]) == ("input_required", "For how many people?")
    assert interrupt["responseSchema"]["properties"]["people"]["maximum"] == 12
    (call_id,) = [event["toolCallId"] for event in asking if event["type"] == "TOOL_CALL_START"]
    assert interrupt["toolCallId"] == call_id
    assert results_of(asking) == {}
    assert not served.calc.runs["book"]
    thread.http = served.second
    resumed = await thread.run(resume=answers([interrupt["id"]], content(people=4)))
    assert "TOOL_CALL_START" not in kinds_of(resumed)
    assert results_of(resumed) == {call_id: "A table for 4 in Rome."}
    assert (text_of(resumed), resumed[-1]["outcome"]) == ("Booked.", {"type": "success"})
    assert (served.calc.runs["book"], served.model_read()) == (1, "A table for 4 in Rome.")
    # The same answer again, as a retry with another run id: nothing is run again.
    again = await thread.run(user("Sure?", "u2"), resume=answers([interrupt["id"]], content(people=5)))
    assert (text_of(again), served.calc.runs["book"]) == ("Yes.", 1)
    assert thread.reply is not None
    assert "resume[0]=dropped" in thread.reply.headers["x-gateway-loss"]
    roles = [message["role"] for message in served.upstream.requests[-1].json["messages"]]
    assert roles == ["user", "assistant", "tool", "assistant", "user"]


async def test_a_missing_or_invalid_answer_gets_the_form_again(served: Served) -> None:
    served.upstream.on("/chat/completions", BOOK, chat_text("Booked."))
    thread = served.thread()
    asked = await thread.run(user("A table in Rome."))
    nothing = await thread.run(user("Hello?", "u2"))
    assert interrupts_of(nothing) == interrupts_of(asked)
    for payload in ({"people": 40}, {}, "two", {"people": 2, "wine": True}):
        again = await thread.run(resume=answers(interrupts_of(asked), {"status": "resolved", "payload": payload}))
        (interrupt,) = again[-1]["outcome"]["interrupts"]
        assert interrupt["id"] == asked[-1]["outcome"]["interrupts"][0]["id"]
        assert "does not fit what the tool asks for" in interrupt["metadata"]["problem"]
        assert interrupt["responseSchema"]["required"] == ["people"]
    assert (served.calc.runs["asked"], len(served.upstream.requests)) == (1, 1)
    assert text_of(await thread.run(resume=answers(interrupts_of(asked), content(people=2)))) == "Booked."


@pytest.mark.parametrize(
    ("answer", "action"),
    [
        ({"status": "resolved", "payload": {"approved": False}}, "decline"),
        ({"status": "cancelled"}, "cancel"),
    ],
)
async def test_a_run_continues_without_input_of_the_user(served: Served, answer: Json, action: str) -> None:
    served.upstream.on("/chat/completions", BOOK, chat_text("Then not."))
    thread = served.thread()
    asked = await thread.run(user("A table in Rome."))
    resumed = await thread.run(resume=answers(interrupts_of(asked), answer))
    assert list(results_of(resumed).values()) == [f"No table in Rome: {action}."]
    assert (text_of(resumed), resumed[-1]["outcome"]) == ("Then not.", {"type": "success"})


async def test_an_old_client_that_continues_declines(served: Served) -> None:
    served.upstream.on("/chat/completions", BOOK, chat_text("Never mind."))
    thread = served.thread(protocolVersion=None)
    asked = await thread.run(user("A table in Rome."))
    assert asked[-1]["outcome"]["interrupts"][0]["reason"] == "input_required"
    went_on = await thread.run(user("Never mind.", "u2"))
    assert list(results_of(went_on).values()) == ["No table in Rome: decline."]
    assert text_of(went_on) == "Never mind."


@pytest.mark.parametrize("mcp_settings", [{"approval_days": 0.000002}])
async def test_a_form_that_has_expired_is_no_dead_end(served: Served) -> None:
    served.upstream.on("/chat/completions", BOOK, chat_text("Too late."))
    thread = served.thread()
    asked = await thread.run(user("A table in Rome."))
    async with asyncio.timeout(PATIENCE_S):
        while interrupts_of(last := await thread.run(resume=[])):
            pass
    assert text_of(last) == "Too late."
    assert list(results_of(last)) == [asked[-1]["outcome"]["interrupts"][0]["toolCallId"]]
    assert not served.calc.runs["book"]


async def test_a_model_that_fails_after_the_input_leaves_no_dead_end(served: Served) -> None:
    served.upstream.on("/chat/completions", BOOK, error_reply(500, "broken"), chat_text("Booked."))
    thread = served.thread()
    asked = await thread.run(user("A table in Rome."))
    failed = await thread.run(resume=answers(interrupts_of(asked), content(people=2)))
    assert failed[-1]["type"] == "RUN_ERROR"
    resumed = await thread.run(resume=answers(interrupts_of(asked), content(people=2)))
    assert (text_of(resumed), served.calc.runs["book"]) == ("Booked.", 1)
    assert served.model_read() == "A table for 2 in Rome."


async def test_runs_with_answered_requests_are_replayed(served: Served) -> None:
    served.upstream.on("/chat/completions", BOOK, chat_text("Booked."))
    thread = served.thread()
    asked = await thread.run(user("A table in Rome."))
    replayed = await served.second.post("/v1/agui", json=run_input(run="t-r1"))
    assert read_run(replayed.content)[-1]["outcome"] == asked[-1]["outcome"]
    resumed = await thread.run(resume=answers(interrupts_of(asked), content(people=2)))
    again = read_run((await served.second.post("/v1/agui", json=run_input(run="t-r2"))).content)
    assert results_of(again) == results_of(resumed)
    assert "TOOL_CALL_START" not in kinds_of(again)
    solved = await served.second.post("/v1/agui", json=run_input(run="t-r1"))
    assert interrupts_of(read_run(solved.content)) == []


async def test_a_call_may_request_a_form_and_then_a_login(served: Served) -> None:
    schema = {"type": "object", "properties": {"name": {"type": "string"}}}
    form = {"mode": "form", "message": "Who?", "requestedSchema": schema}
    login = {"mode": "url", "message": "Log in.", "url": "https://login.example.com/?id=1"}
    questions = [
        {"resultType": "input_required", "requestState": f"s{number}", "inputRequests": {"q": wire}}
        for number, wire in enumerate({"method": "elicitation/create", "params": each} for each in (form, login))
    ]
    async with scripted_mcp([*map(reply, questions), reply(text_result("found"))]) as mcp:
        served.upstream.on("/chat/completions", chat_calls(("lookup_look_up", "{}")), chat_text("Done."))
        tool = {"type": "mcp", "server_label": "lookup", "server_url": mcp.url, "require_approval": "never"}
        thread = served.thread(forwardedProps={"tools": [tool]})
        first = await thread.run(user("Look it up."))
        second = await thread.run(resume=answers(interrupts_of(first), content(name="Ann")))
        assert results_of(second) == {}
        (interrupt,) = second[-1]["outcome"]["interrupts"]
        assert interrupt["toolCallId"] == first[-1]["outcome"]["interrupts"][0]["toolCallId"]
        assert interrupt["metadata"] == {"mode": "url", "url": login["url"], "host": "login.example.com"}
        third = await thread.run(resume=answers([interrupt["id"]], content(approved=True)))
        assert results_of(third) == {interrupt["toolCallId"]: "found"}
        assert (text_of(third), len(mcp.calls)) == ("Done.", 3)
        given = [call.json["params"].get("inputResponses") for call in mcp.calls]
        accepted = {"action": "accept", "content": {"name": "Ann"}}
        assert given == [None, {"q": accepted}, {"q": {"action": "accept"}}]
