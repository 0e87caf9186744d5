"""The paths that are relayed as bytes: embeddings, completions, audio, images and others."""

from collections.abc import Awaitable, Callable
from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from gateway.http.request_docs import document_form_body, document_json_body, document_reply
from gateway.relayed_paths.relays import RELAYED_PATHS, RelayedPath
from gateway.service.service import Service
from translation.representation.json_types import Json


def build_relayed_routes(service: Service) -> APIRouter:
    router = APIRouter()
    for row in RELAYED_PATHS:
        router.add_api_route(
            row.path,
            _build_handler(service, row),
            methods=["POST"],
            name=row.name,
            summary=row.summary,
            tags=[row.tag],
            openapi_extra=_describe_body(row),
            responses=document_reply("text/event-stream", *(() if row.replies_json else ("*/*",))),
        )
    return router


def _build_handler(service: Service, row: RelayedPath) -> Callable[[Request], Awaitable[Response]]:
    async def relay(request: Request) -> Response:
        return await service.serve_relayed(row, request)

    return relay


def _describe_body(row: RelayedPath) -> dict[str, Any]:
    return document_form_body(_build_schema) if row.takes_form else document_json_body(_build_schema)


def _build_schema() -> Json:
    return {
        "type": "object",
        "required": ["model"],
        "properties": {"model": {"type": "string", "description": "A model of the gateway."}},
        "additionalProperties": True,
    }
