"""Request bodies and failures in /openapi.json. Handlers read bodies themselves, so that errors are the APIs' own."""

from collections.abc import Callable, Sequence
from typing import Any, Final

from fastapi import APIRouter, FastAPI
from fastapi.routing import APIRoute

from translation.representation.json_types import Json


def json_request_body(schema: Callable[[], Json]) -> dict[str, Any]:
    """`openapi_extra` for a route of `Documented` that takes one JSON object."""
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


class DocumentedApp(FastAPI):
    """An application of these routers. The schemas of what they take are made once somebody asks for its document: few
    do, and they would take a tenth of the start."""

    def __init__(self, routers: Sequence[APIRouter], **options: Any) -> None:
        super().__init__(**options)
        self._routers = routers
        for router in routers:
            self.include_router(router)

    def openapi(self) -> dict[str, Any]:
        for router in self._routers:
            for route in router.routes:
                if isinstance(route, APIRoute) and route.openapi_extra is not None:
                    _resolve_schema(route.openapi_extra["requestBody"]["content"]["application/json"])
        return super().openapi()


def _resolve_schema(body: dict[str, Any]) -> None:
    if callable(schema := body["schema"]):
        body["schema"] = schema()


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
