"""GET /healthz, GET /readyz."""

from fastapi import APIRouter
from starlette.responses import Response

from gateway.http.json_reply import json_answer
from gateway.service.service import Service


def health_routes(service: Service) -> APIRouter:
    router = APIRouter(tags=["Health"])

    @router.get("/healthz")
    async def healthz() -> Response:
        """The process is alive."""
        return json_answer({"status": "ok"})

    @router.get("/readyz")
    async def readyz() -> Response:
        """The process takes requests; 503 from the moment it was told to stop, and while an embedded engine is not up.

        A store that cannot be reached leaves it ready for what needs none: `degraded` then says what is wrong with it.
        """
        if service.drain.begun:
            return json_answer({"status": "draining"}, 503)
        report = service.engines.report()
        engines = {"engines": report} if report else {}
        if (hindrance := service.engines.hindrance) is not None:
            return json_answer({"status": hindrance, **engines}, 503)
        if service.store is not None and (wrong := service.store.degraded) is not None:
            return json_answer({"status": "degraded", "degraded": {"store": wrong}, **engines})
        return json_answer({"status": "ready", **engines})

    return router
