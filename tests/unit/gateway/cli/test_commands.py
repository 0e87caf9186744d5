"""gateway/cli/commands.py: the command and its exit codes."""

import os
import re
import subprocess
import sys
from dataclasses import fields
from itertools import takewhile
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner, Result

from gateway.cli import commands
from gateway.config.discovery import HostedService
from gateway.config.settings import Settings
from providers.base import Capabilities
from providers.capabilities import CAPABILITIES
from providers.config import ProviderType
from tests.upstream import closed_port

CONFIG = {
    "auth": {"keys": [{"name": "a", "key": "k"}]},
    "providers": {"demo": {"type": "scripted", "capabilities": {"images": False}}, "local": {"type": "vllm"}},
    "models": {"demo": {"provider": "demo"}, "qwen": {"provider": "local", "model": "Qwen/Qwen3-0.6B"}},
}


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file in the working directory that nothing finds by itself."""
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "gateway.yaml"
    file.write_text(yaml.safe_dump(CONFIG))
    return file


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> list[Settings]:
    """Collects the arguments of the server instead of starting one."""
    calls: list[Settings] = []

    def serve(settings: Settings, _load: object, *, host: str, port: int, workers: int) -> None:
        assert (host, port, workers) == (settings.server.host, settings.server.port, settings.server.workers)
        calls.append(settings)

    monkeypatch.setattr("gateway.process.serving.serve_gateway", serve)
    return calls


def run(*arguments: str) -> Result:
    return CliRunner().invoke(commands.app, arguments)


def test_metrics_at_the_address_of_the_server_are_refused_with_their_line(config: Path) -> None:
    config.write_text("server: {port: 9464}\nmetrics:\n  listen: localhost:9464\n")
    done = run("check-config", str(config))
    assert done.exit_code == 2
    assert f"{config}:3: metrics.listen: localhost:9464 is where the server itself listens" in done.stderr
    assert "write another port" in done.stderr


def test_a_good_configuration_is_ok_and_summed_up(config: Path) -> None:
    done = run("check-config", str(config))
    assert (done.exit_code, done.stdout) == (0, f"{config}: ok: 2 providers, 2 models, 1 key\n")


@pytest.mark.parametrize(
    ("kind", "url", "path"),
    [
        ("anthropic", "https://api.anthropic.com", "/v1"),
        ("gemini", "https://generativelanguage.googleapis.com/", "/v1beta"),
        ("openrouter", "https://openrouter.ai", "/api/v1"),
        ("vllm", "http://localhost:8000", "/v1"),
        ("anthropic", "https://proxy.example/anthropic", None),
        ("openai_compatible", "https://api.example.com", None),
        ("ollama", "http://localhost:11434", None),
        ("anthropic", None, None),
    ],
)
def test_an_address_without_the_path_of_its_api_is_good_and_hinted_at(
    kind: str, url: str | None, path: str | None, config: Path
) -> None:
    given = {"type": kind, "api_key": "k", **({"base_url": url} if url else {})}
    config.write_text(yaml.safe_dump({"models": {"m": {"provider": "a"}}, "providers": {"a": given}}, sort_keys=False))
    done = run("check-config", str(config))
    assert (done.exit_code, done.stdout) == (0, f"{config}: ok: 1 provider, 1 model, 0 keys\n")
    message = f"{config}:8: warning: providers.a.base_url: the address has no path; {kind} usually ends in {path}\n"
    assert done.stderr == (message if path else "")


@pytest.mark.parametrize("words", [["check-config"], ["models", "--config"], ["serve", "--config"]])
def test_an_invalid_configuration_is_reported_on_stderr_with_exit_code_2(words: list[str], config: Path) -> None:
    config.write_text("server: {prot: 1}\nmodles: {}\n")
    done = run(*words, str(config))
    assert done.exit_code == 2
    assert done.stdout == ""
    assert done.stderr.splitlines() == [
        f"{config}:1: server.prot: unknown key; did you mean port?",
        f"{config}:2: modles: unknown key; did you mean models?",
    ]


def test_models_are_listed_with_provider_upstream_name_and_capabilities(config: Path) -> None:
    head, demo, qwen = run("models", "--config", str(config)).stdout.splitlines()
    assert head.split("  ")[0] == "MODEL"
    assert demo.split()[:4] == ["demo", "demo", "the", "same"]
    assert "tools" in demo
    assert "images" not in demo
    assert qwen.split()[:3] == ["qwen", "local", "Qwen/Qwen3-0.6B"]


def test_the_matrix_has_a_line_for_each_capability_and_a_column_for_each_model(config: Path) -> None:
    done = run("models", "--capabilities", "--config", str(config))
    head, *lines = [line.split("  ") for line in done.stdout.splitlines()]
    rows, members = (
        {name: [cell.strip() for cell in cells if cell.strip()] for name, *cells in each}
        for each in ([cells for cells in lines if cells[0]], [cells[1:] for cells in lines if not cells[0]])
    )
    assert [cell.strip() for cell in head if cell.strip()] == ["CAPABILITY", "demo", "qwen"]
    assert list(rows) == [field.name for field in fields(Capabilities)]
    assert rows["images"] == ["no", "yes"]
    assert rows["tool_kinds"] == ["1", "1"]
    assert members["function"] == ["yes", "yes"]
    assert members["chat"] == ["no", "yes"]
    assert rows["hosted_tools"] == ["none", "none"]
    assert rows["max_context_window"] == ["unknown", "unknown"]
    assert rows["counting"] == ["turn", "tokenize"]


def test_the_matrix_names_every_member_of_a_set_and_fits_a_terminal(config: Path) -> None:
    names = ["gpt-5", "claude-sonnet-4-5-20250929", "org/Model-0.6B", "a" * 35, "gpt-oss:20b", "gemini-2.5-pro"]
    kinds: tuple[ProviderType, ...] = ("openai", "anthropic", "vllm", "scripted", "ollama", "gemini")
    providers = {
        f"p{place}": {"type": kind, "base_url": "http://localhost", "api_key": "k"} for place, kind in enumerate(kinds)
    }
    providers["p3"] = {"type": "scripted"}
    models = {name: {"provider": f"p{place}"} for place, name in enumerate(names)}
    config.write_text(yaml.safe_dump({"providers": providers, "models": models}, sort_keys=False))
    printed = run("models", "--capabilities", "--config", str(config)).stdout
    lines = printed.splitlines()
    assert max(map(len, lines)) <= 100
    starts = [found.start() for found in re.finditer(r"\S+", lines[0])]
    heads = lines[: next(place for place, line in enumerate(lines) if line.startswith("dialects"))]
    columns = list(zip(starts, [*starts[1:], None], strict=True))
    assert ["".join(head[start:end].strip() for head in heads) for start, end in columns[1:]] == names
    for place, kind in enumerate(kinds):
        able = CAPABILITIES.get(kind, Capabilities())
        for name in ("dialects", "tool_kinds", "hosted_tools", "relayed_tools"):
            # A member may be in two sets. Its row is among those that follow the row of the set.
            first = next(place for place, line in enumerate(lines) if line.startswith(f"{name} ")) + 1
            rows = list(takewhile(lambda line: line.startswith("  "), lines[first:]))
            for member in getattr(able, name):
                (line,) = [row for row in rows if row.startswith(f"  {member} ")]
                assert line.split()[1 + place] == "yes"


def test_models_beyond_the_width_follow_below(config: Path) -> None:
    names = [f"model-{number}" for number in range(9)]
    config.write_text(
        yaml.safe_dump(
            {"providers": {"demo": {"type": "scripted"}}, "models": {name: {"provider": "demo"} for name in names}}
        )
    )
    lines = run("models", "--capabilities", "--config", str(config)).stdout.splitlines()
    assert max(map(len, lines)) <= 100
    assert lines.count("") == 1
    heads = [line.split() for line in lines if line.startswith("CAPABILITY")]
    assert [name for _, *beside in heads for name in beside] == names
    assert sum(line.startswith("streaming ") for line in lines) == 2


@pytest.mark.parametrize("name", ["serve", "models", "check-config", "migrate", "doctor", "erase", "export"])
def test_help_shows_options_without_their_python_types(name: str) -> None:
    output = run(name, "--help").output
    assert "--help" in output
    assert not {"<bool>", "<str>", "<int>"} & set(output.split())


def test_serve_combines_settings_and_command_line_options(config: Path, served: list[Settings]) -> None:
    assert run("serve", "--config", str(config), "--host", "0.0.0.0", "--port", "0", "--workers", "3").exit_code == 0
    (settings,) = served
    assert (settings.server.host, settings.server.port, settings.server.workers) == ("0.0.0.0", 0, 3)
    assert list(settings.models) == ["demo", "qwen"]


def test_variables_of_a_container_override_the_file(
    config: Path, served: list[Settings], monkeypatch: pytest.MonkeyPatch
) -> None:
    variables = {"PORT": "9000", "LINGER_S": "15", "DRAIN_S": "300", "METRICS_LISTEN": "0.0.0.0:9464"}
    for name, value in variables.items():
        monkeypatch.setenv(f"GATEWAY_{name}", value)
    config.write_text(yaml.safe_dump({**CONFIG, "server": {"drain_s": 1}, "metrics": {"listen": None}}))
    assert run("serve", "--config", str(config)).exit_code == 0
    assert run("serve", "--config", str(config), "--drain-s", "5").exit_code == 0
    assert [(one.server.port, one.server.linger_s, one.server.drain_s) for one in served] == [
        (9000, 15, 300),
        (9000, 15, 5),
    ]
    assert [one.metrics.listen for one in served] == ["0.0.0.0:9464"] * 2


def test_serve_takes_config_yaml_from_the_working_directory(config: Path, served: list[Settings]) -> None:
    config.rename("config.yaml")
    assert run("serve").exit_code == 0
    assert list(served[0].models) == ["demo", "qwen"]


def test_serve_without_a_file_serves_discovered_upstreams(
    config: Path, served: list[Settings], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    service = HostedService("openai", ("gpt-*",), f"http://127.0.0.1:{closed_port()}/v1")
    monkeypatch.setattr("gateway.config.discovery.HOSTED_SERVICES", (service,))
    assert run("serve", "--port", "0").exit_code == 0
    (settings,) = served
    assert settings.server.port == 0
    assert settings.models["demo"].provider == "demo"
    assert settings.models["gpt-*"].provider == "openai"


def test_serve_without_a_file_does_not_open_to_the_network(config: Path, served: list[Settings]) -> None:
    done = run("serve", "--host", "0.0.0.0")
    assert (done.exit_code, served) == (2, [])
    assert "without a config file: server.host: 0.0.0.0 can be reached by others" in done.stderr


def test_a_missing_file_is_an_invalid_configuration(config: Path) -> None:
    done = run("check-config", "nowhere.yaml")
    assert (done.exit_code, done.stderr) == (2, "nowhere.yaml: cannot be read: No such file or directory\n")


def test_the_version_is_printed() -> None:
    done = run("--version")
    assert done.exit_code == 0
    assert done.stdout.startswith("responses-gateway ")


def test_checking_a_file_needs_neither_server_nor_http_client(config: Path) -> None:
    source = (
        "import sys; from gateway.cli.commands import app; app(['check-config', sys.argv[1]], standalone_mode=False); "
        "print({'aiohttp', 'fastapi', 'httpx', 'uvicorn'} & sys.modules.keys())"
    )
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", source, str(config)], capture_output=True, text=True, env=environ)
    assert done.stdout.splitlines()[-1] == "set()", done.stderr


@pytest.mark.parametrize("group", [(), ("mcp",)], ids=["commands", "commands of mcp"])
def test_no_help_text_is_cut_in_a_terminal_of_usual_width(
    group: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    done = run(*group, "--help")
    assert done.exit_code == 0
    lines = done.stdout.partition("Commands:")[2].strip().splitlines()
    assert lines
    assert [line for line in lines if not line.endswith(".") or line.endswith("...")] == []


@pytest.mark.parametrize(
    "api", ["Responses", "Chat Completions", "Anthropic", "Gemini", "Ollama", "AG-UI", "/generate"]
)
def test_the_help_names_every_api_of_clients(api: str) -> None:
    assert api in " ".join(run("--help").stdout.split())


def test_init_writes_a_file_that_check_config_accepts(config: Path) -> None:
    done = run("init")
    assert done.exit_code == 0
    assert "responses-gateway serve" in done.stdout
    checked = run("check-config", "config.yaml")
    assert (checked.exit_code, checked.stderr) == (0, "")


def test_init_writes_another_file_and_says_how_to_use_it(config: Path) -> None:
    done = run("init", "other.yaml")
    assert done.exit_code == 0
    assert "responses-gateway serve --config other.yaml" in done.stdout
    assert Path("other.yaml").exists()


@pytest.mark.parametrize(("file", "reason"), [("gateway.yaml", "exists"), ("no/such/folder.yaml", "cannot be written")])
def test_init_never_changes_a_file_and_says_why_it_wrote_none(config: Path, file: str, reason: str) -> None:
    before = config.read_text()
    done = run("init", file)
    assert done.exit_code == 2
    assert reason in done.stderr
    assert config.read_text() == before
