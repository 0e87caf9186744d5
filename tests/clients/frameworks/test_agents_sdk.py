"""The OpenAI Agents SDK in Python and in JavaScript."""

import json
from typing import Any

import pytest

from tests.clients.client_processes import InstalledClients
from tests.clients.conftest import Answer
from tests.serving import Gateway
from tests.upstream import ScriptedUpstream, chat_calls, chat_json, chat_text

ADDS = chat_calls(("add", '{"a":2,"b":40}'))
PROGRAMS = pytest.mark.parametrize(
    "program", ["frameworks/agents_sdk.py", "frameworks/agents_sdk.mjs"], ids=["Python", "JavaScript"]
)
APIS = pytest.mark.parametrize("api", ["responses", "chat"])


class Agents:
    """Runs the cases of a program."""

    def __init__(self, clients: InstalledClients, gateway: Gateway) -> None:
        self._clients = clients
        self._gateway = gateway

    async def do(self, program: str, case: str, api: str = "responses", model: str = "some-model") -> Any:
        return await self._clients.run_program(program, case, BASE_URL=self._gateway.v1, MODEL=model, API=api)


@pytest.fixture
def agents(clients: InstalledClients, gateway: Gateway) -> Agents:
    return Agents(clients, gateway)


@PROGRAMS
@APIS
async def test_text_is_whole(
    program: str, api: str, agents: Agents, answer: Answer, upstream: ScriptedUpstream
) -> None:
    answer(chat_text("Good ", "day."))
    got = await agents.do(program, "text", api)
    assert (got["text"], got["usage"]) == ("Good day.", [9, 3])
    assert upstream.requests[0].json["messages"][0] == {"role": "system", "content": "Be brief."}


@PROGRAMS
@APIS
async def test_text_streams(program: str, api: str, agents: Agents, answer: Answer) -> None:
    answer(chat_text("Good ", "day."))
    got = await agents.do(program, "text_streamed", api)
    assert (got["text"], got["deltas"]) == ("Good day.", ["Good ", "day."])


@PROGRAMS
@APIS
@pytest.mark.parametrize("case", ["tools", "tools_streamed"])
async def test_a_tool_runs_and_its_result_is_sent_back(
    program: str, api: str, case: str, agents: Agents, answer: Answer, upstream: ScriptedUpstream
) -> None:
    answer(ADDS, chat_text("It is 42."))
    got = await agents.do(program, case, api)
    assert (got["text"], got["ran"]) == ("It is 42.", [[2, 40]])
    assert upstream.requests[1].json["messages"][-1]["content"] == "42"


@PROGRAMS
@APIS
async def test_a_tool_of_the_demo_model_runs(program: str, api: str, agents: Agents) -> None:
    got = await agents.do(program, "tools_streamed", api, model="demo")
    assert len(got["ran"]) == 1
    assert got["text"].startswith("add returned: ")


@PROGRAMS
@APIS
@pytest.mark.parametrize("case", ["handoff", "handoff_streamed"])
async def test_a_handoff_reaches_the_other_agent(
    program: str, api: str, case: str, agents: Agents, answer: Answer
) -> None:
    answer(chat_calls(("transfer_to_grace", "{}")), chat_text("Grace here."))
    got = await agents.do(program, case, api)
    assert (got["text"], got["agent"]) == ("Grace here.", "grace")


@PROGRAMS
@APIS
async def test_an_answer_fits_its_format(program: str, api: str, agents: Agents, answer: Answer) -> None:
    answer(chat_text('{"total":42}'))
    assert (await agents.do(program, "format", api))["text"] in ("total=42", '{"total":42}')


@PROGRAMS
@APIS
async def test_earlier_messages_and_calls_are_sent_back(
    program: str, api: str, agents: Agents, answer: Answer, upstream: ScriptedUpstream
) -> None:
    answer(ADDS, chat_text("Good day, Ada."), chat_text("Ada."))
    assert (await agents.do(program, "conversation", api))["text"] == "Ada."
    roles = [message["role"] for message in upstream.requests[2].json["messages"]]
    assert roles == ["user", "assistant", "tool", "assistant", "user"]


@PROGRAMS
async def test_reasoning_is_sent_back_beside_its_call(
    program: str, agents: Agents, answer: Answer, upstream: ScriptedUpstream
) -> None:
    call = {"id": "call_1", "type": "function", "function": {"name": "add", "arguments": '{"a":2,"b":40}'}}
    thinks = chat_json(finish_reason="tool_calls", reasoning_content="They want a sum.", tool_calls=[call])
    answer(thinks, chat_text("It is 42."))
    assert (await agents.do(program, "reasoning"))["text"] == "It is 42."
    assert upstream.requests[1].json["messages"][-2]["reasoning_content"] == "They want a sum."


@PROGRAMS
async def test_shell_commands_run(program: str, agents: Agents, answer: Answer, upstream: ScriptedUpstream) -> None:
    answer(chat_calls(("shell", '{"commands":["ls","pwd"]}')), chat_text("Done."))
    got = await agents.do(program, "shell")
    assert (got["text"], got["ran"]) == ("Done.", [["ls", "pwd"]])
    output = json.loads(upstream.requests[1].json["messages"][-1]["content"])
    assert [each["stdout"] for each in output] == ["did ls", "did pwd"]


@PROGRAMS
async def test_a_patch_is_applied(program: str, agents: Agents, answer: Answer, upstream: ScriptedUpstream) -> None:
    operation = {"type": "create_file", "path": "hello.txt", "diff": "+Good day"}
    answer(chat_calls(("apply_patch", json.dumps(operation))), chat_text("Done."))
    got = await agents.do(program, "patch")
    assert (got["text"], got["ran"]) == ("Done.", [list(operation.values())])
    assert "created" in upstream.requests[1].json["messages"][-1]["content"]


async def test_a_freeform_tool_gets_its_text(agents: Agents, answer: Answer) -> None:
    answer(chat_calls(("note", '{"input":"buy \\"milk\\""}')), chat_text("Done."))
    assert (await agents.do("frameworks/agents_sdk.py", "freeform"))["ran"] == ['buy "milk"']


@PROGRAMS
async def test_a_tool_in_a_namespace_runs(program: str, agents: Agents, answer: Answer) -> None:
    answer(chat_calls(("sums__add", '{"a":2,"b":40}')), chat_text("It is 42."))
    got = await agents.do(program, "namespace")
    assert (got["text"], got["ran"]) == ("It is 42.", [[2, 40]])


@PROGRAMS
async def test_an_image_a_tool_returns_reaches_the_model_as_an_image(
    program: str, agents: Agents, answer: Answer, upstream: ScriptedUpstream
) -> None:
    answer(chat_calls(("look", "{}")), chat_text("A dot."))
    assert (await agents.do(program, "image"))["text"] == "A dot."
    *_, output, shown = upstream.requests[1].json["messages"]
    assert "base64" not in output["content"]
    assert [part["type"] for part in shown["content"]][-1] == "image_url"


async def test_a_tool_without_an_executor_is_left_out(
    agents: Agents, answer: Answer, upstream: ScriptedUpstream
) -> None:
    answer(chat_text("Good day."))
    assert (await agents.do("frameworks/agents_sdk.py", "web_search"))["text"] == "Good day."
    assert [tool["function"]["name"] for tool in upstream.requests[0].json["tools"]] == ["add"]
