"""One call of each client API, made with curl against the server as a user starts it."""

import asyncio
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.config.discovery import discover_config
from tests.serving import command

SCRIPT = Path(__file__).parents[2] / "scripts/smoke.sh"

pytestmark = pytest.mark.skipif(shutil.which("curl") is None, reason="no curl on this machine")


@pytest.fixture(scope="module")
def base_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with command(asyncio.run(discover_config({}, ())), tmp_path_factory.mktemp("smoke")) as server:
        yield server.v1


def smoke(*arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([SCRIPT, *arguments], capture_output=True, text=True, check=False, env=os.environ | environ)


@pytest.mark.parametrize("model", ["demo", "scripted"])
def test_a_server_without_any_upstream_passes_the_smoke_test(model: str, base_url: str) -> None:
    done = smoke(BASE_URL=base_url, MODEL=model)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines() == [line for line in done.stdout.splitlines() if line.startswith("ok ")]


def test_the_smoke_test_fails_when_an_answer_is_not_the_one_expected(base_url: str) -> None:
    done = smoke(BASE_URL=base_url, MODEL="nobody-serves-this")
    assert done.returncode == 1
    assert "FAILED  the model is listed" in done.stderr


@pytest.mark.parametrize("end", ["", "/v1", "/v1/"])
def test_the_server_can_be_named_as_an_argument(end: str, base_url: str) -> None:
    done = smoke(base_url.removesuffix("/v1") + end, BASE_URL="http://127.0.0.1:1/v1")
    assert done.returncode == 0, done.stdout + done.stderr


def test_an_unreachable_server_fails_the_smoke_test(base_url: str) -> None:
    done = smoke("http://127.0.0.1:1/v1", BASE_URL=base_url)
    assert done.returncode != 0
    assert "ok " not in done.stdout


def test_more_arguments_than_one_are_refused() -> None:
    done = smoke("http://127.0.0.1:1/v1", "demo")
    assert done.returncode == 2
    assert "usage" in done.stderr
