"""GET /healthz, GET /readyz."""

from fastapi import APIRouter
from starlette.responses import Response

from gateway.answers import json_answer
from gateway.guard import Drain


def health_routes(drain: Drain) -> APIRouter:
    router = APIRouter(tags=["Health"])

    @router.get("/healthz")
    async def healthz() -> Response:
        """The process is alive."""
        return json_answer({"status": "ok"})

    @router.get("/readyz")
    async def readyz() -> Response:
        """The process takes requests; 503 from the moment it was told to stop."""
        if drain.begun:
            return json_answer({"status": "draining"}, 503)
        return json_answer({"status": "ready"})

    return router
