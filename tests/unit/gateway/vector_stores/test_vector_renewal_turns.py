"""A file whose vectors cannot be made does not keep those of other owners waiting."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final

import pytest

from gateway.config.tool_settings import FileSearchSettings
from gateway.retrieval.embedding import Vector, pack_vector
from gateway.state.vector_records import EmbeddingClaim, StoredText
from gateway.vector_stores import vector_renewal
from gateway.vector_stores.vector_renewal import VectorRenewal
from providers.errors import UpstreamRejected, UpstreamUnreachable
from tests.polling import wait_until

_DAMAGED: Final = "what the model of embeddings cannot take"


class Queue:
    """Files of two owners: `ann` has one that fails, which was tried so often that it waits for minutes, and `bob` one
    that can be made."""

    def __init__(self) -> None:
        self.postponed: list[float] = []
        self.completed: list[str] = []

    async def claim_outdated(self, embedder: str, after: str, *, lease_s: float) -> EmbeddingClaim | None:
        owner = "bob" if self.postponed else "ann"
        return None if owner in self.completed else EmbeddingClaim(owner, "vs_1", f"file-{owner}", 1, 0, tries=8)

    async def load_texts(self, claim: EmbeddingClaim, first: int, limit: int) -> Sequence[StoredText]:
        return [StoredText(1, 0, _DAMAGED if claim.owner == "ann" else "a text", 0)] if first == 0 else []

    async def replace_vectors(
        self, claim: EmbeddingClaim, vectors: Mapping[int, Vector], growth: int, *, lease_s: float
    ) -> EmbeddingClaim | None:
        return claim

    async def complete_vectors(self, claim: EmbeddingClaim, embedder: str, *, rest_s: float) -> bool:
        self.completed.append(claim.owner)
        return True

    async def postpone_vectors(self, claim: EmbeddingClaim, wait_s: float, tries: int) -> bool:
        self.postponed.append(wait_s)
        return True


class FailingEmbedder:
    name = "up m"

    def __init__(self, failure: Exception) -> None:
        self._failure = failure

    async def embed(self, texts: Sequence[str]) -> Sequence[Vector]:
        if _DAMAGED in texts:
            raise self._failure
        return [pack_vector([1.0, 2.0]) for _ in texts]

    def is_away(self, error: Exception) -> bool:
        return False


@pytest.mark.parametrize(
    "failure",
    [
        UpstreamUnreachable("the engine died of it"),
        UpstreamRejected("no", status=500, headers={"retry-after": "3000"}),
        UpstreamRejected("no", status=400, headers={}),
    ],
    ids=["without a wait", "with a named wait", "for good"],
)
async def test_a_file_that_fails_keeps_no_other_waiting(failure: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vector_renewal, "_POLL_S", 0.05)
    queue, embedder = Queue(), FailingEmbedder(failure)
    settings = FileSearchSettings(tries=100)
    renewal = VectorRenewal(queue, settings, lambda: embedder, lease_s=30)
    async with asyncio.timeout(60), renewal.lifespan():
        await wait_until(lambda: queue.completed)
    assert queue.completed == ["bob"]
    assert queue.postponed[0] > 60, "the file itself waits"
