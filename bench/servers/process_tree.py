"""Reads the resource usage of a tree of processes, from /proc and the processes' CPU clocks."""

import os
import time
from pathlib import Path
from typing import NamedTuple

_PAGE = os.sysconf("SC_PAGE_SIZE")
_CPU_OF_ALL_THREADS = 2
"""`CPUCLOCK_SCHED` of linux/posix-timers.h."""


class TreeUsage(NamedTuple):
    """The resources of a process tree at one moment."""

    resident_bytes: int
    files: int
    sockets: int
    """The number of open files that are sockets."""
    threads: int


def read_cpu_s(root: int) -> float:
    """Returns the user and system time of all live processes of the tree in seconds, including their ended threads.

    The clocks have a resolution of nanoseconds. /proc/PID/stat counts in hundredths of a second, which is a tenth of
    the CPU of a light load.
    """
    return sum(_cpu_s(pid) for pid in list_tree(root))


def read_resident_bytes(root: int) -> int:
    """Returns the resident memory of the tree in bytes."""
    return sum(int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE for pid in list_tree(root))


def read_tree_usage(root: int) -> TreeUsage:
    """Returns the memory, files and threads of the tree."""
    pids = list_tree(root)
    files = [file for pid in pids for file in _open_files(pid)]
    return TreeUsage(
        resident_bytes=read_resident_bytes(root),
        files=len(files),
        sockets=sum(file.startswith("socket:") for file in files),
        threads=sum(len(list(Path(f"/proc/{pid}/task").iterdir())) for pid in pids),
    )


def list_tree(root: int) -> list[int]:
    """Returns the ids of a process and all its descendants."""
    parents: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(") ")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue  # the process ended since it was listed
        parents.setdefault(int(fields[1]), []).append(int(stat.parent.name))
    pids = [root]
    for pid in pids:
        pids += parents.get(pid, [])
    return pids


def _cpu_s(pid: int) -> float:
    # The id of a process's clock as clock_getcpuclockid(3) builds it. Python has only the function for threads.
    return time.clock_gettime((~pid << 3) | _CPU_OF_ALL_THREADS)


def _open_files(pid: int) -> list[str]:
    targets = []
    for file in Path(f"/proc/{pid}/fd").iterdir():
        try:
            targets.append(os.readlink(file))
        except FileNotFoundError:
            continue  # closed since it was listed
    return targets
