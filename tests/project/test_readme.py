"""Every block of the README and of the tutorial has the documented effect, with the model that it names."""

import asyncio
import importlib.util
import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from gateway.config.discovery import discover_config
from tests.project.test_snippets import ROOT, SNIPPETS, Snippet
from tests.serving import Gateway, serving
from tests.upstream import ScriptedUpstream, chat_text

Json = dict[str, Any]

ADDRESS = "http://127.0.0.1:8080"
README = (ROOT / "README.md").read_text()
TUTORIAL = (ROOT / "docs/tutorial.md").read_text()
README_BLOCKS = [snippet for snippet in SNIPPETS if snippet.place.startswith("README.md")]
TUTORIAL_BLOCKS = [snippet for snippet in SNIPPETS if snippet.place.startswith("docs/tutorial.md")]
BLOCKS = [*README_BLOCKS, *TUTORIAL_BLOCKS]

pytestmark = pytest.mark.timeout(180)


def run(command: list[str], folder: Path) -> str:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=90, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def texts_of(response: Json, kind: str) -> list[str]:
    return [part["text"] for item in response["output"] if item["type"] == kind for part in item["content"]]


def check_sum(output: str) -> None:
    response = json.loads(output)
    assert response["model"] == "demo"
    for kind, text in (("reasoning", "The user asks for 3 + 4. That makes 7."), ("message", "The answer is 7.")):
        assert texts_of(response, kind) == [text]
        assert f"`{text}`" in TUTORIAL, "the page shows the output"


def check_weather(output: str) -> None:
    call = json.loads(output)["output"][-1]
    named = {name: call[name] for name in ("type", "name", "arguments")}
    assert named == {"type": "function_call", "name": "get_weather", "arguments": '{"city": "Paris"}'}
    assert f"`{json.dumps(named)}`" in TUTORIAL, "the page shows the output"


def check_note(output: str) -> None:
    response = json.loads(output)
    kinds = [item["type"] for item in response["output"] if item["type"] != "reasoning"]
    assert kinds == ["mcp_list_tools", "mcp_call", "message"]
    call = next(item for item in response["output"] if item["type"] == "mcp_call")
    assert (call["server_label"], call["name"], call["output"]) == ("notes", "create_note", "note 1")
    assert texts_of(response, "message") == ["The tool returned: note 1"]


def check_search(output: str) -> None:
    assert output.splitlines() == ["search returned: red river stone", "The tool returned: red river stone"]


def check_approval(output: str) -> None:
    asked, done = output.splitlines()
    assert re.fullmatch(r"create_note is to run with \{.*paper window bridge.*\}", asked)
    assert re.fullmatch(r"The tool returned: note \d+", done)


def check_budget(output: str) -> None:
    response = json.loads(output)
    assert response["usage"]["output_tokens_details"]["reasoning_tokens"] == 20
    assert response["status"] == "completed"
    assert texts_of(response, "message")[0].strip()


def check_stream_and_completion(output: str) -> None:
    stream, _, completion = output.partition('{"id":"chatcmpl')
    frames = [json.loads(line.removeprefix("data: ")) for line in stream.splitlines() if line.startswith("data: {")]
    assert [frame["sequence_number"] for frame in frames] == list(range(len(frames)))
    assert frames[-1]["type"] == "response.completed"
    deltas = "".join(frame["delta"] for frame in frames if frame["type"] == "response.output_text.delta")
    assert deltas == "1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12."
    message = json.loads('{"id":"chatcmpl' + completion)["choices"][0]["message"]
    assert "hello" in message["content"].lower()


def check_loss(output: str) -> None:
    head, _, body = output.replace("\r", "").partition("\n\n")
    shown = next(block.text.strip() for block in README_BLOCKS if block.language == "text")
    assert shown in head.splitlines()
    assert "Hello" in texts_of(json.loads(body), "message")[0]


def check_program(output: str) -> None:
    greeting, count = output.splitlines()
    assert "hello" in greeting.lower()
    assert count == "1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12."


def check_memory(output: str) -> None:
    memory, about_file = output.splitlines()[0], output.splitlines()[1:]
    assert "Ada" in memory
    assert about_file


RUN: dict[str, Callable[[str], None]] = {
    "What is 3 + 4?": check_sum,
    "What is the weather in Paris?": check_weather,
    "Call create_note with green tiger table": check_note,
    "Call search with river": check_search,
    "mcp_approval_request": check_approval,
    "Think forever.": check_budget,
    '"stream": true': check_stream_and_completion,
    "web_search": check_loss,
    "client.responses.stream": check_program,
    "My name is Ada.": check_memory,
}
"""Text in a block -> check of its output."""

MAKE = ("make run", "make test")
"""Commands that are not run: they set the project up, and run these tests."""


def check_of(block: Snippet) -> Callable[[str], None]:
    [check] = [check for mark, check in RUN.items() if mark in block.text]
    return check


PROGRAMS = [block for block in BLOCKS if block.language in ("sh", "python") and block.text.strip() not in MAKE]


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """The gateway that `make run` serves on a machine without upstreams."""
    store = {"url": f"sqlite+aiosqlite:///{tmp_path_factory.mktemp('store')}/state.db"}
    with serving({**asyncio.run(discover_config({}, ())), "store": store}) as running:
        yield running


@pytest.mark.parametrize("block", PROGRAMS, ids=lambda block: block.place)
def test_a_program_of_the_pages_prints_the_documented_output(block: Snippet, gateway: Gateway, tmp_path: Path) -> None:
    text = block.text.replace(ADDRESS, gateway.url)
    assert text != block.text, "a program that calls no server"
    if block.language == "python":
        output = run([sys.executable, "-c", text], tmp_path)
    else:
        script = 'curl() { command curl --silent --show-error --fail-with-body --max-time 30 "$@"; }\n' + text
        output = run(["bash", "-euo", "pipefail", "-c", script], tmp_path)
    check_of(block)(output)


def test_every_check_belongs_to_one_block_and_every_block_has_a_test() -> None:
    assert sorted(check_of(block).__name__ for block in PROGRAMS) == sorted(check.__name__ for check in RUN.values())
    kinds = [block.language for block in BLOCKS if block not in PROGRAMS and block.text.strip() not in MAKE]
    assert sorted(kinds) == ["console", "text", "toml", "yaml", "yaml", "yaml", "yaml"]


def test_the_models_that_the_readme_lists_are_served(gateway: Gateway) -> None:
    listed = re.search(r"always (`demo`.*?)\. ", README, flags=re.DOTALL)
    assert listed is not None
    names = {model["id"] for model in httpx.get(f"{gateway.v1}/models", trust_env=False, timeout=60).json()["data"]}
    assert set(re.findall(r"`(\w+)`", listed[1])) == names


async def test_the_first_configuration_of_the_readme_serves_its_models() -> None:
    tree = yaml.safe_load(next(block.text for block in BLOCKS if "openai_compatible" in block.text))
    async with ScriptedUpstream() as upstream:
        upstream.script(chat_text("<think>I add.</think>", "Seven."))
        tree["providers"]["local"]["base_url"] = upstream.url
        with serving(tree) as gateway:
            async with httpx.AsyncClient(base_url=gateway.v1, trust_env=False, timeout=60) as client:
                first = (await client.post("/responses", json={"model": "qwen3", "input": "3 + 4?"})).json()
                second = (await client.post("/responses", json={"model": "another", "input": "3 + 4?"})).json()
        assert [request.json["model"] for request in upstream.requests] == ["Qwen/Qwen3-0.6B", "another"]
    assert (texts_of(first, "reasoning"), texts_of(first, "message")) == (["I add."], ["Seven."])
    assert texts_of(second, "message") == ["<think>I add.</think>Seven."]


def test_the_embedded_engine_of_the_readme_answers() -> None:
    tree = yaml.safe_load(next(block.text for block in BLOCKS if "llamacpp" in block.text))
    file = ROOT / tree["providers"]["local"]["model"]
    tree["providers"]["local"]["model"] = os.fspath(file)
    with serving(tree) as gateway:
        body = {"model": "tiny", "input": "What is 3 + 4?", "temperature": 0}
        response = httpx.post(f"{gateway.v1}/responses", json=body, trust_env=False, timeout=60).json()
    assert texts_of(response, "message") == ["The answer is 7."]
    assert response["usage"]["output_tokens_details"]["reasoning_tokens"] <= 256


def test_the_settings_of_codex_lead_to_the_gateway() -> None:
    settings = tomllib.loads(next(block.text for block in BLOCKS if block.language == "toml"))
    provider = settings["model_providers"][settings["model_provider"]]
    assert (provider["base_url"], provider["wire_api"]) == (f"{ADDRESS}/v1", "responses")
    configured = {name for block in BLOCKS if block.language == "yaml" for name in yaml.safe_load(block.text)["models"]}
    assert settings["model"] in configured - {"tiny"}, "an agent needs a real model, which the page configures"


def test_the_client_that_the_readme_installs_exists() -> None:
    assert importlib.util.find_spec("openai") is not None


SOURCE = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["urls"]["Source"]
LINKS = re.findall(r"\]\(([^)\s]+)\)", README)


def test_links_and_pictures_of_the_readme_work_where_it_is_shown_without_the_repository() -> None:
    """Package indexes show it too. The address of the repository is that of the project's URLs, and nowhere else."""
    own = [link for link in LINKS if link.startswith(SOURCE)]
    assert len(own) > 20
    assert [link for link in LINKS if link not in own] == []
    for link in own:
        kind, branch, path = link.removeprefix(f"{SOURCE}/").split("/", 2)
        assert (kind, branch) in (("blob", "main"), ("raw", "main")), link
        assert (ROOT / path.partition("#")[0]).is_file(), link


def test_the_readme_has_a_picture_for_light_and_dark_pages() -> None:
    [picture] = re.findall(r"!\[[^\]]{20,}\]\(([^)\s]+)\)", README)
    drawing = (ROOT / picture.removeprefix(f"{SOURCE}/raw/main/")).read_text()
    assert "prefers-color-scheme: dark" in drawing
    assert "<title" in drawing
    assert "<desc" in drawing
    loaded = re.findall(r"(?:href|src|url)[=(]\S+", drawing)
    assert loaded == [], "what a picture loads is blocked where it is shown"
