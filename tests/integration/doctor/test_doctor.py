"""`responses-gateway doctor` as its users run it: on real engines, and on what cannot be examined."""

import json
import os
import pty
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import typer.main
import yaml

from gateway.cli.commands import app
from gateway.doctor.checks.check_list import CHECKS
from tests.forking import run_forked
from tests.integration.engines import CONTEXT, ROOT, Engine
from tests.upstream import closed_port

pytestmark = pytest.mark.timeout(180)  # engines are started and ended

KINDS = ("yaml", "text", "json")
MODEL = ROOT / "models/tiny-reasoner.gguf"
EMBEDDED = {
    "providers": {
        "embedded": {
            "type": "llamacpp",
            "model": str(MODEL),
            "engine": {"n_ctx": 4096, "n_parallel": 1, "cpuparams.n_threads": 1},
        },
        "scripted": {"type": "scripted"},
    },
    "models": {
        "tiny": {
            "provider": "embedded",
            "two_pass": True,
            "tool_parser": "hermes",
            "max_thinking_tokens": 128,
            "max_response_tokens": 256,
            "request_defaults": {"temperature": 0},
        },
        "scripted": {"provider": "scripted"},
        "any-*": {"provider": "scripted"},
    },
}


def doctor(config: Mapping[str, Any], folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    file = folder / "config.yaml"
    file.write_text(yaml.safe_dump(dict(config), sort_keys=False))
    return run_forked("doctor", "--config", str(file), *arguments, folder=folder, timeout=150)


def verdicts(report: Mapping[str, Any], number: int = 0) -> dict[str, str]:
    checks: Sequence[Mapping[str, str]] = report["backends"][number]["checks"]
    return {each["check"]: each["verdict"] for each in checks}


def only(config: Mapping[str, Any], *providers: str) -> dict[str, Any]:
    """The part of a configuration that these providers serve."""
    kept = {name: each for name, each in config["providers"].items() if name in providers}
    return {"providers": kept, "models": {n: each for n, each in config["models"].items() if each["provider"] in kept}}


def test_an_embedded_engine_and_the_scripted_model_are_examined_whole(tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    done = doctor(only(EMBEDDED, "embedded", "scripted"), tmp_path, "--json", "--html", str(page))
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads(done.stdout)
    assert [each["model"] for each in report["backends"]] == ["tiny", "scripted"]
    passing = {check.name for check in CHECKS} - {"images", "errors"}
    assert verdicts(report) == {**dict.fromkeys(passing, "pass"), "images": "refused", "errors": "skipped"}
    tiny = report["backends"][0]
    assert (tiny["provider"], tiny["type"], tiny["ok"]) == ("embedded", "llamacpp", True)
    assert 0 < tiny["first_token_s"] < 60
    assert {name for name, verdict in verdicts(report, 1).items() if verdict != "pass"} == {
        "tools_parallel",
        "messages_tools_parallel",
        "images",
        "errors",
        "overflow",
        "prefix_cache",
    }
    assert page.read_text().startswith("<!doctype html>")
    assert f"the report is in {page}" in done.stderr
    assert not (tmp_path / "responses-gateway.db").exists()
    saved = json.loads((tmp_path / "responses-gateway-doctor.json").read_text())
    assert [each["model"] for each in saved["results"]] == ["tiny", "scripted"]
    assert {each["config_digest"] for each in saved["results"]} == {report["config_digest"]}


def test_the_model_of_a_first_start_passes(tmp_path: Path) -> None:
    shipped = {"providers": {"demo": {"type": "demo"}}, "models": {"demo": {"provider": "demo"}}}
    done = doctor(shipped, tmp_path, "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    found = verdicts(json.loads(done.stdout))
    assert "fail" not in found.values()
    assert found["prefix_cache"] == "skipped"


def test_a_real_server_is_examined_and_missing_declared_features_fail(llama_server: Engine, tmp_path: Path) -> None:
    window = {"max_context_window": CONTEXT}
    tiny = {"provider": "llama", "model": "tiny", "request_defaults": {"temperature": 0}}
    config = {
        "providers": {"llama": {"type": "openai_compatible", "base_url": f"{llama_server.url}/v1"}},
        "models": {
            "sound": {**tiny, "capabilities": {**window, "images": False}},
            # Without the gateway's help, the first line of the prompt spoils the cache.
            "sees": {**tiny, "capabilities": window, "volatile_lines": [], "removed_lines": []},
        },
    }
    done = doctor(config, tmp_path, "--json")
    report = json.loads(done.stdout)
    sound, sees = verdicts(report), verdicts(report, 1)
    told = ("text", "streaming", "usage", "length", "stop", "tools", "tools_parallel", "tools_streamed", "tools_forced")
    others = [check.name for check in CHECKS if check.name.startswith(("chat_", "messages_", "prefix_"))]
    for check in (*told, "json_schema", "reasoning", "replay", "cancel", "overflow", *others):
        assert sound[check] == "pass", (check, done.stdout)
    assert (sound["images"], sees["images"]) == ("refused", "fail")
    assert sees["prefix_cache"] == "fail", done.stdout
    assert [each["ok"] for each in report["backends"]] == [True, False]
    assert done.returncode == 1


def test_the_table_is_for_people_and_has_no_colours_in_a_pipe(tmp_path: Path) -> None:
    done = doctor(only(EMBEDDED, "scripted"), tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0].split() == ["FEATURE", "scripted"]
    assert done.stdout.splitlines()[-1] == "1 model: 27 passed, 0 failed, 0 refused, 6 skipped"
    assert "\x1b" not in done.stdout
    assert done.stderr == ""


def test_the_documentation_of_the_doctor_has_its_output(tmp_path: Path) -> None:
    page = (ROOT / "docs/doctor.md").read_text()
    config, table, shown = (re.findall(rf"^```{kind}\n(.*?)^```$", page, re.M | re.S)[0] for kind in KINDS)
    done = doctor(yaml.safe_load(config), tmp_path)
    rows = [line for line in done.stdout.splitlines() if not line.startswith("Time to first token")]
    assert rows[: len(CHECKS) + 2] == table.splitlines()[:-1]
    assert table.splitlines()[:-1] != []
    reply = json.loads(doctor(yaml.safe_load(config), tmp_path, "--json", "--model", "plain").stdout)
    expected = json.loads(shown)
    assert reply.keys() == expected.keys()
    assert reply["backends"][0].keys() == expected["backends"][0].keys()
    assert reply["backends"][0]["checks"][1].keys() == expected["backends"][0]["checks"][0].keys()


def test_the_documentation_of_the_doctor_has_every_feature_and_option() -> None:
    page = (ROOT / "docs/doctor.md").read_text()
    section = page.split("## What it tries\n")[1].split("\n## ")[0]
    assert re.findall(r"^\| (?!feature|---)([^|]+?) \|", section, re.M) == [check.title for check in CHECKS]
    command = typer.main.get_command(app).commands["doctor"]  # type: ignore[attr-defined]
    options = {name for parameter in command.params for name in parameter.opts if name != "--help"}
    assert set(re.findall(r"^\| `(--[a-z]+)", page, re.M)) == options


def test_progress_is_drawn_for_people_and_not_into_the_output(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(only(EMBEDDED, "scripted")))
    ours, theirs = pty.openpty()
    command = [str(Path(sys.executable).with_name("responses-gateway")), "doctor", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=theirs, cwd=tmp_path) as process:
        os.close(theirs)
        drawn = b"".join(read_all(ours))
        output, _ = process.communicate(timeout=60)
    os.close(ours)
    assert json.loads(output)["ok"] is True
    for check in CHECKS:
        assert f"scripted: {check.title} ".encode() in drawn
    assert f"{len(CHECKS)}/{len(CHECKS)}".encode() in drawn


def read_all(terminal: int) -> Iterator[bytes]:
    """Returns the output of a terminal until it is closed."""
    with suppress(OSError):  # how a terminal ends
        while read := os.read(terminal, 4096):
            yield read


def test_only_examined_models_are_started(tmp_path: Path) -> None:
    cut = tmp_path / "cut.gguf"
    cut.write_bytes(MODEL.read_bytes()[:2_000_000])
    providers = {**EMBEDDED["providers"], "embedded": {"type": "llamacpp", "model": str(cut)}}
    config = {**EMBEDDED, "providers": providers}
    done = doctor(config, tmp_path, "--model", "any-thing", "--json")
    (backend,) = json.loads(done.stdout)["backends"]
    assert (done.returncode, backend["model"], backend["provider"]) == (0, "any-thing", "scripted")
    assert done.stderr == ""
    done = doctor(config, tmp_path, "--model", "tiny")
    assert (done.returncode, "fail Text: 503 engine_unavailable" in done.stdout) == (1, True)


def test_an_unreachable_server_fails_at_once_and_is_reported(tmp_path: Path) -> None:
    gone = {"type": "vllm", "base_url": f"http://127.0.0.1:{closed_port()}/v1", "connect_s": 1, "retries": 0}
    done = doctor({"providers": {"gone": gone}, "models": {"m": {"provider": "gone"}}}, tmp_path)
    assert done.returncode == 1
    assert "fail Text: 502 upstream_unreachable" in done.stdout
    assert "1 model: 0 passed, 1 failed, 0 refused, 32 skipped" in done.stdout


@pytest.mark.parametrize(
    ("file", "words"),
    [("nowhere/report.json", "server.doctor_report: nowhere/report.json cannot be written"), (None, "")],
)
def test_results_that_are_not_saved_are_printed_nevertheless(file: str | None, words: str, tmp_path: Path) -> None:
    done = doctor({**only(EMBEDDED, "scripted"), "server": {"doctor_report": file}}, tmp_path)
    assert (done.returncode, "27 passed" in done.stdout) == (0, True)
    assert words in done.stderr
    assert bool(done.stderr) == bool(words)
    assert [file.name for file in tmp_path.iterdir()] == ["config.yaml"]


@pytest.mark.parametrize(
    ("config", "arguments", "words"),
    [
        ({"modles": {}}, (), "modles: unknown key; did you mean models?"),
        (only(EMBEDDED, "scripted"), ("--model", "nobody"), "no model of the config is called nobody"),
        (only(EMBEDDED, "scripted"), ("--model", "any-*"), "any-* is a pattern"),
        (only(EMBEDDED, "scripted"), ("--html", "nowhere/report.html"), "nowhere/report.html cannot be written"),
        ({"providers": {"a": {"type": "scripted"}}, "models": {"*": {"provider": "a"}}}, (), "every model"),
    ],
)
def test_models_that_cannot_be_examined_are_reported_with_exit_code_2(
    config: Mapping[str, Any], arguments: Sequence[str], words: str, tmp_path: Path
) -> None:
    done = doctor(config, tmp_path, *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert words in done.stderr
