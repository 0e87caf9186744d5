"""/v1/agui: runs of AG-UI clients."""

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from gateway.dialects.agui.runs import AguiRuns
from gateway.http.request_docs import STREAMED_REPLY, document_json_body
from gateway.replies.endpoints import Endpoint
from gateway.service.service import Service
from translation.agui.schema import REQUEST_SCHEMA


def build_agui_routes(responses: Endpoint, service: Service) -> APIRouter:
    """`responses` is the endpoint of the Responses API, as which runs are served."""
    router = APIRouter(tags=["AG-UI"])
    runs = AguiRuns(responses, service)

    @router.post("/v1/agui", openapi_extra=document_json_body(REQUEST_SCHEMA), responses=STREAMED_REPLY)
    async def run_agent(request: Request) -> Response:
        """Run an agent for an AG-UI client, as an event stream. The model is `forwardedProps.model`, or the default."""
        return await runs.serve(request, None)

    @router.post("/v1/agui/{model:path}", openapi_extra=document_json_body(REQUEST_SCHEMA), responses=STREAMED_REPLY)
    async def run_model(model: str, request: Request) -> Response:
        """Run an agent with this model for an AG-UI client, as an event stream."""
        return await runs.serve(request, model)

    return router
