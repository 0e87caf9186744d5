"""POST /v1/chat/completions."""

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from gateway.dialects.chat.endpoint import CHAT
from gateway.http.request_docs import STREAMED_REPLY, document_json_body
from gateway.service.service import Service
from translation.chat.client.schema import REQUEST_SCHEMA


def build_chat_routes(service: Service) -> APIRouter:
    router = APIRouter(tags=["Chat Completions"])

    @router.post("/v1/chat/completions", openapi_extra=document_json_body(REQUEST_SCHEMA), responses=STREAMED_REPLY)
    async def create_completion(request: Request) -> Response:
        """Create a chat completion: one JSON object, or a stream of chunks with `stream: true`."""
        return await service.serve_create(CHAT, request.scope, request.receive)

    return router
