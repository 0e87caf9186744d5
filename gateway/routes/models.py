"""GET /v1/models, GET /v1/models/{id}."""

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from gateway.http.json_reply import build_json_reply
from gateway.service.service import Service


def models_routes(service: Service) -> APIRouter:
    router = APIRouter(tags=["Models"])

    @router.get("/v1/models")
    async def list_models(request: Request) -> Response:
        """List the models of this server. For patterns in its config, these are the models that the upstreams list."""
        models = await service.catalogue.list_models(service.authenticate(request).models)
        return build_json_reply({"object": "list", "data": models})

    @router.get("/v1/models/{model:path}")
    async def get_model(model: str, request: Request) -> Response:
        """Get one model."""
        return build_json_reply(await service.catalogue.get_model(model, service.authenticate(request).models))

    return router
