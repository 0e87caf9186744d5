"""The OpenAI Agents SDK in Python and in JavaScript with state on the server."""

import pytest
from structlog.testing import capture_logs

from tests.clients.client_processes import ClientProgram, InstalledClients
from tests.clients.conftest import Answer
from tests.serving import Gateway
from tests.upstream import ScriptedUpstream, chat_calls, chat_chunk, chat_sse, chat_text
from tests.upstream.builders import CHAT_USAGE

ADDS = chat_calls(("add", '{"a":2,"b":40}'))
WHOLE = ["user", "assistant", "tool", "assistant", "user"]
"""The roles in a conversation of two turns, with a tool in the first."""


@pytest.fixture(params=["frameworks/agents_state.py", "frameworks/agents_state.mjs"], ids=["Python", "JavaScript"])
def agents(request: pytest.FixtureRequest, clients: InstalledClients, stateful_gateway: Gateway) -> ClientProgram:
    return clients.program(request.param, BASE_URL=stateful_gateway.v1)


def roles(upstream: ScriptedUpstream) -> list[str]:
    """Returns the roles of the messages in the last upstream request."""
    return [message["role"] for message in upstream.requests[-1].json["messages"]]


@pytest.mark.parametrize("case", ["chained", "chained_streamed", "conversation"])
async def test_only_new_items_are_sent_and_the_model_reads_all_items(
    case: str, agents: ClientProgram, answer: Answer, upstream: ScriptedUpstream
) -> None:
    answer(ADDS, chat_text("Good day, Ada. It is 42."), chat_text("Ada."))
    assert await agents.do(case) == {"text": "Ada.", "ran": [[2, 40]], "new": 1}
    assert roles(upstream) == WHOLE


async def test_a_session_is_a_conversation(agents: ClientProgram, answer: Answer, upstream: ScriptedUpstream) -> None:
    answer(ADDS, chat_text("Good day, Ada. It is 42."), chat_text("Ada."))
    got = await agents.do("session")
    assert (got["text"], got["ran"]) == ("Ada.", [[2, 40]])
    assert roles(upstream) == WHOLE
    # In JavaScript an output is called a result.
    kinds = [kind.replace("_result", "_output") for kind in got["kept"]]
    assert kinds == ["message", "function_call", "function_call_output", "message", "message", "message"]
    assert (got["popped"], got["left"]) == ("Ada.", 5)


async def test_thoughts_are_stored_in_a_session(
    agents: ClientProgram, answer: Answer, upstream: ScriptedUpstream
) -> None:
    function = {"name": "add", "arguments": '{"a":2,"b":40}'}
    thinks = chat_sse(
        [
            chat_chunk({"role": "assistant", "reasoning_content": "They want a sum."}),
            chat_chunk({"tool_calls": [{"index": 0, "id": "call_0", "function": function}]}),
            chat_chunk({}, "tool_calls"),
            chat_chunk(usage=CHAT_USAGE),
        ]
    )
    answer(thinks, chat_text("Good day, Ada. It is 42."), chat_text("Ada."))
    got = await agents.do("session")
    assert got["kept"][1] == "reasoning"
    assert upstream.requests[-1].json["messages"][1]["reasoning_content"] == "They want a sum."


async def test_a_session_that_grows_is_compacted(
    agents: ClientProgram, answer: Answer, upstream: ScriptedUpstream
) -> None:
    answer(ADDS, chat_text("Good day, Ada. It is 42."), chat_text("Ada wanted a sum."), chat_text("Ada."))
    got = await agents.do("compaction", model="gpt-of-ours")
    assert (got["text"], got["ran"], got["kept"]) == ("Ada.", [[2, 40]], ["message", "compaction"])
    assert "Ada wanted a sum." in str(upstream.requests[-1].json["messages"])
    assert "It is 42." not in str(upstream.requests[-1].json["messages"])


async def test_runs_share_a_websocket(agents: ClientProgram, answer: Answer, upstream: ScriptedUpstream) -> None:
    answer(ADDS, chat_text("Good day, Ada. It is 42."), chat_text("Ada."))
    with capture_logs() as lines:
        assert await agents.do("websocket") == {"text": "Ada.", "ran": [[2, 40]], "new": 1}
    assert roles(upstream) == WHOLE
    assert "WEBSOCKET" in {line["method"] for line in lines if line.get("path") == "/v1/responses"}


async def test_unknown_state_is_refused_by_name(agents: ClientProgram) -> None:
    assert await agents.do("unknown") == {"code": "previous_response_not_found", "param": "previous_response_id"}
