"""/v1/vector_stores: stores of files that can be searched, their files and batches, and searches."""

from collections.abc import Mapping
from functools import partial
from typing import Final, Protocol

from fastapi import APIRouter
from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import Response

from gateway.http import query_params
from gateway.http.json_reply import build_json_reply
from gateway.http.request_docs import TEXT_SCHEMA, build_object_schema, document_json_body
from gateway.http.stored_objects import build_list_reply, parse_page_request
from gateway.replies.loss_header import report_losses
from gateway.service.service import Service
from gateway.state.values import PageRequest
from gateway.state.vector_records import ENTRY_STATUSES, EntryStatus, FileCounts
from translation.errors import InvalidRequest
from translation.representation.json_types import Json

_STORES = "/v1/vector_stores"
_STORE = "/v1/vector_stores/{store_id}"
_FILES = f"{_STORE}/files"
_FILE = f"{_FILES}/{{file_id}}"
_BATCHES = f"{_STORE}/file_batches"
_BATCH = f"{_BATCHES}/{{batch_id}}"

_POLL_HEADER: Final = "openai-poll-after-ms"
_MIN_POLL_MS: Final = 100
_MAX_POLL_MS: Final = 2000
_TEXTS_PER_PAGE: Final = 100

_SIZES_SCHEMA: Final[Json] = {
    "type": "object",
    "description": '`{"type": "auto"}`, or `static` with `max_chunk_size_tokens` and `chunk_overlap_tokens`.',
}
_ATTRIBUTES_SCHEMA: Final[Json] = {"type": "object", "description": "Up to 16 texts, numbers and booleans."}


class _Rendered(Protocol):
    def render(self) -> Json: ...


def build_vector_stores_routes(service: Service) -> APIRouter:
    router = APIRouter(tags=["Vector stores"])
    _add_store_routes(router, service)
    _add_file_routes(router, service)
    _add_batch_routes(router, service)
    return router


def _add_store_routes(router: APIRouter, service: Service) -> None:
    @router.post(_STORES, openapi_extra=document_json_body(_build_store_schema))
    async def create_vector_store(request: Request) -> Response:
        """Create a vector store, with files that are indexed from then on."""
        principal = service.authenticate(request)
        query_params.check_param_names(request.query_params, ())
        body = await service.read_body(request)
        limits = principal.limits or service.settings.limits
        store = await service.require_vector_stores().create_store(principal.owner, body, limits.vector_stores)
        return _build_reply(store, store.counts)

    @router.get(_STORES)
    async def list_vector_stores(request: Request) -> Response:
        """List vector stores, the newest first unless `order=asc`."""
        owner = service.authenticate(request).owner
        page, stores = parse_page_request(request.query_params, has_before=True), service.require_vector_stores()
        return await build_list_reply(page, partial(stores.list_stores, owner))

    @router.get(_STORE)
    async def get_vector_store(request: Request, store_id: str) -> Response:
        """Describe a vector store."""
        owner = _authenticate(service, request)
        store = await service.require_vector_stores().load_store(owner, store_id)
        return _build_reply(store, store.counts)

    @router.post(_STORE, openapi_extra=document_json_body(_build_change_schema))
    async def update_vector_store(request: Request, store_id: str) -> Response:
        """Change the name, the metadata or the expiry of a vector store."""
        owner, body = _authenticate(service, request), await service.read_body(request)
        store = await service.require_vector_stores().update_store(owner, store_id, body)
        return _build_reply(store, store.counts)

    @router.delete(_STORE)
    async def delete_vector_store(request: Request, store_id: str) -> Response:
        """Delete a vector store. Its files remain."""
        owner = _authenticate(service, request)
        await service.require_vector_stores().delete_store(owner, store_id)
        return build_json_reply({"id": store_id, "object": "vector_store.deleted", "deleted": True})

    @router.post(f"{_STORE}/search", openapi_extra=document_json_body(_build_search_schema))
    async def search_vector_store(request: Request, store_id: str) -> Response:
        """Search the files of a vector store."""
        owner, body = _authenticate(service, request), await service.read_body(request)
        page = await service.require_vector_stores().search(owner, store_id, body)
        return build_json_reply(page.render(), headers=report_losses(page.losses))


def _add_file_routes(router: APIRouter, service: Service) -> None:
    @router.post(_FILES, openapi_extra=document_json_body(_build_file_schema))
    async def attach_file(request: Request, store_id: str) -> Response:
        """Attach a file to a vector store. It can be searched once its status is `completed`."""
        owner, body = _authenticate(service, request), await service.read_body(request)
        entry = await service.require_vector_stores().attach_file(owner, store_id, body)
        return _build_reply(entry, FileCounts(in_progress=entry.status == "in_progress"))

    @router.get(_FILES)
    async def list_vector_store_files(request: Request, store_id: str) -> Response:
        """List the files of a vector store, the newest first unless `order=asc`."""
        owner = service.authenticate(request).owner
        page, status = _parse_entries_request(request.query_params)
        stores = service.require_vector_stores()
        return await build_list_reply(page, partial(stores.list_entries, owner, store_id, status=status))

    @router.get(_FILE)
    async def get_vector_store_file(request: Request, store_id: str, file_id: str) -> Response:
        """Describe a file of a vector store."""
        owner = _authenticate(service, request)
        entry = await service.require_vector_stores().load_entry(owner, store_id, file_id)
        return _build_reply(entry, FileCounts(in_progress=entry.status == "in_progress"))

    @router.post(_FILE, openapi_extra=document_json_body(_build_attributes_schema))
    async def update_vector_store_file(request: Request, store_id: str, file_id: str) -> Response:
        """Replace the attributes of a file of a vector store."""
        owner, body = _authenticate(service, request), await service.read_body(request)
        entry = await service.require_vector_stores().set_attributes(owner, store_id, file_id, body)
        return _build_reply(entry, FileCounts())

    @router.delete(_FILE)
    async def detach_file(request: Request, store_id: str, file_id: str) -> Response:
        """Take a file out of a vector store. The file remains."""
        owner = _authenticate(service, request)
        await service.require_vector_stores().detach_file(owner, store_id, file_id)
        return build_json_reply({"id": file_id, "object": "vector_store.file.deleted", "deleted": True})

    @router.get(f"{_FILE}/content")
    async def get_vector_store_file_content(request: Request, store_id: str, file_id: str) -> Response:
        """Read the text of a file of a vector store, as it was parsed."""
        owner = service.authenticate(request).owner
        query_params.check_param_names(request.query_params, ("page",))
        start = query_params.parse_integer(request.query_params, "page", minimum=0, maximum=2**31 - 1) or 0
        wanted = PageRequest(after=str(start), limit=_TEXTS_PER_PAGE)
        texts = await service.require_vector_stores().load_texts(owner, store_id, file_id, wanted)
        return build_json_reply(
            {
                "object": "vector_store.file_content.page",
                "data": list(texts.rows),
                "has_more": texts.has_more,
                "next_page": str(start + _TEXTS_PER_PAGE) if texts.has_more else None,
            }
        )


def _add_batch_routes(router: APIRouter, service: Service) -> None:
    @router.post(_BATCHES, openapi_extra=document_json_body(_build_batch_schema))
    async def create_file_batch(request: Request, store_id: str) -> Response:
        """Attach up to 2,000 files to a vector store together."""
        owner, body = _authenticate(service, request), await service.read_body(request)
        batch = await service.require_vector_stores().attach_batch(owner, store_id, body)
        return _build_reply(batch, batch.counts)

    @router.get(_BATCH)
    async def get_file_batch(request: Request, store_id: str, batch_id: str) -> Response:
        """Describe a batch of files. It can be read for seven days."""
        owner = _authenticate(service, request)
        batch = await service.require_vector_stores().load_batch(owner, store_id, batch_id)
        return _build_reply(batch, batch.counts)

    @router.post(f"{_BATCH}/cancel")
    async def cancel_file_batch(request: Request, store_id: str, batch_id: str) -> Response:
        """Cancel the files of a batch that are not indexed yet."""
        owner = _authenticate(service, request)
        batch = await service.require_vector_stores().cancel_batch(owner, store_id, batch_id)
        return _build_reply(batch, batch.counts)

    @router.get(f"{_BATCH}/files")
    async def list_batch_files(request: Request, store_id: str, batch_id: str) -> Response:
        """List the files of a batch, the newest first unless `order=asc`."""
        owner = service.authenticate(request).owner
        page, status = _parse_entries_request(request.query_params)
        stores = service.require_vector_stores()
        return await build_list_reply(
            page, partial(stores.list_entries, owner, store_id, status=status, batch_id=batch_id)
        )


def _authenticate(service: Service, request: Request) -> str:
    """Returns the owner of a request without query parameters."""
    owner = service.authenticate(request).owner
    query_params.check_param_names(request.query_params, ())
    return owner


def _parse_entries_request(query: QueryParams) -> tuple[PageRequest, EntryStatus | None]:
    page = parse_page_request(query, extra_names=["filter"], has_before=True)
    text = query_params.read_single_value(query, "filter")
    status = next((known for known in ENTRY_STATUSES if known == text), None)
    if text is not None and status is None:
        raise InvalidRequest(
            f"Invalid value for 'filter': '{text:.80}'. Expected one of {', '.join(ENTRY_STATUSES)}.", param="filter"
        )
    return page, status


def _build_reply(value: _Rendered, counts: FileCounts) -> Response:
    """Returns the reply with an object. While files are indexed, it says when to ask again."""
    headers: Mapping[str, str] = {}
    if counts.in_progress:
        headers = {_POLL_HEADER: str(min(_MAX_POLL_MS, _MIN_POLL_MS * counts.in_progress))}
    return build_json_reply(value.render(), headers=headers)


def _build_store_schema() -> Json:
    return build_object_schema(
        [],
        name=TEXT_SCHEMA,
        description=TEXT_SCHEMA,
        file_ids={"type": "array", "items": TEXT_SCHEMA},
        chunking_strategy=_SIZES_SCHEMA,
        expires_after={"type": "object"},
        metadata={"type": "object"},
    )


def _build_change_schema() -> Json:
    return build_object_schema([], name=TEXT_SCHEMA, expires_after={"type": "object"}, metadata={"type": "object"})


def _build_search_schema() -> Json:
    return build_object_schema(
        ["query"],
        query={"anyOf": [TEXT_SCHEMA, {"type": "array", "items": TEXT_SCHEMA}]},
        filters={"type": "object"},
        max_num_results={"type": "integer", "minimum": 1, "maximum": 50},
        ranking_options={"type": "object"},
        rewrite_query={"type": "boolean"},
    )


def _build_file_schema() -> Json:
    return build_object_schema(
        ["file_id"], file_id=TEXT_SCHEMA, attributes=_ATTRIBUTES_SCHEMA, chunking_strategy=_SIZES_SCHEMA
    )


def _build_attributes_schema() -> Json:
    return build_object_schema(["attributes"], attributes=_ATTRIBUTES_SCHEMA)


def _build_batch_schema() -> Json:
    return build_object_schema(
        [],
        file_ids={"type": "array", "items": TEXT_SCHEMA},
        files={"type": "array", "items": _build_file_schema()},
        attributes=_ATTRIBUTES_SCHEMA,
        chunking_strategy=_SIZES_SCHEMA,
    )
