"""POST /api/embed, POST /api/embeddings: Ollama's APIs for embeddings, by the upstream's `/v1/embeddings`."""

import time
from collections.abc import Callable
from typing import NamedTuple

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from gateway.http.headers import headers_of
from gateway.http.json_reply import build_json_reply
from gateway.planning.plan import require_no_loss
from gateway.replies.loss_header import render_loss_header
from gateway.routes.request_docs import OLLAMA_FAILURES, json_request_body
from gateway.service.service import Service, is_strict
from translation.ollama_endpoint.embeddings import (
    EMBED_SCHEMA,
    PLAIN_EMBED_SCHEMA,
    count_input,
    lift_embed,
    lift_plain_embed,
    read_vectors,
)
from translation.representation.json_types import Json
from translation.representation.loss import Loss


class _Embeddings(NamedTuple):
    model: str
    vectors: list[list[float]]
    token_count: int | None
    """The number of tokens, as the upstream counted them."""
    headers: dict[str, str]


def ollama_embeddings_routes(service: Service) -> APIRouter:
    router = APIRouter(tags=["Ollama"], responses=OLLAMA_FAILURES)

    @router.post("/api/embed", openapi_extra=json_request_body(EMBED_SCHEMA))
    async def embed_as_ollama(request: Request) -> Response:
        """Embed texts, by the model's upstream."""
        started_ns = time.perf_counter_ns()
        found = await _fetch_embeddings(service, request, lift_embed)
        reply: Json = {"model": found.model, "embeddings": found.vectors}
        reply["total_duration"] = time.perf_counter_ns() - started_ns
        if found.token_count is not None:
            reply["prompt_eval_count"] = found.token_count
        return build_json_reply(reply, headers=found.headers)

    @router.post("/api/embeddings", openapi_extra=json_request_body(PLAIN_EMBED_SCHEMA))
    async def embed_one_as_ollama(request: Request) -> Response:
        """Embed one text, by the model's upstream."""
        found = await _fetch_embeddings(service, request, lift_plain_embed)
        return build_json_reply({"embedding": found.vectors[0] if found.vectors else []}, headers=found.headers)

    return router


async def _fetch_embeddings(
    service: Service, request: Request, lift: Callable[[Json, list[Loss]], Json]
) -> _Embeddings:
    """Returns the embeddings that a request asks for. Without a text it asks for none, and only names its model."""
    principal, strict = service.authenticate(request), is_strict(headers_of(request.scope))
    losses: list[Loss] = []
    lifted = lift(await service.read_body(request), losses)
    require_no_loss(losses, strict=strict)
    model = lifted["model"] = service.catalogue.remove_default_tag(lifted["model"])
    headers = render_loss_header(losses)
    if not lifted["input"]:
        await service.catalogue.get_model(model, principal.models)
        return _Embeddings(model, [], None, headers)
    reply = await service.fetch_embeddings(principal, lifted, request)
    return _Embeddings(model, read_vectors(reply, len(lifted["input"])), count_input(reply), headers)
