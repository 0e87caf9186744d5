"""Real clients as processes: the programs in `programs/`, named below it, and the command-line clients themselves."""

import asyncio
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

PROGRAMS = Path(__file__).with_name("programs")
ROOT = Path(__file__).parents[2]
"""The folder of the gateway's own clients, for programs that import them."""
ANSWER_KEYS = {
    "frameworks/agents_sdk.py": "text",
    "frameworks/agents_sdk.mjs": "text",
    "frameworks/ai_sdk.mjs": "text",
    "frameworks/pydantic_ai_agent.py": "output",
}
"""Programs that run an agent with a tool, and the key of the agent's answer in what each prints."""
AGENT_APIS = [*product(ANSWER_KEYS, ("responses", "chat")), ("frameworks/pydantic_ai_agent.py", "messages")]
"""The programs with each API that they can use."""

_TIMEOUT_S = 90.0


@dataclass(frozen=True)
class EndedProcess:
    """A process that ended."""

    code: int
    out: str
    err: str


class InstalledClients:
    """The clients that `scripts/setup_clients` put into a folder.

    Node looks for packages beside the program that wants them, so `scratch` gets links to both.
    """

    def __init__(self, folder: Path, scratch: Path) -> None:
        self.python = folder / "venv/bin/python"
        self.packages = folder / "node_modules"
        self._bin = self.packages / ".bin"
        self._scratch = scratch
        (scratch / "node_modules").symlink_to(self.packages)
        (scratch / "programs").symlink_to(PROGRAMS)

    async def run_file(self, program: Path) -> EndedProcess:
        """Runs a Python or Node program in a folder of its own."""
        if program.suffix == ".py":
            return await self.run(str(self.python), str(program), env={"PYTHONPATH": str(ROOT)})
        (program.parent / "node_modules").symlink_to(self.packages)
        return await self.run(str(self._bin / "node"), str(program), env={})

    async def run_program(self, name: str, case: str, **env: str) -> Any:
        """Runs one case of a program, and returns its last line of output, parsed. Fails with the output."""
        if name.endswith(".py"):
            command = [str(self.python), str(PROGRAMS / name)]
        else:
            links = ["--preserve-symlinks", "--preserve-symlinks-main"]
            command = [str(self._bin / "node"), *links, str(self._scratch / "programs" / name)]
        ran = await self.run(*command, case, env=env)
        assert ran.code == 0, ran.err[-4000:] or ran.out[-4000:]
        return json.loads(ran.out.splitlines()[-1])

    def program(self, name: str, **env: str) -> "ClientProgram":
        """Returns a program whose cases run with these variables in the environment."""
        return ClientProgram(self, name, env)

    async def run_command(
        self, name: str, *arguments: str, cwd: Path, env: Mapping[str, str], stdin: str = ""
    ) -> EndedProcess:
        """Runs a command that npm installed, in a folder, with `stdin` as its standard input."""
        return await self.run(str(self._bin / "node"), str(self._bin / name), *arguments, cwd=cwd, env=env, stdin=stdin)

    async def run(
        self,
        *command: str,
        env: Mapping[str, str],
        cwd: Path = PROGRAMS,
        stdin: str = "",
        timeout_s: float = _TIMEOUT_S,
    ) -> EndedProcess:
        process = await asyncio.create_subprocess_exec(
            *command,
            cwd=cwd,
            env=_quiet({**os.environ, **env, "PATH": f"{self._bin}:{os.environ['PATH']}"}),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            async with asyncio.timeout(timeout_s):
                out, err = await process.communicate(stdin.encode())
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        return EndedProcess(process.returncode or 0, out.decode(), err.decode())


@dataclass(frozen=True)
class ClientProgram:
    """A program in `programs/`, and the environment of all its cases."""

    _clients: InstalledClients
    _name: str
    env: Mapping[str, str]

    async def do(self, case: str, model: str = "some-model") -> Any:
        """Runs a case, and returns its output."""
        return await self._clients.run_program(self._name, case, **self.env, MODEL=model)


def _quiet(environment: dict[str, str]) -> dict[str, str]:
    """Returns an environment without proxies, telemetry and real keys."""
    kept = {name: value for name, value in environment.items() if not name.lower().endswith("_proxy")}
    return {
        **kept,
        "OPENAI_API_KEY": "none",
        "OPENAI_AGENTS_DISABLE_TRACING": "1",
        "DO_NOT_TRACK": "1",
        "LANGSMITH_TRACING": "false",
    }
