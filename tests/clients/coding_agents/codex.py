"""Runs Codex CLI headless, and reads the events that it prints."""

import json
from pathlib import Path
from typing import Any

from tests.clients.client_processes import PROGRAMS, InstalledClients

Json = dict[str, Any]

CONFIG = """
model_provider = "gateway"
check_for_update_on_startup = false

[model_providers.gateway]
name = "gateway"
base_url = "{v1}"
env_key = "OPENAI_API_KEY"
wire_api = "responses"
request_max_retries = 0
stream_max_retries = 0

[mcp_servers.adder]
command = "{python}"
args = ["{server}"]
required = true
"""


class Codex:
    """Runs `codex exec` with a home and a working folder of its own."""

    def __init__(self, clients: InstalledClients, v1: str, folder: Path) -> None:
        self._clients = clients
        self._home = folder / "home"
        self.folder = folder / "work"
        self._home.mkdir()
        self.folder.mkdir()
        server = PROGRAMS / "mcp_servers/adder_mcp.py"
        (self._home / "config.toml").write_text(
            CONFIG.format(v1=v1, python=clients.python, server=server),
        )

    async def do(self, *prompt: str, model: str = "some-model", fails: bool = False) -> list[Json]:
        """Returns the events of `--json`. `prompt` may be followed by more arguments of the command."""
        ran = await self._clients.run_command(
            "codex",
            "exec",
            *("--json", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox"),
            *("--model", model, *prompt),
            cwd=self.folder,
            env={"CODEX_HOME": str(self._home), "CODEX_API_KEY": "none"},
        )
        assert (ran.code != 0) == fails, ran.out + ran.err
        return [json.loads(line) for line in ran.out.splitlines()]


def items(events: list[Json], kind: str) -> list[Json]:
    return [e["item"] for e in events if e["type"] == "item.completed" and e["item"]["type"] == kind]


def message_texts(events: list[Json]) -> list[str]:
    return [item["text"] for item in items(events, "agent_message")]
