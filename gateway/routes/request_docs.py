"""Request bodies in /openapi.json. Handlers read bodies themselves, so that errors are the APIs' own."""

from collections.abc import Callable
from typing import Any

from translation.json_types import Json


def json_request(schema: Callable[[], Json]) -> dict[str, Any]:
    """`openapi_extra` for a route that takes one JSON object."""
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema()}}}}
