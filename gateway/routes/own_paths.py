"""Paths of the gateway that no API of a vendor has: GET /v1/gateway/routes/{model}, DELETE /v1/gateway/owner-data."""

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from gateway.http import query_params
from gateway.http.json_reply import build_json_reply
from gateway.service.service import Service


def build_own_routes(service: Service) -> APIRouter:
    router = APIRouter(tags=["Gateway"])

    @router.get("/v1/gateway/routes/{model:path}")
    async def explain_route(model: str, request: Request) -> Response:
        """Explain where the turns of a model go: its upstreams, their shares and their state in this process.

        With keys, for administrators.
        """
        if service.settings.auth is None:
            service.authenticate(request)
        else:
            service.authenticate_admin(request)
        query_params.check_param_names(request.query_params, ())
        return build_json_reply(service.current.routing.report(model))

    @router.delete("/v1/gateway/owner-data")
    async def delete_owner_data(request: Request) -> Response:
        """Delete everything that is stored for this key: responses, conversations, chat completions and
        files.

        Running responses are deleted too.
        """
        owner = service.authenticate(request).owner
        query_params.check_param_names(request.query_params, ())
        count = await service.require_store().owner_data.erase_owner(owner)
        await service.remove_unused_blobs(owner)
        return build_json_reply({"object": "owner_data.deleted", "owner": owner, "deleted": True, "count": count})

    return router
