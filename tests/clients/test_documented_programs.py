"""The programs in the pages about clients run in the environment of that client."""

import json
import re
import tomllib
from pathlib import Path

import pytest

from tests.clients.client_processes import InstalledClients
from tests.clients.coding_agents.codex import message_texts
from tests.clients.conftest import Answer
from tests.project.test_snippets import SNIPPETS, Snippet
from tests.serving import Gateway
from tests.upstream import ScriptedUpstream, chat_calls, chat_text

ADDRESS = "http://127.0.0.1:8080"
SUFFIXES = {"python": ".py", "js": ".mjs", "ts": ".mts"}
PROGRAMS = [
    snippet
    for snippet in SNIPPETS
    if snippet.place.startswith(("docs/clients.md:", "docs/agui.md:")) and snippet.language in SUFFIXES
]


@pytest.mark.parametrize("snippet", PROGRAMS, ids=lambda snippet: snippet.place)
async def test_the_program_of_a_page_prints_an_answer(
    snippet: Snippet, clients: InstalledClients, gateway: Gateway, tmp_path: Path
) -> None:
    assert ADDRESS in snippet.text
    program = tmp_path / f"program{SUFFIXES[snippet.language]}"
    program.write_text(snippet.text.replace(ADDRESS, gateway.url))
    ran = await clients.run_file(program)
    assert ran.code == 0, ran.out + ran.err
    assert re.search(r"\w", ran.out)


CODEX = [snippet for snippet in SNIPPETS if snippet.language == "toml" and 'wire_api = "responses"' in snippet.text]


@pytest.mark.parametrize("snippet", CODEX, ids=lambda snippet: snippet.place)
async def test_codex_works_with_the_settings_of_a_page(
    snippet: Snippet,
    clients: InstalledClients,
    gateway: Gateway,
    answer: Answer,
    upstream: ScriptedUpstream,
    tmp_path: Path,
) -> None:
    answer(chat_calls(("exec_command", '{"cmd":"echo forty-$((1+1))"}')), chat_text("It says forty-2."))
    model = tomllib.loads(snippet.text)["model"]
    home, work = tmp_path / "home", tmp_path / "work"
    home.mkdir()
    work.mkdir()
    (home / "config.toml").write_text(snippet.text.replace(ADDRESS, gateway.url))
    ran = await clients.run_command(
        "codex",
        "exec",
        *("--json", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", "Run it."),
        cwd=work,
        env={"CODEX_HOME": str(home), "GATEWAY_KEY": "none", "CODEX_API_KEY": "none"},
    )
    assert ran.code == 0, ran.out + ran.err
    events = [json.loads(line) for line in ran.out.splitlines()]
    assert message_texts(events) == ["It says forty-2."]
    assert {request.json["model"] for request in upstream.requests} == {model}
