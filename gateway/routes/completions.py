"""/v1/chat/completions that are kept: list, get, change, delete, messages."""

from functools import partial

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from gateway.http import query_params as query_of
from gateway.http.json_reply import json_answer
from gateway.http.paging import page_request
from gateway.replies.loss_header import said_again
from gateway.routes.request_docs import json_request
from gateway.routes.stored_objects import list_answer, not_found
from gateway.service.service import Service
from gateway.state.store import Page, PageRequest
from translation.chat.forms import stored_message
from translation.responses.schema.conversations import UPDATE_SCHEMA, validate_update

_KIND = "Chat completion"


def completions_routes(service: Service) -> APIRouter:
    router = APIRouter(tags=["Chat Completions"])

    @router.get("/v1/chat/completions")
    async def list_completions(request: Request) -> Response:
        """Your chat completions that were created with `store: true`, by time, filtered by model and metadata."""
        owner = service.principal(request).name
        query = request.query_params
        asked = page_request(query, "asc", also=("model", "metadata"))
        wanted = dict(query_of.entries(query, "metadata"))
        model = query_of.single(query, "model")
        return await list_answer(asked, partial(service.kept().completions, owner, model=model, metadata=wanted))

    @router.get("/v1/chat/completions/{completion_id}")
    async def get_completion(completion_id: str, request: Request) -> Response:
        """A stored chat completion."""
        owner = service.principal(request).name
        query_of.check_names(request.query_params, ())
        found = await service.kept().completion(owner, completion_id)
        if found is None:
            raise not_found(_KIND, completion_id)
        return json_answer(found.completion, headers=said_again(found.losses))

    @router.post("/v1/chat/completions/{completion_id}", openapi_extra=json_request(UPDATE_SCHEMA))
    async def update_completion(completion_id: str, request: Request) -> Response:
        """Replace its metadata."""
        owner = service.principal(request).name
        query_of.check_names(request.query_params, ())
        body = await service.read(request)
        validate_update(body)
        changed = await service.kept().update_completion(owner, completion_id, body["metadata"])
        if changed is None:
            raise not_found(_KIND, completion_id)
        return json_answer(changed.completion, headers=said_again(changed.losses))

    @router.delete("/v1/chat/completions/{completion_id}")
    async def delete_completion(completion_id: str, request: Request) -> Response:
        """Forget it."""
        owner = service.principal(request).name
        query_of.check_names(request.query_params, ())
        if not await service.kept().delete_completion(owner, completion_id):
            raise not_found(_KIND, completion_id)
        return json_answer({"id": completion_id, "object": "chat.completion.deleted", "deleted": True})

    @router.get("/v1/chat/completions/{completion_id}/messages")
    async def list_messages(completion_id: str, request: Request) -> Response:
        """The messages it was asked with."""
        owner = service.principal(request).name
        asked = page_request(request.query_params, "asc")
        store = service.kept()

        async def read(asked: PageRequest) -> Page | None:
            page = await store.completion_messages(owner, completion_id, asked)
            return page and page._replace(rows=[stored_message(message) for message in page.rows])

        return await list_answer(asked, read, not_found(_KIND, completion_id))

    return router
