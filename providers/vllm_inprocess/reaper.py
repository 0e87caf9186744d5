"""Ends an engine's processes when the gateway is gone without having ended them: `python -m
providers.vllm_inprocess.reaper PID...`. vLLM's own wait for whoever started them, for ever.

It waits until stdin is closed, which the system does for a process that was killed.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path


def start_reaper(pids: Iterable[int]) -> "subprocess.Popen[bytes]":
    """Have these processes ended when this one is. Whoever has ended them kills the reaper first."""
    return subprocess.Popen(
        [sys.executable, "-m", "providers.vllm_inprocess.reaper", *map(str, pids)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def main() -> None:
    known = {int(pid): _start_time_of(int(pid)) for pid in sys.argv[1:]}
    sys.stdin.buffer.read()
    for pid, began in known.items():
        # The number may be another process's meanwhile.
        if _start_time_of(pid) == began:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def _start_time_of(pid: int) -> str | None:
    """When a process began, in the system's words; None where it does not tell."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except OSError:
        return None


if __name__ == "__main__":
    main()
