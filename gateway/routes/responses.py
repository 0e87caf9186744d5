"""POST /v1/responses."""

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from gateway.endpoints import RESPONSES
from gateway.errors import MethodNotAllowed, NotFound
from gateway.routes.request_docs import json_request
from gateway.service import Service
from translation.responses.schema import REQUEST_SCHEMA


def responses_routes(service: Service) -> APIRouter:
    router = APIRouter(tags=["Responses"])

    @router.post("/v1/responses", openapi_extra=json_request(REQUEST_SCHEMA))
    async def create_response(request: Request) -> Response:
        """Create a response: one JSON object, or an event stream with `stream: true`."""
        return await service.answer(RESPONSES, request)

    @router.get("/v1/responses", include_in_schema=False)
    async def list_responses() -> Response:
        raise MethodNotAllowed("send POST /v1/responses", headers={"allow": "POST"})

    @router.api_route("/v1/responses/{response_id}", methods=["GET", "DELETE"], include_in_schema=False)
    @router.get("/v1/responses/{response_id}/input_items", include_in_schema=False)
    @router.post("/v1/responses/{response_id}/cancel", include_in_schema=False)
    async def find_response(response_id: str, request: Request) -> Response:
        service.principal(request)
        raise NotFound(f"Response with id '{response_id:.80}' not found: responses are not stored here.")

    return router
