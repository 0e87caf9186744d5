"""The image and the compose file, checked as far as a machine without a container engine can."""

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterable
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, distribution
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest
import yaml

from bench.servers.processes import find_free_port
from gateway.config.hints import find_hints
from gateway.config.settings import load_settings
from tests.serving import command as serve

ROOT = Path(__file__).parents[2]
BIN = Path(sysconfig.get_path("scripts"))
COMPOSE = yaml.safe_load((ROOT / "compose.yaml").read_text())
SECRETS = {"GATEWAY_KEY": "a-key-of-32-characters-0123456789", "POSTGRES_PASSWORD": "p"}
IMAGE = {"STORE_URL": "sqlite+aiosqlite:////var/lib/responses-gateway/state.db"}
"""The environment variables that the Dockerfile sets."""
_QUICKLY = {"PIP_QUIET": "1", "PIP_COMPILE": "0", "CFLAGS": "-O0"}
"""The speed of what is installed does not matter here."""


class Step(NamedTuple):
    instruction: str
    argument: str


def stages() -> list[list[Step]]:
    """The Dockerfile's instructions by stage, each on one line."""
    text = re.sub(r"^\s*#.*\n", "", (ROOT / "Dockerfile").read_text(), flags=re.MULTILINE)
    lines = re.sub(r"\\\n\s*", "", text).splitlines()
    steps = [Step(*line.split(maxsplit=1)) for line in lines if line.strip()]
    starts = [number for number, step in enumerate(steps) if step.instruction == "FROM"]
    return [steps[start:end] for start, end in zip(starts, [*starts[1:], len(steps)], strict=True)]


def arguments(stage: list[Step], instruction: str) -> list[str]:
    return [step.argument for step in stage if step.instruction == instruction]


def run(*command: str | Path, **options: Any) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(command, capture_output=True, text=True, check=False, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done


def test_the_dockerfile_passes_the_linter() -> None:
    run(BIN / "hadolint", ROOT / "Dockerfile")


@pytest.mark.timeout(300)
def test_the_install_steps_of_the_image_work_in_a_clean_directory(tmp_path: Path) -> None:
    """COPY and RUN of the build stage as written, with /src and /opt moved below a directory of the test.

    What locks pin is there before pip is run: it compares the versions, and downloads only those that differ. That they
    can be downloaded by their hashes is shown by `make setup`, whose locks pin the same
    (tests/project/test_dependencies.py).
    """
    source, opt, python = tmp_path / "src", tmp_path / "opt", tmp_path / "python"
    copy_distributions(opt / "gateway", names_in("image.txt"))
    copy_distributions(python, ["cython", "pip", "setuptools"])
    run(sys.executable, "-m", "venv", "--without-pip", python)
    pip = python / "bin/pip"
    pip.write_text(f'#!/bin/sh\nexec "{python}/bin/python" -m pip "$@"\n')
    pip.chmod(0o755)
    environ = os.environ | {"PATH": f"{python / 'bin'}:{os.environ['PATH']}"} | _QUICKLY
    source.mkdir()
    for step in stages()[0]:
        if step.instruction == "COPY":
            *names, target = step.argument.split()
            if target.endswith("/"):
                (source / target).mkdir(exist_ok=True)
            for name in names:
                copy(ROOT / name, source / target)
        elif step.instruction == "RUN" and can_run(step.argument):
            run("bash", "-euc", step.argument.replace("/opt/", f"{opt}/"), cwd=source, env=environ)

    command = opt / "gateway/bin/responses-gateway"
    assert "serve" in run(command, "--help", cwd=tmp_path).stdout
    run(pip, "--python", opt / "gateway/bin/python", "check", cwd=tmp_path)


def names_in(lock: str) -> list[str]:
    return re.findall(r"^([\w.-]+)(?:\[.+\])?==", (ROOT / "requirements" / lock).read_text(), flags=re.MULTILINE)


def copy_distributions(environment: Path, names: Iterable[str]) -> None:
    """Copies installed packages, without their commands, into an environment. It is created if it does not exist."""
    target = environment / Path(sysconfig.get_path("purelib")).relative_to(sys.prefix)
    for name in names:
        with suppress(PackageNotFoundError):  # locks also name what other systems need
            files = [file for file in distribution(name).files or () if ".." not in file.parts]
            for folder in {file.parent for file in files}:
                (target / folder).mkdir(parents=True, exist_ok=True)
            for file in files:
                link_or_copy(file.locate(), target / file)


def link_or_copy(origin: PathLike[str], target: Path) -> None:
    try:
        os.link(origin, target)
    except OSError:  # on another file system
        shutil.copy2(origin, target)


def can_run(command: str) -> bool:
    """Whether a step needs no root, which the image has."""
    return "apt-get" not in command


def copy(origin: Path, target: Path) -> None:
    if origin.is_dir():
        shutil.copytree(origin, target, ignore=shutil.ignore_patterns("__pycache__"), dirs_exist_ok=True)
    else:
        shutil.copy(origin, target)


def test_the_build_context_holds_what_is_copied_and_nothing_else() -> None:
    admitted = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    copied = {
        name
        for stage in stages()
        for argument in arguments(stage, "COPY")
        if "--from" not in argument
        for name in argument.split()[:-1]
    }
    assert copied == {name.removesuffix("*.txt") for name in admitted}


def test_the_image_runs_the_documented_command_without_root_or_a_shell() -> None:
    *_, final = stages()
    (user,) = arguments(final, "USER")
    assert all(part.isdigit() and int(part) > 0 for part in user.split(":"))
    (command,) = arguments(final, "CMD")
    assert json.loads(command)[:2] == ["responses-gateway", "serve"]
    (health,) = arguments(final, "HEALTHCHECK")
    assert json.loads(health[health.index("[") :])[0] == "python"


def test_the_base_image_is_pinned_by_its_digest() -> None:
    [image] = re.findall(r"^ARG PYTHON_IMAGE=(.+)$", (ROOT / "Dockerfile").read_text(), flags=re.MULTILINE)
    assert re.fullmatch(r"python:3\.\d+\.\d+-slim-\w+@sha256:[0-9a-f]{64}", image)
    assert [arguments(stage, "FROM") for stage in stages()] == [["${PYTHON_IMAGE} AS build"], ["${PYTHON_IMAGE}"]]


def test_the_shipped_configuration_answers_and_its_health_check_follows_the_port(tmp_path: Path) -> None:
    settings = yaml.safe_load((ROOT / "deploy/config.yaml").read_text())
    settings["server"]["doctor_report"] = str(tmp_path / "doctor.json")
    environ = SECRETS | {"STORE_URL": f"sqlite+aiosqlite:///{tmp_path / 'state.db'}"}
    port = find_free_port()
    *_, final = stages()
    [health] = arguments(final, "HEALTHCHECK")
    program = json.loads(health[health.index("[") :])[-1]
    # The port of the configuration is not the one that the environment of the container sets.
    with serve(settings, tmp_path, env=environ | {"GATEWAY_PORT": str(port)}, port=None) as gateway:
        assert gateway.url.endswith(f":{port}")
        run(sys.executable, "-c", program, env=os.environ | {"GATEWAY_PORT": str(port)})
        key = {"authorization": f"Bearer {SECRETS['GATEWAY_KEY']}"}
        body = {"model": "demo", "input": "What is 3 + 4?"}
        reply = httpx.post(f"{gateway.v1}/responses", json=body, headers=key, verify=False, trust_env=False, timeout=60)
        assert "7" in reply.json()["output"][-1]["content"][0]["text"]
        ready = httpx.get(f"{gateway.url}/readyz", verify=False, trust_env=False, timeout=60).json()
        assert (ready["status"], "unreachable_providers" in ready) == ("ready", False)


def test_the_example_of_the_environment_names_what_compose_reads() -> None:
    text = (ROOT / ".env.example").read_text()
    named = set(re.findall(r"^#?([A-Z_]+)=", text, flags=re.MULTILINE))
    read = set(re.findall(r"\$\{([A-Z_]+)", (ROOT / "compose.yaml").read_text()))
    assert named == read | {"COMPOSE_PROFILES"}
    assert all(f"\n{name}=\n" in text for name in SECRETS), "a secret has no default"
    for config in re.findall(r"^#GATEWAY_CONFIG=(\./deploy/.+)$", text, flags=re.MULTILINE):
        assert (ROOT / config).is_file()


def test_no_secret_has_a_default() -> None:
    values = [value for service in COMPOSE["services"].values() for value in service["environment"].values()]
    for name in SECRETS:
        assert any(f"${{{name}:?" in str(value) for value in values), name


def test_every_service_but_the_gateway_states_its_health() -> None:
    """The gateway's own check is in its image, what migrates ends, and nothing waits for the Jaeger."""
    services = COMPOSE["services"]
    assert {name for name, service in services.items() if "healthcheck" not in service} == {
        "gateway",
        "migrate",
        "jaeger",
    }
    assert services["migrate"]["depends_on"] == {"postgres": {"condition": "service_healthy"}}
    assert services["gateway"]["depends_on"] == {"migrate": {"condition": "service_completed_successfully"}}
    assert {name for name, service in services.items() if "profiles" in service} == {"vllm", "jaeger"}


def test_the_gateway_accepts_the_config_it_is_shipped_with() -> None:
    for file in (ROOT / "deploy/config.yaml", ROOT / "deploy/traces.yaml", ROOT / "deploy/vllm.yaml"):
        settings = load_settings(file, environ=SECRETS | IMAGE)
        assert settings.auth is not None
        assert list(find_hints(settings)) == []
        assert settings.models["demo"].provider == "demo"
        assert settings.store.url == IMAGE["STORE_URL"]
    assert settings.providers["vllm"].base_url == "http://vllm:8000/v1"
    grace = COMPOSE["services"]["gateway"]["stop_grace_period"]
    assert int(grace.removesuffix("s")) > settings.server.drain_s


def test_the_image_has_what_its_traces_need() -> None:
    """A configuration with traces is refused without the package."""
    settings = load_settings(ROOT / "deploy/traces.yaml", environ=SECRETS | IMAGE)
    assert settings.tracing is not None
    assert settings.tracing.endpoint == "http://jaeger:4318"
    assert COMPOSE["services"]["jaeger"]["image"].startswith("jaegertracing/jaeger:")
    assert {"opentelemetry-sdk", "opentelemetry-exporter-otlp-proto-http"} <= set(names_in("image.txt"))


def test_the_image_has_what_buckets_need() -> None:
    """Several replicas share the bytes of files in a bucket, which is refused without the package."""
    assert "obstore" in names_in("image.txt")


def compose_command() -> list[str] | None:
    for command in (["docker", "compose"], ["docker-compose"]):
        if shutil.which(command[0]) and not subprocess.run([*command, "version"], capture_output=True).returncode:
            return command
    return None


@pytest.mark.skipif(compose_command() is None, reason="no docker compose on this machine; .ci/run installs one")
def test_docker_compose_accepts_the_file() -> None:
    command = compose_command()
    assert command is not None
    done = run(*command, "--profile", "vllm", "--profile", "traces", "config", cwd=ROOT, env=os.environ | SECRETS)
    assert set(yaml.safe_load(done.stdout)["services"]) == {"gateway", "jaeger", "migrate", "postgres", "vllm"}
