"""The processes of a running gateway, as `/proc` lists them."""

from contextlib import suppress
from pathlib import Path

import pytest

PROC = Path("/proc")

needs_proc = pytest.mark.skipif(
    not (PROC / "self/stat").exists(), reason="without /proc a test cannot tell which processes are workers"
)


def worker_pids(server: int) -> list[int]:
    """The processes a server has started to serve: children of its one child, which forks them."""
    return [worker for template in child_pids(server) for worker in child_pids(template)]


def child_pids(process: int) -> list[int]:
    """The processes whose parent is this one."""
    found = []
    for status in PROC.glob("[0-9]*/stat"):
        with suppress(OSError):  # it has ended since it was listed
            if int(status.read_text().rpartition(")")[2].split()[1]) == process:
                found.append(int(status.parent.name))
    return found


def is_running(pid: int) -> bool:
    """Whether a process has not ended. One that has ended and nobody has waited for does not run."""
    try:
        return (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
