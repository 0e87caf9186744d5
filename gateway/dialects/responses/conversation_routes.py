"""/v1/conversations and their items."""

import time
from functools import partial

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from dataplane.body_weight import run_for_items
from gateway.dialects.responses import conversations
from gateway.http import query_params
from gateway.http.json_reply import build_json_reply
from gateway.http.request_docs import document_json_body
from gateway.http.stored_objects import (
    build_list_reply,
    build_page_reply,
    parse_page_request,
    read_page_of,
    require_found,
)
from gateway.service.service import Service
from gateway.state.values import Page
from translation.responses.client.item_lists import to_listed_item
from translation.responses.schema.conversations import (
    ADD_ITEMS_SCHEMA,
    CREATE_SCHEMA,
    UPDATE_SCHEMA,
    validate_update,
)

_CONVERSATION_PATH = "/v1/conversations/{conversation_id}"
_ITEMS_PATH = "/v1/conversations/{conversation_id}/items"
# Item ids that clients have chosen may contain a slash.
_ITEM_PATH = "/v1/conversations/{conversation_id}/items/{item_id:path}"


def build_conversations_routes(service: Service) -> APIRouter:
    router = APIRouter(tags=["Conversations"])

    @router.post("/v1/conversations", openapi_extra=document_json_body(CREATE_SCHEMA))
    async def create_conversation(request: Request) -> Response:
        """Create a conversation, with up to 20 items."""
        owner = service.authenticate(request).owner
        query_params.check_param_names(request.query_params, ())
        body = await service.read_body(request)
        return build_json_reply(
            await conversations.create_conversation(service.require_store(), owner, body, lambda: int(time.time()))
        )

    @router.get(_CONVERSATION_PATH)
    async def get_conversation(conversation_id: str, request: Request) -> Response:
        """Get a conversation, without its items."""
        owner = service.authenticate(request).owner
        query_params.check_param_names(request.query_params, ())
        conversation = await service.require_store().conversations.load_conversation(owner, conversation_id)
        conversation = require_found(conversation, "Conversation", conversation_id)
        return build_json_reply(conversation)

    @router.post(_CONVERSATION_PATH, openapi_extra=document_json_body(UPDATE_SCHEMA))
    async def update_conversation(conversation_id: str, request: Request) -> Response:
        """Replace the metadata of a conversation."""
        owner = service.authenticate(request).owner
        query_params.check_param_names(request.query_params, ())
        body = await service.read_body(request)
        validate_update(body)
        updated = await service.require_store().conversations.update_conversation(
            owner, conversation_id, body["metadata"] or {}
        )
        updated = require_found(updated, "Conversation", conversation_id)
        return build_json_reply(updated)

    @router.delete(_CONVERSATION_PATH)
    async def delete_conversation(conversation_id: str, request: Request) -> Response:
        """Delete a conversation and its items. Responses that were created in it remain."""
        owner = service.authenticate(request).owner
        query_params.check_param_names(request.query_params, ())
        require_found(
            await service.require_store().conversations.delete_conversation(owner, conversation_id),
            "Conversation",
            conversation_id,
        )
        return build_json_reply({"id": conversation_id, "object": "conversation.deleted", "deleted": True})

    @router.post(_ITEMS_PATH, openapi_extra=document_json_body(ADD_ITEMS_SCHEMA))
    async def add_items(conversation_id: str, request: Request) -> Response:
        """Append up to 20 items to a conversation."""
        owner = service.authenticate(request).owner
        query_params.check_param_names(request.query_params, ("include",))
        included = query_params.parse_include(request.query_params)
        body = await service.read_body(request)
        items = await conversations.extend_conversation(service.require_store(), owner, conversation_id, body)
        items = require_found(items, "Conversation", conversation_id)
        render = partial(to_listed_item, included=included)
        return await run_for_items(items, build_page_reply, Page(items, has_more=False), render)

    @router.get(_ITEMS_PATH)
    async def list_items(conversation_id: str, request: Request) -> Response:
        """List the items of a conversation, newest first by default."""
        owner = service.authenticate(request).owner
        requested_page = parse_page_request(request.query_params, extra_names=("include",))
        included = query_params.parse_include(request.query_params)
        read = partial(service.require_store().conversations.list_conversation_items, owner, conversation_id)
        render = partial(to_listed_item, included=included)
        return await build_list_reply(requested_page, read_page_of("Conversation", conversation_id, read), render)

    @router.get(_ITEM_PATH)
    async def get_item(conversation_id: str, item_id: str, request: Request) -> Response:
        """Get one item of a conversation."""
        owner = service.authenticate(request).owner
        query_params.check_param_names(request.query_params, ("include",))
        included = query_params.parse_include(request.query_params)
        store = service.require_store()
        item = await store.conversations.load_conversation_item(owner, conversation_id, item_id)
        if item is None:
            conversation = await store.conversations.load_conversation(owner, conversation_id)
            require_found(conversation, "Conversation", conversation_id)
        return build_json_reply(to_listed_item(require_found(item, "Item", item_id), included))

    @router.delete(_ITEM_PATH)
    async def delete_item(conversation_id: str, item_id: str, request: Request) -> Response:
        """Delete an item of a conversation. Returns the conversation."""
        owner = service.authenticate(request).owner
        query_params.check_param_names(request.query_params, ())
        store = service.require_store()
        conversation = await store.conversations.load_conversation(owner, conversation_id)
        conversation = require_found(conversation, "Conversation", conversation_id)
        require_found(
            await store.conversations.delete_conversation_item(owner, conversation_id, item_id), "Item", item_id
        )
        return build_json_reply(conversation)

    return router
