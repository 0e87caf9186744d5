"""Stored /v1/chat/completions: list, get, update, delete, messages."""

from functools import partial

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from gateway.http import query_params
from gateway.http.json_reply import build_json_reply
from gateway.http.request_docs import document_json_body
from gateway.http.stored_objects import build_list_reply, parse_page_request, read_page_of, require_found
from gateway.service.service import Service
from translation.chat.client.completion import build_stored_message
from translation.responses.schema.conversations import UPDATE_SCHEMA, validate_update

_OBJECT_NAME = "Chat completion"


def build_completions_routes(service: Service) -> APIRouter:
    router = APIRouter(tags=["Chat Completions"])

    @router.get("/v1/chat/completions")
    async def list_completions(request: Request) -> Response:
        """List your chat completions that were created with `store: true`, by creation time.

        They can be filtered by model and metadata.
        """
        owner = service.authenticate(request).owner
        query = request.query_params
        requested_page = parse_page_request(query, "asc", extra_names=("model", "metadata"))
        metadata = dict(query_params.parse_entries(query, "metadata"))
        model = query_params.read_single_value(query, "model")
        return await build_list_reply(
            requested_page,
            partial(service.require_store().completions.list_completions, owner, model=model, metadata=metadata),
        )

    @router.get("/v1/chat/completions/{completion_id}")
    async def get_completion(completion_id: str, request: Request) -> Response:
        """Get a stored chat completion."""
        owner = service.authenticate(request).owner
        query_params.check_param_names(request.query_params, ())
        stored = await service.require_store().completions.load_completion(owner, completion_id)
        stored = require_found(stored, _OBJECT_NAME, completion_id)
        return build_json_reply(stored.completion, headers=service.render_stored_headers(stored.headers))

    @router.post("/v1/chat/completions/{completion_id}", openapi_extra=document_json_body(UPDATE_SCHEMA))
    async def update_completion(completion_id: str, request: Request) -> Response:
        """Replace the metadata of a stored chat completion."""
        owner = service.authenticate(request).owner
        query_params.check_param_names(request.query_params, ())
        body = await service.read_body(request)
        validate_update(body)
        updated = await service.require_store().completions.update_completion(owner, completion_id, body["metadata"])
        updated = require_found(updated, _OBJECT_NAME, completion_id)
        return build_json_reply(updated.completion, headers=service.render_stored_headers(updated.headers))

    @router.delete("/v1/chat/completions/{completion_id}")
    async def delete_completion(completion_id: str, request: Request) -> Response:
        """Delete a stored chat completion."""
        owner = service.authenticate(request).owner
        query_params.check_param_names(request.query_params, ())
        require_found(
            await service.require_store().completions.delete_completion(owner, completion_id),
            _OBJECT_NAME,
            completion_id,
        )
        return build_json_reply({"id": completion_id, "object": "chat.completion.deleted", "deleted": True})

    @router.get("/v1/chat/completions/{completion_id}/messages")
    async def list_messages(completion_id: str, request: Request) -> Response:
        """List the messages of the completion's request."""
        owner = service.authenticate(request).owner
        requested_page = parse_page_request(request.query_params, "asc")
        read = partial(service.require_store().completions.list_completion_messages, owner, completion_id)
        return await build_list_reply(
            requested_page, read_page_of(_OBJECT_NAME, completion_id, read), build_stored_message
        )

    return router
