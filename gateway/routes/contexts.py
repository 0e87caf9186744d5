"""POST /v1/responses/compact, POST /v1/responses/input_tokens."""

from functools import partial

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from gateway.http.guard import Guard
from gateway.http.headers import headers_of
from gateway.http.json_reply import json_answer
from gateway.replies.loss_header import loss_header
from gateway.routes.request_docs import json_request
from gateway.service.service import Service, is_strict
from translation.responses.schema.request import COMPACT_FIELDS, COUNT_FIELDS, part_of_request_schema


def contexts_routes(service: Service) -> APIRouter:
    router = APIRouter(tags=["Responses"])

    @router.post(
        "/v1/responses/compact",
        openapi_extra=json_request(partial(part_of_request_schema, "compact-response", COMPACT_FIELDS)),
    )
    async def compact(request: Request) -> Response:
        """Have the model sum up a conversation; the output is the input that stands for it."""
        principal, strict = service.principal(request), is_strict(headers_of(request.scope))
        body = await service.read(request)
        with Guard(request.receive, service.drain):
            answer, losses = await service.contexts.compact(principal, body, strict=strict)
        return json_answer(answer, headers=loss_header(losses))

    @router.post(
        "/v1/responses/input_tokens",
        openapi_extra=json_request(partial(part_of_request_schema, "count-input-tokens", COUNT_FIELDS)),
    )
    async def count_input_tokens(request: Request) -> Response:
        """How many tokens the input of a response would be, as the model's upstream counts them."""
        principal = service.principal(request)
        body = await service.read(request)
        with Guard(request.receive, service.drain):
            return json_answer(await service.contexts.count(principal, body))

    return router
