"""GET /healthz, GET /readyz."""

from fastapi import APIRouter
from starlette.responses import Response

from gateway.http.json_reply import build_json_reply
from gateway.service.service import Service


def health_routes(service: Service) -> APIRouter:
    router = APIRouter(tags=["Health"])

    @router.get("/healthz")
    async def healthz() -> Response:
        """Report that the process is alive."""
        return build_json_reply({"status": "ok"})

    @router.get("/readyz")
    async def readyz() -> Response:
        """Report whether the process accepts requests.

        Returns 503 after the process was told to stop, and while an embedded engine is not running. With an unreachable
        store the process remains ready for requests that need none; `degraded` then says what is wrong with the store.
        """
        if service.drain.begun:
            return build_json_reply({"status": "draining"}, 503)
        report = service.engines.report_conditions()
        engines = {"engines": report} if report else {}
        if (not_ready_reason := service.engines.not_ready_reason) is not None:
            return build_json_reply({"status": not_ready_reason, **engines}, 503)
        if service.store is not None and (degraded_reason := service.store.degraded_reason) is not None:
            return build_json_reply({"status": "degraded", "degraded": {"store": degraded_reason}, **engines})
        return build_json_reply({"status": "ready", **engines})

    return router
