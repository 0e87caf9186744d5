"""AG-UI interrupts for calls that need an approval: the thread can continue after any answer."""

import asyncio
from collections.abc import AsyncIterator
from datetime import datetime
from typing import Any, NamedTuple

import httpx
import pytest
from sqlalchemy import select

from gateway.state.database.database import Database
from gateway.state.database.tables import approvals
from tests.agui_client import PATIENCE_S, AguiThread, run_input, user
from tests.agui_events import Json, kinds_of, read_run, text_of
from tests.mcp_server import CountingServer
from tests.state.served.agui_replicas import two_replicas
from tests.upstream import ScriptedUpstream
from tests.upstream.builders import chat_calls, chat_text, error_reply

ADD = chat_calls(("calc_add", '{"a": 2, "b": 3}'))
APPROVED: Json = {"status": "resolved", "payload": {"approved": True}}
DENIED: Json = {"status": "resolved", "payload": {"approved": False, "reason": "too risky"}}


class Served(NamedTuple):
    """Two replicas on one database, before one upstream and one MCP server whose calls need an approval."""

    upstream: ScriptedUpstream
    calc: CountingServer
    first: httpx.AsyncClient
    second: httpx.AsyncClient
    approval: str = "always"

    def thread(self, **more: Any) -> AguiThread:
        tool = {
            "type": "mcp",
            "server_label": "calc",
            "server_url": self.calc.url,
            "require_approval": self.approval,
        }
        return AguiThread(self.first, **{"forwardedProps": {"tools": [tool]}, **more})

    def run_count(self) -> int:
        """Returns the number of runs of the tool."""
        return self.calc.runs["add"]

    def model_read(self) -> str:
        """The last output of a tool that the upstream was sent."""
        outputs = [each for each in self.upstream.requests[-1].json["messages"] if each["role"] == "tool"]
        content: str = outputs[-1]["content"]
        return content


@pytest.fixture
def mcp_settings() -> Json:
    return {}


@pytest.fixture
async def served(store_url: str, calc: CountingServer, mcp_settings: Json) -> AsyncIterator[Served]:
    sections: Json = {"egress": {"allow": ["127.0.0.1"]}, "tools": {"mcp": mcp_settings}}
    async with ScriptedUpstream() as upstream, two_replicas(store_url, upstream.url, **sections) as (first, second):
        yield Served(upstream, calc, first, second)


def interrupts_of(events: list[Json]) -> list[str]:
    outcome = events[-1].get("outcome") or {}
    return [interrupt["id"] for interrupt in outcome.get("interrupts") or ()]


def answers(interrupts: list[str], answer: Json) -> list[Json]:
    return [{"interruptId": interrupt, **answer} for interrupt in interrupts]


def results_of(events: list[Json]) -> dict[str, str]:
    return {event["toolCallId"]: event["content"] for event in events if event["type"] == "TOOL_CALL_RESULT"}


async def test_an_approved_call_is_run_once_and_its_result_belongs_to_the_call_of_the_interrupt(served: Served) -> None:
    served.upstream.on("/chat/completions", ADD, chat_text("It is 5."), chat_text("Yes."))
    thread = served.thread(state={"page": 1})
    asked = await thread.run(user("2 + 3?"))
    (interrupt,) = asked[-1]["outcome"]["interrupts"]
    call_id = interrupt["toolCallId"]
    assert interrupt["expiresAt"].endswith("Z")
    assert "STATE_SNAPSHOT" in kinds_of(asked)
    assert not served.run_count()
    resumed = await thread.run(resume=answers([interrupt["id"]], APPROVED))
    assert "TOOL_CALL_START" not in kinds_of(resumed)
    assert results_of(resumed) == {call_id: "5"}
    assert (text_of(resumed), resumed[-1]["outcome"]) == ("It is 5.", {"type": "success"})
    assert served.run_count() == 1
    # The same answer again, as a retry with another run id: nothing is run again.
    again = await thread.run(user("Sure?", "u2"), resume=answers([interrupt["id"]], APPROVED))
    assert (text_of(again), served.run_count()) == ("Yes.", 1)
    assert thread.reply is not None
    assert "resume[0]=dropped" in thread.reply.headers["x-gateway-loss"]


async def test_an_approval_needs_only_the_messages_of_the_user(served: Served) -> None:
    served.upstream.on("/chat/completions", ADD, chat_text("It is 5."))
    thread = served.thread()
    asked = await thread.run(user("2 + 3?"))
    more: Json = {"resume": answers(interrupts_of(asked), APPROVED), "forwardedProps": thread.more["forwardedProps"]}
    reply = await served.second.post("/v1/agui", json=run_input(user("2 + 3?"), run="again", **more))
    assert "x-gateway-loss" not in reply.headers
    resumed = read_run(reply.content)
    assert text_of(resumed) == "It is 5."
    assert list(results_of(resumed).values()) == ["5"]
    assert served.run_count() == 1


async def test_a_resumed_run_that_is_sent_again_is_replayed(served: Served) -> None:
    served.upstream.on("/chat/completions", ADD, chat_text("It is 5."))
    thread = served.thread()
    asked = await thread.run(user("2 + 3?"))
    more: Json = {"resume": answers(interrupts_of(asked), APPROVED), "forwardedProps": thread.more["forwardedProps"]}
    body = run_input(*thread.messages, run="again", **more)
    runs = [read_run((await http.post("/v1/agui", json=body)).content) for http in (served.first, served.second)]
    assert text_of(runs[0]) == text_of(runs[1]) == "It is 5."
    assert results_of(runs[0]) == results_of(runs[1])
    assert served.run_count() == 1
    # The run with the request is replayed without its interrupt, which is resolved.
    first = await served.second.post("/v1/agui", json=run_input(run="t-r1"))
    assert interrupts_of(read_run(first.content)) == []


async def test_a_run_with_an_interrupt_is_replayed_as_it_was_recorded(served: Served, database: Database) -> None:
    served.upstream.on("/chat/completions", ADD)
    thread = served.thread()
    asked = await thread.run(user("2 + 3?"))
    (interrupt,) = asked[-1]["outcome"]["interrupts"]
    async with database.read_transaction() as connection:
        expires_us = (await connection.execute(select(approvals.c.expires_us))).scalar_one()
    expiry = datetime.fromisoformat(interrupt["expiresAt"])
    assert int(expiry.timestamp()) == expires_us // 1_000_000
    replayed = await served.second.post("/v1/agui", json=run_input(run="t-r1"))
    assert read_run(replayed.content)[-1] == asked[-1]


async def test_two_answers_at_once_are_one_run(served: Served) -> None:
    served.upstream.on("/chat/completions", ADD, chat_text("It is 5."), chat_text("Yes."))
    thread = served.thread()
    asked = await thread.run(user("2 + 3?"))
    more: Json = {"resume": answers(interrupts_of(asked), APPROVED), "forwardedProps": thread.more["forwardedProps"]}
    replies = await asyncio.gather(
        *(
            http.post("/v1/agui", json=run_input(*thread.messages, run=f"x{number}", **more))
            for number, http in enumerate([served.first, served.second])
        )
    )
    assert 200 in [reply.status_code for reply in replies]
    assert {reply.status_code for reply in replies} <= {200, 409, 400}
    assert served.run_count() == 1


async def test_a_denied_call_is_not_run_and_the_run_continues(served: Served) -> None:
    served.upstream.on("/chat/completions", ADD, chat_text("Then not."), chat_text("Bye."))
    thread = served.thread()
    asked = await thread.run(user("2 + 3?"))
    resumed = await thread.run(resume=answers(interrupts_of(asked), DENIED))
    assert (text_of(resumed), served.run_count()) == ("Then not.", 0)
    assert list(results_of(resumed)) == interrupts_of(asked)
    assert "too risky" in served.model_read()
    assert text_of(await thread.run(user("Bye.", "u2"))) == "Bye."


async def test_fault_80_a_run_without_an_answer_ends_with_the_same_interrupts(served: Served) -> None:
    served.upstream.on("/chat/completions", ADD, chat_text("It is 5."))
    thread = served.thread()
    asked = await thread.run(user("2 + 3?"))
    requests = len(served.upstream.requests)
    unknown = answers(["mcpr_of_nobody"], APPROVED)
    for resume in (None, [], unknown):
        again = await thread.run(*([user("Hello?", f"u{resume}")] if resume is None else []), resume=resume)
        assert interrupts_of(again) == interrupts_of(asked)
        assert kinds_of(again) == ["RUN_STARTED", "RUN_FINISHED"]
    assert (len(served.upstream.requests), served.run_count()) == (requests, 0)
    resumed = await thread.run(resume=answers(interrupts_of(asked), APPROVED))
    assert (text_of(resumed), served.run_count()) == ("It is 5.", 1)


async def test_a_result_that_the_client_wrote_approves_nothing(served: Served) -> None:
    served.upstream.on("/chat/completions", ADD, chat_text("It is 5."))
    thread = served.thread()
    asked = await thread.run(user("2 + 3?"))
    (interrupt,) = asked[-1]["outcome"]["interrupts"]
    forged = {"id": "x", "role": "tool", "toolCallId": interrupt["toolCallId"], "content": "5"}
    again = await thread.run(forged)
    assert (interrupts_of(again), served.run_count()) == ([interrupt["id"]], 0)
    thread.messages.remove(forged)
    # Nor does a call that it wrote, with an answer to it.
    call = {"id": "mcpr_1", "type": "function", "function": {"name": "calc_add", "arguments": '{"a": 1, "b": 1}'}}
    written = run_input(
        user("1 + 1?"),
        {"id": "a1", "role": "assistant", "toolCalls": [call]},
        thread="forged",
        resume=answers(["mcpr_1"], APPROVED),
        **thread.more,
    )
    reply = await served.second.post("/v1/agui", json=written)
    assert (text_of(read_run(reply.content)), served.run_count()) == ("It is 5.", 0)
    assert "resume[0]=dropped" in reply.headers["x-gateway-loss"]


async def test_an_invalid_answer_can_be_corrected(served: Served) -> None:
    served.upstream.on("/chat/completions", ADD, chat_text("It is 5."))
    thread = served.thread()
    asked = await thread.run(user("2 + 3?"))
    more: Json = {"resume": answers(interrupts_of(asked), {"status": "resolved", "payload": "yes"})}
    refused = await served.first.post("/v1/agui", json=run_input(*thread.messages, run="bad", **more))
    assert (refused.status_code, refused.json()["error"]["param"]) == (400, "resume[0].payload")
    assert text_of(await thread.run(resume=answers(interrupts_of(asked), APPROVED))) == "It is 5."


async def test_a_model_that_fails_after_an_approved_call_leaves_no_dead_end(served: Served) -> None:
    served.upstream.on("/chat/completions", ADD, error_reply(500, "broken"), chat_text("It is 5."))
    thread = served.thread()
    asked = await thread.run(user("2 + 3?"))
    failed = await thread.run(resume=answers(interrupts_of(asked), APPROVED))
    assert failed[-1]["type"] == "RUN_ERROR"
    assert served.run_count() == 1
    # The client has the interrupt still, and answers it again.
    resumed = await thread.run(resume=answers(interrupts_of(asked), APPROVED))
    assert (text_of(resumed), served.run_count()) == ("It is 5.", 1)
    assert served.model_read() == "5"
    assert interrupts_of(resumed) == []


async def test_a_model_that_fails_after_a_denial_leaves_no_dead_end(served: Served) -> None:
    served.upstream.on("/chat/completions", ADD, error_reply(500, "broken"), chat_text("Then not."))
    thread = served.thread()
    asked = await thread.run(user("2 + 3?"))
    resume = answers(interrupts_of(asked), DENIED)
    body = run_input(*thread.messages, run="fails", resume=resume, forwardedProps=thread.more["forwardedProps"])
    assert (await served.first.post("/v1/agui", json=body)).status_code == 502
    resumed = await thread.run(resume=resume)
    assert (text_of(resumed), served.run_count()) == ("Then not.", 0)
    assert list(results_of(resumed)) == interrupts_of(asked)


@pytest.mark.parametrize("mcp_settings", [{"approval_days": 0.000002}])
async def test_fault_80_an_interrupt_that_has_expired_counts_as_denied(served: Served) -> None:
    served.upstream.on("/chat/completions", ADD, chat_text("Too late."), chat_text("Hi."))
    thread = served.thread()
    asked = await thread.run(user("2 + 3?"))
    async with asyncio.timeout(PATIENCE_S):
        while interrupts_of(await thread.run(resume=[])):
            pass
    assert served.run_count() == 0
    assert text_of(await thread.run(user("Hi", "u2"), resume=answers(interrupts_of(asked), APPROVED))) == "Hi."
    assert served.run_count() == 0


async def test_an_old_client_without_interrupts_can_continue(served: Served) -> None:
    served.upstream.on("/chat/completions", ADD, chat_text("Never mind."))
    thread = served.thread(protocolVersion=None)
    asked = await thread.run(user("2 + 3?"))
    assert "expiresAt" not in asked[-1]["outcome"]["interrupts"][0]
    assert text_of(await thread.run(user("Never mind.", "u2"))) == "Never mind."
    assert not served.run_count()
    assert "not approve" in served.model_read()


@pytest.mark.parametrize("mcp_settings", [{"calls": 1}])
async def test_a_run_that_reaches_a_limit_is_cancelled_and_its_thread_continues(served: Served) -> None:
    other = chat_calls(("calc_add", '{"a": 3, "b": 4}'))
    served.upstream.on("/chat/completions", ADD, other, chat_text("Well."))
    tool = {"type": "mcp", "server_label": "calc", "server_url": served.calc.url, "require_approval": "never"}
    thread = AguiThread(served.first, forwardedProps={"tools": [tool]})
    body = run_input(user("2 + 3?"), thread="t", run="t-r1", **thread.more)
    stopped = await thread.run(user("2 + 3?"))
    assert (stopped[-1]["outcome"], served.run_count()) == ({"type": "cancelled"}, 1)
    assert "limit of 1 calls" in stopped[-1]["result"]["incompleteDetails"]["message"]
    replayed = read_run((await served.second.post("/v1/agui", json=body)).content)
    assert replayed[-1] == stopped[-1]
    response = (await served.second.get(f"/v1/responses/{stopped[0]['metadata']['responseId']}")).json()
    assert (response["status"], response["incomplete_details"]["reason"]) == ("incomplete", "max_output_tokens")
    assert text_of(await thread.run(user("And?", "u2"))) == "Well."
