"""Folders in the working directory with the names of packages of the gateway have no effect."""

from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.serving import READY_S, Command, command

MODEL = Path(__file__).parents[3] / "models/tiny-reasoner.gguf"
ENGINE = {"type": "llamacpp", "model": str(MODEL), "engine": {"n_ctx": 1024, "cpuparams.n_threads": 1}}
NAMES = ("gateway", "providers", "dataplane", "translation", "responses_gateway_clients")

pytestmark = pytest.mark.timeout(120)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in NAMES:
        package = tmp_path / name
        package.mkdir()
        (package / "__init__.py").write_text("raise RuntimeError('this is not the package of the gateway')\n")
    return tmp_path


def config(provider: dict[str, Any]) -> dict[str, Any]:
    return {
        "server": {"drain_s": 1},
        "store": {"url": None},
        "providers": {"local": provider},
        "models": {"demo": {"provider": "local"}},
    }


def ask(server: Command) -> httpx.Response:
    question = {"model": "demo", "input": "Hi", "max_output_tokens": 16}
    return httpx.post(f"{server.v1}/responses", json=question, verify=False, trust_env=False, timeout=READY_S)


def test_an_embedded_engine_starts(folder: Path) -> None:
    with command(config(ENGINE), folder) as server:
        assert ask(server).status_code == 200


def test_workers_start(folder: Path) -> None:
    with command(config({"type": "scripted"}), folder, "--workers", "2") as server:
        assert ask(server).status_code == 200
