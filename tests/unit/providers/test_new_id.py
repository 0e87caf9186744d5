"""Ids are random, each given once, also by processes that were one."""

import os
import re

from providers.new_id import new_id, random_hex

_MANY = 200
"""More than are drawn at once."""


def test_an_id_is_a_prefix_and_192_random_bits() -> None:
    assert re.fullmatch(r"msg_[0-9a-f]{48}", new_id("msg"))


def test_no_id_is_given_twice() -> None:
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
