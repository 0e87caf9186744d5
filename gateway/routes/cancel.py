"""POST /v1/responses/{id}/cancel."""

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from gateway.http import query_params as query_of
from gateway.http.json_reply import build_json_reply
from gateway.replies.loss_header import stored_loss_header
from gateway.routes.stored_objects import not_found_error
from gateway.service.service import Service
from translation.errors import InvalidRequest


def cancel_routes(service: Service) -> APIRouter:
    router = APIRouter(tags=["Responses"])

    @router.post("/v1/responses/{response_id}/cancel")
    async def cancel_response(response_id: str, request: Request) -> Response:
        """Cancel a background response, whichever server runs it. A response that has ended remains as it is."""
        owner = service.authenticate(request).name
        query_of.check_param_names(request.query_params, ())
        store = service.require_store()
        stored = await store.load_response(owner, response_id)
        if stored is not None and not stored.background:
            raise InvalidRequest(
                "Only responses that were created with `background: true` can be cancelled.", param="background"
            )
        cancelled = stored and await store.cancel_response(owner, response_id)
        if cancelled is None:
            raise not_found_error("Response", response_id)
        return build_json_reply(cancelled.response, headers=stored_loss_header(cancelled.losses))

    return router
