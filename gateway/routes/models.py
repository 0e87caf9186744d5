"""GET /v1/models, GET /v1/models/{id}."""

from functools import partial

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from gateway.http.dialect_errors.gemini import is_gemini_request
from gateway.http.dialect_errors.messages import build_request_id_headers, is_messages_request
from gateway.http.json_reply import build_json_reply
from gateway.replies.dialects.gemini_models import build_gemini_model, list_gemini_models
from gateway.replies.dialects.message_models import build_message_model, list_message_models
from gateway.service.service import Service


def build_models_routes(service: Service) -> APIRouter:
    router = APIRouter(tags=["Models"])

    @router.get("/v1/models")
    async def list_models(request: Request) -> Response:
        """List the models of this server. For patterns in its config, it lists the models of the upstreams."""
        allowed = service.authenticate(request).models
        models = await service.catalogue.list_models(allowed)
        if is_messages_request(request.scope):
            find_window = partial(service.catalogue.find_window, allowed)
            listed = list_message_models(models, request.query_params, find_window)
            return build_json_reply(listed, headers=build_request_id_headers())
        if is_gemini_request(request.scope):
            find_capabilities = partial(service.catalogue.find_capabilities, allowed)
            return build_json_reply(list_gemini_models(models, request.query_params, find_capabilities))
        return build_json_reply({"object": "list", "data": models})

    @router.get("/v1/models/{model:path}")
    async def get_model(model: str, request: Request) -> Response:
        """Get one model."""
        allowed = service.authenticate(request).models
        listed_model = await service.catalogue.get_model(model, allowed)
        if is_messages_request(request.scope):
            anthropic_model = build_message_model(listed_model, partial(service.catalogue.find_window, allowed))
            return build_json_reply(anthropic_model, headers=build_request_id_headers())
        if is_gemini_request(request.scope):
            return build_json_reply(
                build_gemini_model(listed_model, partial(service.catalogue.find_capabilities, allowed))
            )
        return build_json_reply(listed_model)

    return router
