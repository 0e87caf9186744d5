"""Claude Code, headless: before a strict chat upstream, before one with the Responses API, and a real engine."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.clients.client_processes import PROGRAMS, InstalledClients
from tests.clients.conftest import Answer
from tests.serving import Gateway
from tests.upstream import ScriptedUpstream, chat_calls, chat_chunk, chat_sse, chat_text, error_reply
from tests.upstream.builders import CHAT_USAGE, text_chunks

Json = dict[str, Any]

SMALL = ("--bare", "--system-prompt", "Be brief.", "--tools", "")
"""Flags for a model with little context: without them there are some 23,000 tokens of instructions and tools."""

SMALL_ENV = {"CLAUDE_CODE_ATTRIBUTION_HEADER": "0", "CLAUDE_CODE_MAX_OUTPUT_TOKENS": "300"}
"""The first leaves out the line about billing, which the tiny model takes for a part of the question."""


class ClaudeCode:
    """Runs `claude -p` with a home and a working folder of its own."""

    def __init__(
        self, clients: InstalledClients, gateway: Gateway, folder: Path, env: Mapping[str, str] | None = None
    ) -> None:
        self._clients = clients
        self._gateway = gateway
        self._env = env or {}
        self._home = folder / "home"
        self.folder = folder / "work"
        self._home.mkdir()
        self.folder.mkdir()

    async def do(self, prompt: str, *flags: str, model: str = "some-model") -> list[Json]:
        """Returns the messages of `stream-json`. The last one is the result."""
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
                **self._env,
            },
        )
        return [json.loads(line) for line in ran.out.splitlines()]


@pytest.fixture
def claude(clients: InstalledClients, front: Gateway, tmp_path: Path) -> ClaudeCode:
    return ClaudeCode(clients, front, tmp_path)


@pytest.fixture
def small_claude(clients: InstalledClients, engine_gateway: Gateway, tmp_path: Path) -> ClaudeCode:
    """Claude Code before a real engine with a context of 4,096 tokens."""
    return ClaudeCode(clients, engine_gateway, tmp_path, SMALL_ENV)


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
    assert result["content"] == "forty-2"
    assert b"x-anthropic-billing-header" not in upstream.requests[1].content  # which small models would answer


async def test_several_calls_are_one_turn(claude: ClaudeCode, answer: Answer, upstream: ScriptedUpstream) -> None:
    calls = [("Bash", json.dumps({"command": f"echo {word}"})) for word in ("one", "two")]
    answer(chat_calls(*calls), chat_text("Done."))
    events = await claude.do("Say both", "--allowedTools", "Bash")
    assert sorted(block["content"] for block in blocks(events, "tool_result")) == ["one", "two"]
    messages = upstream.requests[1].json["messages"]
    assert [message["role"] for message in messages[-3:]] == ["assistant", "tool", "tool"]
    assert len(messages[-3]["tool_calls"]) == 2


async def test_text_is_displayed_as_it_arrives(claude: ClaudeCode, answer: Answer) -> None:
    answer(chat_text("Hello ", "there"))
    events = await claude.do("Say hello", "--include-partial-messages")
    deltas = [
        event["event"]["delta"] for event in events if event.get("event", {}).get("type") == "content_block_delta"
    ]
    assert [delta["text"] for delta in deltas] == ["Hello ", "there"]


async def test_a_session_is_resumed(claude: ClaudeCode, answer: Answer, upstream: ScriptedUpstream) -> None:
    answer(chat_text("Hello Ada"), chat_text("Ada"))
    await claude.do("I am Ada")
    assert (await claude.do("Who am I?", "--continue"))[-1]["result"] == "Ada"
    contents = json.dumps(upstream.requests[-1].json["messages"])
    assert "I am Ada" in contents
    assert "Hello Ada" in contents


async def test_thinking_is_displayed(claude: ClaudeCode, answer: Answer, upstream: ScriptedUpstream) -> None:
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


async def test_an_overloaded_request_is_retried(claude: ClaudeCode, answer: Answer) -> None:
    answer(error_reply(503, "busy"), chat_text("Hello"))
    assert (await claude.do("Say hello"))[-1]["result"] == "Hello"


async def test_an_unknown_model_is_reported(claude: ClaudeCode, answer: Answer) -> None:
    answer(error_reply(404, "no such model", code="model_not_found"))
    result = (await claude.do("Say hello"))[-1]
    assert result["is_error"] is True
    assert "model" in result["result"]


async def test_a_prompt_that_is_too_long_is_recognized(claude: ClaudeCode, answer: Answer) -> None:
    answer(
        error_reply(400, "This model's maximum context length is 8192 tokens. However, your messages resulted in 9000.")
    )
    result = (await claude.do("Say hello"))[-1]
    assert result["is_error"] is True
    assert "too long" in result["result"].lower()


async def test_it_requests_a_stream_that_broke_off_again(
    claude: ClaudeCode, answer: Answer, upstream: ScriptedUpstream
) -> None:
    answer(chat_sse([*text_chunks("Hel")][:2], done=False), chat_text("Hello"))
    assert (await claude.do("Say hello"))[-1]["result"] == "Hello"
    assert [request.streams for request in upstream.requests] == [True, False]


async def test_a_real_model_answers_and_its_session_is_resumed(small_claude: ClaudeCode) -> None:
    first = await small_claude.do("My name is Ada.", *SMALL, model="tiny")
    assert first[-1]["result"] == "Nice to meet you, Ada."
    assert first[-1]["usage"]["output_tokens"] > 0
    assert blocks(first, "thinking")
    second = await small_claude.do("What is my name?", "--continue", *SMALL, model="tiny")
    assert (second[-1]["result"], second[-1]["num_turns"]) == ("Your name is Ada.", 1)


async def test_a_real_model_uses_a_tool(small_claude: ClaudeCode, clients: InstalledClients) -> None:
    server = {"command": str(clients.python), "args": [str(PROGRAMS / "mcp_servers/weather_mcp.py")]}
    tools = ("--mcp-config", json.dumps({"mcpServers": {"weather": server}}))
    allowed = ("--allowedTools", "mcp__weather__get_weather")
    events = await small_claude.do("What is the weather in Paris?", *SMALL, *tools, *allowed, model="tiny")
    assert [call["input"] for call in blocks(events, "tool_use")] == [{"city": "Paris"}]
    assert events[-1]["result"].startswith("The weather in Paris: rainy, 10 C")


async def test_a_prompt_too_long_for_a_real_engine_is_recognized(small_claude: ClaudeCode) -> None:
    result = (await small_claude.do("Say hello", model="tiny"))[-1]
    assert result["is_error"] is True
    assert re.match(r"Prompt is too long · the request is ~\d+ tokens", result["result"])
