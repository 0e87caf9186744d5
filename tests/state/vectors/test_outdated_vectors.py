"""Files whose vectors are of another model are claimed one at a time, and by one process at a time."""

from collections.abc import Sequence

from gateway.retrieval.embedding import pack_vector
from gateway.state.file_records import FileQuota, StoredFile
from gateway.state.sql.store import SqlStore
from gateway.state.vector_records import EmbeddingClaim, NewChunk, NewEntry, NewVectorStore

OLD, NEW = "up old", "up new"


async def build_store(store: SqlStore, owner: str, files: Sequence[str], embedder: str | None = OLD) -> None:
    for file_id in files:
        await store.files.reserve_blob(owner, file_id, hold_s=60)
        file = StoredFile(id=file_id, size=1, created_at=1_700_000_000, filename="a.txt", purpose="assistants")
        await store.files.create_file(owner, file, FileQuota(files=100, size=10**9))
    new = NewVectorStore(f"vs_{owner}", entries=[NewEntry(file_id) for file_id in files])
    await store.vector_stores.create_store(owner, new, most=10)
    for claim in await store.indexing.claim_entries(100, lease_s=60):
        vector = None if embedder is None else pack_vector([1.0, 2.0])
        chunks = [NewChunk(f"Text {n}.", f"a{n}", 0, vector) for n in range(3)]
        assert await store.indexing.add_chunks(claim, chunks, embedder)
        assert await store.indexing.complete_entry(claim)


async def claim(store: SqlStore, after: str = "", embedder: str = NEW) -> EmbeddingClaim | None:
    return await store.embedding.claim_outdated(embedder, after, lease_s=3600)


async def test_owners_take_turns_and_a_file_is_claimed_once(store: SqlStore) -> None:
    await build_store(store, "ann", ["file-a", "file-b"], None)
    await build_store(store, "bob", ["file-c"], None)
    claims = []
    after = ""
    while (claimed := await claim(store, after)) is not None:
        claims.append((claimed.owner, claimed.file_id))
        after = claimed.owner
    assert claims == [("ann", "file-a"), ("bob", "file-c"), ("ann", "file-b")]


async def test_files_of_the_model_and_files_that_are_not_indexed_are_left_alone(store: SqlStore) -> None:
    await build_store(store, "ann", ["file-a"], None)
    claimed = await claim(store)
    assert claimed is not None
    assert await store.embedding.complete_vectors(claimed, NEW, rest_s=0)
    assert await claim(store) is None
    again = await claim(store, embedder=OLD)
    assert again is not None
    assert again.file_id == "file-a"


async def test_a_file_rests_after_its_vectors_were_made(store: SqlStore) -> None:
    await build_store(store, "ann", ["file-a"], None)
    claimed = await claim(store)
    assert claimed is not None
    assert await store.embedding.complete_vectors(claimed, NEW, rest_s=600)
    assert await claim(store, embedder=OLD) is None


async def test_a_claim_that_has_ended_changes_nothing(store: SqlStore) -> None:
    await build_store(store, "ann", ["file-a"], None)
    first = await store.embedding.claim_outdated(NEW, "", lease_s=-1)
    assert first is not None
    second = await claim(store)
    assert second is not None
    assert await store.embedding.replace_vectors(first, {}, 100, lease_s=60) is None
    assert not await store.embedding.complete_vectors(first, NEW, rest_s=0)
    assert not await store.embedding.postpone_vectors(first, 0, 1)
    assert [each.text for each in await store.embedding.load_texts(second, 0, 2)] == ["Text 0.", "Text 1."]
    assert [each.text for each in await store.embedding.load_texts(second, 2, 2)] == ["Text 2."]
    assert await store.embedding.postpone_vectors(second, -1, 3)
    third = await claim(store)
    assert third is not None
    assert third.tries == 3


async def test_a_detached_file_and_a_deleted_store_are_not_claimed(store: SqlStore) -> None:
    await build_store(store, "ann", ["file-a", "file-b"], None)
    claimed = await claim(store)
    assert claimed is not None
    assert await store.vector_stores.detach_file("ann", "vs_ann", claimed.file_id)
    assert not await store.embedding.complete_vectors(claimed, NEW, rest_s=0)
    assert await store.vector_stores.delete_store("ann", "vs_ann")
    assert await claim(store) is None
