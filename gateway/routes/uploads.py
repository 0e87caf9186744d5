"""/v1/uploads: files that arrive in parts."""

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from gateway.files.file_params import PURPOSES
from gateway.files.upload_params import read_completion, read_new_upload
from gateway.http import query_params
from gateway.http.guard import guard_client
from gateway.http.json_reply import build_json_reply
from gateway.http.request_docs import TEXT_SCHEMA, build_object_schema, document_form_body, document_json_body
from gateway.service.service import Service
from translation.representation.json_types import Json


def build_uploads_routes(service: Service) -> APIRouter:
    router = APIRouter(tags=["Files"])

    @router.post("/v1/uploads", openapi_extra=document_json_body(_build_created_schema))
    async def create_upload(request: Request) -> Response:
        """Begin the upload of a file in parts."""
        principal = service.authenticate(request)
        query_params.check_param_names(request.query_params, ())
        body, uploads = await service.read_body(request), service.require_uploads()
        new = read_new_upload(body)
        return build_json_reply(await uploads.create_upload(principal.owner, new, service.find_file_quota(principal)))

    @router.post("/v1/uploads/{upload_id}/parts", openapi_extra=document_form_body(_build_part_schema))
    async def add_upload_part(request: Request, upload_id: str) -> Response:
        """Send a part of a file. Parts may be sent in any order, and at once."""
        principal = service.authenticate(request)
        query_params.check_param_names(request.query_params, ())
        uploads, quota = service.require_uploads(), service.find_file_quota(principal)
        return build_json_reply(
            await uploads.add_part(principal.owner, upload_id, quota, request.scope, request.receive)
        )

    @router.post("/v1/uploads/{upload_id}/complete", openapi_extra=document_json_body(_build_completed_schema))
    async def complete_upload(request: Request, upload_id: str) -> Response:
        """Join parts to a file, in the order of their ids."""
        principal = service.authenticate(request)
        query_params.check_param_names(request.query_params, ())
        body, uploads = await service.read_body(request), service.require_uploads()
        quota = service.find_file_quota(principal)
        part_ids, md5 = read_completion(body)
        with guard_client(request.scope, request.receive, service.drain):
            completed = await uploads.complete_upload(principal.owner, upload_id, part_ids, md5, quota)
        return build_json_reply(completed)

    @router.post("/v1/uploads/{upload_id}/cancel")
    async def cancel_upload(request: Request, upload_id: str) -> Response:
        """Cancel an upload. Its parts are deleted."""
        owner = service.authenticate(request).owner
        query_params.check_param_names(request.query_params, ())
        return build_json_reply(await service.require_uploads().cancel_upload(owner, upload_id))

    return router


def _build_created_schema() -> Json:
    return build_object_schema(
        ["bytes", "filename", "mime_type", "purpose"],
        bytes={"type": "integer", "minimum": 1},
        filename=TEXT_SCHEMA,
        mime_type=TEXT_SCHEMA,
        purpose={"type": "string", "enum": list(PURPOSES)},
        expires_after=build_object_schema(
            ["anchor", "seconds"],
            anchor={"type": "string", "enum": ["created_at"]},
            seconds={"type": "integer", "minimum": 3600, "maximum": 2_592_000},
        ),
    )


def _build_part_schema() -> Json:
    return build_object_schema(["data"], data={"type": "string", "format": "binary"})


def _build_completed_schema() -> Json:
    return build_object_schema(
        ["part_ids"], part_ids={"type": "array", "items": TEXT_SCHEMA, "minItems": 1}, md5=TEXT_SCHEMA
    )
