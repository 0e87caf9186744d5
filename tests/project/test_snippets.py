"""Every fenced block of the pages works: it is loaded, compiled or run against a server."""

import ast
import importlib.util
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml

from gateway.config.settings import Settings, parse_settings
from tests.mcp_server import mcp_server
from tests.serving import Gateway, serving

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])

_FENCE = re.compile(r"^( *)```(\w+)\n(.*?)^\1```$", flags=re.MULTILINE | re.DOTALL)
_VARIABLES = re.compile(r"\$\{(\w+)\}|_env: *(\w+)")
_ADMIN_KEY = "key-of-an-administrator"
_TOOLS_URL = "https://mcp.example.com/mcp"
_ADDRESS = re.compile(r"http://(?:127\.0\.0\.1|localhost):8080")
_CURL = re.compile(r"^curl (?:[^'\n]|'[^']*')*", flags=re.MULTILINE)
"""A command up to the end of its line, which is not inside quotes."""
_SHELLS = {"bash", "sh", "console", "shell"}


class Snippet(NamedTuple):
    """One fenced block; `place` is `README.md:12`."""

    place: str
    language: str
    text: str


def snippets() -> Iterator[Snippet]:
    for page in PAGES:
        text = page.read_text()
        for found in _FENCE.finditer(text):
            line = text.count("\n", 0, found.start()) + 1
            block = re.sub(rf"^{found[1]}", "", found[3], flags=re.MULTILINE)
            yield Snippet(f"{page.relative_to(ROOT)}:{line}", found[2], block)


SNIPPETS = list(snippets())


def written_in(*languages: str) -> pytest.MarkDecorator:
    chosen = [snippet for snippet in SNIPPETS if snippet.language in languages]
    return pytest.mark.parametrize("snippet", chosen, ids=lambda snippet: snippet.place)


def programs_in(*languages: str) -> pytest.MarkDecorator:
    """Returns the programs that run here. Those of the README and of the tutorial run in test_readme.py, with the model
    that they name."""
    apart = ("README.md", "docs/tutorial.md")
    chosen = [each for each in SNIPPETS if each.language in languages and not each.place.startswith(apart)]
    return pytest.mark.parametrize("snippet", chosen, ids=lambda snippet: snippet.place)


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """A server that accepts every model name, has no keys, has a store, and may call tools of
    this machine."""
    models = {"demo": {"provider": "demo"}, "*": {"provider": "demo"}}
    tree = {"providers": {"demo": {"type": "scripted"}}, "models": models}
    store = {"url": f"sqlite+aiosqlite:///{tmp_path_factory.mktemp('store')}/state.db"}
    with serving({**tree, "store": store, "egress": {"allow": ["127.0.0.1"]}}) as running:
        yield running


@pytest.fixture(scope="module")
def administered(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """A server with a key for administrators, which may add MCP servers of this machine."""
    sections = {
        "auth": {"keys": [{"name": "ops", "key": _ADMIN_KEY, "admin": True}]},
        "sealing": {"keys": ["k" * 32]},
        "tools": {"mcp": {"admin": {"private_hosts": True}}},
        "store": {"url": f"sqlite+aiosqlite:///{tmp_path_factory.mktemp('store')}/state.db"},
    }
    with serving(sections) as running:
        yield running


@pytest.fixture(scope="module")
def tools() -> Iterator[str]:
    """The address of an MCP server, used for those that the pages name."""
    with mcp_server() as server:
        yield server.url


@written_in("yaml", "yml")
def test_yaml_is_read_and_configuration_is_valid(snippet: Snippet, monkeypatch: pytest.MonkeyPatch) -> None:
    # Libraries and files of embedded engines are the reader's.
    monkeypatch.setattr("providers.engine_checks.check_engine_config", lambda config: ())
    tree = yaml.safe_load(snippet.text)
    if isinstance(tree, dict) and tree.keys() <= Settings.model_fields.keys():
        names = {name for pair in _VARIABLES.findall(snippet.text) for name in pair if name}
        # A page may show models without repeating the providers they name.
        models = tree.get("models", {}).values()
        named = [row["provider"] for model in models for row in model.get("upstreams", [model]) if "provider" in row]
        providers = {name: {"type": "scripted"} for name in named} | tree.get("providers", {})
        parse_settings(
            {**tree, "providers": providers},
            environ={name: f"a value as long as keys are, of {name}" for name in names},
        )


@written_in("json")
def test_json_is_json(snippet: Snippet) -> None:
    json.loads(snippet.text)


@programs_in("python")
def test_python_runs_against_a_server(snippet: Snippet, gateway: Gateway, tools: str, tmp_path: Path) -> None:
    source = _ADDRESS.sub(gateway.url, snippet.text).replace(_TOOLS_URL, tools)
    if not all(_is_installed(*names) for names in _imports(ast.parse(source))):
        return  # a client that is no dependency of this project: it is only compiled
    script = tmp_path / "snippet.py"
    script.write_text(source)
    _run([sys.executable, str(script)], tmp_path)


@programs_in(*_SHELLS)
def test_shell_commands_are_well_formed_and_curls_succeed(
    snippet: Snippet, gateway: Gateway, tools: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    if "$ADMIN_KEY" in snippet.text:
        gateway = request.getfixturevalue("administered")
    script = re.sub(r"^\$ ", "", snippet.text, flags=re.MULTILINE)
    _run(["bash", "-n", "-c", script], tmp_path)
    for command in _CURL.findall(re.sub(r"\\\n\s*", " ", script)):
        call = _ADDRESS.sub(gateway.url, command.replace(_TOOLS_URL, tools)).replace(
            "curl ", "curl -sS --fail-with-body --max-time 30 ", 1
        )
        _run(["bash", "-euo", "pipefail", "-c", call], tmp_path)


@written_in(*_SHELLS)
def test_the_documented_make_targets_exist(snippet: Snippet) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))
    assert set(re.findall(r"^(?:\$ )?make ([a-z-]+)", snippet.text, flags=re.MULTILINE)) <= targets


def _imports(tree: ast.Module) -> set[tuple[str, str]]:
    """Returns what a program imports: packages, each with a name that is taken from it, or with an empty one."""
    nodes = list(ast.walk(tree))
    plain = {(alias.name, "") for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    return plain | {
        (node.module or "", alias.name) for node in nodes if isinstance(node, ast.ImportFrom) for alias in node.names
    }


def _is_installed(package: str, name: str) -> bool:
    """Whether a program can import this. Several distributions share a namespace package, such as `google`."""
    top = importlib.util.find_spec(package.partition(".")[0])
    if top is None or top.origin is not None:
        return top is not None
    inner = package if "." in package else f"{package}.{name}"
    return importlib.util.find_spec(inner) is not None


def _run(command: list[str], folder: Path) -> None:
    environ = {**os.environ, "ADMIN_KEY": _ADMIN_KEY, "GATEWAY_KEY": _ADMIN_KEY}
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60, env=environ)
    assert done.returncode == 0, done.stdout + done.stderr
