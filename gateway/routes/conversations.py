"""/v1/conversations and their items."""

import time
from functools import partial

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from gateway.http import query_params as query_of
from gateway.http.json_reply import json_answer
from gateway.http.paging import list_object, page_request
from gateway.routes.request_docs import json_request
from gateway.routes.stored_objects import list_answer, listing, not_found
from gateway.service import conversations
from gateway.service.service import Service
from gateway.state.store import Page
from translation.responses.item_lists import listed
from translation.responses.schema.conversations import (
    ADD_ITEMS_SCHEMA,
    CREATE_SCHEMA,
    UPDATE_SCHEMA,
    validate_update,
)

_ONE = "/v1/conversations/{conversation_id}"
_ITEMS = "/v1/conversations/{conversation_id}/items"
# Ids that clients chose may have a slash in them.
_ITEM = "/v1/conversations/{conversation_id}/items/{item_id:path}"


def conversations_routes(service: Service) -> APIRouter:
    router = APIRouter(tags=["Conversations"])

    @router.post("/v1/conversations", openapi_extra=json_request(CREATE_SCHEMA))
    async def create_conversation(request: Request) -> Response:
        """Begin a conversation, with up to 20 items."""
        owner = service.principal(request).name
        query_of.check_names(request.query_params, ())
        body = await service.read(request)
        return json_answer(await conversations.create(service.kept(), owner, body, lambda: int(time.time())))

    @router.get(_ONE)
    async def get_conversation(conversation_id: str, request: Request) -> Response:
        """A conversation, without its items."""
        owner = service.principal(request).name
        query_of.check_names(request.query_params, ())
        found = await service.kept().conversation(owner, conversation_id)
        if found is None:
            raise not_found("Conversation", conversation_id)
        return json_answer(found)

    @router.post(_ONE, openapi_extra=json_request(UPDATE_SCHEMA))
    async def update_conversation(conversation_id: str, request: Request) -> Response:
        """Replace its metadata."""
        owner = service.principal(request).name
        query_of.check_names(request.query_params, ())
        body = await service.read(request)
        validate_update(body)
        changed = await service.kept().update_conversation(owner, conversation_id, body["metadata"] or {})
        if changed is None:
            raise not_found("Conversation", conversation_id)
        return json_answer(changed)

    @router.delete(_ONE)
    async def delete_conversation(conversation_id: str, request: Request) -> Response:
        """Forget it and its items; responses made in it stay."""
        owner = service.principal(request).name
        query_of.check_names(request.query_params, ())
        if not await service.kept().delete_conversation(owner, conversation_id):
            raise not_found("Conversation", conversation_id)
        return json_answer({"id": conversation_id, "object": "conversation.deleted", "deleted": True})

    @router.post(_ITEMS, openapi_extra=json_request(ADD_ITEMS_SCHEMA))
    async def add_items(conversation_id: str, request: Request) -> Response:
        """Append up to 20 items."""
        owner = service.principal(request).name
        query_of.check_names(request.query_params, ("include",))
        query_of.check_include(request.query_params)
        body = await service.read(request)
        added = await conversations.add(service.kept(), owner, conversation_id, body)
        if added is None:
            raise not_found("Conversation", conversation_id)
        return json_answer(list_object(Page([listed(item) for item in added], has_more=False)))

    @router.get(_ITEMS)
    async def list_items(conversation_id: str, request: Request) -> Response:
        """Its items, the newest first unless asked otherwise."""
        owner = service.principal(request).name
        asked = page_request(request.query_params, also=("include",))
        query_of.check_include(request.query_params)
        read = partial(service.kept().conversation_items, owner, conversation_id)
        return await list_answer(asked, listing(read), not_found("Conversation", conversation_id))

    @router.get(_ITEM)
    async def get_item(conversation_id: str, item_id: str, request: Request) -> Response:
        """One of its items."""
        owner = service.principal(request).name
        query_of.check_names(request.query_params, ("include",))
        query_of.check_include(request.query_params)
        store = service.kept()
        found = await store.conversation_item(owner, conversation_id, item_id)
        if found is None and await store.conversation(owner, conversation_id) is None:
            raise not_found("Conversation", conversation_id)
        if found is None:
            raise not_found("Item", item_id)
        return json_answer(listed(found))

    @router.delete(_ITEM)
    async def delete_item(conversation_id: str, item_id: str, request: Request) -> Response:
        """Take an item out of it; the conversation comes back."""
        owner = service.principal(request).name
        query_of.check_names(request.query_params, ())
        store = service.kept()
        found = await store.conversation(owner, conversation_id)
        if found is None:
            raise not_found("Conversation", conversation_id)
        if not await store.delete_item(owner, conversation_id, item_id):
            raise not_found("Item", item_id)
        return json_answer(found)

    return router
