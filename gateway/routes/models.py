"""GET /v1/models, GET /v1/models/{id}."""

from collections.abc import Sequence
from functools import partial

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Scope

from gateway.http.json_reply import build_json_reply
from gateway.service.served_models import ModelsForm
from gateway.service.service import Service


def build_models_routes(forms: Sequence[ModelsForm], service: Service) -> APIRouter:
    """`forms` are the forms of other APIs than OpenAI's."""
    router = APIRouter(tags=["Models"])

    def find_form(scope: Scope) -> ModelsForm | None:
        return next((form for form in forms if form.is_request(scope)), None)

    @router.get("/v1/models")
    async def list_models(request: Request) -> Response:
        """List the models of this server. For patterns in its config, it lists the models of the upstreams."""
        allowed = service.authenticate(request).models
        models = await service.models.list_models(allowed)
        if (form := find_form(request.scope)) is None:
            return build_json_reply({"object": "list", "data": models})
        find_capabilities = partial(service.models.find_capabilities, allowed)
        page = form.build_list(models, request.query_params, find_capabilities)
        return build_json_reply(page, headers=form.build_headers())

    @router.get("/v1/models/{model:path}")
    async def get_model(model: str, request: Request) -> Response:
        """Get one model."""
        allowed = service.authenticate(request).models
        listed_model = await service.models.get_model(model, allowed)
        if (form := find_form(request.scope)) is None:
            return build_json_reply(listed_model)
        built = form.build_model(listed_model, partial(service.models.find_capabilities, allowed))
        return build_json_reply(built, headers=form.build_headers())

    return router
