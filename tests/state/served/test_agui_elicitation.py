"""Interrupts of AG-UI for calls that need input of the user: whatever a client answers, its thread can go on."""

from collections.abc import AsyncIterator

import pytest

from tests.agui_client import user
from tests.agui_events import Json, kinds_of, text_of
from tests.mcp_server import CountingServer
from tests.state.served.agui_replicas import two_replicas
from tests.state.served.test_agui_approvals import Served, answers, results_of
from tests.upstream import ScriptedUpstream
from tests.upstream.builders import chat_calls, chat_text

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


async def test_a_call_that_asks_for_input_goes_on_with_it_on_another_replica(served: Served) -> None:
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
