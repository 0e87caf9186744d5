"""POST /api/embed, POST /api/embeddings: Ollama's APIs for embeddings, by the upstream's `/v1/embeddings`."""

import time
from collections.abc import Callable

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from gateway.dialects.ollama.error_form import OLLAMA_FAILURES
from gateway.dialects.ollama.models import remove_default_tag
from gateway.http.request_docs import document_json_body
from gateway.service.embeddings import Embeddings, fetch_embeddings
from gateway.service.service import Service
from translation.ollama.client.embeddings import (
    EMBED_SCHEMA,
    PLAIN_EMBED_SCHEMA,
    lift_embed,
    lift_plain_embed,
)
from translation.representation.json_types import Json
from translation.representation.loss import Loss


def build_ollama_embeddings_routes(service: Service) -> APIRouter:
    router = APIRouter(tags=["Ollama"], responses=OLLAMA_FAILURES)

    @router.post("/api/embed", openapi_extra=document_json_body(EMBED_SCHEMA))
    async def embed_as_ollama(request: Request) -> Response:
        """Embed texts, by the model's upstream."""
        started_ns = time.perf_counter_ns()
        model, embeddings = await _fetch_embeddings(service, request, lift_embed)
        reply: Json = {"model": model, "embeddings": embeddings.vectors}
        reply["total_duration"] = time.perf_counter_ns() - started_ns
        if embeddings.token_count is not None:
            reply["prompt_eval_count"] = embeddings.token_count
        return await embeddings.build_reply(reply)

    @router.post("/api/embeddings", openapi_extra=document_json_body(PLAIN_EMBED_SCHEMA))
    async def embed_one_as_ollama(request: Request) -> Response:
        """Embed one text, by the model's upstream."""
        _, embeddings = await _fetch_embeddings(service, request, lift_plain_embed)
        return await embeddings.build_reply({"embedding": embeddings.vectors[0] if embeddings.vectors else []})

    return router


async def _fetch_embeddings(
    service: Service, request: Request, lift: Callable[[Json, list[Loss]], Json]
) -> tuple[str, Embeddings]:
    """Returns the model and the embeddings of a request's texts. A request may have no text."""
    principal = service.authenticate(request)
    losses: list[Loss] = []
    body, _, weight = await service.read_sized_body(request)
    lifted = await service.large_bodies.call_weighed(weight, lift, body, losses)
    lifted["model"] = remove_default_tag(service.models, lifted["model"])
    embeddings = await fetch_embeddings(service, principal, request, lifted, losses, dimensions_param="dimensions")
    return lifted["model"], embeddings
