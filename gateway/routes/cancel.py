"""POST /v1/responses/{id}/cancel."""

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from gateway.http import query_params as query_of
from gateway.http.json_reply import json_answer
from gateway.replies.loss_header import said_again
from gateway.routes.stored_objects import not_found
from gateway.service.service import Service
from translation.errors import InvalidRequest


def cancel_routes(service: Service) -> APIRouter:
    router = APIRouter(tags=["Responses"])

    @router.post("/v1/responses/{response_id}/cancel")
    async def cancel_response(response_id: str, request: Request) -> Response:
        """End a background response, on whichever server it runs; one that has ended stays as it is."""
        owner = service.principal(request).name
        query_of.check_names(request.query_params, ())
        store = service.kept()
        found = await store.response(owner, response_id)
        if found is not None and not found.background:
            raise InvalidRequest(
                "Only responses that were created with `background: true` can be cancelled.", param="background"
            )
        cancelled = found and await store.cancel(owner, response_id)
        if cancelled is None:
            raise not_found("Response", response_id)
        return json_answer(cancelled.response, headers=said_again(cancelled.losses))

    return router
