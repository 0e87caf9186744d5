"""Carries out the requests of clients about their vector stores, within the quotas of their owners."""

from collections.abc import Callable, Sequence
from typing import Final, Literal, NamedTuple, NoReturn, TypeVar

from dataplane.sharing.work_pool import run_for_count
from gateway.config.tool_settings import FileSearchSettings
from gateway.errors import FileBatchNotFound, FileNotFound, StoreFileNotFound, VectorStoreNotFound
from gateway.logs import bind_fields
from gateway.retrieval.embedding import FindEmbedder, embed_queries
from gateway.retrieval.terms import find_terms_of_all
from gateway.state.file_records import FileStore
from gateway.state.values import Page, PageRequest
from gateway.state.vector_records import (
    ChunkQuery,
    EntryStatus,
    NewEntry,
    NewVectorStore,
    ScoredChunk,
    StoredBatch,
    StoredVectorStore,
    StoreEntry,
    VectorStores,
    build_file_limit_error,
)
from gateway.vector_stores.store_params import (
    SearchRequest,
    read_attributes,
    read_batch,
    read_chunk_sizes,
    read_expiry_days,
    read_file_ids,
    read_metadata,
    read_new_entry,
    read_search,
    read_text_field,
)
from providers.new_id import random_hex
from translation.errors import InvalidRequest
from translation.representation.json_types import Json
from translation.representation.loss import Loss
from translation.validation import refuse_unknown_names

_ValueT = TypeVar("_ValueT")

_CREATE_NAMES: Final = ("name", "description", "file_ids", "chunking_strategy", "expires_after", "metadata")


class SearchPage(NamedTuple):
    """The request of a search, and its results. `by_words` says what was searched by words, although there is a model
    of embeddings: everything, because the model is busy or away, or some files, which have no vectors of it yet."""

    request: SearchRequest
    chunks: Sequence[ScoredChunk]
    by_words: Literal["all", "some files"] | None = None

    @property
    def losses(self) -> list[Loss]:
        """What was not honoured of the request."""
        losses = [Loss("rewrite_query", "ignored")] if self.request.has_rewrite else []
        if self.by_words is None:
            return losses
        which = "" if self.by_words == "all" else f"{self.by_words} "
        return [*losses, Loss("query", f"{which}searched by words alone")]

    def render(self) -> Json:
        """Returns the page of results of the API."""
        return {
            "object": "vector_store.search_results.page",
            "search_query": self.request.queries,
            "data": [render_search_result(chunk) for chunk in self.chunks],
            "has_more": False,
            "next_page": None,
        }


def render_search_result(chunk: ScoredChunk) -> Json:
    """Returns one result of a search, as the API has it."""
    return {
        "file_id": chunk.file_id,
        "filename": chunk.filename,
        "score": chunk.score,
        "attributes": dict(chunk.attributes),
        "content": [{"type": "text", "text": chunk.text}],
    }


class StoredVectorStores:
    """The vector stores of one server process. Every method raises VectorStoreNotFound for an unknown store."""

    def __init__(
        self,
        stores: VectorStores,
        files: FileStore,
        settings: FileSearchSettings,
        notify: Callable[[], None],
        find_embedder: FindEmbedder = lambda: None,
    ) -> None:
        """`notify` is called when files wait to be indexed."""
        self._stores = stores
        self._files = files
        self._settings = settings
        self._notify = notify
        self._find_embedder = find_embedder

    def use_settings(self, settings: FileSearchSettings) -> None:
        """Serves all further requests by these settings."""
        self._settings = settings

    async def create_store(self, owner: str, body: Json, most: int) -> StoredVectorStore:
        """Creates a store with its first files. `most` is how many the owner may have."""
        refuse_unknown_names(body, _CREATE_NAMES)
        sizes = read_chunk_sizes(body.get("chunking_strategy"))
        entries = read_file_ids(body.get("file_ids") or [], sizes, {})
        new = NewVectorStore(
            f"vs_{random_hex()}",
            read_text_field(body, "name") or "",
            read_text_field(body, "description"),
            read_metadata(body.get("metadata")),
            read_expiry_days(body.get("expires_after")),
            entries,
        )
        await self._check_files(owner, entries, "file_ids")
        if len({entry.file_id for entry in entries}) > (most_files := self._settings.max_files):
            raise build_file_limit_error(most_files)
        store = await self._stores.create_store(owner, new, most=most)
        bind_fields(vector_store_id=store.id)
        self._notify()
        return store

    async def load_store(self, owner: str, store_id: str) -> StoredVectorStore:
        """Returns a store."""
        return _require(await self._stores.load_store(owner, store_id), store_id)

    async def list_stores(self, owner: str, page: PageRequest) -> Page:
        """Returns a page of vector store objects. Raises UnknownCursor."""
        return await self._stores.list_stores(owner, page)

    async def update_store(self, owner: str, store_id: str, body: Json) -> StoredVectorStore:
        """Changes the fields of a store that a body contains."""
        refuse_unknown_names(body, ("name", "expires_after", "metadata"))
        changes: Json = {}
        if "name" in body:
            changes["name"] = read_text_field(body, "name") or ""
        if "metadata" in body:
            changes["metadata"] = read_metadata(body["metadata"])
        if "expires_after" in body:
            changes["expires_after_days"] = read_expiry_days(body["expires_after"])
        return _require(await self._stores.update_store(owner, store_id, changes), store_id)

    async def delete_store(self, owner: str, store_id: str) -> None:
        """Deletes a store. Its files remain."""
        if not await self._stores.delete_store(owner, store_id):
            raise VectorStoreNotFound(store_id)
        bind_fields(vector_store_id=store_id)
        self._notify()

    async def attach_file(self, owner: str, store_id: str, body: Json) -> StoreEntry:
        """Attaches one file."""
        entry = read_new_entry(body)
        await self.load_store(owner, store_id)
        await self._check_files(owner, [entry], "file_id")
        [attached] = await self._attach(owner, store_id, [entry])
        return attached

    async def attach_batch(self, owner: str, store_id: str, body: Json) -> StoredBatch:
        """Attaches many files together."""
        entries = read_batch(body)
        await self.load_store(owner, store_id)
        await self._check_files(owner, entries, "file_ids" if body.get("files") is None else "files")
        batch_id = f"vsfb_{random_hex()}"
        await self._attach(owner, store_id, entries, batch_id)
        return await self.load_batch(owner, store_id, batch_id)

    async def load_entry(self, owner: str, store_id: str, file_id: str) -> StoreEntry:
        """Returns a file of a store. Raises NotFound."""
        entry = await self._stores.load_entry(owner, store_id, file_id)
        return entry if entry is not None else await self._refuse_file(owner, store_id, file_id)

    async def list_entries(
        self,
        owner: str,
        store_id: str,
        page: PageRequest,
        *,
        status: EntryStatus | None = None,
        batch_id: str | None = None,
    ) -> Page:
        """Returns a page of the files of a store or of a batch. Raises UnknownCursor, and NotFound for the batch."""
        entries = await self._stores.list_entries(owner, store_id, page, status=status, batch_id=batch_id)
        if entries is None and batch_id is not None:
            return await self._refuse_batch(owner, store_id, batch_id)
        return _require(entries, store_id)

    async def set_attributes(self, owner: str, store_id: str, file_id: str, body: Json) -> StoreEntry:
        """Replaces the attributes of a file of a store. Raises NotFound."""
        refuse_unknown_names(body, ("attributes",))
        if "attributes" not in body:
            raise InvalidRequest(
                "Missing required parameter: 'attributes'.", param="attributes", code="missing_required_parameter"
            )
        attributes = read_attributes(body["attributes"])
        entry = await self._stores.set_attributes(owner, store_id, file_id, attributes)
        return entry if entry is not None else await self._refuse_file(owner, store_id, file_id)

    async def detach_file(self, owner: str, store_id: str, file_id: str) -> None:
        """Takes a file out of a store. Raises NotFound."""
        if not await self._stores.detach_file(owner, store_id, file_id):
            await self._refuse_file(owner, store_id, file_id)
        self._notify()

    async def load_texts(self, owner: str, store_id: str, file_id: str, page: PageRequest) -> Page:
        """Returns parts of the text of a file. Raises NotFound."""
        texts = await self._stores.load_texts(owner, store_id, file_id, page)
        return texts if texts is not None else await self._refuse_file(owner, store_id, file_id)

    async def load_batch(self, owner: str, store_id: str, batch_id: str) -> StoredBatch:
        """Returns a batch of a store. Raises NotFound."""
        batch = await self._stores.load_batch(owner, store_id, batch_id)
        return batch if batch is not None else await self._refuse_batch(owner, store_id, batch_id)

    async def cancel_batch(self, owner: str, store_id: str, batch_id: str) -> StoredBatch:
        """Cancels the files of a batch that are not indexed. Raises NotFound."""
        batch = await self._stores.cancel_batch(owner, store_id, batch_id)
        return batch if batch is not None else await self._refuse_batch(owner, store_id, batch_id)

    async def search(self, owner: str, store_id: str, body: Json) -> SearchPage:
        """Searches a store. Raises VectorStoreExpired, and what `Embedder.embed` raises."""
        request = read_search(body)
        terms = await run_for_count(sum(map(len, request.queries)), find_terms_of_all, request.queries)
        embedder = self._find_embedder()
        if embedder is not None:
            await self.load_store(owner, store_id)
        embedded = await embed_queries(embedder, request.queries)
        query = ChunkQuery(terms, request.accepts, request.limit, embedded.vectors)
        searched = _require(await self._stores.search(owner, store_id, query), store_id)
        bind_fields(vector_store_id=store_id, results=len(searched.chunks))
        results = [chunk for chunk in searched.chunks if chunk.score >= request.threshold]
        if embedded.is_model_away:
            return SearchPage(request, results, "all")
        return SearchPage(request, results, "some files" if searched.by_words else None)

    async def _attach(
        self, owner: str, store_id: str, entries: Sequence[NewEntry], batch_id: str | None = None
    ) -> Sequence[StoreEntry]:
        attached = _require(
            await self._stores.attach_files(owner, store_id, entries, most=self._settings.max_files, batch_id=batch_id),
            store_id,
        )
        bind_fields(vector_store_id=store_id, attached_files=len(attached))
        self._notify()
        return attached

    async def _check_files(self, owner: str, entries: Sequence[NewEntry], param: str) -> None:
        """Raises FileNotFound for the first file that does not exist, naming its place in the request."""
        existing = await self._files.load_files(owner, [entry.file_id for entry in entries])
        for i, entry in enumerate(entries):
            if entry.file_id not in existing:
                place = {"file_id": "file_id", "files": f"files[{i}].file_id"}.get(param, f"{param}[{i}]")
                raise FileNotFound(entry.file_id, param=place)

    async def _refuse_file(self, owner: str, store_id: str, file_id: str) -> NoReturn:
        await self.load_store(owner, store_id)
        raise StoreFileNotFound(file_id)

    async def _refuse_batch(self, owner: str, store_id: str, batch_id: str) -> NoReturn:
        await self.load_store(owner, store_id)
        raise FileBatchNotFound(batch_id)


def _require(value: _ValueT | None, store_id: str) -> _ValueT:
    if value is None:
        raise VectorStoreNotFound(store_id)
    return value
