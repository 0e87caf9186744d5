"""Requests for embeddings, of one content and of several. https://ai.google.dev/api/embeddings"""

from functools import cache
from typing import Annotated, Any, Final, Required

from pydantic import Field
from typing_extensions import TypedDict

from translation.gemini.schema.contents import Instruction
from translation.gemini.schema.request import content_of
from translation.gemini.schema.spelling import Spelling
from translation.representation.json_types import Json
from translation.unknown_fields import UnknownFields
from translation.validation import build_adapter, check_body


class EmbedConfig(TypedDict, total=False):
    taskType: str
    title: str
    outputDimensionality: Annotated[int, Field(ge=1)]
    autoTruncate: bool


class EmbedContentRequest(EmbedConfig, total=False):
    """A request for one embedding. Newer clients have its settings in `embedContentConfig`."""

    model: str
    content: Required[Instruction]
    embedContentConfig: EmbedConfig


class BatchEmbedContentsRequest(TypedDict, total=False):
    model: str
    requests: Required[Annotated[list[EmbedContentRequest], Field(fail_fast=True), Field(min_length=1)]]


SETTINGS: Final = frozenset(EmbedConfig.__annotations__)
EMBED_FIELDS: Final = frozenset({*SETTINGS, *EmbedContentRequest.__annotations__})
"""The fields of a request that the endpoint knows, and the ones that `embedContentConfig` may have."""


@cache
def _unknown_fields() -> UnknownFields:
    return UnknownFields(EmbedContentRequest, skipped=(EmbedConfig,))


def find_unknown_in_content(request: Json) -> list[str]:
    """Returns the paths of keys in the content of a valid request that the schema does not have."""
    return _unknown_fields().find(request)


def read_embed_request(body: Json) -> Json:
    """Returns a body of `embedContent` in the spelling of its schema. Raises InvalidRequest."""
    return _read(body, EmbedContentRequest)


def read_batch_request(body: Json) -> Json:
    """Returns a body of `batchEmbedContents` in the spelling of its schema. Raises InvalidRequest."""
    return _read(body, BatchEmbedContentsRequest)


def _read(body: Json, schema: type) -> Json:
    normalized: Json = _spelling_of(schema).normalize(body)
    check_body(_adapter_of(schema), normalized)
    return normalized


@cache
def _spelling_of(schema: type) -> Spelling:
    return Spelling(schema, texts={Instruction: content_of})


@cache
def _adapter_of(schema: type) -> Any:
    return build_adapter(schema)


@cache
def _embed_schema() -> Json:
    return {"$id": "embed-content", **_adapter_of(EmbedContentRequest).json_schema()}


@cache
def _batch_schema() -> Json:
    return {"$id": "batch-embed-contents", **_adapter_of(BatchEmbedContentsRequest).json_schema()}


EMBED_CONTENT_SCHEMA = _embed_schema
"""Returns the JSON schema of a request of `embedContent`, for `/openapi.json`."""

BATCH_EMBED_SCHEMA = _batch_schema
"""Returns the JSON schema of a request of `batchEmbedContents`."""
