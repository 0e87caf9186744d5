"""A gateway with an embedded llama.cpp, and the process of its engine."""

import shutil
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.serving import Command

ROOT = Path(__file__).parents[3]
MODEL = ROOT / "models/tiny-reasoner.gguf"
PROC = Path("/proc")

ENGINE: dict[str, Any] = {
    "type": "llamacpp",
    "model": str(MODEL),
    "engine": {"n_ctx": 4096, "n_parallel": 1, "cpuparams.n_threads": 1},
}
CONFIG: dict[str, Any] = {
    "store": {"url": None},
    "server": {"drain_s": 5},
    "providers": {"embedded": ENGINE},
    "models": {
        "tiny": {"provider": "embedded", "request_defaults": {"temperature": 0}},
        "thinker": {"provider": "embedded", "request_defaults": {"temperature": 0}, "two_pass": True},
        "raw": {"provider": "embedded", "request_defaults": {"temperature": 0}, "parsing_format": "direct_response"},
    },
}

ENDLESS = {"model": "tiny", "input": "Never stop.", "stream": True}

needs_proc = pytest.mark.skipif(not PROC.is_dir(), reason="there is no /proc to find the engine's process in")


def copy_of_the_model(folder: Path) -> Path:
    """A file of its own, in the place of the one that may be there."""
    new = folder / "new.gguf"
    shutil.copy(MODEL, new)
    return new.replace(folder / MODEL.name)


def engine_of(gateway: Command) -> int:
    """The process id of the gateway's engine."""
    (pid,) = children_of(gateway.process.pid)
    return pid


def children_of(pid: int) -> list[int]:
    return [int(child) for child in (PROC / f"{pid}/task/{pid}/children").read_text().split()]


def is_alive(pid: int) -> bool:
    try:
        return (PROC / f"{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):  # it ended, before the file was opened or while it was read
        return False


def ready(http: httpx.Client, gateway: Command) -> httpx.Response:
    return http.get(f"{gateway.url}/readyz")
