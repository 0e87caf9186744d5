"""Copies of a body in which one value is missing or of another type, each place in turn."""

from collections.abc import Iterator, Sequence
from copy import deepcopy
from typing import Any, Final

from tests.faults.client_view import Json

Place = tuple[Any, ...]
"""The keys and indexes that lead to a value."""

MISSING: Final = object()
SAMPLES: Final = (MISSING, 3, ["x"], {"x": "y"})


def strike_places(body: Json, samples: Sequence[Any] = SAMPLES) -> Iterator[tuple[Json, Place, Any]]:
    """Yields copies of a body with the place that was struck, and what stands there now."""
    for place in list_places(body):
        for sample in samples:
            struck = deepcopy(body)
            container: Any = struck
            for step in place[:-1]:
                container = container[step]
            if sample is MISSING:
                del container[place[-1]]
            elif container[place[-1]] == sample:
                continue
            else:
                container[place[-1]] = deepcopy(sample)
            yield struck, place, sample


def list_places(node: Any) -> Iterator[Place]:
    """Yields the place of each value in a body."""
    if isinstance(node, dict | list):
        for key, child in node.items() if isinstance(node, dict) else enumerate(node):
            yield (key,)
            yield from ((key, *rest) for rest in list_places(child))
