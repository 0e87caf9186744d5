"""opencode, headless, with the AI SDK packages it brings along."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.clients.client_processes import InstalledClients
from tests.clients.conftest import Answer
from tests.serving import Gateway
from tests.upstream import Exchange, Script, ScriptedUpstream, chat_calls, chat_chunk, chat_sse, chat_text
from tests.upstream.builders import CHAT_USAGE

Json = dict[str, Any]

PACKAGES = {"responses": "@ai-sdk/openai", "chat": "@ai-sdk/openai-compatible"}


ECHO = {"command": "echo forty-$((1+1))", "description": "Says forty-2"}


class Opencode:
    """Runs `opencode run` with a home and a working folder of its own."""

    def __init__(
        self, clients: InstalledClients, gateway: Gateway, package: str, folder: Path, options: Json | None = None
    ) -> None:
        """`options` are those of a reasoning model, for the package."""
        self.package = package
        self._clients = clients
        self._home = folder / "home"
        self.folder = folder / "work"
        self._home.mkdir()
        self.folder.mkdir()
        model: Json = {"name": "model", "tool_call": True, "limit": {"context": 32_000, "output": 4_000}}
        if options is not None:
            model |= {"reasoning": True, "options": options}
        provider = {
            "npm": package,
            "name": "gateway",
            "options": {"baseURL": gateway.v1, "apiKey": "none"},
            "models": {"demo": model, "some-model": model},
        }
        settings = {"autoupdate": False, "share": "disabled", "provider": {"gateway": provider}}
        (self.folder / "opencode.json").write_text(json.dumps(settings))

    async def do(self, prompt: str, *flags: str, model: str = "some-model") -> list[Json]:
        """Returns the parts of the printed events."""
        binary = self._clients.packages / "opencode-linux-x64/bin/opencode"
        ran = await self._clients.run(
            *(
                str(binary),
                "run",
                "--format",
                "json",
                "--auto",
                "--dir",
                str(self.folder),
                "--model",
                f"gateway/{model}",
                *flags,
            ),
            cwd=self.folder,
            env={
                "HOME": str(self._home),
                "XDG_DATA_HOME": str(self._home / "data"),
                "XDG_CACHE_HOME": str(self._home / "cache"),
                "XDG_CONFIG_HOME": str(self._home / "config"),
                "XDG_STATE_HOME": str(self._home / "state"),
                "OPENCODE_DISABLE_MODELS_FETCH": "1",
                "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
            },
            stdin=prompt,
        )
        assert ran.code == 0, ran.out + ran.err
        return [json.loads(line)["part"] for line in ran.out.splitlines()]


@pytest.fixture(params=PACKAGES)
def opencode(request: pytest.FixtureRequest, clients: InstalledClients, gateway: Gateway, tmp_path: Path) -> Opencode:
    return Opencode(clients, gateway, PACKAGES[request.param], tmp_path)


def titled(call: Script, text: Script) -> Script:
    """Answers requests for a title, which opencode sends without tools beside the conversation."""

    async def play(exchange: Exchange) -> None:
        body = exchange.request.json
        called = body["messages"][-1]["role"] == "tool"
        await (chat_text("A title") if not body.get("tools") else text if called else call)(exchange)

    return play


async def test_text_is_displayed(opencode: Opencode, answer: Answer) -> None:
    answer(titled(chat_text("Good ", "day."), chat_text("never")))
    parts = await opencode.do("Say good day.")
    assert [part["text"] for part in parts if part["type"] == "text"] == ["Good day."]
    assert parts[-1]["tokens"]["output"] == 3


async def test_a_command_runs_and_its_output_is_sent_back(
    opencode: Opencode, answer: Answer, upstream: ScriptedUpstream
) -> None:
    answer(titled(chat_calls(("bash", json.dumps(ECHO))), chat_text("It says forty-2.")))
    parts = await opencode.do("Run it.")
    (call,) = [part for part in parts if part["type"] == "tool"]
    assert (call["state"]["status"], call["state"]["output"]) == ("completed", "forty-2\n")
    assert [part["text"] for part in parts if part["type"] == "text"] == ["It says forty-2."]
    outputs = [message for request in upstream.requests for message in request.json["messages"]]
    assert "forty-2\n" in [message["content"] for message in outputs if message["role"] == "tool"]


async def test_thinking_before_a_call_is_understood(
    opencode: Opencode, answer: Answer, upstream: ScriptedUpstream
) -> None:
    function = {"name": "bash", "arguments": json.dumps(ECHO)}
    thinks = [
        chat_chunk({"role": "assistant", "reasoning_content": "They want a command."}),
        chat_chunk({"tool_calls": [{"index": 0, "id": "call_1", "function": function}]}),
        chat_chunk({}, "tool_calls"),
        chat_chunk(usage=CHAT_USAGE),
    ]
    answer(titled(chat_sse(thinks), chat_text("It says forty-2.")))
    parts = await opencode.do("Run it.")
    assert [part["text"] for part in parts if part["type"] == "text"] == ["It says forty-2."]
    messages = [message for request in upstream.requests for message in request.json["messages"]]
    thoughts = {message.get("reasoning_content") for message in messages if message.get("tool_calls")}
    # Over Responses its OpenAI package sends back only encrypted reasoning.
    assert thoughts == ({"They want a command."} if opencode.package == PACKAGES["chat"] else {None})


async def test_calls_of_the_demo_model_run(opencode: Opencode) -> None:
    parts = await opencode.do("Use bash.", model="demo")
    assert parts[1]["type"] == "tool"
    assert "returned: " in parts[-2]["text"]
