"""pydantic-ai, over all three APIs that it has."""

import pytest

from tests.clients.client_processes import ClientProgram, InstalledClients
from tests.clients.conftest import Answer
from tests.serving import Gateway
from tests.upstream import ScriptedUpstream, chat_calls, chat_json, chat_text, error_reply

ADDS = chat_calls(("add", '{"a":2,"b":40}'))


@pytest.fixture(params=["responses", "chat", "messages"])
def agent(request: pytest.FixtureRequest, clients: InstalledClients, gateway: Gateway) -> ClientProgram:
    return clients.program("frameworks/pydantic_ai_agent.py", BASE_URL=gateway.v1, API=request.param)


async def test_text_is_whole(agent: ClientProgram, answer: Answer) -> None:
    answer(chat_text("Good ", "day."))
    got = await agent.do("text")
    assert (got["output"], got["usage"]) == ("Good day.", [9, 3])


async def test_text_streams(agent: ClientProgram, answer: Answer) -> None:
    answer(chat_text("Good ", "day."))
    got = await agent.do("text_streamed")
    assert (got["output"], got["deltas"]) == ("Good day.", ["Good ", "day."])


@pytest.mark.parametrize("case", ["tools", "tools_streamed"])
async def test_a_tool_runs_and_its_result_is_sent_back(
    case: str, agent: ClientProgram, answer: Answer, upstream: ScriptedUpstream
) -> None:
    answer(ADDS, chat_text("It is 42."))
    got = await agent.do(case)
    assert (got["output"], got["ran"]) == ("It is 42.", [[2, 40]])
    assert upstream.requests[1].json["messages"][-1]["content"] == "42"


async def test_a_tool_of_the_demo_model_runs(agent: ClientProgram) -> None:
    got = await agent.do("tools_streamed", model="demo")
    assert len(got["ran"]) == 1
    assert got["output"].startswith("add returned: ")


async def test_an_answer_fits_its_format(agent: ClientProgram, answer: Answer, upstream: ScriptedUpstream) -> None:
    answer(chat_text('{"total":42}'))
    assert (await agent.do("format"))["output"] == {"total": 42}
    assert upstream.requests[0].json["response_format"]["type"] == "json_schema"


async def test_an_answer_by_tool_call_fits_its_format(
    agent: ClientProgram, answer: Answer, upstream: ScriptedUpstream
) -> None:
    answer(chat_calls(("final_result", '{"total":42}')))
    assert (await agent.do("format_by_tool"))["output"] == {"total": 42}
    assert upstream.requests[0].json["tool_choice"] == "required"


async def test_reasoning_is_displayed_and_sent_back(
    agent: ClientProgram, answer: Answer, upstream: ScriptedUpstream
) -> None:
    call = {"id": "call_1", "type": "function", "function": {"name": "add", "arguments": '{"a":2,"b":40}'}}
    thinks = chat_json(finish_reason="tool_calls", reasoning_content="They want a sum.", tool_calls=[call])
    answer(thinks, chat_text("It is 42."))
    assert (await agent.do("tools"))["output"] == "It is 42."
    assert upstream.requests[1].json["messages"][-2]["reasoning_content"] == "They want a sum."


async def test_earlier_messages_and_calls_are_sent_back(
    agent: ClientProgram, answer: Answer, upstream: ScriptedUpstream
) -> None:
    answer(ADDS, chat_text("Good day, Ada."), chat_text("Ada."))
    assert (await agent.do("conversation"))["output"] == "Ada."
    roles = [message["role"] for message in upstream.requests[2].json["messages"]]
    assert roles == ["user", "assistant", "tool", "assistant", "user"]


async def test_an_image_arrives_as_an_image(agent: ClientProgram, answer: Answer, upstream: ScriptedUpstream) -> None:
    answer(chat_text("A dot."))
    assert (await agent.do("image"))["output"] == "A dot."
    image = upstream.requests[0].json["messages"][-1]["content"][-1]
    assert image["image_url"]["url"].startswith("data:image/png;base64,")


async def test_an_error_has_the_status_and_the_message_of_the_upstream(
    agent: ClientProgram, upstream: ScriptedUpstream
) -> None:
    upstream.script(error_reply(400, "The prompt is too strange.", code="strange_prompt"))
    got = await agent.do("failure")
    assert got["status"] == 400
    error = got["body"]["error"] if agent.env["API"] == "messages" else got["body"]
    assert error["message"] == "The prompt is too strange."


@pytest.mark.parametrize("case", ["chained", "chained_streamed", "conversation", "background"])
async def test_only_new_items_are_sent_and_the_model_reads_all_items(
    case: str, clients: InstalledClients, stateful_gateway: Gateway, answer: Answer, upstream: ScriptedUpstream
) -> None:
    answer(ADDS, chat_text("Good day, Ada. It is 42."), chat_text("Ada."))
    got = await clients.run_program(
        "frameworks/pydantic_ai_state.py", case, BASE_URL=stateful_gateway.v1, MODEL="some-model"
    )
    assert got == {"text": "Ada.", "new": 1}
    roles = [message["role"] for message in upstream.requests[-1].json["messages"]]
    assert roles == ["user", "assistant", "tool", "assistant", "user"]
