"""What a server says of the upstreams of a name: its live report, /readyz, the command, and reloads."""

import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest
from typer.testing import CliRunner

from gateway.cli.commands import app
from tests.faults.client_view import RESPONSES, ask
from tests.faults.upstreams.test_attempts import rejected, shared
from tests.serving import serving
from tests.upstream.faults import ANSWERS, sound
from tests.upstream.server import ScriptedUpstream, closed_port

pytestmark = pytest.mark.usefixtures("logs_unconfigured")

Json = dict[str, Any]
KEYS: Json = {
    "keys": [
        {"name": "root", "key": "root-key-0123456789", "admin": True},
        {"name": "team", "key": "team-key-01234567"},
    ]
}


async def fetch(url: str, key: str | None = None) -> httpx.Response:
    headers = {} if key is None else {"authorization": f"Bearer {key}"}
    async with httpx.AsyncClient(verify=False, trust_env=False, timeout=60) as client:
        return await client.get(url, headers=headers)


async def test_the_live_report_has_the_state_of_each_upstream() -> None:
    async with ScriptedUpstream() as first, ScriptedUpstream() as second:
        first.script(rejected(429, retry_after="30"))
        second.script(sound(ANSWERS["responses"]))
        config = shared(first.url, second.url)
        config["models"] = {"m": {**config["models"]["*"], "model": "scripted-model"}}
        with serving(config) as running:
            began = time.monotonic()
            seen = await ask(running.v1, RESPONSES, stream=False, model="m")
            report = (await fetch(f"{running.v1}/gateway/routes/m")).json()
            passed_s = time.monotonic() - began
    assert seen.status == 200
    first_row, second_row = report["upstreams"]
    assert report["balance"] == "least_busy"
    assert report["affinity"] == {"kind": None, "order": ["first", "second"]}
    assert 29.9 - passed_s <= first_row.pop("until_s") <= 30  # rounded to a tenth
    assert first_row == {
        "upstream": "first",
        "provider": "first",
        "model": "scripted-model",
        "tier": 0,
        "weight": 1.0,
        "share": 1.0,
        "eligible": True,
        "reason": None,
        "losses": [],
        "state": "parked",
        "in_flight": 0,
        "max_in_flight": None,
        "load": "none",
        "waiting": 0,
        "ejections": 0,
    }
    assert (second_row["state"], second_row["share"], second_row["until_s"]) == ("available", 0.0, None)


async def test_with_keys_only_administrators_get_it() -> None:
    config = {"providers": {"a": {"type": "scripted"}}, "models": {"m": {"provider": "a"}}, "auth": KEYS}
    with serving(config) as running:
        url = f"{running.v1}/gateway/routes/m"
        statuses = [
            (await fetch(url, key)).status_code for key in (None, KEYS["keys"][1]["key"], KEYS["keys"][0]["key"])
        ]
        unknown = await fetch(f"{running.v1}/gateway/routes/mm", KEYS["keys"][0]["key"])
    assert statuses == [401, 403, 200]
    assert unknown.status_code == 404


async def test_a_name_without_an_available_upstream_is_degraded_and_the_server_is_ready() -> None:
    async with ScriptedUpstream() as upstream:
        upstream.script(rejected(429, retry_after="30"))
        config = shared(upstream.url, upstream.url)
        config["models"] = {"m": {**config["models"]["*"], "model": "scripted-model"}}
        with serving(config) as running:
            before = await fetch(f"{running.url}/readyz")
            await ask(running.v1, "/chat/completions", stream=False, model="m")
            after = await fetch(f"{running.url}/readyz")
    assert (before.status_code, before.json()) == (200, {"status": "ready"})
    assert (after.status_code, after.json()) == (200, {"status": "degraded", "degraded": {"upstreams": ["m"]}})


@pytest.mark.parametrize("model", [{}, {"model": "scripted-model"}], ids=["by name", "one model"])
async def test_a_pattern_is_degraded_if_none_of_its_names_has_an_available_upstream(model: Json) -> None:
    async with ScriptedUpstream() as upstream:
        upstream.script(rejected(429, retry_after="30"))
        config = shared(upstream.url, upstream.url)
        config["models"] = {"m-*": {**config["models"]["*"], **model}}
        for provider in config["providers"].values():
            provider["unlisted_models"] = "forward"
        with serving(config) as running:
            before = (await fetch(f"{running.url}/readyz")).json()
            await ask(running.v1, "/chat/completions", stream=False, model="m-1")
            after = (await fetch(f"{running.url}/readyz")).json()
    assert before == {"status": "ready"}
    assert after == {"status": "degraded", "degraded": {"upstreams": ["m-*"]}}


CONFIG = """providers:
  gpu-a: {type: openai_compatible, base_url: "http://127.0.0.1:9/v1", capabilities: {images: true}}
  gpu-b: {type: openai_compatible, base_url: "http://127.0.0.1:9/v1", capabilities: {images: false}}
auth: {keys: [{name: team, key: team-key-0123456, models: [m]}]}
models:
  m: {upstreams: [{provider: gpu-a, weight: 2}, {provider: gpu-b}, {provider: gpu-b, model: x, weight: 0}]}
  n: {provider: gpu-a}
"""


def explain(tmp_path: Path, *arguments: str, body: Json | None = None) -> tuple[int, str]:
    file, request = tmp_path / "config.yaml", tmp_path / "request.json"
    file.write_text(CONFIG)
    if body is not None:
        request.write_bytes(orjson.dumps(body))
        arguments = (*arguments, "--request", str(request))
    result = CliRunner().invoke(app, ["routes", "explain", *arguments, "--config", str(file)])
    return result.exit_code, result.output


def test_the_command_says_who_serves_a_model_and_how_much(tmp_path: Path) -> None:
    assert explain(tmp_path, "m") == (
        0,
        "m: least_busy, no affinity key\n"
        "  gpu-a (m): tier 0, 67%, unknown\n"
        "  gpu-b:m (m): tier 0, 33%, unknown\n"
        "  gpu-b:x (x): tier 0, 0%, unknown, not used: weight is 0\n",
    )
    assert explain(tmp_path, "n")[1].splitlines()[1] == "  gpu-a (n): tier 0, 100%, unknown"


def test_the_command_says_what_each_upstream_can_do_with_a_request(tmp_path: Path) -> None:
    image = {"role": "user", "content": [{"type": "input_image", "image_url": "data:image/png;base64,eA=="}]}
    code, text = explain(
        tmp_path, "m", "--json", body={"input": [image], "prompt_cache_key": "k", "service_tier": "flex"}
    )
    report = orjson.loads(text)
    assert code == 0
    assert report["affinity"] == {"kind": "prompt_cache_key", "order": ["gpu-a"]}
    rows = {row["upstream"]: row for row in report["upstreams"]}
    assert rows["gpu-a"]["eligible"]
    assert rows["gpu-b:m"]["reason"].startswith("input[0]: the model's upstream does not support images")


@pytest.mark.parametrize(
    "body",
    [
        {"messages": [{"role": "user", "content": "Hi"}]},
        {"messages": [{"role": "user", "content": "Hi"}], "system": "Be brief", "max_tokens": 5},
        {"input": "Hi"},
    ],
)
def test_the_command_reads_requests_of_three_apis(body: Json, tmp_path: Path) -> None:
    assert explain(tmp_path, "m", "--key", "team", body=body)[0] == 0


def test_the_command_names_similar_models_and_missing_keys(tmp_path: Path) -> None:
    code, text = explain(tmp_path, "model-one")
    assert (code, "does not exist" in text) == (1, True)
    assert explain(tmp_path, "n", "--key", "team")[0] == 1
    assert explain(tmp_path, "m", "--key", "nobody") == (1, "no key of the configuration is called nobody\n")
    assert explain(tmp_path, "m", body={"messages": 1})[0] == 1


def ask_server(tmp_path: Path, model: str, url: str) -> tuple[int, str]:
    """Runs the command as a process: a server in this one writes its log to the stdout that the command would have."""
    file = tmp_path / "config.yaml"
    file.write_text(CONFIG)
    command = ["routes", "explain", model, "--server", url, "--config", str(file)]
    result = subprocess.run(
        [sys.executable, "-m", "responses_gateway", *command], capture_output=True, text=True, timeout=30, check=False
    )
    return result.returncode, result.stdout


def test_the_command_asks_a_running_server(tmp_path: Path) -> None:
    config = {"providers": {"a": {"type": "scripted"}}, "models": {"m": {"upstreams": [{"provider": "a"}]}}}
    with serving(config) as running:
        code, text = ask_server(tmp_path, "m", running.url)
        unknown = ask_server(tmp_path, "mm", running.url)
    assert (code, text) == (0, "m: least_busy, no affinity key\n  a (m): tier 0, 100%, available, 0 in flight\n")
    assert unknown[0] == 1
    assert ask_server(tmp_path, "m", f"http://127.0.0.1:{closed_port()}")[0] == 1
