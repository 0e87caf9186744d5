"""Translates requests for embeddings of Ollama's two APIs to OpenAI's API.

https://github.com/ollama/ollama/blob/main/docs/api.md#generate-embeddings
"""

from functools import cache
from typing import Annotated, Required

from pydantic import Field
from typing_extensions import TypedDict

from translation.representation.json_types import Json
from translation.representation.loss import Loss
from translation.validation import Name, build_adapter, check_body


class EmbedRequest(TypedDict, total=False):
    model: Required[Name]
    input: str | list[str] | None
    dimensions: Annotated[int, Field(ge=1)] | None
    truncate: bool | None
    options: Json | None
    keep_alive: str | float | int | None


class PlainEmbedRequest(TypedDict, total=False):
    """A request of the older API, for one text."""

    model: Required[Name]
    prompt: str | None
    options: Json | None
    keep_alive: str | float | int | None


_embed_adapter = cache(lambda: build_adapter(EmbedRequest))
_plain_adapter = cache(lambda: build_adapter(PlainEmbedRequest))


@cache
def _embed_schema() -> Json:
    return {"$id": "ollama-embed", **_embed_adapter().json_schema()}


@cache
def _plain_schema() -> Json:
    return {"$id": "ollama-embeddings", **_plain_adapter().json_schema()}


EMBED_SCHEMA = _embed_schema
"""Returns the JSON schema of a request of `/api/embed`, for `/openapi.json`."""

PLAIN_EMBED_SCHEMA = _plain_schema
"""Returns the JSON schema of a request of `/api/embeddings`."""


def lift_embed(body: Json, losses: list[Loss]) -> Json:
    """Returns the `/v1/embeddings` body for an `/api/embed` body. Losses are appended to `losses`.

    Its `input` is a list, which is empty if there is no text. Raises InvalidRequest.
    """
    check_body(_embed_adapter(), body)
    texts = body.get("input")
    lifted = _build_request(body, [texts] if isinstance(texts, str) and texts else list(texts or ()), losses)
    if body.get("truncate") is not None:
        # `/v1/embeddings` has no such parameter. Most servers refuse a text that is too long; Ollama's shortens it.
        # `EmbeddingsMiddleware` in middleware/openai.go of ollama/ollama
        losses.append(Loss("truncate", "dropped" if body["truncate"] else "not enforced"))
    if body.get("dimensions"):
        lifted["dimensions"] = body["dimensions"]
    return lifted


def lift_plain_embed(body: Json, losses: list[Loss]) -> Json:
    """Returns the `/v1/embeddings` body for an `/api/embeddings` body, as `lift_embed` does for `/api/embed`."""
    check_body(_plain_adapter(), body)
    return _build_request(body, [body["prompt"]] if body.get("prompt") else [], losses)


def _build_request(body: Json, texts: list[str], losses: list[Loss]) -> Json:
    losses += [Loss(f"options.{key:.50}", "dropped") for key in body.get("options") or ()]
    return {"model": body["model"], "input": texts, "encoding_format": "float"}
