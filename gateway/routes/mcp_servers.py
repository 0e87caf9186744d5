"""/v1/gateway/mcp-servers. An extension of the APIs."""

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from gateway.errors import NotFound
from gateway.http import query_params
from gateway.http.auth import Principal
from gateway.http.json_reply import build_json_reply
from gateway.http.request_docs import document_json_body
from gateway.service.service import Service
from gateway.tools.operator_servers.servers import matches_any
from translation.representation.json_types import Json

_LIST_PATH = "/v1/gateway/mcp-servers"
_SERVER_PATH = "/v1/gateway/mcp-servers/{server_label}"
_ANY = ("*",)


def build_mcp_servers_routes(service: Service) -> APIRouter:
    router = APIRouter(tags=["Gateway"])

    @router.get(_LIST_PATH)
    async def list_mcp_servers(request: Request) -> Response:
        """List the operator's MCP servers that the key may use, with the tools that this process has listed.

        A server that no request has used yet has no tools. The servers are not contacted. Administrators get all
        servers.
        """
        allowed = _allowed_of(service.authenticate(request))
        query_params.check_param_names(request.query_params, ())
        return build_json_reply({"object": "list", "data": service.operator_servers.describe_servers(allowed)})

    @router.get(_SERVER_PATH)
    async def get_mcp_server(server_label: str, request: Request) -> Response:
        """Get one of the operator's MCP servers. Administrators also get the settings of an added server."""
        principal = service.authenticate(request)
        query_params.check_param_names(request.query_params, ())
        return build_json_reply(_describe(service, server_label, principal))

    @router.put(_SERVER_PATH, openapi_extra=document_json_body(_describe_body))
    async def put_mcp_server(server_label: str, request: Request) -> Response:
        """Add a server, or replace an added server. For administrators.

        It is connected at once; its `status` later shows whether it can be used.
        """
        principal = service.authenticate_admin(request)
        query_params.check_param_names(request.query_params, ())
        body = await service.read_body(request)
        admin = service.settings.tools.mcp.admin
        is_new = await service.state.require_added_servers().add(server_label, body, principal.key_name, admin)
        return build_json_reply(_describe(service, server_label, principal), 201 if is_new else 200)

    @router.delete(_SERVER_PATH)
    async def delete_mcp_server(server_label: str, request: Request) -> Response:
        """Remove an added server. Open calls get `tools.mcp.removal_grace_s` to end. For administrators."""
        principal = service.authenticate_admin(request)
        query_params.check_param_names(request.query_params, ())
        await service.state.require_added_servers().remove(server_label, principal.key_name)
        return build_json_reply({"object": "mcp_server.deleted", "server_label": server_label, "deleted": True})

    return router


def _allowed_of(principal: Principal) -> tuple[str, ...]:
    return _ANY if principal.is_admin else principal.mcp_servers


def _describe(service: Service, label: str, principal: Principal) -> Json:
    """Returns the list entry of a server. Raises NotFound, with the same message for servers that the key may not
    use."""
    servers = service.operator_servers
    is_known = label in servers.configured or label in servers.unusable
    if not (is_known and matches_any(label, _allowed_of(principal))):
        raise NotFound(f"there is no MCP server {label:.100}")
    described = servers.describe_server(label)
    if principal.is_admin and described["source"] == "api":
        described["settings"] = service.state.describe_added_server(label)
    return described


def _describe_body() -> Json:
    return {"type": "object", "description": "The keys of a server in `tools.mcp.servers` of the configuration."}
