"""Fewer and larger pages for what a server process has in memory before its first request."""

import ctypes
from collections.abc import Iterator
from pathlib import Path
from typing import Final

_MAPS_FILE: Final = Path("/proc/self/maps")

_HUGE_PAGE_BYTES: Final = 2 << 20
"""Bytes of a huge page, which begins at a multiple of as many."""

_MADV_COLLAPSE: Final = 25
"""MADV_COLLAPSE of Linux 6.1; older kernels and other systems know no such advice."""


def use_huge_pages() -> None:
    """Ask Linux to put the heap as it is now into huge pages; where it will not, all stays as it is.

    A request goes to a little of everything that was imported, and in small pages each place is an address to look up:
    5 of 100 µs of a short request. What is full already takes no more memory for it.
    """
    try:
        maps = _MAPS_FILE.read_text("ascii", "replace")  # only names of files can be anything else
    except OSError:
        return
    advise = ctypes.CDLL(None).madvise
    advise.argtypes = (ctypes.c_size_t, ctypes.c_size_t, ctypes.c_int)
    for start, end in find_heap_ranges(maps):
        advise(start, end - start, _MADV_COLLAPSE)


def find_heap_ranges(maps: str) -> Iterator[tuple[int, int]]:
    """From where to where there is room for huge pages in the heap, as /proc/PID/maps has it."""
    for line in maps.splitlines():
        addresses, access, _, _, _, *name = line.split(maxsplit=5)
        if not access.startswith("rw") or name not in ([], ["[heap]"]):
            continue
        start, end = (int(address, 16) for address in addresses.split("-"))
        start, end = -(-start // _HUGE_PAGE_BYTES) * _HUGE_PAGE_BYTES, end // _HUGE_PAGE_BYTES * _HUGE_PAGE_BYTES
        if start < end:
            yield start, end
