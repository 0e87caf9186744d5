"""/api/*: Ollama's own API, for clients that support no other API."""

from typing import Final

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from gateway.dialects.ollama.endpoint import OLLAMA_CHAT, OLLAMA_GENERATE
from gateway.dialects.ollama.error_form import OLLAMA_FAILURES
from gateway.dialects.ollama.models import API_VERSION, build_listed_model, build_model_details, remove_default_tag
from gateway.dialects.ollama.requests import OllamaRequest
from gateway.errors import NotFound
from gateway.http.json_reply import build_json_reply
from gateway.http.request_docs import document_json_body, document_reply
from gateway.service.service import Service
from translation.ollama.client.schema import CHAT_SCHEMA, GENERATE_SCHEMA
from translation.validation import require_name

_MODEL_CHANGES: Final = {
    "/api/pull": "POST",
    "/api/push": "POST",
    "/api/create": "POST",
    "/api/copy": "POST",
    "/api/delete": "DELETE",
}
"""Routes that change the models of a server -> their methods."""

_STREAMED_LINES: Final = document_reply("application/x-ndjson")


def build_ollama_routes(service: Service) -> APIRouter:
    router = APIRouter(tags=["Ollama"], responses=OLLAMA_FAILURES)

    @router.post("/api/chat", openapi_extra=document_json_body(CHAT_SCHEMA), responses=_STREAMED_LINES)
    async def chat_as_ollama(request: Request) -> Response:
        """Reply to a conversation: lines of JSON, or one object with `stream: false`."""
        return await OllamaRequest(service, OLLAMA_CHAT).serve(request.scope, request.receive)

    @router.post("/api/generate", openapi_extra=document_json_body(GENERATE_SCHEMA), responses=_STREAMED_LINES)
    async def generate_as_ollama(request: Request) -> Response:
        """Reply to one prompt: lines of JSON, or one object with `stream: false`."""
        return await OllamaRequest(service, OLLAMA_GENERATE).serve(request.scope, request.receive)

    @router.get("/api/tags")
    async def list_ollama_models(request: Request) -> Response:
        """List the models of this server."""
        models = await service.models.list_models(service.authenticate(request).models)
        return build_json_reply({"models": [build_listed_model(model) for model in models]})

    @router.get("/api/ps")
    async def list_loaded_models(request: Request) -> Response:
        """List no models, because only upstreams know which models are loaded."""
        service.authenticate(request)
        return build_json_reply({"models": []})

    @router.post("/api/show")
    async def show_ollama_model(request: Request) -> Response:
        """Show the capabilities of a model."""
        principal = service.authenticate(request)
        body = await service.read_body(request)
        name = remove_default_tag(service.models, require_name("model", body.get("model") or body.get("name")))
        model = await service.models.get_model(name, principal.models)
        return build_json_reply(build_model_details(model, service.models.find_route(name, principal.models)))

    @router.get("/api/version")
    async def get_ollama_version() -> Response:
        """Get the version of Ollama whose API is implemented."""
        return build_json_reply({"version": API_VERSION})

    for path, method in _MODEL_CHANGES.items():
        router.add_api_route(path, _refuse_change, methods=[method], include_in_schema=False)
    return router


async def _refuse_change(request: Request) -> Response:
    path = request.url.path
    raise NotFound(f"there is no {path} here: models are added and removed in the gateway's configuration")
