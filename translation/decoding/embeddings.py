"""Reads replies of `/v1/embeddings`, for every API whose embeddings are translated to it and back."""

from typing import Any

from translation.decoding.usage import read_count
from translation.errors import ProtocolViolation
from translation.representation.json_types import Json


def read_vectors(reply: Json, count: int) -> list[list[float]]:
    """Returns the vectors of a reply, in the order of its `count` texts.

    Raises ProtocolViolation for a reply that does not have one for each text.
    """
    data = reply.get("data")
    entries = [entry for entry in data if isinstance(entry, dict)] if isinstance(data, list) else []
    vectors = {entry.get("index", position): entry.get("embedding") for position, entry in enumerate(entries)}
    ordered: list[Any] = [vectors.get(position) for position in range(count)]
    if len(entries) != count or not all(isinstance(vector, list) for vector in ordered):
        raise ProtocolViolation(f"the upstream replied with {len(entries)} embeddings to {count} texts")
    return ordered


def count_input(reply: Json) -> int | None:
    """Returns the number of tokens that the upstream counted; None if it did not."""
    usage = reply.get("usage")
    return read_count(usage.get("prompt_tokens")) if isinstance(usage, dict) else None
