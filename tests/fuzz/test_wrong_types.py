"""Every value of the wrong type is blamed on the field it was given for."""

from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import pytest

from tests.faults.seen import CHAT, RESPONSES, Json, client
from tests.fuzz.seeds import SEEDS
from tests.serving import serving
from translation.validation import dotted_path

PATHS = pytest.mark.parametrize("path", [RESPONSES, CHAT])
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


@PATHS
async def test_the_wrong_type_for_a_documented_field_is_refused(path: str) -> None:
    with serving(DEMO) as gateway:
        async with client() as asking:
            schema = await _documented(asking, gateway.url, path)
            for field, described in schema["properties"].items():
                for wrong in SAMPLES.keys() - _types(described, schema["$defs"]):
                    reply = await asking.post(gateway.v1 + path, json={**SEEDS[path][0], field: SAMPLES[wrong]})
                    assert reply.status_code == 400, (field, wrong)
                    error = reply.json()["error"]
                    assert (error["param"], error["code"]) == (field, "invalid_type"), (wrong, error)


@PATHS
async def test_the_wrong_type_deep_in_a_body_is_blamed_on_what_was_changed(path: str) -> None:
    with serving(DEMO) as gateway:
        async with client() as asking:
            for body, place, value in _with_wrong_types(path):
                reply = await asking.post(gateway.v1 + path, json=body)
                assert reply.status_code in (200, 400), (place, value, reply.text)
                error = {} if reply.status_code == 200 else reply.json()["error"]
                if error.get("code") == "invalid_type":  # not where a field takes anything, or another one misses it
                    at, blamed = dotted_path(place), error["param"]
                    assert at.startswith(blamed) or blamed.startswith(at), (place, value, error)


async def _documented(asking: Any, url: str, path: str) -> Json:
    document = (await asking.get(f"{url}/openapi.json")).json()
    schema: Json = document["paths"][f"/v1{path}"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    return schema


def _types(described: Json, named: Json) -> set[str]:
    """JSON types a schema takes; a whole number is a number."""
    if "$ref" in described:
        return _types(named[described["$ref"].rpartition("/")[2]], named)
    if choices := described.get("anyOf") or described.get("oneOf"):
        return {kind for choice in choices for kind in _types(choice, named)}
    return {"number", "integer"} if described["type"] == "number" else {described["type"]}


def _with_wrong_types(path: str) -> Iterator[tuple[Json, tuple[Any, ...], Any]]:
    for seed in SEEDS[path]:
        for place in places(seed):
            for value in SAMPLES.values():
                body = deepcopy(seed)
                container: Any = body
                for step in place[:-1]:
                    container = container[step]
                container[place[-1]] = value
                yield body, place, value


def places(node: Any) -> Iterator[tuple[Any, ...]]:
    if isinstance(node, dict | list):
        for key, child in node.items() if isinstance(node, dict) else enumerate(node):
            yield (key,)
            yield from ((key, *rest) for rest in places(child))
