"""Ids begin with their time and are unique, also in forked processes."""

import os
import re
import time

import pytest

from providers.new_id import new_id, random_hex

_MANY = 200
"""More than are drawn at once."""


def test_an_id_is_a_prefix_and_48_digits() -> None:
    assert re.fullmatch(r"msg_[0-9a-f]{48}", new_id("msg"))


def test_ids_of_later_milliseconds_are_greater(monkeypatch: pytest.MonkeyPatch) -> None:
    ids = []
    for milliseconds in (1, 15, 16, 1_700_000_000_000, 1_700_000_000_001, 2**48 - 1):
        monkeypatch.setattr(time, "time_ns", lambda now=milliseconds: now * 1_000_000)
        ids.append(new_id("msg"))
    assert ids == sorted(ids)
    assert {len(created) for created in ids} == {len("msg_") + 48}


def test_ids_of_one_millisecond_differ_in_144_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "time_ns", lambda: 0)
    assert len({new_id("msg")[-36:] for _ in range(_MANY)}) == _MANY


def test_no_id_is_used_twice() -> None:
    assert len({random_hex() for _ in range(_MANY)}) == _MANY


def test_a_forked_process_gives_other_ids_than_its_parent() -> None:
    random_hex()  # so that some are drawn for later
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writing, random_hex().encode())
        os._exit(0)
    os.waitpid(child, 0)
    with os.fdopen(reading, "rb") as pipe, os.fdopen(writing, "wb"):
        assert pipe.read(48).decode() not in {random_hex() for _ in range(_MANY)}
