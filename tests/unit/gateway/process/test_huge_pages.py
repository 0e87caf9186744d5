"""Finds the heap of a process among its mappings, and requests huge pages for it on any platform."""

from pathlib import Path

import pytest

from gateway.process import huge_pages

MAPS = """\
560000000000-560000001000 r-xp 00001000 fe:00 26723                      /usr/bin/python3
560000100000-560000700000 rw-p 00000000 00:00 0                          [heap]
7f0000000000-7f0000400000 rw-p 00000000 00:00 0
7f0000500000-7f0000600000 rw-p 00000000 00:00 0
7f0001000000-7f0001400000 rw-p 00000000 fe:00 26933                      /a folder/libpython3.so
7f0002000000-7f0002400000 r--p 00000000 00:00 0
7ffe00000000-7ffe00800000 rw-p 00000000 00:00 0                          [stack]
"""


def test_only_memory_that_the_process_filled_is_heap() -> None:
    assert list(huge_pages.find_heap_ranges(MAPS)) == [
        (0x560000200000, 0x560000600000),
        (0x7F0000000000, 0x7F0000400000),
    ]


def test_huge_pages_may_be_requested_whatever_the_mappings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    maps = tmp_path / "maps"
    monkeypatch.setattr(huge_pages, "_MAPS_FILE", maps)
    huge_pages.use_huge_pages()
    # Nothing of ours is there, and the names of files need not be text.
    maps.write_bytes(
        b"000000200000-000000400000 rw-p 00000000 00:00 0\n"
        b"000000400000-000000800000 r--p 00000000 fe:00 1  /a \xe9\xc2\x85folder/python3\n"
    )
    huge_pages.use_huge_pages()
    monkeypatch.setattr(huge_pages, "_MAPS_FILE", tmp_path)  # there, and not to be read
    huge_pages.use_huge_pages()
