"""What is worked on in threads: bodies that would hold the event loop up, and no others."""

import asyncio
import json
import threading
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as some

from gateway.http import large_bodies
from gateway.http.large_bodies import INLINE_BYTES, LargeBodyThreads, weigh_body

MESSAGE = {"role": "user", "content": [{"type": "input_text", "text": "x" * 700}]}

LIGHT = {
    "small": {"model": "m", "input": "x"},
    "a history of 500 items": {"model": "m", "input": [MESSAGE] * 500},
    "a history of 2,000 items": {"model": "m", "input": [MESSAGE] * 2000},
    "a text of a megabyte": {"model": "m", "input": "x" * 1024 * 1024},
}
HEAVY = {
    "300,000 words": {"model": "m", "include": ["x"] * 300_000},
    "900,000 items": {"model": "m", "input": [{}] * 900_000},
    "100,000 empty lists": {"model": "m", "input": [[]] * 100_000},
    "a text of 30 megabytes": {"model": "m", "input": "x" * 30 * 1024 * 1024},
}


@pytest.mark.parametrize("body", LIGHT.values(), ids=LIGHT)
def test_bodies_of_long_texts_are_light(body: object) -> None:
    assert weigh_body(orjson.dumps(body)).weight <= INLINE_BYTES


@pytest.mark.parametrize("body", HEAVY.values(), ids=HEAVY)
def test_bodies_of_many_values_and_giant_texts_are_heavy(body: object) -> None:
    assert weigh_body(orjson.dumps(body)).weight > INLINE_BYTES


def test_no_body_weighs_more_than_it_is_long() -> None:
    assert weigh_body(b"," * (INLINE_BYTES + 1)).weight == INLINE_BYTES + 1
    assert weigh_body(b"x" * 10).weight == 10


VALUES = some.recursive(
    some.none() | some.integers() | some.text(alphabet='a\\",[{:é'),
    lambda inner: some.lists(inner, min_size=1) | some.dictionaries(some.text(alphabet='a\\",[{'), inner, min_size=1),
)


def count(value: Any) -> int:
    children = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + sum(map(count, children))


@given(value=VALUES, inline_bytes=some.integers(min_value=1, max_value=40))
def test_a_light_body_has_no_more_values_than_its_weight(value: Any, inline_bytes: int) -> None:
    body = {"a": value}
    text = json.dumps(body, ensure_ascii=False).encode()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(large_bodies, "INLINE_BYTES", inline_bytes)
        weight = weigh_body(text).weight
    assert weight > inline_bytes or count(body) <= weight


@pytest.mark.parametrize(("weight", "is_here"), [(INLINE_BYTES, True), (INLINE_BYTES + 1, False)])
def test_heavy_bodies_are_worked_on_in_another_thread(weight: int, is_here: bool) -> None:
    async def run() -> int:
        threads = LargeBodyThreads()
        try:
            return await threads.run(weight, threading.get_ident)
        finally:
            threads.close()

    assert (asyncio.run(run()) == threading.get_ident()) is is_here
