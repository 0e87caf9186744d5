"""A real llama.cpp that is stopped in the middle of its work, and does not die of it."""

import json
import os
import signal
import time
from pathlib import Path

import httpx
import pytest

from tests.integration.embedded.embedded_engine import (
    CONFIG,
    ENDLESS,
    ENGINE,
    engine_of,
    is_alive,
    needs_proc,
    ready,
)
from tests.polling import block_until
from tests.serving import command

pytestmark = pytest.mark.timeout(180)  # servers with engines are started and ended

HANG_S = 8.0


@needs_proc
def test_a_hanging_engine_is_killed_and_restarted(tmp_path: Path) -> None:
    watched = {**CONFIG, "providers": {"embedded": {**ENGINE, "hang_s": HANG_S}}}
    with (
        command(watched, tmp_path, forked=True) as gateway,
        httpx.Client(verify=False, trust_env=False, timeout=60) as http,
    ):
        victim = engine_of(gateway)
        with http.stream("POST", f"{gateway.v1}/responses", json=ENDLESS) as stream:
            lines = stream.iter_lines()
            next(line for line in lines if "output_text.delta" in line)
            os.kill(victim, signal.SIGSTOP)
            stopped_at = time.monotonic()
            *_, last = (line for line in lines if line.startswith("data: {"))
        assert time.monotonic() - stopped_at >= HANG_S
        failed = json.loads(last.removeprefix("data: "))
        assert failed["type"] == "response.failed"
        assert failed["response"]["error"]["message"] == "the engine died in the middle of its reply"
        block_until(lambda: not is_alive(victim))
        block_until(lambda: f"it gave no sign of life for {HANG_S:g} s" in gateway.read_log())
        block_until(lambda: ready(http, gateway).status_code == 200)
        assert engine_of(gateway) != victim
        body = {"model": "tiny", "input": "What is 3 + 4?"}
        reply = http.post(f"{gateway.v1}/responses", json=body).raise_for_status().json()
        assert reply["output"][-1]["content"][0]["text"] == "The answer is 7."
