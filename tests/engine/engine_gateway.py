"""The gateway with vLLM inside, started as its users start it, by a Python that has vLLM."""

import os
import signal
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

import httpx
import pytest
import yaml

from tests.integration.engines import CONTEXT, ROOT, Load

Json: TypeAlias = dict[str, Any]

READY_S = 300.0
STOP_S = 60.0

ARGUMENTS: Json = {
    "dtype": "float32",
    "enforce_eager": True,
    "max_model_len": CONTEXT,
    "max_num_seqs": 16,
    "block_size": 32,
    "kv_cache_memory_bytes": 256 << 20,
}
"""The settings of the server that tests/integration/engines.py starts."""

PROVIDER: Json = {
    "type": "vllm_inprocess",
    "model": str(ROOT / "models/tiny-reasoner"),
    "engine": ARGUMENTS,
}

_ENVIRONMENT = {
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "VLLM_LOGGING_LEVEL": "WARNING",
    "VLLM_LOGGING_STREAM": "ext://sys.stderr",
    "TORCHDYNAMO_DISABLE": "1",
    "HF_HUB_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "DO_NOT_TRACK": "1",
    "PYTHONPATH": str(ROOT),
}


class Hosted:
    """A gateway process and the engine inside."""

    kind = "vllm_inprocess"

    def __init__(self, process: subprocess.Popen[str], url: str, log: Path) -> None:
        self.process = process
        self.url = url
        self.log = log

    @property
    def v1(self) -> str:
        return f"{self.url}/v1"

    def condition(self) -> Json:
        """Returns the state of the engine in /readyz."""
        found: Json = httpx.get(f"{self.url}/readyz", timeout=60).json()["engines"]["local"]
        return found

    def is_ready(self) -> bool:
        return httpx.get(f"{self.url}/readyz", timeout=60).status_code == 200

    def load(self) -> Load:
        return Load(self.condition()["running"], 0)

    def children(self) -> Sequence[int]:
        """The processes that it started and that are at work."""
        found = []
        for status in Path("/proc").glob("[0-9]*/stat"):
            try:
                pid, rest = status.read_text().split(" (", 1)
            except OSError:
                continue  # it ended meanwhile
            state, parent = rest.rpartition(") ")[2].split()[:2]
            if int(parent) == self.process.pid and state != "Z":
                found.append(int(pid))
        return found

    def engine_process(self) -> int:
        """The one that runs the model."""
        (found,) = [pid for pid in self.children() if b"EngineCore" in Path(f"/proc/{pid}/cmdline").read_bytes()]
        return found

    def stop(self) -> int:
        """Ends the gateway by SIGTERM. Returns its exit status."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(STOP_S)


def engine_python() -> str:
    python = os.environ.get("ENGINE_PYTHON")
    if python is None:
        raise pytest.UsageError("ENGINE_PYTHON must name a Python that has vLLM; `make test-engine` sets one up")
    return python


@contextmanager
def hosted(models: Mapping[str, Json], folder: Path, *, within: Sequence[str] = (), **more: Any) -> Iterator[Hosted]:
    """Serves these models of the tiny model's engine, once it is ready; `more` extends the configuration. `within`:
    what the command is run by."""
    file, log = folder / "config.yaml", folder / "gateway.log"
    config = {"store": {"url": None}, "providers": {"local": PROVIDER}, "models": dict(models), **more}
    file.write_text(yaml.safe_dump(config, sort_keys=False))
    with log.open("w") as stderr:
        process = subprocess.Popen(
            [*within, engine_python(), "-m", "gateway", "serve", "--config", str(file), "--port", "0"],
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            cwd=folder,
            env={**os.environ, **_ENVIRONMENT},
        )
    assert process.stdout is not None
    # It is read at the end too: a full pipe would hold the server up.
    reader = threading.Thread(target=process.stdout.read, daemon=True)
    giving_up = threading.Timer(READY_S, process.kill)
    giving_up.start()
    try:
        line = process.stdout.readline()
        giving_up.cancel()
        if not line.startswith("listening on "):
            raise RuntimeError(f"the gateway did not start: {log.read_text()[-4000:]}")
        reader.start()
        yield Hosted(process, line.removeprefix("listening on ").strip(), log)
    finally:
        giving_up.cancel()
        if process.poll() is None:
            process.terminate()
        try:
            process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(STOP_S)
        process.stdout.close()
