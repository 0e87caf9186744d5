"""Kills an engine's processes if the gateway dies without stopping them: `python -m
providers.vllm_inprocess.reaper PID...`. Without it, vLLM's processes would wait forever for the process that started
them.

It waits until its stdin is closed. The operating system closes it when the gateway dies, even if it was killed.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from providers.engines.module_command import build_module_command


def start_reaper(pids: Iterable[int]) -> "subprocess.Popen[bytes]":
    """Starts a reaper that kills these processes when this process ends. The caller kills the reaper after it has
    stopped the processes itself."""
    return subprocess.Popen(
        [*build_module_command("providers.vllm_inprocess.reaper"), *map(str, pids)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def main() -> None:
    known = {int(pid): _read_start_time(int(pid)) for pid in sys.argv[1:]}
    sys.stdin.buffer.read()
    for pid, began in known.items():
        # The process id may belong to another process meanwhile.
        if _read_start_time(pid) == began:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def _read_start_time(pid: int) -> str | None:
    """Returns the start time of a process as in `/proc`, in clock ticks; None if the process or `/proc` does not
    exist."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except OSError:
        return None


if __name__ == "__main__":
    main()
