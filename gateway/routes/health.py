"""GET /healthz and GET /readyz."""

from collections import Counter

from fastapi import APIRouter
from starlette.responses import Response

from gateway.http.json_reply import build_json_reply
from gateway.service.service import Service
from translation.representation.json_types import Json


def build_health_routes(service: Service) -> APIRouter:
    router = APIRouter(tags=["Health"])

    @router.get("/healthz")
    async def healthz() -> Response:
        """Report that the process is alive."""
        return build_json_reply({"status": "ok"})

    @router.get("/readyz")
    async def readyz() -> Response:
        """Report whether the process accepts requests.

        Returns 503 after the process received a signal to stop, and while an embedded engine is not running. With an
        unreachable store the process remains ready for requests without a store. If a new configuration cannot be
        loaded, it serves the previous one. `degraded` then has the problem of the store or the configuration, and in
        `upstreams` the models without an available upstream.
        `unreachable_providers` has the providers whose servers accept no connections, and the reasons. It never changes
        the status, nor does the state of the operator's MCP servers, `mcp_servers`. If a key may use only some of them,
        the reply has the number of servers in each state instead, `mcp_server_counts`.
        """
        await service.current.reachability.examine()
        return build_json_reply(*report_readiness(service))

    return router


def report_readiness(service: Service) -> tuple[Json, int]:
    """Returns the body and the HTTP status of `/readyz`, by what is known now.

    The body has a `status`, and details of what is not ready.
    """
    if service.drain.stopping:
        return {"status": "draining"}, 503
    report = service.current.engines.report_conditions()
    details: Json = {"engines": report} if report else {}
    if problems := service.current.reachability.problems:
        details["unreachable_providers"] = problems
    if servers := service.operator_servers.report_conditions():
        # For information: other requests are served without the servers. The client has no key, so names that some keys
        # must not know are not in it.
        auth = service.settings.auth
        if auth is not None and auth.limits_servers:
            details["mcp_server_counts"] = Counter(each["status"] for each in servers.values())
        else:
            details["mcp_servers"] = servers
    if (not_ready_reason := service.current.engines.not_ready_reason) is not None:
        return {"status": not_ready_reason, **details}, 503
    conditions = {
        "store": service.state.degraded_reason,
        "configuration": service.configuration_problem,
        "upstreams": service.current.routing.find_unavailable_names() or None,
    }
    if degraded := {name: reason for name, reason in conditions.items() if reason is not None}:
        return {"status": "degraded", "degraded": degraded, **details}, 200
    return {"status": "ready", **details}, 200
