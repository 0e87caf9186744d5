"""GET /healthz, GET /readyz."""

from fastapi import APIRouter
from starlette.responses import Response

from gateway.http.json_reply import build_json_reply
from gateway.service.service import Service


def health_routes(service: Service) -> APIRouter:
    router = APIRouter(tags=["Health"])

    @router.get("/healthz")
    async def healthz() -> Response:
        """The process is alive."""
        return build_json_reply({"status": "ok"})

    @router.get("/readyz")
    async def readyz() -> Response:
        """The process takes requests; 503 from the moment it was told to stop, and while an embedded engine is not up.

        A store that cannot be reached leaves it ready for what needs none: `degraded` then says what is wrong with it.
        """
        if service.drain.begun:
            return build_json_reply({"status": "draining"}, 503)
        report = service.engines.report_conditions()
        engines = {"engines": report} if report else {}
        if (hindrance := service.engines.not_ready_reason) is not None:
            return build_json_reply({"status": hindrance, **engines}, 503)
        if service.store is not None and (degraded_reason := service.store.degraded_reason) is not None:
            return build_json_reply({"status": "degraded", "degraded": {"store": degraded_reason}, **engines})
        return build_json_reply({"status": "ready", **engines})

    return router
