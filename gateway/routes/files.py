"""/v1/files: uploads, lists, downloads and deletions of files."""

from collections.abc import Sequence

from fastapi import APIRouter, Depends
from starlette.requests import Request
from starlette.responses import Response

from gateway.errors import NotFound
from gateway.files.file_params import PURPOSES, check_purpose
from gateway.http import query_params
from gateway.http.error_forms import ErrorForm
from gateway.http.json_reply import build_json_reply
from gateway.http.request_docs import TEXT_SCHEMA, build_object_schema, document_form_body, document_reply
from gateway.http.stored_objects import build_list_reply, parse_page_request
from gateway.logs import bind_fields
from gateway.service.service import Service
from translation.representation.json_types import Json

_MAX_PAGE_SIZE = 10_000


def build_files_routes(forms: Sequence[ErrorForm], service: Service) -> APIRouter:
    """`forms` are those of the other APIs. Some have files at these paths too, with other requests and replies.

    Their clients are refused: they would find no files in the list. The bytes of a file are the same in each API.
    """
    router = APIRouter(tags=["Files"])

    async def refuse_other_clients(request: Request) -> None:
        if any(form.is_request(request.scope) for form in forms):
            raise NotFound(
                f"there is no {request.method} {request.url.path:.200} of this API here: "
                "clients of OpenAI's API upload, list and delete files"
            )

    of_openai = [Depends(refuse_other_clients)]

    @router.post("/v1/files", dependencies=of_openai, openapi_extra=document_form_body(_build_form_schema))
    async def create_file(request: Request) -> Response:
        """Upload a file."""
        principal = service.authenticate(request)
        query_params.check_param_names(request.query_params, ())
        files, quota = service.require_files(), service.find_file_quota(principal)
        file = await files.create_file(principal.owner, quota, request.scope, request.receive)
        return build_json_reply(file.render())

    @router.get("/v1/files", dependencies=of_openai)
    async def list_files(request: Request) -> Response:
        """List files, the newest first unless `order=asc`."""
        owner = service.authenticate(request).owner
        query, files = request.query_params, service.require_files()
        page = parse_page_request(
            query, extra_names=["purpose"], max_limit=_MAX_PAGE_SIZE, default_limit=_MAX_PAGE_SIZE
        )
        purpose = query_params.read_single_value(query, "purpose")
        if purpose is not None:
            check_purpose(purpose)
        return await build_list_reply(page, lambda page: files.list_files(owner, page, purpose=purpose))

    @router.get("/v1/files/{file_id}", dependencies=of_openai)
    async def get_file(request: Request, file_id: str) -> Response:
        """Describe a file."""
        owner = service.authenticate(request).owner
        query_params.check_param_names(request.query_params, ())
        return build_json_reply((await service.require_files().load_file(owner, file_id)).render())

    @router.delete("/v1/files/{file_id}", dependencies=of_openai)
    async def delete_file(request: Request, file_id: str) -> Response:
        """Delete a file. It is taken out of everything that refers to it."""
        owner = service.authenticate(request).owner
        query_params.check_param_names(request.query_params, ())
        await service.require_files().delete_file(owner, file_id)
        bind_fields(file_id=file_id)
        return build_json_reply({"id": file_id, "object": "file", "deleted": True})

    @router.get("/v1/files/{file_id}/content", responses=document_reply("application/octet-stream"))
    async def get_file_content(request: Request, file_id: str) -> Response:
        """Download a file."""
        owner = service.authenticate(request).owner
        query_params.check_param_names(request.query_params, ())
        return await service.require_files().build_content_reply(owner, file_id)

    return router


def _build_form_schema() -> Json:
    return build_object_schema(
        ["file", "purpose"],
        file={"type": "string", "format": "binary"},
        purpose={"type": "string", "enum": list(PURPOSES)},
        **{"expires_after[anchor]": {"type": "string", "enum": ["created_at"]}, "expires_after[seconds]": TEXT_SCHEMA},
    )
