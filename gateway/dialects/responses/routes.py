"""/v1/responses: create, list, get, cancel, delete, input items."""

from functools import partial

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from gateway.dialects.responses.endpoint import RESPONSES
from gateway.dialects.responses.field_docs import describe_fields
from gateway.http import query_params
from gateway.http.json_reply import build_json_reply
from gateway.http.request_docs import STREAMED_REPLY, document_json_body
from gateway.http.stored_objects import build_list_reply, parse_page_request, read_page_of, require_found
from gateway.service.service import Service
from translation.errors import InvalidRequest
from translation.responses.client.item_lists import to_listed_item
from translation.responses.client.item_view import show_response
from translation.responses.schema.request import REQUEST_SCHEMA

_RETRIEVE_PARAMS = ("include", "include_obfuscation", "starting_after", "stream")
_MAX_SEQUENCE_NUMBER = 10**9 - 1

_KEY_PARAMETER = {
    "name": "Idempotency-Key",
    "in": "header",
    "schema": {"type": "string", "minLength": 1, "maxLength": 255},
    "description": "A name for this request. If it is sent again, it is not run again, but gets the same response.",
}


def build_responses_routes(service: Service) -> APIRouter:
    router = APIRouter(tags=["Responses"])

    @router.post(
        "/v1/responses",
        openapi_extra=document_json_body(lambda: describe_fields(REQUEST_SCHEMA())) | {"parameters": [_KEY_PARAMETER]},
        responses=STREAMED_REPLY,
    )
    async def create_response(request: Request) -> Response:
        """Create a response: one JSON object, or an event stream with `stream: true`."""
        return await service.serve_create(RESPONSES, request.scope, request.receive)

    @router.get("/v1/responses")
    async def list_responses(request: Request) -> Response:
        """List your responses by creation time. An extension of the API."""
        owner = service.authenticate(request).owner
        requested_page = parse_page_request(request.query_params, extra_names=("include",))
        included = query_params.parse_include(request.query_params, of_response=True)
        read = partial(service.require_store().responses.list_responses, owner)
        return await build_list_reply(requested_page, read, partial(show_response, included=included))

    @router.get("/v1/responses/{response_id}", responses=STREAMED_REPLY)
    async def get_response(response_id: str, request: Request) -> Response:
        """Get a response in its current state.

        With `stream=true` it returns the events of the response after the sequence number `starting_after`.
        """
        owner = service.authenticate(request).owner
        query = request.query_params
        query_params.check_param_names(query, _RETRIEVE_PARAMS)
        included = query_params.parse_include(query, of_response=True)
        obfuscates = query_params.parse_boolean(query, "include_obfuscation")
        starting_after = query_params.parse_integer(query, "starting_after", minimum=0, maximum=_MAX_SEQUENCE_NUMBER)
        if query_params.parse_boolean(query, "stream"):
            return await service.serve_log_replay(owner, response_id, after=starting_after, obfuscates=obfuscates)
        if starting_after is not None:
            raise InvalidRequest("'starting_after' is only allowed when 'stream' is true.", param="starting_after")
        stored = await service.require_store().responses.load_response(owner, response_id)
        stored = require_found(stored, "Response", response_id)
        return build_json_reply(
            show_response(stored.response, included), headers=service.render_stored_headers(stored.headers)
        )

    @router.post("/v1/responses/{response_id}/cancel")
    async def cancel_response(response_id: str, request: Request) -> Response:
        """Cancel a background response, whichever server runs it. A response that has ended remains unchanged."""
        owner = service.authenticate(request).owner
        query_params.check_param_names(request.query_params, ())
        store = service.require_store()
        stored = await store.responses.load_response(owner, response_id)
        if stored is not None and not stored.background:
            raise InvalidRequest(
                "Only responses that were created with `background: true` can be cancelled.", param="background"
            )
        cancelled = stored and await store.responses.cancel_response(owner, response_id)
        cancelled = require_found(cancelled, "Response", response_id)
        return build_json_reply(
            show_response(cancelled.response, ()), headers=service.render_stored_headers(cancelled.headers)
        )

    @router.delete("/v1/responses/{response_id}")
    async def delete_response(response_id: str, request: Request) -> Response:
        """Delete a response, and stop it if it runs in the background.

        Responses that continue it keep its items as their history.
        """
        owner = service.authenticate(request).owner
        query_params.check_param_names(request.query_params, ())
        require_found(
            await service.require_store().responses.delete_response(owner, response_id), "Response", response_id
        )
        return build_json_reply({"id": response_id, "object": "response.deleted", "deleted": True})

    @router.get("/v1/responses/{response_id}/input_items")
    async def list_input_items(response_id: str, request: Request) -> Response:
        """List the input items of the request itself, without its history."""
        owner = service.authenticate(request).owner
        requested_page = parse_page_request(request.query_params, extra_names=("include",))
        included = query_params.parse_include(request.query_params)
        read = partial(service.require_store().responses.list_input_items, owner, response_id)
        render = partial(to_listed_item, included=included)
        return await build_list_reply(requested_page, read_page_of("Response", response_id, read), render)

    return router
