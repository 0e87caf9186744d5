"""Searches the vector stores of one owner for one response."""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from dataplane.sharing.work_pool import run_for_count
from gateway.errors import StoreUnavailable, VectorStoreExpired, VectorStoreNotFound
from gateway.retrieval.attribute_filters import AttributeFilter
from gateway.retrieval.embedding import Embedder, embed_queries
from gateway.retrieval.terms import find_terms_of_all
from gateway.state.vector_records import ChunkQuery, ScoredChunks, VectorStores
from gateway.tools.file_search.file_searcher import FileSearchFailed, FoundChunk, FoundChunks
from providers.errors import ProviderError
from translation.errors import TranslationError

_GONE: Final = "The files are no longer there."
_UNAVAILABLE: Final = "The search is not available now."


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreOptions:
    """What a request says about the stores, and how they are searched."""

    store_ids: Sequence[str]
    accepts: AttributeFilter | None = None
    limit: int = 20
    param: str = "tools"
    """The parameter that names the stores."""
    weights: tuple[float, float] = (1.0, 1.0)
    """How much the order by meaning and that by words count."""
    shared_ids: Collection[str] = ()
    """Those of the stores that the configuration of the model names, which may be those of other owners."""


class StoreSearcher:
    """Searches vector stores by words, and by meaning if there is a model of embeddings."""

    def __init__(
        self, stores: VectorStores, owner: str, options: StoreOptions, embedder: Embedder | None = None
    ) -> None:
        self._stores = stores
        self._owner = owner
        self._options = options
        self._embedder = embedder
        self._owners: Mapping[str, str] = {}
        """The owners of the shared stores, by the ids of the stores."""

    def list_secrets(self) -> Sequence[str]:
        return []

    async def check(self) -> None:
        if self._options.shared_ids:
            self._owners = await self._stores.find_owners(self._options.shared_ids)
        for store_id in self._options.store_ids:
            store = await self._stores.load_store(self._find_owner(store_id), store_id)
            param = "model" if store_id in self._options.shared_ids else self._options.param
            if store is None:
                raise VectorStoreNotFound(store_id, param=param)
            if store.has_expired:
                raise VectorStoreExpired(store_id, param=param)

    async def search(self, queries: Sequence[str], deadline_s: float) -> FoundChunks:
        terms = await run_for_count(sum(map(len, queries)), find_terms_of_all, queries)
        options = self._options
        try:
            async with asyncio.timeout(deadline_s):
                # The search by words has the other half, if the model of embeddings does not reply.
                embedded = await embed_queries(self._embedder, queries, options.weights, limit_s=deadline_s / 2)
                query = ChunkQuery(terms, options.accepts, options.limit, embedded.vectors)
                lists = [await self._search_store(store_id, query) for store_id in options.store_ids]
        except (StoreUnavailable, ProviderError, TranslationError, TimeoutError):
            raise FileSearchFailed(_UNAVAILABLE) from None
        existing = [results for results in lists if results is not None]
        if not existing:
            raise FileSearchFailed(_GONE)
        best = sorted((chunk for results in existing for chunk in results.chunks), key=lambda chunk: -chunk.score)
        chunks = [
            FoundChunk(chunk.file_id, chunk.filename, chunk.text, chunk.score, dict(chunk.attributes)) for chunk in best
        ]
        is_by_words = embedded.is_model_away or any(results.by_words for results in existing)
        return FoundChunks(chunks, len(existing) == len(lists), ("by_words",) if is_by_words else ())

    def _find_owner(self, store_id: str) -> str:
        return self._owners.get(store_id, self._owner)

    async def _search_store(self, store_id: str, query: ChunkQuery) -> ScoredChunks | None:
        """Returns the results of one store; None if the store has been deleted or has expired meanwhile."""
        try:
            return await self._stores.search(self._find_owner(store_id), store_id, query)
        except VectorStoreExpired:
            return None
