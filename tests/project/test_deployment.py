"""The statements of docs/clients.md and docs/operations.md about versions, nginx, systemd and containers are true."""

import asyncio
import json
import os
import re
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
import yaml
from packaging.requirements import Requirement
from websockets.sync.client import connect

from bench.servers.processes import find_free_port
from tests.project.test_snippets import ROOT, SNIPPETS
from tests.serving import Gateway, serving
from tests.upstream import Hang, ScriptedUpstream, chat_chunk
from tests.upstream.builders import data_frame, sse_reply

NGINX = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
CLIENTS = (ROOT / "docs/clients.md").read_text()
OPERATIONS = (ROOT / "docs/operations.md").read_text()
PACKAGES = {
    "openai, Python": "openai",
    "openai, Node": "openai",
    "Codex": "@openai/codex",
    "OpenAI Agents SDK, Python": "openai-agents",
    "OpenAI Agents SDK, JavaScript": "@openai/agents",
    "LangChain (`langchain-openai`)": "langchain-openai",
    "LangChain (`langchain-anthropic`)": "langchain-anthropic",
    "pydantic-ai": "pydantic-ai-slim",
    "opencode": "opencode-linux-x64",
    "AG-UI (`@ag-ui/client`)": "@ag-ui/client",
    "AG-UI of the first generation (`@ag-ui/client`)": "@ag-ui/client-0",
    "CopilotKit (`@copilotkit/runtime`)": "@copilotkit/runtime",
    "Claude Code": "@anthropic-ai/claude-code-linux-x64",
    "Anthropic's SDK (`@anthropic-ai/sdk`)": "@anthropic-ai/sdk",
    "AI SDK with `@ai-sdk/anthropic`": "@ai-sdk/anthropic",
    "Gemini CLI (`@google/gemini-cli`)": "@google/gemini-cli",
    "Google's SDK (`google-genai`)": "google-genai",
    "Ollama's client (`ollama`, Python)": "ollama",
}
"""Client on the page -> its package in the locks of tests/clients."""


def block_of(language: str, page: str = "docs/operations.md") -> str:
    [block] = [each.text for each in SNIPPETS if each.language == language and each.place.startswith(page)]
    return block


def test_the_page_names_the_versions_that_are_tested() -> None:
    wanted = json.loads((ROOT / "tests/clients/package.json").read_text())["dependencies"]
    # A second version of a package has an alias: `npm:PACKAGE@VERSION`.
    npm = {name: version.rpartition("@")[2] for name, version in wanted.items()}
    lines = (ROOT / "tests/clients/requirements.in").read_text().splitlines()
    pip = {
        requirement.name: str(requirement.specifier).removeprefix("==")
        for requirement in (Requirement(line) for line in lines if not line.startswith("#"))
    }
    table = CLIENTS.split("| client | version |\n| --- | --- |\n")[1].split("\n\n")[0]
    rows = dict(re.findall(r"^\| (.+?) \| (\S+) \|$", table, flags=re.MULTILINE))
    ai_sdk = f"AI SDK (`ai`, with `@ai-sdk/openai` {npm['@ai-sdk/openai']})"
    assert rows.pop(ai_sdk) == npm["ai"]
    in_python = {
        "openai, Python",
        "OpenAI Agents SDK, Python",
        "LangChain (`langchain-openai`)",
        "LangChain (`langchain-anthropic`)",
        "pydantic-ai",
        "Google's SDK (`google-genai`)",
        "Ollama's client (`ollama`, Python)",
    }
    assert rows == {client: (pip if client in in_python else npm)[package] for client, package in PACKAGES.items()}


@pytest.mark.parametrize("page", ["clients", "operations"])
def test_links_within_a_page_lead_to_a_heading(page: str) -> None:
    texts = {"clients": CLIENTS, "operations": OPERATIONS}
    for target, anchor in re.findall(r"\]\(([a-z]+\.md)?#([^)]+)\)", texts[page]):
        text = (ROOT / "docs" / target).read_text() if target else texts[page]
        headings = re.findall(r"^#+ (.+)$", text, flags=re.MULTILINE)
        assert anchor in [re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings]


def is_listening(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@contextmanager
def nginx(gateway: Gateway, folder: Path) -> Iterator[str]:
    """The address of an nginx with the page's settings, but without TLS, in front of `gateway`."""
    assert NGINX is not None
    port = find_free_port()
    settings = block_of("nginx")
    for old, new in (
        ("127.0.0.1:8080", gateway.url.removeprefix("http://")),
        ("listen 443 ssl;", f"listen 127.0.0.1:{port};"),
        ("    ssl_certificate /etc/ssl/gateway.pem;\n", ""),
        ("    ssl_certificate_key /etc/ssl/gateway.key;\n", ""),
    ):
        assert old in settings
        settings = settings.replace(old, new)
    folders = "".join(
        f"{each}_temp_path {folder}/{each};\n" for each in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    file = folder / "nginx.conf"
    user = "user root;" if os.geteuid() == 0 else ""  # it writes large bodies to `folder`
    head = f"{user} daemon off; pid {folder}/pid; error_log stderr;\nevents {{}}\n"
    file.write_text(f"{head}http {{\naccess_log off;\n{folders}{settings}}}\n")
    process = subprocess.Popen([NGINX, "-p", str(folder), "-c", str(file)], stderr=subprocess.PIPE)
    try:
        deadline = time.monotonic() + 30
        while not is_listening(port):
            assert process.poll() is None, process.stderr and process.stderr.read()
            assert time.monotonic() < deadline
        yield f"127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(30)
        assert process.stderr is not None
        process.stderr.close()


@pytest.mark.skipif(NGINX is None, reason="no nginx on this machine")
async def test_streams_sockets_pages_and_large_bodies_pass_nginx(tmp_path: Path) -> None:
    async with ScriptedUpstream() as upstream:
        upstream.script(sse_reply(data_frame(chat_chunk({"content": "po"})), Hang()))
        silent = {"type": "openai_compatible", "base_url": upstream.url, "retries": 0}
        providers = {"p": {"type": "scripted"}, "silent": silent}
        models = {"demo": {"provider": "p"}, "silent": {"provider": "silent"}}
        with serving({"providers": providers, "models": models}) as gateway, nginx(gateway, tmp_path) as address:
            await asyncio.to_thread(use_gateway, address)


def use_gateway(address: str) -> None:
    with httpx.Client(base_url=f"http://{address}", trust_env=False, timeout=60) as client:
        with client.stream("POST", "/v1/responses", json={"model": "silent", "input": "Hi", "stream": True}) as reply:
            received = b""
            for piece in reply.iter_raw():  # a proxy that buffers would keep it until the upstream goes on
                received += piece
                if b'"delta":"po"' in received:
                    break
        assert b'"delta":"po"' in received
        page = client.get("/pages/home.json").json()
        assert page["base_url"] == f"http://{address}"
        large = client.post("/v1/responses", json={"model": "demo", "input": "a" * 5_000_000})
        assert large.status_code == 200
    with connect(f"ws://{address}/v1/responses", proxy=None) as websocket:
        websocket.send(json.dumps({"type": "response.create", "model": "demo", "input": "Hi"}))
        assert json.loads(websocket.recv(timeout=30))["type"] == "response.created"


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd on this machine")
def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    unit = block_of("ini")
    program = "/opt/responses-gateway/bin/responses-gateway"
    assert program in unit
    file = tmp_path / "responses-gateway.service"
    file.write_text(unit.replace(program, "/bin/true"))
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(file)], capture_output=True, text=True, timeout=60
    )
    assert [line for line in done.stderr.splitlines() if "responses-gateway.service" in line] == []
    assert done.returncode == 0, done.stderr


def test_the_unit_waits_longer_than_the_server_drains() -> None:
    [seconds] = re.findall(r"^TimeoutStopSec=(\d+)$", block_of("ini"), flags=re.MULTILINE)
    example = yaml.safe_load((ROOT / "config.example.yaml").read_text())
    assert int(seconds) >= example["server"]["drain_s"] + 10


def test_the_container_commands_fit_the_image() -> None:
    command = re.search(r"^docker run .*?\n```", OPERATIONS, flags=re.MULTILINE | re.DOTALL)
    assert command is not None
    dockerfile = (ROOT / "Dockerfile").read_text()
    config = yaml.safe_load((ROOT / "deploy/config.yaml").read_text())
    [key_env] = [key["key_env"] for key in config["auth"]["keys"]]
    assert f"--env {key_env}=" in command[0]
    for path in re.findall(r":(/[\w/.-]+)", command[0]):
        assert path in dockerfile
    assert f":{config['server']['port']} " in command[0]
    assert config["server"]["doctor_report"].startswith("/var/lib/responses-gateway/")
