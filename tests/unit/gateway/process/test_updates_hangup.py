"""A server on a terminal: it logs text for people, and ends when the terminal is closed."""

import os
import pty
import re
import subprocess
import sys
from pathlib import Path
from typing import IO

import httpx
import yaml

from tests.serving import READY_S

CONFIG = {
    "store": {"url": None},
    "server": {"port": 0, "drain_s": 0},
    "providers": {"gone": {"type": "openai_compatible", "base_url": "http://127.0.0.1:9/v1", "retries": 0}},
    "models": {"gone": {"provider": "gone"}},
}
ON_TERMINAL = """
import fcntl, os, sys, termios
os.setsid()
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.argv[1], sys.argv[1:])
"""
"""Makes stdin the controlling terminal, as a shell does."""


def read_to(output: IO[bytes], mark: bytes) -> str:
    shown = b""
    while mark not in shown:
        shown += output.read(4096)
    return shown.decode()


def test_a_terminal_gets_text_and_its_end_ends_the_server(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(CONFIG))
    program = str(Path(sys.executable).with_name("responses-gateway"))
    controller, terminal = pty.openpty()
    with os.fdopen(controller, "rb", buffering=0) as output:
        process = subprocess.Popen(
            [sys.executable, "-c", ON_TERMINAL, program, "serve"],
            cwd=tmp_path,
            stdin=terminal,
            stdout=terminal,
            stderr=terminal,
        )
        try:
            os.close(terminal)
            url = read_to(output, b"curl ").partition("listening on ")[2].split()[0]
            question = {"model": "gone", "input": "Hi"}
            httpx.post(f"{url}/v1/responses", json=question, verify=False, trust_env=False, timeout=READY_S)
            line = read_to(output, b"upstream=")
            assert re.search(r"\d\d:\d\d:\d\d WARNING POST /v1/responses 502 in [0-9.]+ ms ", line)
        except BaseException:
            process.kill()
            raise
    assert process.wait(READY_S) == 0, "the terminal is closed: there is nobody to stop the server"
