"""A new configuration starts an embedded engine anew only if that engine's configuration changed."""

import signal
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from tests.polling import wait_until
from tests.processes import is_running, needs_proc
from tests.serving import READY_S, Command, command

MODEL = Path(__file__).parents[3] / "models/tiny-reasoner.gguf"
PROC = Path("/proc")

pytestmark = [pytest.mark.timeout(120), needs_proc]


def config(window: int, *models: str) -> dict[str, Any]:
    engine = {"n_ctx": window, "n_parallel": 2, "cpuparams.n_threads": 1}
    return {
        "server": {"drain_s": 1},
        "store": {"url": None},
        "providers": {"embedded": {"type": "llamacpp", "model": str(MODEL), "engine": engine}},
        "models": {name: {"provider": "embedded", "request_defaults": {"temperature": 0}} for name in models},
    }


def reload(server: Command, tree: dict[str, Any]) -> None:
    server.log.with_name("config.yaml").write_text(yaml.safe_dump(tree))
    server.process.send_signal(signal.SIGHUP)


def engines_of(server: Command) -> list[int]:
    """The engine's processes of a server."""
    children = (PROC / f"{server.process.pid}/task").glob("*/children")
    pids = [int(pid) for file in children for pid in file.read_text().split()]
    return [pid for pid in pids if b"providers.llamacpp.child" in (PROC / f"{pid}/cmdline").read_bytes()]


def ask(server: Command, model: str) -> int:
    question = {"model": model, "input": "Hi", "max_output_tokens": 16}
    return httpx.post(
        f"{server.v1}/responses", json=question, verify=False, trust_env=False, timeout=READY_S
    ).status_code


def is_ready(server: Command) -> bool:
    return httpx.get(f"{server.url}/readyz", verify=False, trust_env=False, timeout=60).status_code == 200


async def test_an_engine_restarts_when_its_own_configuration_changed(tmp_path: Path) -> None:
    with command(config(2048, "a"), tmp_path, forked=True) as server:
        [first] = engines_of(server)
        reload(server, config(2048, "a", "b"))
        await wait_until(lambda: "configuration_reloaded" in server.read_log())
        assert ask(server, "b") == 200
        assert engines_of(server) == [first], "another model needs no other engine"

        body = {"model": "a", "input": "Think forever.", "stream": True, "max_output_tokens": 512}
        with httpx.stream(
            "POST", f"{server.v1}/responses", json=body, verify=False, trust_env=False, timeout=60
        ) as stream:
            lines = stream.iter_lines()
            assert stream.status_code == 200
            assert next(lines)
            reload(server, config(1024, "a"))
            await wait_until(lambda: server.read_log().count("configuration_reloaded") == 2)
            text = "\n".join(lines)
        assert "response.completed" in text or "response.incomplete" in text, "it ended on the engine that it began on"
        await wait_until(lambda: not is_running(first))
        await wait_until(lambda: is_ready(server))
        [second] = engines_of(server)
        assert second != first
        assert ask(server, "a") == 200
