"""Describes request bodies and failures in /openapi.json.

FastAPI does not parse bodies: handlers read them, so that errors have the APIs' own format.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

from fastapi import APIRouter, FastAPI
from fastapi.routing import APIRoute

from translation.representation.json_types import Json


def document_json_body(schema: Callable[[], Json]) -> dict[str, Any]:
    """Returns `openapi_extra` for a route of `DocumentedApp` whose body is one JSON object.

    `schema` builds the JSON schema. It is called when the document is first requested.
    """
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


def document_form_body(schema: Callable[[], Json]) -> dict[str, Any]:
    """Returns `openapi_extra` for a route whose body is a multipart form, as `document_json_body` does for JSON."""
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
        if self.openapi_schema is None:
            _name_body_schemas(super().openapi())
        return super().openapi()


def _resolve_schema(body: dict[str, Any]) -> None:
    if callable(schema := body["schema"]):
        body["schema"] = schema()


def _name_body_schemas(document: Json) -> None:
    """Moves the schemas of request bodies that have an `$id`, and their definitions, to the components of an OpenAPI
    document.

    References inside the schemas would be valid, because `$id` is the base of `#/$defs/...` (JSON Schema 2020-12,
    8.2.1). But programs that generate clients and tests from the document resolve every reference at its root.
    """
    schemas = document.setdefault("components", {}).setdefault("schemas", {})
    for operations in document["paths"].values():
        for operation in operations.values():
            for content in operation.get("requestBody", {}).get("content", {}).values():
                if (schema_id := content["schema"].pop("$id", None)) is None:
                    continue
                name = "".join(word.capitalize() for word in schema_id.split("-"))
                schema = _with_definitions_at(f"#/components/schemas/{name}.", content["schema"])
                schemas |= {
                    f"{name}.{part.lstrip('_')}": definition for part, definition in schema.pop("$defs", {}).items()
                }
                schemas[name] = schema
                content["schema"] = {"$ref": f"#/components/schemas/{name}"}


def _with_definitions_at(prefix: str, value: Any) -> Any:
    """Returns a part of a JSON schema whose references to definitions begin with `prefix`, with public names."""
    if isinstance(value, dict):
        return {key: _with_definitions_at(prefix, part) for key, part in value.items()}
    if isinstance(value, list):
        return [_with_definitions_at(prefix, part) for part in value]
    if isinstance(value, str) and value.startswith("#/$defs/"):
        return prefix + value.removeprefix("#/$defs/").lstrip("_")
    return value


def document_reply(*media_types: str) -> dict[int | str, dict[str, Any]]:
    """Returns the value of `responses` for a route whose reply may have other media types than JSON, such as
    `text/event-stream`."""
    content: Json = {media_type: {"schema": {"type": "string"}} for media_type in media_types}
    return {200: {"description": "The reply.", "content": content}}


STREAMED_REPLY: Final = document_reply("text/event-stream")
"""The value of `responses` for a route whose reply may be an event stream."""


def document_failures(description: str, schema: Json) -> dict[int | str, dict[str, Any]]:
    """Returns the value of `responses` for routes whose failures have this JSON schema."""
    return {"default": {"description": description, "content": {"application/json": {"schema": schema}}}}


def build_object_schema(required: Sequence[str], **properties: Json) -> Json:
    """Returns the JSON schema of an object with these properties, of which some are required."""
    return {"type": "object", "required": list(required), "properties": properties}


TEXT_SCHEMA: Final[Json] = {"type": "string"}

FAILURE_RESPONSES: Final = document_failures(
    "Any failure; docs/errors.md lists them.",
    build_object_schema(
        ["error"],
        error=build_object_schema(
            ["message", "type", "param", "code"],
            message=TEXT_SCHEMA,
            type=TEXT_SCHEMA,
            param={"type": ["string", "null"]},
            code={"type": ["string", "null"]},
            upstream_code=TEXT_SCHEMA,
        ),
    ),
)
"""The value of `responses` for every route without another. Without it, FastAPI would document validation
errors, which never occur."""
