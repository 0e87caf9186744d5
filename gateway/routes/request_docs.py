"""Describes request bodies and failures in /openapi.json.

FastAPI does not parse bodies: handlers read them, so that errors have the APIs' own format.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

from fastapi import APIRouter, FastAPI
from fastapi.routing import APIRoute

from translation.representation.json_types import Json


def json_request_body(schema: Callable[[], Json]) -> dict[str, Any]:
    """Return `openapi_extra` for a route of `DocumentedApp` whose body is one JSON object.

    `schema` builds the JSON schema. It is called when the document is first requested.
    """
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


def form_request_body(schema: Callable[[], Json]) -> dict[str, Any]:
    """Return `openapi_extra` for a route whose body is a multipart form, as `json_request_body` does for JSON."""
    return {"requestBody": {"required": True, "content": {"multipart/form-data": {"schema": schema}}}}


class DocumentedApp(FastAPI):
    """An application with these routers.

    The schemas of request bodies are built when /openapi.json is first requested. That is rare, and building them would
    take a tenth of the start.
    """

    def __init__(self, routers: Sequence[APIRouter], **options: Any) -> None:
        super().__init__(**options)
        self._routers = routers
        for router in routers:
            self.include_router(router)

    def openapi(self) -> dict[str, Any]:
        for router in self._routers:
            for route in router.routes:
                if isinstance(route, APIRoute) and route.openapi_extra is not None:
                    for content in route.openapi_extra["requestBody"]["content"].values():
                        _resolve_schema(content)
        return super().openapi()


def _resolve_schema(body: dict[str, Any]) -> None:
    if callable(schema := body["schema"]):
        body["schema"] = schema()


_ERROR_KEYS = {"message": "string", "type": "string", "param": ["string", "null"], "code": ["string", "null"]}
_OPTIONAL_ERROR_KEYS = {"upstream_code": "string"}

OLLAMA_FAILURES: Final[dict[int | str, dict[str, Any]]] = {
    "default": {
        "description": "Any failure, in the form of Ollama's API.",
        "content": {
            "application/json": {
                "schema": {"type": "object", "required": ["error"], "properties": {"error": {"type": "string"}}}
            }
        },
    }
}

MESSAGES_FAILURES: Final[dict[int | str, dict[str, Any]]] = {
    "default": {
        "description": "Any failure, in the form of the Messages API.",
        "content": {
            "application/json": {
                "schema": {
                    "type": "object",
                    "required": ["type", "error"],
                    "properties": {
                        "type": {"const": "error"},
                        "error": {
                            "type": "object",
                            "required": ["type", "message"],
                            "properties": {
                                "type": {"type": "string"},
                                "message": {"type": "string"},
                                "details": {"type": "object"},
                            },
                        },
                        "request_id": {"type": "string"},
                    },
                }
            }
        },
    }
}
"""The value of `responses` for the routes of the Messages API."""

GEMINI_FAILURES: Final[dict[int | str, dict[str, Any]]] = {
    "default": {
        "description": "Any failure, as Gemini's API has it.",
        "content": {
            "application/json": {
                "schema": {
                    "type": "object",
                    "required": ["error"],
                    "properties": {
                        "error": {
                            "type": "object",
                            "required": ["code", "message", "status"],
                            "properties": {
                                "code": {"type": "integer"},
                                "message": {"type": "string"},
                                "status": {"type": "string"},
                                "details": {"type": "array", "items": {"type": "object"}},
                            },
                        }
                    },
                }
            }
        },
    }
}
"""The value of `responses` for the routes of Gemini's API."""

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
                            "properties": {
                                key: {"type": kind} for key, kind in (_ERROR_KEYS | _OPTIONAL_ERROR_KEYS).items()
                            },
                        }
                    },
                }
            }
        },
    }
}
"""The value of `responses` for every route. Without it, FastAPI documents validation errors that never occur."""
