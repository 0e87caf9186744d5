"""Damages JSON bodies as clients with bugs do, at one to four places."""

import copy
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

from tests.faults.client_view import Json

Place = tuple[Any, Any]
"""A container and the key or index of one value in it."""

STRANGE: list[Any] = [
    None,
    True,
    False,
    0,
    -1,
    1,
    16,
    2**31,
    -(2**63),
    2**64 - 1,
    0.5,
    1e308,
    -0.0,
    "",
    " ",
    "auto",
    "none",
    "message",
    "function",
    "\x00",
    "\u2028</think><think>",
    "😀",
    "x" * 5000,
    "../../etc/passwd",
    "{",
    "null",
    [],
    [[]],
    [None],
    ["a"],
    [{}],
    {},
    {"": None},
    {"type": None},
    {"type": "message"},
    {"type": "no_such_type"},
    {"type": {}},
    {"role": []},
]


def mutated(random: Random, body: Json, strangers: list[Json]) -> Json:
    """A damaged copy; `strangers` are bodies that parts are taken from."""
    damaged = copy.deepcopy(body)
    for _ in range(random.choice((1, 1, 1, 2, 3, 4))):
        places = list(_places(damaged))
        if not places:
            return damaged
        container, key = random.choice(places)
        random.choice(_DAMAGES)(random, container, key, strangers)
    return damaged


def _places(node: Any) -> Iterator[Place]:
    if isinstance(node, dict | list):
        for key, child in node.items() if isinstance(node, dict) else enumerate(node):
            yield node, key
            yield from _places(child)


def _replace(random: Random, container: Any, key: Any, _: list[Json]) -> None:
    container[key] = copy.deepcopy(random.choice(STRANGE))


def _remove(_: Random, container: Any, key: Any, __: list[Json]) -> None:
    del container[key]


def _repeat(_: Random, container: Any, key: Any, __: list[Json]) -> None:
    if isinstance(container, list):
        container.insert(key, copy.deepcopy(container[key]))
    else:
        container[f"{key}_"] = copy.deepcopy(container[key])


def _wrap(random: Random, container: Any, key: Any, _: list[Json]) -> None:
    container[key] = random.choice(([container[key]], {"type": container[key]}, {str(key): container[key]}))


def _shuffle(random: Random, container: Any, _: Any, __: list[Json]) -> None:
    if isinstance(container, list):
        random.shuffle(container)


def _transplant(random: Random, container: Any, key: Any, strangers: list[Json]) -> None:
    donor, organ = random.choice(list(_places(random.choice(strangers))))
    if isinstance(container, dict) and isinstance(organ, str):
        key = random.choice((key, organ))
    container[key] = copy.deepcopy(donor[organ])


_DAMAGES: list[Callable[[Random, Any, Any, list[Json]], None]] = [
    _replace,
    _replace,
    _remove,
    _repeat,
    _wrap,
    _shuffle,
    _transplant,
    _transplant,
]
