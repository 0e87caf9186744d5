"""A gateway whose output is not read continues to serve, and counts the log lines that it could not write."""

import json
import signal
import subprocess
import sys
import threading
from pathlib import Path

import httpx
import pytest
import yaml

from tests.faults.connection import EXIT_S
from tests.polling import block_until

CONFIG = {
    "store": {"url": None},
    "providers": {"scripted": {"type": "scripted"}},
    "models": {"*": {"provider": "scripted"}},
}
UNKNOWN = {f"unknown_{number}".ljust(190, "x"): 1 for number in range(17)}
BODY = {"model": "m", "input": "Hello", "store": False, **UNKNOWN}
"""The log line of each request names what it loses, so that 310 of them fill the pipe and the queue of a worker."""
REQUESTS = 400


def count_lines(lines: list[bytes]) -> tuple[int, int]:
    """Returns how many lines of requests were written, and how many were dropped."""
    messages = [json.loads(line) for line in [*lines]]
    dropped = sum(message["dropped"] for message in messages if message["message"] == "log_lines_dropped")
    return sum(message["message"] == "request" for message in messages), dropped


@pytest.mark.parametrize("workers", [1, 2])
def test_a_gateway_with_unread_output_serves_on(workers: int, tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(yaml.safe_dump(CONFIG))
    command = Path(sys.executable).with_name("responses-gateway")
    arguments = ["serve", "--config", str(file), "--port", "0", "--workers", str(workers)]
    process = subprocess.Popen([str(command), *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=tmp_path)
    assert process.stdout is not None
    assert process.stderr is not None
    lines: list[bytes] = []
    reading = threading.Thread(target=lambda: lines.extend(process.stderr or ()))
    try:
        url = process.stdout.readline().decode().removeprefix("listening on ").strip()
        # One connection for each request, so that every worker has some.
        with httpx.Client(base_url=url, timeout=60, headers={"connection": "close"}) as client:
            for _ in range(REQUESTS * workers):
                assert client.post("/v1/responses", json=BODY).status_code == 200
        reading.start()
        block_until(lambda: sum(count_lines(lines)) == REQUESTS * workers)
        process.send_signal(signal.SIGTERM)
        assert process.wait(EXIT_S) == 0
    finally:
        process.kill()
        process.wait(EXIT_S)
        if reading.is_alive():
            reading.join(EXIT_S)
        process.stdout.close()
        process.stderr.close()
    written, dropped = count_lines(lines)
    assert dropped > 0
    assert written + dropped == REQUESTS * workers
