"""Bodies in which one value has the wrong type, and the check that the error names that value."""

from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import httpx

from tests.faults.client_view import Json
from tests.fuzz.damage.struck_bodies import Place, list_places
from translation.validation import render_param_path

DEMO: Json = {"providers": {"demo": {"type": "scripted"}}, "models": {"*": {"provider": "demo"}}}
SAMPLES: Json = {
    "string": "x",
    "integer": 3,
    "number": 0.5,
    "boolean": True,
    "array": ["x"],
    "object": {"x": "y"},
    "null": None,
}


def with_wrong_types(seed: Json) -> Iterator[tuple[Json, Place, Any]]:
    """Yields copies of a body in which one value is one of the samples, with its place and that sample."""
    for place in list_places(seed):
        for value in SAMPLES.values():
            body = deepcopy(seed)
            container: Any = body
            for step in place[:-1]:
                container = container[step]
            container[place[-1]] = value
            yield body, place, value


def check_blame(reply: httpx.Response, place: Place, value: Any) -> bool:
    """Checks that a reply accepts or refuses a body, and blames what was changed. Returns whether it refuses a type.

    It does not where a field takes anything, or where another one misses the value.
    """
    assert reply.status_code in (200, 400), (place, value, reply.text)
    error = {} if reply.status_code == 200 else reply.json()["error"]
    if error.get("code") != "invalid_type":
        return False
    at, blamed = render_param_path(place), error["param"]
    assert at.startswith(blamed) or blamed.startswith(at), (place, value, error)
    return True
