"""/v1beta/models: Gemini's API."""

from collections.abc import Callable
from functools import partial
from typing import Final

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from gateway.dialects.gemini.endpoint import GEMINI, GEMINI_ARRAY, GEMINI_COUNTING
from gateway.dialects.gemini.error_form import GEMINI_FAILURES
from gateway.dialects.gemini.models import build_gemini_model, list_gemini_models
from gateway.http.auth import GOOGLE_KEY_HEADER, find_key
from gateway.http.guard import RequestGuard
from gateway.http.headers import headers_of, set_header
from gateway.http.json_reply import build_json_reply
from gateway.http.query_params import read_single_value
from gateway.http.request_docs import STREAMED_REPLY, document_json_body
from gateway.replies.loss_header import report_losses
from gateway.service.admission import ClientRequest
from gateway.service.embeddings import Embeddings, fetch_embeddings
from gateway.service.service import Service, is_strict
from translation.errors import InvalidRequest
from translation.gemini.client.embeddings import (
    build_embedded_batch,
    build_embedded_content,
    lift_batch_embed_contents,
    lift_embed_content,
)
from translation.gemini.schema.counted import COUNTED_SCHEMA, find_counted_request
from translation.gemini.schema.embedded import BATCH_EMBED_SCHEMA, EMBED_CONTENT_SCHEMA
from translation.gemini.schema.request import REQUEST_SCHEMA
from translation.representation.json_types import Json
from translation.representation.loss import Loss

_VERSIONS: Final = ("/v1beta", "/v1")
"""Both versions of the API. Lists of models under `/v1` belong to OpenAI's API."""


def build_gemini_routes(service: Service) -> APIRouter:
    router = APIRouter(tags=["Gemini"], responses=GEMINI_FAILURES)

    async def generate_content(model: str, request: Request) -> Response:
        """Generate a reply: one JSON object."""
        _adopt_query_key(request)
        _require_json(request)
        params = {"model": model, "stream": False}
        return await service.serve_create(GEMINI, request.scope, request.receive, path_params=params)

    async def stream_generate_content(model: str, request: Request) -> Response:
        """Generate a reply as a stream: events with `alt=sse`, otherwise one JSON array."""
        _adopt_query_key(request)
        endpoint = GEMINI if _requests_events(request) else GEMINI_ARRAY
        params = {"model": model, "stream": True}
        return await service.serve_create(endpoint, request.scope, request.receive, path_params=params)

    async def count_tokens(model: str, request: Request) -> Response:
        """Counts the tokens of a request's input, as the model's upstream counts them."""
        _adopt_query_key(request)
        _require_json(request)
        principal, strict = service.authenticate(request), is_strict(headers_of(request.scope))
        body, _, weight = await service.read_sized_body(request)
        with RequestGuard(request.receive, service.drain):
            counted = {**find_counted_request(body, model), "model": model}
            tokens, losses = await service.current.contexts.count_tokens(
                ClientRequest(GEMINI_COUNTING, principal, counted, strict, weight)
            )
        return build_json_reply({"totalTokens": tokens}, headers=report_losses(losses))

    async def embed_content(model: str, request: Request) -> Response:
        """Embed a text, by the model's upstream."""
        embeddings = await _fetch_embeddings(service, model, request, lift_embed_content)
        return await embeddings.build_reply(build_embedded_content(embeddings.vectors[0], embeddings.token_count))

    async def batch_embed_contents(model: str, request: Request) -> Response:
        """Embed several texts, by the model's upstream."""
        embeddings = await _fetch_embeddings(service, model, request, lift_batch_embed_contents)
        return await embeddings.build_reply(build_embedded_batch(embeddings.vectors, embeddings.token_count))

    for version in _VERSIONS:
        for method, handler, schema in (
            ("generateContent", generate_content, REQUEST_SCHEMA),
            ("streamGenerateContent", stream_generate_content, REQUEST_SCHEMA),
            ("countTokens", count_tokens, COUNTED_SCHEMA),
            ("embedContent", embed_content, EMBED_CONTENT_SCHEMA),
            ("batchEmbedContents", batch_embed_contents, BATCH_EMBED_SCHEMA),
        ):
            router.add_api_route(
                f"{version}/models/{{model:path}}:{method}",
                handler,
                methods=["POST"],
                name=f"{method}{version.replace('/', '_')}",
                openapi_extra=document_json_body(schema),
                responses=STREAMED_REPLY if method == "streamGenerateContent" else None,
            )

    @router.get("/v1beta/models")
    async def list_models(request: Request) -> Response:
        """List the models of this server."""
        _adopt_query_key(request)
        allowed = service.authenticate(request).models
        models = await service.models.list_models(allowed)
        find_capabilities = partial(service.models.find_capabilities, allowed)
        return build_json_reply(list_gemini_models(models, request.query_params, find_capabilities))

    @router.get("/v1beta/models/{model:path}")
    async def get_model(model: str, request: Request) -> Response:
        """Get one model."""
        _adopt_query_key(request)
        allowed = service.authenticate(request).models
        listed_model = await service.models.get_model(model, allowed)
        return build_json_reply(build_gemini_model(listed_model, partial(service.models.find_capabilities, allowed)))

    return router


async def _fetch_embeddings(
    service: Service, model: str, request: Request, lift: Callable[[Json, str, list[Loss]], Json]
) -> Embeddings:
    _adopt_query_key(request)
    _require_json(request)
    principal = service.authenticate(request)
    losses: list[Loss] = []
    body, _, weight = await service.read_sized_body(request)
    lifted = await service.large_bodies.call_weighed(weight, lift, body, model, losses)
    return await fetch_embeddings(service, principal, request, lifted, losses, dimensions_param="outputDimensionality")


def _adopt_query_key(request: Request) -> None:
    """Makes a key in the address the key of the request, unless a header has one."""
    key = read_single_value(request.query_params, "key")
    if key and not find_key(headers_of(request.scope)):
        set_header(request.scope, GOOGLE_KEY_HEADER, key.encode())


def _require_json(request: Request) -> None:
    """Raises InvalidRequest if a request asks for a whole reply in another form than JSON."""
    form = read_single_value(request.query_params, "alt")
    if form not in (None, "", "json"):
        raise InvalidRequest(f"Invalid value for 'alt': {form!r:.80}. A whole reply is JSON: send 'json'.", param="alt")


def _requests_events(request: Request) -> bool:
    form = read_single_value(request.query_params, "alt")
    if form not in (None, "", "json", "sse"):
        raise InvalidRequest(
            f"Invalid value for 'alt': {form!r:.80}. Expected 'sse' for events, or 'json' for one array.", param="alt"
        )
    return form == "sse"
