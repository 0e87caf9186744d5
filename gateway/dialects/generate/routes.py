"""POST /generate."""

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from gateway.dialects.generate.adapter import GenerateAdapter, build_generate_endpoint
from gateway.http.request_docs import STREAMED_REPLY, document_json_body
from gateway.replies.endpoints import Endpoint
from gateway.service.service import Service
from translation.generate.schema import REQUEST_SCHEMA


def build_generate_routes(chat: Endpoint, service: Service) -> APIRouter:
    """`chat` is the endpoint of Chat Completions, as which its requests are served."""
    router = APIRouter(tags=["Generate"])
    endpoint = build_generate_endpoint(chat)

    @router.post("/generate", openapi_extra=document_json_body(REQUEST_SCHEMA), responses=STREAMED_REPLY)
    async def generate(request: Request) -> Response:
        """Generate thinking, answer and tool calls as separate fields.

        Returns one JSON object, or a stream with `stream: true`.
        """
        adapter = GenerateAdapter(chat, service.settings, service.models)
        return await service.serve_create(endpoint, request.scope, request.receive, adapter)

    return router
