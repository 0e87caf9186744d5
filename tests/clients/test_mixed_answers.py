"""Replies with text and two calls, whose arguments arrive interleaved."""

from typing import Any

import pytest

from tests.clients.client_processes import InstalledClients
from tests.clients.coding_agents.codex import Codex, message_texts
from tests.clients.conftest import Answer
from tests.serving import Gateway
from tests.upstream import Reply, ScriptedUpstream, chat_chunk, chat_sse, chat_text
from tests.upstream.builders import CHAT_USAGE

# pydantic-ai's streams end with the first text, by its own definition.
PROGRAMS = ["frameworks/agents_sdk.py", "frameworks/agents_sdk.mjs", "frameworks/ai_sdk.mjs"]


def mixed(name: str, *arguments: str) -> Reply:
    """Text, then calls of one function, each with half of its arguments in turn."""

    def fragments(part: slice) -> list[dict[str, Any]]:
        return [
            chat_chunk({"tool_calls": [{"index": index, "function": {"arguments": each[part]}}]})
            for index, each in enumerate(arguments)
        ]

    openings = [
        {"index": index, "id": f"call_{index}", "type": "function", "function": {"name": name}}
        for index in range(len(arguments))
    ]
    return chat_sse(
        [
            chat_chunk({"role": "assistant", "content": "Let me "}),
            chat_chunk({"content": "see."}),
            *(chat_chunk({"tool_calls": [opening]}) for opening in openings),
            *fragments(slice(8)),
            *fragments(slice(8, None)),
            chat_chunk({}, "tool_calls"),
            chat_chunk(usage=CHAT_USAGE),
        ]
    )


def check_history(upstream: ScriptedUpstream) -> None:
    """The text and both calls are one message, followed by both results."""
    *_, told, first, second = upstream.requests[1].json["messages"]
    assert told["content"] in ("Let me see.", [{"type": "text", "text": "Let me see."}])
    assert [call["id"] for call in told["tool_calls"]] == ["call_0", "call_1"]
    assert (first["tool_call_id"], second["tool_call_id"]) == ("call_0", "call_1")


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("api", ["responses", "chat"])
async def test_text_and_two_calls_are_understood_and_sent_back(
    program: str, api: str, clients: InstalledClients, gateway: Gateway, answer: Answer, upstream: ScriptedUpstream
) -> None:
    answer(mixed("add", '{"a":2,"b":40}', '{"a":1,"b":1}'), chat_text("42 and 2."))
    got = await clients.run_program(program, "tools_streamed", BASE_URL=gateway.v1, MODEL="some-model", API=api)
    assert got["text"] == "42 and 2."
    check_history(upstream)


@pytest.mark.parametrize("program", ["sdks/messages.mjs", "sdks/messages_tools.py"])
async def test_text_and_two_calls_are_blocks_of_one_message(
    program: str, clients: InstalledClients, front: Gateway, answer: Answer
) -> None:
    answer(mixed("add", '{"a":2,"b":40}', '{"a":1,"b":1}'))
    environ = {"BASE_URL": front.url, "MODEL": "some-model", "PROMPT": "Add."}
    got = await clients.run_program(program, "mixed", **environ)
    text, *calls = got.get("content") or got["text"]
    assert text == {"type": "text", "text": "Let me see."}
    assert [(call["name"], call["input"]) for call in calls] == [("add", {"a": 2, "b": 40}), ("add", {"a": 1, "b": 1})]


async def test_text_and_two_commands_are_understood_by_codex(
    codex: Codex, answer: Answer, upstream: ScriptedUpstream
) -> None:
    answer(mixed("exec_command", '{"cmd":"echo one"}', '{"cmd":"echo two"}'), chat_text("One and two."))
    assert message_texts(await codex.do("Run them.")) == ["Let me see.", "One and two."]
    check_history(upstream)
