"""/v1/prompts and their versions: prompts that requests of the Responses API refer to by `prompt`."""

from functools import partial
from typing import Any, Final

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from gateway.http import query_params
from gateway.http.auth import Principal
from gateway.http.json_reply import build_json_reply
from gateway.http.request_docs import document_json_body
from gateway.http.stored_objects import (
    MAX_PAGE_SIZE,
    build_list_reply,
    parse_page_request,
    read_page_of,
    require_found,
)
from gateway.service.intake import build_version_error
from gateway.service.service import Service
from gateway.state.prompt_records import PromptQuota
from providers.new_id import new_id
from translation.errors import InvalidRequest
from translation.representation.json_types import Json
from translation.responses.prompts import read_prompt, read_version
from translation.validation import refuse_unknown_names

_PROMPT_PATH: Final = "/v1/prompts/{prompt_id}"

_TEXT: Final[Json] = {"type": "string"}
_CONTENT_SCHEMA: Final[Json] = {
    "type": "object",
    "properties": {
        **dict.fromkeys(("name", "description", "model", "instructions"), _TEXT),
        "messages": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"role": _TEXT, "content": _TEXT},
                "required": ["role", "content"],
            },
        },
        "defaults": {"type": "object", "additionalProperties": _TEXT},
    },
}
_DEFAULT_SCHEMA: Final[Json] = {
    "type": "object",
    "properties": {"default_version": _TEXT},
    "required": ["default_version"],
}


def build_prompts_routes(service: Service) -> APIRouter:
    router = APIRouter(tags=["Prompts"])

    def find_quota(principal: Principal) -> PromptQuota:
        limits = principal.limits or service.settings.limits
        return PromptQuota(limits.prompts, limits.prompt_versions)

    @router.post("/v1/prompts", openapi_extra=document_json_body(lambda: _CONTENT_SCHEMA))
    async def create_prompt(request: Request) -> Response:
        """Create a prompt with its first version: instructions and messages, with variables such as `{{city}}`."""
        principal = service.authenticate(request)
        query_params.check_param_names(request.query_params, ())
        content = read_prompt(await service.read_body(request))
        prompts = service.require_store().prompts
        created = await prompts.create_prompt(principal.owner, new_id("pmpt"), content, find_quota(principal))
        return build_json_reply(created.render())

    @router.get("/v1/prompts")
    async def list_prompts(request: Request) -> Response:
        """List your prompts by creation time, each in its default version."""
        owner = service.authenticate(request).owner
        requested_page = parse_page_request(request.query_params)
        return await build_list_reply(requested_page, partial(service.require_store().prompts.list_prompts, owner))

    @router.get(_PROMPT_PATH)
    async def get_prompt(prompt_id: str, request: Request) -> Response:
        """Get a prompt in its default version, or in the `version` of the query."""
        owner = service.authenticate(request).owner
        query = request.query_params
        query_params.check_param_names(query, ("version",))
        version = read_version(query_params.read_single_value(query, "version"), "version")
        prompts = service.require_store().prompts
        prompt = await prompts.load_prompt(owner, prompt_id, version)
        if prompt is None and version is not None and await prompts.load_prompt(owner, prompt_id) is not None:
            raise build_version_error(prompt_id, version, "version")
        return build_json_reply(require_found(prompt, "Prompt", prompt_id).render())

    @router.post(_PROMPT_PATH, openapi_extra=document_json_body(lambda: _DEFAULT_SCHEMA))
    async def set_default_version(prompt_id: str, request: Request) -> Response:
        """Make another version of a prompt its default."""
        owner = service.authenticate(request).owner
        query_params.check_param_names(request.query_params, ())
        body: Any = await service.read_body(request)
        refuse_unknown_names(body, ("default_version",))
        version = read_version(body.get("default_version"), "default_version")
        if version is None:
            raise InvalidRequest(
                "default_version is required", param="default_version", code="missing_required_parameter"
            )
        prompts = service.require_store().prompts
        prompt = await prompts.set_default_version(owner, prompt_id, version)
        if prompt is None and await prompts.load_prompt(owner, prompt_id) is not None:
            raise build_version_error(prompt_id, version, "default_version")
        return build_json_reply(require_found(prompt, "Prompt", prompt_id).render())

    @router.delete(_PROMPT_PATH)
    async def delete_prompt(prompt_id: str, request: Request) -> Response:
        """Delete a prompt with all its versions. Responses that used it remain."""
        owner = service.authenticate(request).owner
        query_params.check_param_names(request.query_params, ())
        require_found(await service.require_store().prompts.delete_prompt(owner, prompt_id), "Prompt", prompt_id)
        return build_json_reply({"id": prompt_id, "object": "prompt.deleted", "deleted": True})

    @router.post(_PROMPT_PATH + "/versions", openapi_extra=document_json_body(lambda: _CONTENT_SCHEMA))
    async def add_version(prompt_id: str, request: Request) -> Response:
        """Add a version to a prompt. The default version stays."""
        principal = service.authenticate(request)
        query_params.check_param_names(request.query_params, ())
        content = read_prompt(await service.read_body(request))
        prompts = service.require_store().prompts
        added = await prompts.add_prompt_version(principal.owner, prompt_id, content, find_quota(principal))
        return build_json_reply(require_found(added, "Prompt", prompt_id).render())

    @router.get(_PROMPT_PATH + "/versions")
    async def list_versions(prompt_id: str, request: Request) -> Response:
        """List the versions of a prompt, newest first by default. `after` is the number of a version."""
        owner = service.authenticate(request).owner
        requested_page = parse_page_request(request.query_params, default_limit=MAX_PAGE_SIZE)
        read = partial(service.require_store().prompts.list_prompt_versions, owner, prompt_id)
        return await build_list_reply(requested_page, read_page_of("Prompt", prompt_id, read), cursor_key="version")

    return router
