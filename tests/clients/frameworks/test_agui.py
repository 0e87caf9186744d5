"""AG-UI: both generations of its client, and a CopilotKit runtime before the gateway."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.clients.client_processes import InstalledClients
from tests.clients.conftest import Answer
from tests.mcp_server import CountingServer
from tests.serving import Gateway, serving
from tests.upstream import ScriptedUpstream, chat_calls, chat_chunk, chat_sse, chat_text
from tests.upstream.builders import data_frame, sse_reply

ADD = chat_calls(("calc_add", '{"a":2,"b":3}'))
NEW = {"type": "success"}


@pytest.fixture
def agui_gateway(upstream: ScriptedUpstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    config = {
        "store": {"url": f"sqlite+aiosqlite:///{tmp_path_factory.mktemp('agui')}/state.db"},
        "egress": {"allow": ["127.0.0.1"]},
        "providers": {"up": {"type": "openai_compatible", "base_url": upstream.url, "retries": 0}},
        "models": {"m": {"provider": "up"}},
    }
    with serving(config) as running:
        yield running


class Client:
    def __init__(self, name: str, clients: InstalledClients, gateway: Gateway, calc: CountingServer) -> None:
        self.name = name
        self._clients = clients
        self._gateway = gateway
        self.calc = calc

    async def do(self, case: str) -> Any:
        environment = {"AGENT_URL": f"{self._gateway.v1}/agui/m", "CLIENT": self.name, "TOOLS_URL": self.calc.url}
        return await self._clients.run_program(
            "frameworks/agui.mjs", case, COPILOTKIT_TELEMETRY_DISABLED="true", **environment
        )

    @property
    def is_versioned(self) -> bool:
        return self.name == "1"


@pytest.fixture(params=["1", "0", "copilotkit"])
def client(
    request: pytest.FixtureRequest, clients: InstalledClients, agui_gateway: Gateway, calc: CountingServer
) -> Client:
    return Client(request.param, clients, agui_gateway, calc)


def texts(got: Any) -> list[tuple[str, str]]:
    return [(message["role"], message["content"]) for message in got["messages"] if message.get("content")]


async def test_a_thread_continues(client: Client, answer: Answer, upstream: ScriptedUpstream) -> None:
    answer(chat_text("Hi", " Ada."), chat_text("You are Ada."))
    got = await client.do("text")
    expected = [("user", "I am Ada."), ("assistant", "Hi Ada."), ("user", "Who am I?"), ("assistant", "You are Ada.")]
    assert texts(got) == expected
    sent = [(message["role"], message["content"]) for message in upstream.requests[-1].json["messages"]]
    assert sent == expected[:3]
    assert got.get("outcome") == (NEW if client.is_versioned else None)


async def test_reasoning_is_stored_by_the_client(client: Client, upstream: ScriptedUpstream) -> None:
    thought = [chat_chunk({"reasoning": "Hm."}), chat_chunk({"content": "Hi"}), chat_chunk({}, "stop")]
    upstream.on("/chat/completions", chat_sse(thought))
    got = await client.do("text")
    assert [message["role"] for message in got["messages"]][:3] == ["user", "reasoning", "assistant"]
    assert got["messages"][1]["content"] == "Hm."


async def test_a_frontend_tool_is_run_by_the_client(client: Client, answer: Answer) -> None:
    answer(chat_calls(("get_weather", '{"city":"Paris"}')), chat_text("It is sunny."))
    got = await client.do("frontend_tool")
    assert texts(got)[-1] == ("assistant", "It is sunny.")
    assert got["messages"][1]["calls"] == [["get_weather", '{"city":"Paris"}']]
    assert (got.get("first") or {}).get("pendingToolCallIds", []) == (["call_0"] if client.is_versioned else [])


async def test_a_hosted_tool_is_a_call_with_its_result(client: Client, answer: Answer) -> None:
    answer(ADD, chat_text("It is 5."))
    got = await client.do("hosted_tool")
    assert ("tool", "5") in texts(got)
    assert texts(got)[-1] == ("assistant", "It is 5.")
    assert client.calc.runs["add"] == 1


async def test_an_approved_call_is_run_once_and_the_thread_continues(client: Client, answer: Answer) -> None:
    answer(ADD, chat_text("It is 5."), chat_text("Yes."))
    got = await client.do("approval")
    assert got["asked"] == 1
    # The client puts the result beside its call, before the activities of the run.
    assert ("tool", "5") in texts(got)
    assert texts(got)[-3:] == [("assistant", "It is 5."), ("user", "Sure?"), ("assistant", "Yes.")]
    assert client.calc.runs["add"] == 1


async def test_a_form_of_a_tool_is_answered_and_its_call_continues(client: Client, answer: Answer) -> None:
    answer(chat_calls(("calc_book", '{"city":"Rome"}')), chat_text("Booked."), chat_text("Yes."))
    got = await client.do("input")
    assert got["first"]["responseSchema"]["required"] == ["people"]
    assert (got["second"]["id"], got["second"]["reason"]) == (got["first"]["id"], "input_required")
    assert "does not fit" in got["second"]["metadata"]["problem"]
    assert ("tool", "A table for 4 in Rome.") in texts(got)
    assert texts(got)[-3:] == [("assistant", "Booked."), ("user", "Sure?"), ("assistant", "Yes.")]
    assert [message["calls"] for message in got["messages"] if message.get("calls")] == [
        [["calc_book", '{"city":"Rome"}']]
    ]
    assert client.calc.runs["book"] == 1


async def test_an_interrupt_loses_no_message_and_the_thread_keeps_the_state(client: Client, answer: Answer) -> None:
    call = {
        "index": 0,
        "id": "call_0",
        "type": "function",
        "function": {"name": "calc_add", "arguments": '{"a":2,"b":3}'},
    }
    pieces: list[dict[str, Any]] = [{"reasoning": "Hm."}, {"content": "I add."}, {"tool_calls": [call]}]
    chunks = [*map(chat_chunk, pieces), chat_chunk({}, "tool_calls")]
    answer(chat_sse(chunks), chat_text("Then not."))
    got = await client.do("interrupted")
    roles = [role for _, role, *_ in got["after"]]
    assert [role for role in roles if role != "activity"] == ["user", "reasoning", "assistant"]
    if client.is_versioned:
        assert got["before"] == got["after"]
    assert "MESSAGES_SNAPSHOT" in got["types"] or not client.is_versioned
    assert got["state"] == {"page": 3}
    assert texts(got)[-1] == ("assistant", "Then not.")


async def test_a_denied_call_is_not_run(client: Client, answer: Answer) -> None:
    answer(ADD, chat_text("Then not."))
    got = await client.do("denial")
    assert texts(got)[-1] == ("assistant", "Then not.")
    assert client.calc.runs["add"] == 0


async def test_a_failure_ends_the_run_and_the_next_one_works(client: Client, upstream: ScriptedUpstream) -> None:
    broken = [data_frame(chat_chunk({"content": "He"})), data_frame({"error": {"message": "broken", "code": "x"}})]
    upstream.on("/chat/completions", sse_reply(*broken), chat_text("Hello."))
    got = await client.do("failure")
    assert "RUN_ERROR" in got["first"]
    assert got["again"] is None
    assert texts(got)[-1] == ("assistant", "Hello.")
