"""POST /v1/messages, POST /v1/messages/count_tokens: Anthropic's Messages API."""

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from gateway.dialects.messages.endpoint import COUNTING, MESSAGES, add_header_params
from gateway.dialects.messages.error_form import MESSAGES_FAILURES, build_request_id_headers
from gateway.http.guard import RequestGuard
from gateway.http.headers import headers_of
from gateway.http.json_reply import build_json_reply
from gateway.http.request_docs import STREAMED_REPLY, document_json_body
from gateway.replies.loss_header import report_losses
from gateway.service.admission import ClientRequest
from gateway.service.service import Service, is_strict
from translation.messages.schema.request import COUNT_SCHEMA, REQUEST_SCHEMA


def build_messages_routes(service: Service) -> APIRouter:
    router = APIRouter(tags=["Messages"], responses=MESSAGES_FAILURES)

    @router.post("/v1/messages", openapi_extra=document_json_body(REQUEST_SCHEMA), responses=STREAMED_REPLY)
    async def create_message(request: Request) -> Response:
        """Create a message: one JSON object, or a stream of events with `stream: true`."""
        return await service.serve_create(MESSAGES, request.scope, request.receive)

    @router.post("/v1/messages/count_tokens", openapi_extra=document_json_body(COUNT_SCHEMA))
    async def count_message_tokens(request: Request) -> Response:
        """Count the tokens of a message's input, as the model's upstream counts them."""
        principal, strict = service.authenticate(request), is_strict(headers_of(request.scope))
        body, _, weight = await service.read_sized_body(request)
        with RequestGuard(request.receive, service.drain):
            body = add_header_params(body, headers_of(request.scope))
            tokens, losses = await service.current.contexts.count_tokens(
                ClientRequest(COUNTING, principal, body, strict, weight)
            )
        return build_json_reply({"input_tokens": tokens}, headers=build_request_id_headers() | report_losses(losses))

    return router
