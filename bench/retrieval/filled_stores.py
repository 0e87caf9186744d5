"""Vector stores of a real database that are filled without HTTP, and searched."""

from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager
from typing import Final

from gateway.config.settings import BackgroundSettings, StoreSettings
from gateway.retrieval.embedding import QueryVectors, Vector
from gateway.retrieval.terms import find_query_terms, iterate_index_terms
from gateway.state.file_records import FileQuota, StoredFile
from gateway.state.sql.store import SqlStore
from gateway.state.vector_records import ChunkQuery, NewChunk, NewEntry, NewVectorStore

OWNER: Final = "bench"
STORE: Final = "vs_bench"
EMBEDDER: Final = "bench"
_QUOTA: Final = FileQuota(files=10**9, size=10**15)
_CHUNKS_AT_ONCE: Final = 24


class FilledStore:
    """One vector store of a database."""

    def __init__(self, store: SqlStore) -> None:
        self._store = store

    async def add_file(self, file_id: str, chunks: Sequence[tuple[str, Vector | None]]) -> None:
        """Indexes a file with these chunks and their vectors."""
        store = self._store
        await store.files.reserve_blob(OWNER, file_id, hold_s=3600)
        await store.files.create_file(
            OWNER, StoredFile(id=file_id, size=1, created_at=1, filename=file_id, purpose="assistants"), _QUOTA
        )
        await store.vector_stores.attach_files(OWNER, STORE, [NewEntry(file_id)], most=10**9)
        [claim] = await store.indexing.claim_entries(1, lease_s=3600)
        for start in range(0, len(chunks), _CHUNKS_AT_ONCE):
            batch = [
                NewChunk(text, " ".join(iterate_index_terms(text)), 0, vector)
                for text, vector in chunks[start : start + _CHUNKS_AT_ONCE]
            ]
            await store.indexing.add_chunks(claim, batch, EMBEDDER)
        await store.indexing.complete_entry(claim)

    async def search(self, query: str, limit: int, vector: Vector | None = None, text_weight: float = 1.0) -> list[str]:
        """Returns the files of the best chunks, best first."""
        vectors = None if vector is None else QueryVectors(EMBEDDER, [vector], text_weight=text_weight)
        results = await self._store.vector_stores.search(
            OWNER, STORE, ChunkQuery([find_query_terms(query)], None, limit, vectors)
        )
        return [chunk.file_id for chunk in results.chunks] if results is not None else []


@asynccontextmanager
async def open_filled_store(url: str) -> AsyncIterator[FilledStore]:
    """Opens a database with an empty vector store."""
    async with aclosing(SqlStore(StoreSettings(url=url, deadline_s=600), BackgroundSettings())) as store:
        await store.open()
        await store.vector_stores.create_store(OWNER, NewVectorStore(STORE), most=10)
        yield FilledStore(store)
