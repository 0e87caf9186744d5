"""Moves the heap of a server process into huge pages before its first request."""

import ctypes
from collections.abc import Iterator
from pathlib import Path
from typing import Final

_MAPS_FILE: Final = Path("/proc/self/maps")

_HUGE_PAGE_BYTES: Final = 2 << 20
"""The size of a huge page in bytes. It starts at a multiple of its size."""

_MADV_COLLAPSE: Final = 25
"""MADV_COLLAPSE of Linux 6.1. Older kernels and other systems do not support it."""


def use_huge_pages() -> None:
    """Asks Linux to move the current heap into huge pages. If it refuses, nothing changes.

    A request touches memory all over the imported modules, and with small pages each place is an address translation:
    5 of 100 µs of a short request. Ranges that are already in use need no more memory.
    """
    try:
        maps = _MAPS_FILE.read_text("ascii", "replace")  # only file names can have other characters
    except OSError:
        return
    advise = ctypes.CDLL(None).madvise
    advise.argtypes = (ctypes.c_size_t, ctypes.c_size_t, ctypes.c_int)
    for start, end in find_heap_ranges(maps):
        advise(start, end - start, _MADV_COLLAPSE)


def find_heap_ranges(maps: str) -> Iterator[tuple[int, int]]:
    """Yields the (start, end) addresses in the heap that whole huge pages can cover. `maps` is /proc/PID/maps."""
    for line in maps.splitlines():
        addresses, access, _, _, _, *name = line.split(maxsplit=5)
        if not access.startswith("rw") or name not in ([], ["[heap]"]):
            continue
        start, end = (int(address, 16) for address in addresses.split("-"))
        start, end = -(-start // _HUGE_PAGE_BYTES) * _HUGE_PAGE_BYTES, end // _HUGE_PAGE_BYTES * _HUGE_PAGE_BYTES
        if start < end:
            yield start, end
