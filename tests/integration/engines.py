"""Real inference engines with the tiny model, each a process of its own on a free port."""

import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import httpx

from bench.servers.processes import find_free_port

ROOT = Path(__file__).parents[2]
CONTEXT = 4096
"""Tokens that prompt and answer together may have."""

_READY_S = 300.0
_STOP_S = 30.0

_VLLM_FLAGS = [
    *("--reasoning-parser", "qwen3", "--tool-call-parser", "hermes", "--enable-auto-tool-choice"),
    *("--dtype", "float32", "--enforce-eager", "--max-model-len", str(CONTEXT), "--max-num-seqs", "16"),
    *("--block-size", "32", "--kv-cache-memory-bytes", str(256 << 20), "--enable-prompt-tokens-details"),
]
_VLLM_ENVIRONMENT = {
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "TORCHDYNAMO_DISABLE": "1",
    "HF_HUB_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "DO_NOT_TRACK": "1",
}


class Load(NamedTuple):
    """The load of an engine, by its metrics."""

    running: int
    """Requests it is answering."""
    steps: int
    """Forward passes or tokens since its start; with one request at a time they are the same but for the prompt."""


@dataclass(frozen=True)
class Engine:
    """A running server."""

    kind: str
    """The provider type for it."""
    url: str
    running: str
    steps: str
    """The names of its two metrics that make a Load."""
    prompts: str
    reused: str | None
    """The names of its metrics for tokens of prompts, and for those among them that were not computed again; None: the
    first are without them."""
    block: int
    """The number of prompt tokens in a cached block."""

    def load(self) -> Load:
        metrics = httpx.get(f"{self.url}/metrics", timeout=60).text
        return Load(_metric(metrics, self.running), _metric(metrics, self.steps))

    def computed(self) -> int:
        """Returns the number of prompt tokens computed since the start."""
        metrics = httpx.get(f"{self.url}/metrics", timeout=60).text
        return _metric(metrics, self.prompts) - (_metric(metrics, self.reused) if self.reused else 0)


@contextmanager
def llama(log: Path, model: Path = ROOT / "models/tiny-reasoner.gguf") -> Iterator[Engine]:
    """Starts llama.cpp's own HTTP server. Its log may be mixed into the line with the address."""
    command = [sys.executable, "-u", str(Path(__file__).with_name("llama_server.py"))]
    with _started([*command, str(model)], r"(http://127\.0\.0\.1:\d+)$", log) as (url,):
        work = ("llamacpp:requests_processing", "llamacpp:n_decode_total", "llamacpp:prompt_tokens_total", None)
        yield Engine("openai_compatible", url, *work, block=1)


@contextmanager
def vllm(python: str, log: Path) -> Iterator[Engine]:
    """Starts vLLM's own HTTP server, from an environment with vLLM."""
    port = str(find_free_port())
    command = [python, "-m", "vllm.entrypoints.openai.api_server", "--host", "127.0.0.1", "--port", port]
    model = ["--model", str(ROOT / "models/tiny-reasoner"), "--served-model-name", "tiny"]
    ready = r"Application startup complete"
    with _started([*command, *model, *_VLLM_FLAGS], ready, log, _VLLM_ENVIRONMENT):
        prompts = ("vllm:prompt_tokens_total", "vllm:prompt_tokens_cached_total")
        work = ("vllm:num_requests_running", "vllm:generation_tokens_total", *prompts)
        yield Engine("vllm", f"http://127.0.0.1:{port}", *work, block=32)


@contextmanager
def _started(
    command: Sequence[str], ready: str, log: Path, environment: Mapping[str, str] | None = None
) -> Iterator[Sequence[str]]:
    """The groups of the line that says the server is ready; what it writes goes to `log`. Ended by SIGTERM."""
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        env={**os.environ, **(environment or {})},
    )
    found: list[re.Match[str]] = []
    settled = threading.Event()

    def copy_lines() -> None:
        assert process.stdout is not None
        with process.stdout, log.open("w") as copy:
            for line in process.stdout:
                copy.write(line)
                copy.flush()
                if not found and (match := re.search(ready, line)):
                    found.append(match)
                    settled.set()
        settled.set()

    reader = threading.Thread(target=copy_lines, daemon=True)
    reader.start()
    try:
        settled.wait(_READY_S)
        if not found:
            raise RuntimeError(f"{command[0]} did not get ready:\n{log.read_text()[-4000:]}")
        yield found[0].groups()
    finally:
        process.terminate()
        try:
            process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(_STOP_S)
        reader.join(_STOP_S)


def _metric(metrics: str, name: str) -> int:
    (value,) = re.findall(rf"^{name}(?:{{.*}})? (\S+)$", metrics, re.MULTILINE)
    return int(float(value))
