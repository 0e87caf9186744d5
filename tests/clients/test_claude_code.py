"""Claude Code, headless, over the Messages API and a strict chat upstream."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.clients.client_processes import InstalledClients
from tests.clients.conftest import Answer, serving_over
from tests.serving import Gateway
from tests.upstream import ScriptedUpstream, chat_calls, chat_chunk, chat_sse, chat_text, error_reply
from tests.upstream.builders import CHAT_USAGE

Json = dict[str, Any]


class ClaudeCode:
    """`claude -p` with a home and a folder to work in of its own."""

    def __init__(self, clients: InstalledClients, gateway: Gateway, folder: Path) -> None:
        self._clients = clients
        self._gateway = gateway
        self._home = folder / "home"
        self.folder = folder / "work"
        self._home.mkdir()
        self.folder.mkdir()

    async def do(self, prompt: str, *flags: str, model: str = "some-model") -> list[Json]:
        """Everything that happened, as the messages of `stream-json`; the last one is the result."""
        ran = await self._clients.run(
            str(self._clients.packages / "@anthropic-ai/claude-code-linux-x64/claude"),
            *("-p", prompt, "--output-format", "stream-json", "--verbose", *flags),
            cwd=self.folder,
            env={
                "HOME": str(self._home),
                "ANTHROPIC_BASE_URL": self._gateway.url,
                "ANTHROPIC_AUTH_TOKEN": "none",
                "ANTHROPIC_MODEL": model,
                "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            },
        )
        return [json.loads(line) for line in ran.out.splitlines()]


@pytest.fixture
def claude(clients: InstalledClients, gateway: Gateway, tmp_path: Path) -> ClaudeCode:
    return ClaudeCode(clients, gateway, tmp_path)


def blocks(events: list[Json], kind: str) -> list[Json]:
    """The blocks of this type in all messages."""
    contents = [event["message"]["content"] for event in events if event["type"] in ("assistant", "user")]
    return [block for content in contents for block in content if block["type"] == kind]


async def test_it_answers(claude: ClaudeCode, answer: Answer, upstream: ScriptedUpstream) -> None:
    answer(chat_text("Hello ", "there"))
    result = (await claude.do("Say hello"))[-1]
    assert (result["subtype"], result["result"], result["stop_reason"]) == ("success", "Hello there", "end_turn")
    assert result["usage"]["input_tokens"] == CHAT_USAGE["prompt_tokens"]
    body = upstream.requests[0].json
    # The last of them is an instruction that it sends after the prompt, for whatever model.
    assert [message["role"] for message in body["messages"]] == ["system", "user", "system"]
    assert "Bash" in [tool["function"]["name"] for tool in body["tools"]]


async def test_it_uses_a_tool(claude: ClaudeCode, answer: Answer, upstream: ScriptedUpstream) -> None:
    call = json.dumps({"command": "echo forty-$((1+1)) > note.txt && cat note.txt", "description": "Writes a note"})
    answer(chat_calls(("Bash", call)), chat_text("It says forty-2."))
    events = await claude.do("Write a note", "--allowedTools", "Bash")
    assert events[-1]["result"] == "It says forty-2."
    assert (claude.folder / "note.txt").read_text() == "forty-2\n"
    assert [block["content"] for block in blocks(events, "tool_result")] == ["forty-2"]
    called, result = upstream.requests[1].json["messages"][-2:]
    assert called["tool_calls"][0]["id"] == result["tool_call_id"]
    # Its accounting line is behind all that a prefix cache can use again.
    assert re.fullmatch(r"forty-2\n\n<system>\nx-anthropic-billing-header: .*\n</system>", result["content"])


async def test_it_uses_a_tool_over_the_responses_api(
    clients: InstalledClients, answer: Answer, upstream: ScriptedUpstream, tmp_path: Path
) -> None:
    answer(chat_calls(("Bash", json.dumps({"command": "echo hello"}))), chat_text("It says hello."))
    with serving_over("responses", upstream.url) as front:
        events = await ClaudeCode(clients, front, tmp_path).do("Say hello", "--allowedTools", "Bash")
    assert events[-1]["result"] == "It says hello."
    assert [block["content"] for block in blocks(events, "tool_result")] == ["hello"]


async def test_several_calls_are_one_turn(claude: ClaudeCode, answer: Answer, upstream: ScriptedUpstream) -> None:
    calls = [("Bash", json.dumps({"command": f"echo {word}"})) for word in ("one", "two")]
    answer(chat_calls(*calls), chat_text("Done."))
    events = await claude.do("Say both", "--allowedTools", "Bash")
    assert sorted(block["content"] for block in blocks(events, "tool_result")) == ["one", "two"]
    messages = upstream.requests[1].json["messages"]
    assert [message["role"] for message in messages[-3:]] == ["assistant", "tool", "tool"]
    assert len(messages[-3]["tool_calls"]) == 2


async def test_a_session_is_resumed(claude: ClaudeCode, answer: Answer, upstream: ScriptedUpstream) -> None:
    answer(chat_text("Hello Ada"), chat_text("Ada"))
    await claude.do("I am Ada")
    assert (await claude.do("Who am I?", "--continue"))[-1]["result"] == "Ada"
    contents = json.dumps(upstream.requests[-1].json["messages"])
    assert "I am Ada" in contents
    assert "Hello Ada" in contents


async def test_it_shows_what_the_model_thinks(claude: ClaudeCode, answer: Answer, upstream: ScriptedUpstream) -> None:
    chunks = [
        chat_chunk({"role": "assistant", "reasoning_content": "A greeting."}),
        chat_chunk({"content": "Hello"}),
        chat_chunk({}, "stop"),
        chat_chunk(usage=CHAT_USAGE),
    ]
    answer(chat_sse(chunks), chat_text("Again"))
    thoughts = blocks(await claude.do("Say hello"), "thinking")
    assert [thought["signature"][:3] for thought in thoughts] == ["rgr"]
    await claude.do("Once more", "--continue")
    past = [message for message in upstream.requests[-1].json["messages"] if message["role"] == "assistant"]
    assert past[0]["reasoning_content"] == "A greeting."


async def test_it_repeats_what_was_overloaded(claude: ClaudeCode, answer: Answer) -> None:
    answer(error_reply(503, "busy"), chat_text("Hello"))
    assert (await claude.do("Say hello"))[-1]["result"] == "Hello"


async def test_it_says_that_there_is_no_such_model(claude: ClaudeCode, answer: Answer) -> None:
    answer(error_reply(404, "no such model", code="model_not_found"))
    result = (await claude.do("Say hello"))[-1]
    assert result["is_error"] is True
    assert "model" in result["result"]


async def test_it_knows_a_prompt_that_is_too_long(claude: ClaudeCode, answer: Answer) -> None:
    answer(
        error_reply(400, "This model's maximum context length is 8192 tokens. However, your messages resulted in 9000.")
    )
    result = (await claude.do("Say hello"))[-1]
    assert result["is_error"] is True
    assert "too long" in result["result"].lower()
