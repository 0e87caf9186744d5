"""Every value of the wrong type is blamed on the field it was given for."""

from typing import Any

import pytest

from tests.faults.client_view import CHAT, RESPONSES, Json, client
from tests.fuzz.damage.wrong_types import DEMO, SAMPLES, check_blame, with_wrong_types
from tests.fuzz.seeds import SEEDS
from tests.serving import serving

PATHS = pytest.mark.parametrize("path", [RESPONSES, CHAT])


@PATHS
async def test_the_wrong_type_for_a_documented_field_is_refused(path: str) -> None:
    with serving(DEMO) as gateway:
        async with client() as asking:
            fields, schemas = await _documented_fields(asking, gateway.url, path)
            for field, described in fields.items():
                for wrong in SAMPLES.keys() - _types(described, schemas):
                    reply = await asking.post(gateway.v1 + path, json={**SEEDS[path][0], field: SAMPLES[wrong]})
                    assert reply.status_code == 400, (field, wrong)
                    error = reply.json()["error"]
                    assert (error["param"], error["code"]) == (field, "invalid_type"), (wrong, error)


@PATHS
async def test_wrong_types_deep_in_a_body_are_blamed_on_the_changed_field(path: str) -> None:
    with serving(DEMO) as gateway:
        async with client() as asking:
            for seed in SEEDS[path]:
                for body, place, value in with_wrong_types(seed):
                    check_blame(await asking.post(gateway.v1 + path, json=body), place, value)


async def _documented_fields(asking: Any, url: str, path: str) -> tuple[Json, Json]:
    """The fields of a body, and every schema of the document by its name."""
    document = (await asking.get(f"{url}/openapi.json")).json()
    schema: Json = document["paths"][f"/v1{path}"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    schemas: Json = document["components"]["schemas"]
    return schemas[schema["$ref"].rpartition("/")[2]]["properties"], schemas


def _types(described: Json, named: Json) -> set[str]:
    """Returns the JSON types that a schema accepts. An integer is a number too."""
    if "$ref" in described:
        return _types(named[described["$ref"].rpartition("/")[2]], named)
    if choices := described.get("anyOf") or described.get("oneOf"):
        return {kind for choice in choices for kind in _types(choice, named)}
    return {"number", "integer"} if described["type"] == "number" else {described["type"]}
