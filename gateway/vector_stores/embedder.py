"""Makes embeddings for vector stores with a provider of the configuration."""

import hashlib
from array import array
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

import orjson

from dataplane.sharing.work_pool import run_in_pool
from gateway.config.tool_settings import EmbeddingSettings
from gateway.retrieval.embedding import Vector, pack_vector
from gateway.vector_stores.patient_embedder import is_model_away
from providers.base import Provider
from providers.relayed_paths import PathRelayer
from translation.errors import ProtocolViolation, Unrepresentable
from translation.representation.json_types import Json

_MAX_NAME: Final = 255
"""Characters of a name that the database can have."""


class ProviderEmbedder:
    """Implements `Embedder` over `/v1/embeddings` of a provider. `hold` keeps it open."""

    def __init__(self, settings: EmbeddingSettings, providers: Mapping[str, Provider], hold: object) -> None:
        self.name: Final = _name_embedder(settings)
        self._settings: Final = settings
        self._provider: Final = providers[settings.provider]
        self._hold: Final = hold

    async def embed(self, texts: Sequence[str]) -> Sequence[Vector]:
        relayer, settings = self._provider, self._settings
        if not isinstance(relayer, PathRelayer):
            raise Unrepresentable(
                f"the provider {settings.provider} has no /v1/embeddings: name another one in "
                "tools.file_search.embeddings",
                param=None,
            )
        body: Json = {"model": settings.model, "input": [*texts], "encoding_format": "float"}
        if settings.dimensions is not None:
            body["dimensions"] = settings.dimensions
        reply = await relayer.relay_path("embeddings", body, streams=False)
        is_whole = False
        try:
            whole = await reply.read_whole()
            is_whole = True
        finally:
            await reply.close(whole=is_whole)
        return await run_in_pool(_read_reply, whole, len(texts), settings.dimensions)

    def is_away(self, error: Exception) -> bool:
        return is_model_away(error)


def _name_embedder(settings: EmbeddingSettings) -> str:
    name = f"{settings.provider} {settings.model} {settings.dimensions or ''}".rstrip()
    return name if len(name) <= _MAX_NAME else hashlib.sha256(name.encode()).hexdigest()


def _read_reply(whole: bytes, count: int, dimensions: int | None) -> list[Vector]:
    try:
        reply = orjson.loads(whole)
        numbers = read_vectors(reply if isinstance(reply, dict) else {}, count)
        vectors = [pack_vector(each) for each in numbers]
    except (orjson.JSONDecodeError, ValueError, TypeError, OverflowError):
        raise ProtocolViolation("the upstream replied with no embeddings") from None
    sizes = {len(each) for each in numbers}
    if len(sizes) > 1 or (dimensions is not None and sizes != {dimensions}):
        raise ProtocolViolation(f"the upstream replied with embeddings of {sorted(sizes)} numbers")
    return vectors


def read_vectors(reply: Json, count: int) -> list[list[float]]:
    """Returns the vectors of a reply, in the order of its `count` texts.

    Raises ProtocolViolation for a reply that does not have one for each text, and for one that is no list of numbers.
    """
    data = reply.get("data")
    entries = [entry for entry in data if isinstance(entry, dict)] if isinstance(data, list) else []
    vectors: dict[Any, Any] = {}
    for position, entry in enumerate(entries):
        index = entry.get("index")
        vectors[index if type(index) is int else position] = entry.get("embedding")
    ordered = [vectors.get(position) for position in range(count)]
    if len(entries) != count or None in ordered:
        raise ProtocolViolation(f"the upstream replied with {len(entries)} embeddings to {count} texts")
    if not all(map(_is_vector, ordered)):
        raise ProtocolViolation("the upstream replied with an embedding that is not a list of numbers")
    return cast(list[list[float]], ordered)


def _is_vector(embedding: Any) -> bool:
    if not isinstance(embedding, list) or not embedding:
        return False
    try:
        array("d", embedding)  # one call for all numbers, of which there may be millions
    except (TypeError, OverflowError):
        return False
    return True
