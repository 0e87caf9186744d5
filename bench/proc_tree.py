"""What a tree of processes uses, read through /proc and the processes' own clocks."""

import os
import time
from pathlib import Path
from typing import NamedTuple

_PAGE = os.sysconf("SC_PAGE_SIZE")
_CPU_OF_ALL_THREADS = 2
"""`CPUCLOCK_SCHED` of linux/posix-timers.h."""


class Usage(NamedTuple):
    """What a tree holds at one moment."""

    resident_bytes: int
    files: int
    sockets: int
    """Of the open files."""
    threads: int


def cpu_s(root: int) -> float:
    """User and system time of all processes of the tree that live, ended threads included.

    In nanoseconds: the hundredths of a second in /proc/PID/stat are a tenth of what a light load takes.
    """
    return sum(_cpu_s(pid) for pid in tree(root))


def resident_bytes(root: int) -> int:
    """Resident memory of the tree."""
    return sum(int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE for pid in tree(root))


def usage(root: int) -> Usage:
    """All of it at once."""
    pids = tree(root)
    files = [file for pid in pids for file in _open_files(pid)]
    return Usage(
        resident_bytes=resident_bytes(root),
        files=len(files),
        sockets=sum(file.startswith("socket:") for file in files),
        threads=sum(len(list(Path(f"/proc/{pid}/task").iterdir())) for pid in pids),
    )


def tree(root: int) -> list[int]:
    """The process, its children, theirs."""
    parents: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(") ")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue  # it ended between the listing and the reading
        parents.setdefault(int(fields[1]), []).append(int(stat.parent.name))
    pids = [root]
    for pid in pids:
        pids += parents.get(pid, [])
    return pids


def _cpu_s(pid: int) -> float:
    # The id of a process's clock, as clock_getcpuclockid(3) makes it; Python has only the one for threads.
    return time.clock_gettime((~pid << 3) | _CPU_OF_ALL_THREADS)


def _open_files(pid: int) -> list[str]:
    found = []
    for file in Path(f"/proc/{pid}/fd").iterdir():
        try:
            found.append(os.readlink(file))
        except FileNotFoundError:
            continue  # closed since it was listed
    return found
