"""POST /v1/responses/compact, POST /v1/responses/input_tokens."""

from functools import partial
from typing import Final

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from gateway.dialects.responses.endpoint import RESPONSES
from gateway.http.guard import RequestGuard
from gateway.http.headers import headers_of
from gateway.http.json_reply import build_json_reply
from gateway.http.request_docs import document_json_body
from gateway.replies.loss_header import report_losses
from gateway.service.admission import ClientRequest
from gateway.service.idempotency.keys import KEY_HEADER
from gateway.service.service import Service, is_strict
from translation.errors import InvalidRequest, Unrepresentable
from translation.representation.json_types import Json
from translation.responses.schema.request import COMPACT_FIELDS, COUNT_FIELDS, partial_request_schema

_REFUSED_PARAMS: Final = ("stream", "background", "conversation")
"""Parameters of `/v1/responses` that `/v1/responses/compact` refuses: it is never streamed, in the background, or part
of a conversation."""


def build_contexts_routes(service: Service) -> APIRouter:
    router = APIRouter(tags=["Responses"])

    @router.post(
        "/v1/responses/compact",
        openapi_extra=document_json_body(partial(partial_request_schema, "compact-response", COMPACT_FIELDS)),
    )
    async def compact(request: Request) -> Response:
        """Let the model summarize a conversation. The output replaces the conversation in later input."""
        headers = headers_of(request.scope)
        principal, strict = service.authenticate(request), is_strict(headers)
        body, _, weight = await service.read_sized_body(request)
        _require_compactable(body)
        with RequestGuard(request.receive, service.drain):
            has_key = KEY_HEADER in headers
            client_request = ClientRequest(RESPONSES, principal, body, strict, weight, has_key=has_key)
            compacted, losses = await service.current.contexts.compact_context(client_request)
        return build_json_reply(compacted, headers=report_losses(losses))

    @router.post(
        "/v1/responses/input_tokens",
        openapi_extra=document_json_body(partial(partial_request_schema, "count-input-tokens", COUNT_FIELDS)),
    )
    async def count_input_tokens(request: Request) -> Response:
        """Count the tokens of a response's input, as the model's upstream counts them."""
        principal, strict = service.authenticate(request), is_strict(headers_of(request.scope))
        body, _, weight = await service.read_sized_body(request)
        _require_countable(body)
        with RequestGuard(request.receive, service.drain):
            client_request = ClientRequest(RESPONSES, principal, body, strict, weight)
            tokens, losses = await service.current.contexts.count_input_tokens(client_request)
        counted = {"object": "response.input_tokens", "input_tokens": tokens}
        return build_json_reply(counted, headers=report_losses(losses))

    return router


def _require_compactable(body: Json) -> None:
    """Raises InvalidRequest for a parameter that a compaction cannot have."""
    for name in _REFUSED_PARAMS:
        if body.get(name):
            raise InvalidRequest(
                f"Unknown parameter: '{name}'. Leave it out: a compaction is one JSON reply to one input.",
                param=name,
                code="unknown_parameter",
            )


def _require_countable(body: Json) -> None:
    """Raises Unrepresentable for a parameter whose tokens nobody can count."""
    if body.get("personality") is not None:
        raise Unrepresentable("no upstream supports personality: leave it out", param="personality")
