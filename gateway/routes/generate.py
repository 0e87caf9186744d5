"""POST /generate."""

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from gateway.routes.request_docs import STREAMED_REPLY, document_json_body
from gateway.service.generate import GENERATE
from gateway.service.service import Service
from translation.generate.schema import REQUEST_SCHEMA


def build_generate_routes(service: Service) -> APIRouter:
    router = APIRouter(tags=["Generate"])

    @router.post("/generate", openapi_extra=document_json_body(REQUEST_SCHEMA), responses=STREAMED_REPLY)
    async def generate(request: Request) -> Response:
        """Generate thinking, answer and tool calls as separate fields.

        Returns one JSON object, or a stream with `stream: true`.
        """
        return await service.serve_create(GENERATE, request.scope, request.receive, service.generate_adapter)

    return router
