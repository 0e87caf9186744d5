"""/v1/responses: create, list, get, delete, input items."""

from functools import partial

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from gateway.http import query_params as query_of
from gateway.http.json_reply import json_answer
from gateway.http.paging import page_request
from gateway.replies.endpoints import RESPONSES
from gateway.replies.loss_header import said_again
from gateway.routes.request_docs import json_request
from gateway.routes.stored_objects import list_answer, listing, not_found
from gateway.service.service import Service
from translation.errors import InvalidRequest
from translation.responses.schema.request import REQUEST_SCHEMA

_RETRIEVAL = ("include", "include_obfuscation", "starting_after", "stream")
_MAX_SEQUENCE_NUMBER = 10**9 - 1


def responses_routes(service: Service) -> APIRouter:
    router = APIRouter(tags=["Responses"])

    @router.post("/v1/responses", openapi_extra=json_request(REQUEST_SCHEMA))
    async def create_response(request: Request) -> Response:
        """Create a response: one JSON object, or an event stream with `stream: true`."""
        return await service.answer(RESPONSES, request.scope, request.receive)

    @router.get("/v1/responses")
    async def list_responses(request: Request) -> Response:
        """Your responses by time of creation. An extension of the API."""
        owner = service.principal(request).name
        asked = page_request(request.query_params)
        return await list_answer(asked, partial(service.kept().responses, owner))

    @router.get("/v1/responses/{response_id}")
    async def get_response(response_id: str, request: Request) -> Response:
        """A response as it is now; with `stream=true` its events, those after number `starting_after`."""
        owner = service.principal(request).name
        query = request.query_params
        query_of.check_names(query, _RETRIEVAL)
        query_of.check_include(query)
        query_of.flag(query, "include_obfuscation")
        starting_after = query_of.whole(query, "starting_after", least=0, most=_MAX_SEQUENCE_NUMBER)
        if query_of.flag(query, "stream"):
            return await service.follow(owner, response_id, after=starting_after)
        if starting_after is not None:
            raise InvalidRequest("'starting_after' is only allowed when 'stream' is true.", param="starting_after")
        found = await service.kept().response(owner, response_id)
        if found is None:
            raise not_found("Response", response_id)
        return json_answer(found.response, headers=said_again(found.losses))

    @router.delete("/v1/responses/{response_id}")
    async def delete_response(response_id: str, request: Request) -> Response:
        """Forget a response, and stop it if it runs in the background. What continues it still knows what was said."""
        owner = service.principal(request).name
        query_of.check_names(request.query_params, ())
        if not await service.kept().delete(owner, response_id):
            raise not_found("Response", response_id)
        return json_answer({"id": response_id, "object": "response.deleted", "deleted": True})

    @router.get("/v1/responses/{response_id}/input_items")
    async def list_input_items(response_id: str, request: Request) -> Response:
        """What the request itself said, without what it continued."""
        owner = service.principal(request).name
        asked = page_request(request.query_params, also=("include",))
        query_of.check_include(request.query_params)
        read = partial(service.kept().input_items, owner, response_id)
        return await list_answer(asked, listing(read), not_found("Response", response_id))

    return router
