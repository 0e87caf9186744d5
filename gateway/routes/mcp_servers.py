"""GET /v1/gateway/mcp-servers. An extension of the APIs."""

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from gateway.http import query_params as query_of
from gateway.http.json_reply import build_json_reply
from gateway.service.service import Service


def mcp_servers_routes(service: Service) -> APIRouter:
    router = APIRouter(tags=["Gateway"])

    @router.get("/v1/gateway/mcp-servers")
    async def list_mcp_servers(request: Request) -> Response:
        """List the MCP servers of the configuration that the key may use, with the tools that this process knows of
        them.

        A server that no request has used yet has none. Nothing is asked of the servers.
        """
        allowed = service.authenticate(request).mcp_servers
        query_of.check_param_names(request.query_params, ())
        return build_json_reply({"object": "list", "data": service.operator_servers.describe_servers(allowed)})

    return router
