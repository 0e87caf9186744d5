"""The values and protocols of vector stores: their files, batches, chunks, and the search for chunks.

Every read and write names an owner: a store of another owner reads as unknown. Times are epoch seconds.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple, Protocol, TypeAlias

from gateway.errors import VectorStoreQuotaExceeded
from gateway.retrieval.attribute_filters import AttributeFilter, AttributeValue
from gateway.retrieval.chunks import ChunkSizes
from gateway.retrieval.embedding import QueryVectors, Vector
from gateway.retrieval.parsing.parsed_text import ParsingFault
from gateway.state.values import Page, PageRequest
from translation.representation.json_types import Json

EntryStatus: TypeAlias = Literal["in_progress", "completed", "failed", "cancelled"]
ENTRY_STATUSES: Final[tuple[EntryStatus, ...]] = ("in_progress", "completed", "failed", "cancelled")


class FileCounts(NamedTuple):
    """How many files of a store or batch have each status."""

    in_progress: int = 0
    completed: int = 0
    failed: int = 0
    cancelled: int = 0

    def render(self) -> Json:
        """Returns the `file_counts` of the API."""
        return {**self._asdict(), "total": sum(self)}


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredVectorStore:
    """A vector store. Once it has expired it remains so."""

    id: str
    created_at: int
    name: str
    description: str | None
    metadata: Json | None
    expires_after_days: int | None
    expires_at: int | None
    last_active_at: int
    usage_bytes: int
    counts: FileCounts
    has_expired: bool = False

    def render(self) -> Json:
        """Returns the vector store object of the API."""
        is_busy = self.counts.in_progress > 0
        rendered: Json = {
            "id": self.id,
            "object": "vector_store",
            "created_at": self.created_at,
            "name": self.name,
            "description": self.description,
            "status": "expired" if self.has_expired else "in_progress" if is_busy else "completed",
            "file_counts": self.counts.render(),
            "usage_bytes": self.usage_bytes,
            "last_active_at": self.last_active_at,
            "metadata": self.metadata,
        }
        if self.expires_after_days is not None:
            rendered["expires_after"] = {"anchor": "last_active_at", "days": self.expires_after_days}
            rendered["expires_at"] = self.expires_at
        return rendered


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreEntry:
    """A file in a vector store."""

    file_id: str
    store_id: str
    created_at: int
    status: EntryStatus
    sizes: ChunkSizes
    usage_bytes: int = 0
    error: tuple[ParsingFault, str] | None = None
    attributes: Mapping[str, AttributeValue] = field(default_factory=dict)

    def render(self) -> Json:
        """Returns the vector store file object of the API."""
        return {
            "id": self.file_id,
            "object": "vector_store.file",
            "created_at": self.created_at,
            "vector_store_id": self.store_id,
            "status": self.status,
            "usage_bytes": self.usage_bytes,
            "last_error": None if self.error is None else {"code": self.error[0], "message": self.error[1]},
            "attributes": dict(self.attributes),
            "chunking_strategy": {
                "type": "static",
                "static": {
                    "max_chunk_size_tokens": self.sizes.max_tokens,
                    "chunk_overlap_tokens": self.sizes.overlap,
                },
            },
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredBatch:
    """Files that were attached to a vector store together."""

    id: str
    store_id: str
    created_at: int
    is_cancelled: bool
    counts: FileCounts

    def render(self) -> Json:
        """Returns the file batch object of the API."""
        if self.counts.in_progress:
            status = "in_progress"
        else:
            status = "cancelled" if self.is_cancelled and self.counts.cancelled else "completed"
        return {
            "id": self.id,
            "object": "vector_store.files_batch",
            "created_at": self.created_at,
            "vector_store_id": self.store_id,
            "status": status,
            "file_counts": self.counts.render(),
        }


class NewEntry(NamedTuple):
    """A file that is to be attached."""

    file_id: str
    sizes: ChunkSizes = ChunkSizes()
    attributes: Mapping[str, AttributeValue] = {}


class NewVectorStore(NamedTuple):
    """A vector store that is to be created, with its first files."""

    id: str
    name: str = ""
    description: str | None = None
    metadata: Json | None = None
    expires_after_days: int | None = None
    entries: Sequence[NewEntry] = ()


def build_file_limit_error(most: int) -> VectorStoreQuotaExceeded:
    """Returns the error for more files than one vector store may have."""
    return VectorStoreQuotaExceeded(f"a vector store has at most {most} files", limit="tools.file_search.max_files")


class IndexingClaim(NamedTuple):
    """A file that this process is to index: where it is, and the attempt, which no other process has."""

    owner: str
    store_id: str
    file_id: str
    attempt: int
    sizes: ChunkSizes
    tries: int = 0
    """How often it was tried before, and put off."""


class NewChunk(NamedTuple):
    """A chunk of a file that is indexed. The text of the chunk before goes on up to the character `fresh` of `text`."""

    text: str
    terms: str
    fresh: int
    embedding: Vector | None = None


class ChunkQuery(NamedTuple):
    """A search for chunks of one vector store. Each list of terms is one query; a chunk needs one of its terms."""

    terms: Sequence[Sequence[str]]
    accepts: AttributeFilter | None
    limit: int
    vectors: QueryVectors | None = None
    """With them chunks are also found by meaning, and the two orders are joined."""


class ScoredChunk(NamedTuple):
    """A chunk that a search found, with its score between 0 and 1, and the file that it belongs to."""

    store_id: str
    file_id: str
    filename: str
    attributes: Mapping[str, AttributeValue]
    position: int
    text: str
    score: float


class ScoredChunks(NamedTuple):
    """The results of a search, best first. `by_words` says that some files of the store have no vectors of the model of
    the query, so that only their words counted."""

    chunks: Sequence[ScoredChunk] = ()
    by_words: bool = False


class EmbeddingClaim(NamedTuple):
    """An indexed file whose vectors this process is to make: where it is, and the end of its lease, in microseconds."""

    owner: str
    store_id: str
    file_id: str
    attempt: int
    leased_us: int
    tries: int = 0


class StoredText(NamedTuple):
    """The text of a chunk, by the number of its row and its place in the file, and the bytes of its vector."""

    number: int
    position: int
    text: str
    vector_bytes: int


class VectorStores(Protocol):
    """Stores vector stores. For an unknown store or file, methods return None or False."""

    async def create_store(self, owner: str, new: NewVectorStore, *, most: int) -> StoredVectorStore:
        """Creates a store. Raises VectorStoreQuotaExceeded if the owner has `most` already."""
        ...

    async def load_store(self, owner: str, store_id: str) -> StoredVectorStore | None: ...

    async def find_owners(self, store_ids: Collection[str]) -> Mapping[str, str]:
        """Returns the owner of each of these stores that exists. Only for stores that the operator names."""
        ...

    async def find_known(self, owner: str, store_ids: Collection[str]) -> Collection[str]:
        """Returns those of these ids that are stores of the owner."""
        ...

    async def list_stores(self, owner: str, page: PageRequest) -> Page:
        """Returns a page of vector store objects in the order of their creation. Raises UnknownCursor."""
        ...

    async def update_store(self, owner: str, store_id: str, changes: Json) -> StoredVectorStore | None:
        """Changes `name`, `metadata` and `expires_after_days`: those that are present."""
        ...

    async def delete_store(self, owner: str, store_id: str) -> bool: ...

    async def attach_files(
        self, owner: str, store_id: str, entries: Sequence[NewEntry], *, most: int, batch_id: str | None = None
    ) -> Sequence[StoreEntry] | None:
        """Attaches files that exist, with a batch if it has an id.

        A file that is attached already remains as it is, unless it failed or was cancelled: then it is indexed again.
        Raises VectorStoreExpired, VectorStoreQuotaExceeded if the store would have more than `most`, and FileNotFound
        for a file that does not exist.
        """
        ...

    async def load_entry(self, owner: str, store_id: str, file_id: str) -> StoreEntry | None: ...

    async def list_entries(
        self,
        owner: str,
        store_id: str,
        page: PageRequest,
        *,
        status: EntryStatus | None = None,
        batch_id: str | None = None,
    ) -> Page | None:
        """Returns a page of the files of a store or of one of its batches. Raises UnknownCursor."""
        ...

    async def set_attributes(
        self, owner: str, store_id: str, file_id: str, attributes: Mapping[str, AttributeValue]
    ) -> StoreEntry | None: ...

    async def detach_file(self, owner: str, store_id: str, file_id: str) -> bool: ...

    async def load_texts(self, owner: str, store_id: str, file_id: str, page: PageRequest) -> Page | None:
        """Returns parts of the text of an indexed file, in order and without overlaps; None if the store has no such
        file, or the file has expired. Raises VectorStoreExpired."""
        ...

    async def load_batch(self, owner: str, store_id: str, batch_id: str) -> StoredBatch | None: ...

    async def cancel_batch(self, owner: str, store_id: str, batch_id: str) -> StoredBatch | None:
        """Cancels the files of a batch that are not indexed yet."""
        ...

    async def search(self, owner: str, store_id: str, query: ChunkQuery) -> ScoredChunks | None:
        """Returns the chunks with the highest scores, and counts as activity. Raises VectorStoreExpired."""
        ...


class IndexingQueue(Protocol):
    """Queues files of vector stores that are to be indexed. Each is leased to one process at a time."""

    async def claim_entries(
        self, limit: int, *, lease_s: float, but_of: Collection[str] = ()
    ) -> Sequence[IndexingClaim]:
        """Claims files that wait to be indexed, or whose indexing was given up: owners take turns. The files of the
        owners in `but_of` are left waiting."""
        ...

    async def renew_claims(self, claims: Collection[IndexingClaim], *, lease_s: float) -> Collection[IndexingClaim]:
        """Extends claims. Returns those that are still held: of the others, the file is gone or cancelled."""
        ...

    async def add_chunks(self, claim: IndexingClaim, chunks: Sequence[NewChunk], embedder: str | None = None) -> bool:
        """Stores chunks behind those of earlier calls; nobody finds them yet. Returns False if the claim is no longer
        held. `embedder` is the name of who made their vectors."""
        ...

    async def complete_entry(self, claim: IndexingClaim) -> bool:
        """Lets all chunks of a claim be found. Returns False if the claim is no longer held."""
        ...

    async def postpone_entry(self, claim: IndexingClaim, wait_s: float, tries: int) -> bool:
        """Lets the file be claimed again, after so many seconds. Its chunks are indexed anew then. Returns False if the
        claim is no longer held."""
        ...

    async def fail_entry(self, claim: IndexingClaim, error: tuple[ParsingFault, str]) -> bool:
        """Ends a claim without chunks. Returns False if the claim is no longer held."""
        ...

    async def remove_chunks(self) -> int:
        """Deletes chunks that count no more: of files that were detached, or whose indexing was repeated. Returns how
        many."""
        ...

    async def release_claims(self, claims: Collection[IndexingClaim]) -> None:
        """Lets other processes claim these files at once."""
        ...


class EmbeddingQueue(Protocol):
    """Finds indexed files without vectors of a model. Each is leased to one process at a time."""

    async def claim_outdated(self, embedder: str, after: str, *, lease_s: float) -> EmbeddingClaim | None:
        """Claims a file whose vectors are not of `embedder`: of the next owner behind `after`, in the order of their
        ids. From then on it has no vectors that count."""
        ...

    async def load_texts(self, claim: EmbeddingClaim, first: int, limit: int) -> Sequence[StoredText]:
        """Returns chunks of the file in order, from the position `first` on."""
        ...

    async def replace_vectors(
        self, claim: EmbeddingClaim, vectors: Mapping[int, Vector], growth: int, *, lease_s: float
    ) -> EmbeddingClaim | None:
        """Stores vectors by the numbers of their chunks. `growth` is by how many bytes they are larger than those of
        before. Returns the renewed claim; None if it is no longer held, and nothing was stored."""
        ...

    async def complete_vectors(self, claim: EmbeddingClaim, embedder: str, *, rest_s: float) -> bool:
        """Lets the vectors count, and keeps others from replacing them for `rest_s`. Returns False if the claim is no
        longer held."""
        ...

    async def postpone_vectors(self, claim: EmbeddingClaim, wait_s: float, tries: int) -> bool:
        """Lets the file be claimed again, after so many seconds. Returns False if the claim is no longer held."""
        ...
