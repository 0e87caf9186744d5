"""What docs/clients.md tells the users of each client to write runs in that client's own environment."""

import re
from pathlib import Path

import pytest

from tests.clients.running import Installed
from tests.project.test_snippets import SNIPPETS, Snippet
from tests.serving import Gateway

ADDRESS = "http://127.0.0.1:8080"
SUFFIXES = {"python": ".py", "js": ".mjs", "ts": ".mts"}
PROGRAMS = [
    snippet for snippet in SNIPPETS if snippet.place.startswith("docs/clients.md:") and snippet.language in SUFFIXES
]


@pytest.mark.parametrize("snippet", PROGRAMS, ids=lambda snippet: snippet.place)
async def test_the_program_of_a_page_says_something(
    snippet: Snippet, clients: Installed, gateway: Gateway, tmp_path: Path
) -> None:
    assert ADDRESS in snippet.text
    program = tmp_path / f"program{SUFFIXES[snippet.language]}"
    program.write_text(snippet.text.replace(ADDRESS, gateway.url))
    ran = await clients.run_file(program)
    assert ran.code == 0, ran.out + ran.err
    assert re.search(r"\w", ran.out)
