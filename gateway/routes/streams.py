"""POST /v1/responses/{id}/cancel, and the stream of a response that is stored already."""

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from gateway import query as query_of
from gateway.answers import json_answer
from gateway.following import follow
from gateway.routes.kept import not_found
from gateway.service import Service
from gateway.streaming import EventStream
from translation.errors import InvalidRequest


def streams_routes(service: Service) -> APIRouter:
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
        return json_answer(cancelled.response)

    return router


async def replay(service: Service, owner: str, response_id: str, starting_after: int | None) -> Response:
    """The stream of a stored response, from its log. Raises NotFound, InvalidRequest."""
    patience_s = service.settings.background.lease_s
    wire = await follow(service.kept(), owner, response_id, after=starting_after, patience_s=patience_s)
    return EventStream(wire, service.drain, keepalive_s=service.settings.server.keepalive_s, headers={})
