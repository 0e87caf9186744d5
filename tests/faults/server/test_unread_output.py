"""A gateway whose output is not read continues to serve, and counts the log lines that it could not write."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
import yaml

CONFIG = {
    "store": {"url": None},
    "providers": {"scripted": {"type": "scripted"}},
    "models": {"*": {"provider": "scripted"}},
}
PATH = "/" + "x" * 3500
"""Each request has its path in its log line, so that 310 of them fill the pipe and the queue of a worker."""
REQUESTS = 400


@pytest.mark.parametrize("workers", [1, 2])
def test_a_gateway_with_unread_output_serves_on(workers: int, tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(yaml.safe_dump(CONFIG))
    command = Path(sys.executable).with_name("responses-gateway")
    arguments = ["serve", "--config", str(file), "--port", "0", "--workers", str(workers)]
    process = subprocess.Popen([str(command), *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=tmp_path)
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        url = process.stdout.readline().decode().removeprefix("listening on ").strip()
        # One connection for each request, so that every worker has some.
        with httpx.Client(base_url=url, timeout=5, headers={"connection": "close"}) as client:
            for _ in range(REQUESTS * workers):
                assert client.get(PATH).status_code == 404
        process.send_signal(signal.SIGTERM)
        lines = process.stderr.read().decode().splitlines()
        assert process.wait(10) == 0
    finally:
        process.kill()
        process.wait(10)
        process.stdout.close()
        process.stderr.close()
    messages = [json.loads(line) for line in lines]
    dropped = sum(message["dropped"] for message in messages if message["message"] == "log_lines_dropped")
    written = sum(message["message"] == "request" for message in messages)
    assert dropped > 0
    assert written + dropped == REQUESTS * workers
