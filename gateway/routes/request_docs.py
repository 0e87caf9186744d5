"""Request bodies and failures in /openapi.json. Handlers read bodies themselves, so that errors are the APIs' own."""

from collections.abc import Callable
from typing import Any, Final

from translation.json_types import Json


def json_request(schema: Callable[[], Json]) -> dict[str, Any]:
    """`openapi_extra` for a route that takes one JSON object."""
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema()}}}}


_ERROR_KEYS = {"message": "string", "type": "string", "param": ["string", "null"], "code": ["string", "null"]}

FAILURE_RESPONSES: Final[dict[int | str, dict[str, Any]]] = {
    "default": {
        "description": "Any failure; docs/errors.md lists them.",
        "content": {
            "application/json": {
                "schema": {
                    "type": "object",
                    "required": ["error"],
                    "properties": {
                        "error": {
                            "type": "object",
                            "required": list(_ERROR_KEYS),
                            "properties": {key: {"type": kind} for key, kind in _ERROR_KEYS.items()},
                        }
                    },
                }
            }
        },
    }
}
"""`responses` of every route; without one FastAPI would announce answers of its own that are never given."""
