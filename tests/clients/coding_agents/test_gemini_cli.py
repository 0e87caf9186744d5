"""Gemini CLI, headless, over Gemini's API and a strict chat upstream."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.clients.client_processes import PROGRAMS, EndedProcess, InstalledClients
from tests.clients.conftest import Answer, before
from tests.serving import Gateway, serving
from tests.upstream import ScriptedUpstream, chat_calls, chat_chunk, chat_sse, chat_text, error_reply
from tests.upstream.builders import CHAT_USAGE

Json = dict[str, Any]

SETTINGS: Json = {
    "security": {"auth": {"selectedType": "gemini-api-key"}},
    "general": {"enableAutoUpdate": False, "enableAutoUpdateNotification": False},
    "privacy": {"usageStatisticsEnabled": False},
    "telemetry": {"enabled": False},
}


# The tiny model repeats itself without end if it thinks about a context like that of this client.
CERTAIN: Json = {
    "temperature": 0,
    "maxOutputTokens": 300,
    "stopSequences": ["."],
    "thinkingConfig": {"thinkingBudget": 0},
}
SMALL: Json = {
    **SETTINGS,
    "context": {"includeDirectoryTree": False},
    "modelConfigs": {
        "customOverrides": [{"match": {"model": "tiny"}, "modelConfig": {"generateContentConfig": CERTAIN}}]
    },
    "tools": {"core": ["mcp_weather_get_weather"]},
}
"""For a model with little context that is to give the same answer each time. One tool is left, of an MCP server."""


class GeminiCli:
    """Runs `gemini -p` with a home and a working folder of its own."""

    def __init__(
        self, clients: InstalledClients, folder: Path, settings: Json = SETTINGS, system: str | None = None
    ) -> None:
        """`system` replaces its own system prompt."""
        self._clients = clients
        self.folder = folder / "work"
        self.folder.mkdir()
        configured = folder / "home/.gemini"
        configured.mkdir(parents=True)
        (configured / "settings.json").write_text(json.dumps(settings))
        # A relative path, because the model reads it: on each run it reads the same.
        self._env = {"HOME": "../home", "GEMINI_API_KEY": "none"}
        if system is not None:
            (configured / "system.md").write_text(system)
            self._env["GEMINI_SYSTEM_MD"] = str(configured / "system.md")

    async def run(self, gateway: Gateway, prompt: str, *flags: str, model: str = "some-model") -> EndedProcess:
        return await self._clients.run_command(
            "gemini",
            *("--skip-trust", "--model", model, "--output-format", "json", "--prompt", prompt, *flags),
            cwd=self.folder,
            env={**self._env, "GOOGLE_GEMINI_BASE_URL": gateway.url},
        )

    async def do(self, gateway: Gateway, prompt: str, *flags: str, model: str = "some-model") -> Json:
        """Returns the printed object, which has `response` and `stats`."""
        ran = await self.run(gateway, prompt, *flags, model=model)
        assert ran.code == 0, ran.err + ran.out
        printed: Json = json.loads(ran.out[ran.out.index("{") :])
        return printed


def config(upstream_url: str, **provider: Any) -> Json:
    """A gateway before an upstream that knows no `top_k`, which this client sends with every request."""
    tree = before(upstream_url, **{"type": "openai", "api_key": "k", "dialects": ["chat"], **provider})
    return {**tree, "models": {"*": {"provider": "upstream", "replay_reasoning": "reasoning_content"}}}


@pytest.fixture(params=["chat", "responses"])
def gateway(request: pytest.FixtureRequest, upstream: ScriptedUpstream) -> Iterator[Gateway]:
    """A gateway before the strict chat upstream: directly, or before a second gateway with the Responses API."""
    if request.param == "chat":
        with serving(config(upstream.url)) as running:
            yield running
        return
    with serving(config(upstream.url)) as back, serving(config(back.v1, dialects=["responses"])) as running:
        yield running


@pytest.fixture
def gemini(clients: InstalledClients, tmp_path: Path) -> GeminiCli:
    return GeminiCli(clients, tmp_path)


async def test_it_answers(gemini: GeminiCli, gateway: Gateway, answer: Answer, upstream: ScriptedUpstream) -> None:
    answer(chat_text("Hello ", "there"))
    printed = await gemini.do(gateway, "Say hello")
    assert printed["response"] == "Hello there"
    assert printed["stats"]["models"]["some-model"]["tokens"]["prompt"] == CHAT_USAGE["prompt_tokens"]
    body = upstream.requests[0].json
    assert body["messages"][0]["role"] == "developer"
    assert "read_file" in [tool["function"]["name"] for tool in body["tools"]]


async def test_tools_are_used_and_thoughts_are_sent_back(
    gemini: GeminiCli, gateway: Gateway, answer: Answer, upstream: ScriptedUpstream
) -> None:
    command = json.dumps({"command": "echo forty-2 > note.txt && cat note.txt"})
    thought = chat_chunk({"role": "assistant", "reasoning_content": "A note."})
    call = {
        "index": 0,
        "id": "call_1",
        "type": "function",
        "function": {"name": "run_shell_command", "arguments": command},
    }
    chunks = [thought, chat_chunk({"tool_calls": [call]}), chat_chunk({}, "tool_calls"), chat_chunk(usage=CHAT_USAGE)]
    answer(chat_sse(chunks), chat_text("It says forty-2."))
    printed = await gemini.do(gateway, "Write a note", "--yolo")
    assert printed["response"] == "It says forty-2."
    assert (gemini.folder / "note.txt").read_text() == "forty-2\n"
    called, result = upstream.requests[1].json["messages"][-2:]
    assert called["tool_calls"][0]["id"] == result["tool_call_id"] == "call_1"
    assert called["reasoning_content"] == "A note."
    assert "forty-2" in result["content"]


async def test_several_calls_are_one_turn(
    gemini: GeminiCli, gateway: Gateway, answer: Answer, upstream: ScriptedUpstream
) -> None:
    calls = [("run_shell_command", json.dumps({"command": f"echo {word}"})) for word in ("one", "two")]
    answer(chat_calls(*calls), chat_text("Done."))
    assert (await gemini.do(gateway, "Say both", "--yolo"))["response"] == "Done."
    messages = upstream.requests[1].json["messages"]
    assert [message["role"] for message in messages[-3:]] == ["assistant", "tool", "tool"]
    assert len(messages[-3]["tool_calls"]) == 2


async def test_a_session_with_a_tool_is_resumed(
    gemini: GeminiCli, gateway: Gateway, answer: Answer, upstream: ScriptedUpstream
) -> None:
    answer(
        chat_calls(("run_shell_command", json.dumps({"command": "echo hello"}))), chat_text("Done."), chat_text("Ada")
    )
    await gemini.do(gateway, "I am Ada", "--yolo")
    assert (await gemini.do(gateway, "Who am I?", "--resume", "latest"))["response"] == "Ada"
    messages = upstream.requests[-1].json["messages"]
    assert [message["role"] for message in messages[1:]] == ["user", "assistant", "tool", "assistant", "user"]
    assert messages[-2]["content"] == "Done."


async def test_an_overloaded_request_is_retried(gemini: GeminiCli, gateway: Gateway, answer: Answer) -> None:
    answer(error_reply(503, "busy"), chat_text("Hello"))
    assert (await gemini.do(gateway, "Say hello"))["response"] == "Hello"


async def test_a_refusal_is_displayed(gemini: GeminiCli, gateway: Gateway, answer: Answer) -> None:
    answer(error_reply(400, "no such thing"))
    ran = await gemini.run(gateway, "Say hello")
    assert ran.code != 0
    assert "no such thing" in ran.out + ran.err


async def test_a_real_model_answers_and_its_session_is_resumed(
    clients: InstalledClients, engine_gateway: Gateway, tmp_path: Path
) -> None:
    gemini = GeminiCli(clients, tmp_path, SMALL, "Be brief.")
    printed = await gemini.do(engine_gateway, "What is the capital of France?", model="tiny")
    assert printed["response"] == "The capital of France is Paris"
    tokens = printed["stats"]["models"]["tiny"]["tokens"]
    assert tokens["prompt"] > 0 < tokens["candidates"]
    again = await gemini.do(engine_gateway, "What is the capital of Italy?", "--resume", "latest", model="tiny")
    assert again["response"] == "The capital of Italy is Rome"


async def test_a_real_model_uses_a_tool(clients: InstalledClients, engine_gateway: Gateway, tmp_path: Path) -> None:
    server = {"command": str(clients.python), "args": [str(PROGRAMS / "mcp_servers/weather_mcp.py")], "trust": True}
    gemini = GeminiCli(clients, tmp_path, {**SMALL, "mcpServers": {"weather": server}}, "Be brief.")
    printed = await gemini.do(engine_gateway, "What is the weather in Paris?", "--yolo", model="tiny")
    assert printed["stats"]["tools"]["byName"]["mcp_weather_get_weather"]["success"] == 1
    assert printed["response"].startswith("The weather in Paris: ")
