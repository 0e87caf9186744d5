"""Vector stores on both databases: their life, their files and batches, their indexing and their search."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
from sqlalchemy import ColumnElement, func, insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway.errors import FileNotFound, VectorStoreExpired, VectorStoreQuotaExceeded
from gateway.retrieval.attribute_filters import compile_filter
from gateway.retrieval.chunks import ChunkSizes
from gateway.retrieval.terms import find_query_terms, iterate_index_terms
from gateway.state.database.database import Database
from gateway.state.database.tables import (
    files,
    vector_chunks,
    vector_removals,
    vector_store_batches,
    vector_store_files,
    vector_stores,
)
from gateway.state.file_records import FileQuota, StoredFile
from gateway.state.sql.store import SqlStore
from gateway.state.values import PageRequest, UnknownCursor
from gateway.state.vector_records import (
    ChunkQuery,
    IndexingClaim,
    NewChunk,
    NewEntry,
    NewVectorStore,
    ScoredChunk,
)
from gateway.state.vectors.search import StoreSearch
from tests.polling import read_until
from tests.state.processes.database_observer import count_waiting
from tests.state.sql.test_lineage import queries_that_contain

QUOTA = FileQuota(files=100, size=10**9)


async def add_file(store: SqlStore, owner: str, file_id: str) -> None:
    await store.files.reserve_blob(owner, file_id, hold_s=60)
    file = StoredFile(id=file_id, size=1, created_at=1_700_000_000, filename=f"{file_id}.txt", purpose="assistants")
    await store.files.create_file(owner, file, QUOTA)


def build_chunks(*texts: str) -> list[NewChunk]:
    return [NewChunk(text, " ".join(iterate_index_terms(text)), 0) for text in texts]


async def index(store: SqlStore, texts: dict[str, Sequence[str]]) -> list[IndexingClaim]:
    """Indexes all files that wait, with these texts."""
    claims = list(await store.indexing.claim_entries(100, lease_s=60))
    for claim in claims:
        assert await store.indexing.add_chunks(claim, build_chunks(*texts[claim.file_id]))
        assert await store.indexing.complete_entry(claim)
    return claims


async def create(store: SqlStore, owner: str, store_id: str, *file_ids: str, **fields: Any) -> None:
    for file_id in file_ids:
        await add_file(store, owner, file_id)
    entries = [NewEntry(file_id) for file_id in file_ids]
    await store.vector_stores.create_store(owner, NewVectorStore(store_id, entries=entries, **fields), most=10)


async def search(
    store: SqlStore, owner: str, store_id: str, *queries: str, accepts: dict[str, Any] | None = None, limit: int = 10
) -> Sequence[ScoredChunk]:
    query = ChunkQuery(
        [find_query_terms(each) for each in queries], None if accepts is None else compile_filter(accepts), limit
    )
    found = await store.vector_stores.search(owner, store_id, query)
    assert found is not None
    return [*found.chunks]


async def list_ids(store: SqlStore, owner: str, page: PageRequest) -> list[str]:
    return [row["id"] for row in (await store.vector_stores.list_stores(owner, page)).rows]


async def test_a_store_lives_through_its_indexing(store: SqlStore) -> None:
    await create(store, "ann", "vs_1", "file-a", "file-b", name="Docs", metadata={"k": "v"})
    created = await store.vector_stores.load_store("ann", "vs_1")
    assert created is not None
    assert created.render() | {"created_at": 0, "last_active_at": 0} == {
        "id": "vs_1",
        "object": "vector_store",
        "created_at": 0,
        "name": "Docs",
        "description": None,
        "status": "in_progress",
        "file_counts": {"in_progress": 2, "completed": 0, "failed": 0, "cancelled": 0, "total": 2},
        "usage_bytes": 0,
        "last_active_at": 0,
        "metadata": {"k": "v"},
    }
    await index(store, {"file-a": ["The cat sleeps.", "Dogs bark."], "file-b": ["Katzen schlafen: 猫が寝る"]})
    after = await store.vector_stores.load_store("ann", "vs_1")
    assert after is not None
    assert after.render()["status"] == "completed"
    assert after.usage_bytes == len("The cat sleeps.Dogs bark.Katzen schlafen: 猫が寝る".encode())
    [cat, *_] = await search(store, "ann", "vs_1", "sleeping cats")
    assert (cat.file_id, cat.filename, cat.text, cat.position) == ("file-a", "file-a.txt", "The cat sleeps.", 0)
    assert 0 < cat.score < 1
    assert [found.file_id for found in await search(store, "ann", "vs_1", "猫")] == ["file-b"]
    assert await search(store, "ann", "vs_1", "...") == []
    assert await search(store, "ann", "vs_1", "elephant") == []


async def test_another_owner_finds_nothing(store: SqlStore) -> None:
    await create(store, "ann", "vs_1", "file-a")
    stores = store.vector_stores
    assert await stores.load_store("bob", "vs_1") is None
    assert await stores.update_store("bob", "vs_1", {"name": "x"}) is None
    assert not await stores.delete_store("bob", "vs_1")
    assert await stores.attach_files("bob", "vs_1", [NewEntry("file-a")], most=10) is None
    assert await stores.load_entry("bob", "vs_1", "file-a") is None
    assert await stores.list_entries("bob", "vs_1", PageRequest()) is None
    assert await stores.set_attributes("bob", "vs_1", "file-a", {}) is None
    assert not await stores.detach_file("bob", "vs_1", "file-a")
    assert await stores.load_texts("bob", "vs_1", "file-a", PageRequest()) is None
    assert await stores.search("bob", "vs_1", ChunkQuery([["acat"]], None, 5)) is None
    with pytest.raises(FileNotFound):
        await stores.create_store("bob", NewVectorStore("vs_2", entries=[NewEntry("file-a")]), most=10)
    assert await stores.load_store("bob", "vs_2") is None


async def test_lists_go_forward_and_back(store: SqlStore) -> None:
    for number in range(5):
        await create(store, "ann", f"vs_{number}")
    assert await list_ids(store, "ann", PageRequest()) == [f"vs_{n}" for n in (4, 3, 2, 1, 0)]
    assert await list_ids(store, "ann", PageRequest(order="asc", limit=2, after="vs_1")) == ["vs_2", "vs_3"]
    assert await list_ids(store, "ann", PageRequest(limit=2, before="vs_1")) == ["vs_3", "vs_2"]
    assert await list_ids(store, "ann", PageRequest(order="asc", limit=2, before="vs_4")) == ["vs_2", "vs_3"]
    assert await list_ids(store, "ann", PageRequest(after="vs_4", before="vs_1")) == ["vs_3", "vs_2"]
    with pytest.raises(UnknownCursor):
        await list_ids(store, "ann", PageRequest(after="vs_9"))


async def test_an_owner_has_a_quota_that_deletions_give_back(store: SqlStore) -> None:
    stores = store.vector_stores
    for number in range(2):
        await stores.create_store("ann", NewVectorStore(f"vs_{number}"), most=2)
    with pytest.raises(VectorStoreQuotaExceeded):
        await stores.create_store("ann", NewVectorStore("vs_2"), most=2)
    await stores.create_store("bob", NewVectorStore("vs_3"), most=2)
    assert await stores.delete_store("ann", "vs_0")
    assert not await stores.delete_store("ann", "vs_0")
    await stores.create_store("ann", NewVectorStore("vs_2"), most=2)


async def test_changes_replace_what_is_present(store: SqlStore) -> None:
    await create(store, "ann", "vs_1", name="a", metadata={"k": "v"}, expires_after_days=2)
    changed = await store.vector_stores.update_store("ann", "vs_1", {"name": "b"})
    assert changed is not None
    assert (changed.name, changed.metadata, changed.expires_after_days) == ("b", {"k": "v"}, 2)
    changed = await store.vector_stores.update_store("ann", "vs_1", {"metadata": None, "expires_after_days": None})
    assert changed is not None
    assert (changed.metadata, changed.expires_after_days, changed.expires_at) == (None, None, None)


async def test_a_search_does_not_bring_back_an_expiry_that_was_changed_meanwhile(
    store: SqlStore, tables: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    await create(store, "ann", "vs_1", "file-a", expires_after_days=1)
    await index(store, {"file-a": ["cat"]})
    async with tables.write_transaction() as connection:
        await connection.execute(update(vector_stores).values(used_us=1))  # so that the search is noted
    find_chunks = StoreSearch.find_chunks

    async def find_during_change(*arguments: Any) -> Any:
        await store.vector_stores.update_store("ann", "vs_1", {"expires_after_days": None})
        async with tables.write_transaction() as connection:
            await connection.execute(update(vector_stores).values(used_us=1))
        return await find_chunks(*arguments)

    monkeypatch.setattr(StoreSearch, "find_chunks", find_during_change)
    assert len(await search(store, "ann", "vs_1", "cat")) == 1
    after = await store.vector_stores.load_store("ann", "vs_1")
    assert after is not None
    assert (after.expires_after_days, after.expires_at) == (None, None)
    assert after.last_active_at > 1


async def test_files_are_attached_by_few_statements(store: SqlStore, tables: Database) -> None:
    """Nobody else can write meanwhile on SQLite."""
    ids = [f"file-{number:04}" for number in range(1200)]
    rows = [
        {"owner": "ann", "id": file_id, "number": number, "created_us": 1, "bytes": 1}
        | {"filename": "a.txt", "purpose": "assistants"}
        for number, file_id in enumerate(ids)
    ]
    async with tables.write_transaction() as connection:
        await connection.execute(insert(files), rows)
    stores, entries = store.vector_stores, [NewEntry(file_id) for file_id in ids]
    await stores.create_store("ann", NewVectorStore("vs_1"), most=10)
    with queries_that_contain("vector_store_files") as sent:
        attached = await stores.attach_files("ann", "vs_1", entries, most=2000, batch_id="vsfb_1")
    assert attached is not None
    assert [entry.file_id for entry in attached] == ids
    assert len(sent) < 20
    assert await stores.cancel_batch("ann", "vs_1", "vsfb_1")
    with queries_that_contain("vector_store_files") as sent:
        attached = await stores.attach_files("ann", "vs_1", entries[::-1], most=2000)
    assert attached is not None
    assert {entry.status for entry in attached} == {"in_progress"}
    assert len(sent) < 20
    page = await stores.list_entries("ann", "vs_1", PageRequest(order="asc", limit=2000))
    assert page is not None
    assert [row["id"] for row in page.rows] == ids, "they keep their places"


async def expire(tables: Database, store_id: str) -> None:
    async with tables.write_transaction() as connection:
        await connection.execute(update(vector_stores).where(vector_stores.c.id == store_id).values(expires_us=1))


async def count_rows(tables: Database, table: Any) -> int:
    async with tables.read_transaction() as connection:
        return (await connection.scalar(select(func.count()).select_from(table))) or 0


async def test_a_file_that_has_expired_is_found_no_more_and_takes_no_place(store: SqlStore, tables: Database) -> None:
    await create(store, "ann", "vs_1", "file-a", "file-b", "file-c")
    texts = ["A cat and a cat.", "The cat is away."], ["The cat sleeps here all day and all night long."], ["No dog."]
    await index(store, dict(zip(("file-a", "file-b", "file-c"), texts, strict=True)))
    assert [chunk.file_id for chunk in await search(store, "ann", "vs_1", "cat", limit=2)] == ["file-a", "file-a"]
    async with tables.write_transaction() as connection:
        await connection.execute(update(files).where(files.c.id == "file-a").values(expires_us=1))
    accepts = {"type": "ne", "key": "k", "value": "v"}
    for filters in (None, accepts):
        found = await search(store, "ann", "vs_1", "cat", accepts=filters, limit=2)
        assert [chunk.file_id for chunk in found] == ["file-b"]
    stores = store.vector_stores
    assert await stores.load_texts("ann", "vs_1", "file-a", PageRequest(limit=10)) is None
    assert await stores.load_texts("ann", "vs_1", "file-b", PageRequest(limit=10)) is not None


async def test_an_expired_store_is_shown_but_not_searched_and_stays_expired(store: SqlStore, tables: Database) -> None:
    await create(store, "ann", "vs_1", "file-a", expires_after_days=1)
    await index(store, {"file-a": ["cat"]})
    await expire(tables, "vs_1")
    stores = store.vector_stores
    with pytest.raises(VectorStoreExpired):
        await search(store, "ann", "vs_1", "cat")
    with pytest.raises(VectorStoreExpired):
        await stores.attach_files("ann", "vs_1", [NewEntry("file-a")], most=10)
    changed = await stores.update_store("ann", "vs_1", {"expires_after_days": 300})
    assert changed is not None
    assert changed.render()["status"] == "expired"
    assert changed.render()["usage_bytes"] == len("cat")
    assert await store.indexing.remove_chunks() == 1
    assert await count_rows(tables, vector_chunks) == 0
    swept = await stores.load_store("ann", "vs_1")
    assert swept is not None
    assert swept.render()["usage_bytes"] == 0
    with pytest.raises(VectorStoreExpired):
        await stores.load_texts("ann", "vs_1", "file-a", PageRequest(limit=10))
    assert await store.files.load_file("ann", "file-a") is not None


async def test_a_file_is_attached_once_and_indexed_again_only_after_a_failure(store: SqlStore) -> None:
    await create(store, "ann", "vs_1", "file-a")
    stores, queue = store.vector_stores, store.indexing
    again = await stores.attach_files("ann", "vs_1", [NewEntry("file-a", ChunkSizes(100, 0))], most=10)
    assert again is not None
    assert again[0].sizes == ChunkSizes()
    [claim] = await queue.claim_entries(5, lease_s=60)
    assert await queue.fail_entry(claim, ("invalid_file", "The file is empty."))
    failed = await stores.load_entry("ann", "vs_1", "file-a")
    assert failed is not None
    assert failed.render()["last_error"] == {"code": "invalid_file", "message": "The file is empty."}
    again = await stores.attach_files("ann", "vs_1", [NewEntry("file-a", ChunkSizes(100, 0), {"a": 1})], most=10)
    assert again is not None
    assert (again[0].status, again[0].error, again[0].sizes, again[0].attributes) == (
        "in_progress",
        None,
        ChunkSizes(100, 0),
        {"a": 1},
    )
    await index(store, {"file-a": ["cat"]})
    assert len(await search(store, "ann", "vs_1", "cat")) == 1
    await add_file(store, "ann", "file-b")
    with pytest.raises(VectorStoreQuotaExceeded):
        await stores.attach_files("ann", "vs_1", [NewEntry("file-b")], most=1)
    assert await stores.load_entry("ann", "vs_1", "file-b") is None


async def test_files_of_a_store_are_listed_by_status(store: SqlStore) -> None:
    await create(store, "ann", "vs_1", "file-a", "file-b", "file-c")
    claims = await store.indexing.claim_entries(1, lease_s=60)
    await store.indexing.complete_entry(claims[0])

    async def ids(**selected: Any) -> list[str]:
        page = await store.vector_stores.list_entries("ann", "vs_1", PageRequest(order="asc"), **selected)
        assert page is not None
        return [row["id"] for row in page.rows]

    assert await ids() == ["file-a", "file-b", "file-c"]
    assert await ids(status="completed") == ["file-a"]
    assert await ids(status="in_progress") == ["file-b", "file-c"]


async def test_a_detached_file_is_not_found_by_the_next_search(store: SqlStore, tables: Database) -> None:
    await create(store, "ann", "vs_1", "file-a", "file-b")
    await index(store, {"file-a": ["cat one"], "file-b": ["cat two"]})
    assert await store.vector_stores.detach_file("ann", "vs_1", "file-a")
    assert not await store.vector_stores.detach_file("ann", "vs_1", "file-a")
    assert [found.file_id for found in await search(store, "ann", "vs_1", "cat")] == ["file-b"]
    assert await store.files.delete_file("ann", "file-b")
    assert await search(store, "ann", "vs_1", "cat") == []
    assert await store.indexing.remove_chunks() == 2
    assert (await count_rows(tables, vector_chunks), await count_rows(tables, vector_removals)) == (0, 0)


async def test_a_deleted_store_leaves_nothing(store: SqlStore, tables: Database) -> None:
    await create(store, "ann", "vs_1", "file-a")
    await index(store, {"file-a": ["cat"] * 250})
    assert await store.vector_stores.delete_store("ann", "vs_1")
    assert await store.indexing.remove_chunks() == 250
    assert await count_rows(tables, vector_chunks) == 0
    assert await store.files.load_file("ann", "file-a") is not None


async def test_filters_come_before_the_limit(store: SqlStore) -> None:
    await create(store, "ann", "vs_1", *(f"file-{n}" for n in range(9)))
    await index(store, {f"file-{n}": ["cat " * (9 - n)] * 40 for n in range(9)})
    await store.vector_stores.set_attributes("ann", "vs_1", "file-8", {"year": 2021})
    found = await search(store, "ann", "vs_1", "cat", accepts={"type": "eq", "key": "year", "value": 2021}, limit=3)
    assert [(each.file_id, each.attributes) for each in found] == [("file-8", {"year": 2021})] * 3
    assert await search(store, "ann", "vs_1", "cat", accepts={"type": "eq", "key": "year", "value": 1}) == []


async def test_several_queries_are_one_search(store: SqlStore) -> None:
    await create(store, "ann", "vs_1", "file-a", "file-b", "file-c")
    await index(store, {"file-a": ["cat"], "file-b": ["dog"], "file-c": ["cat and dog"]})
    found = await search(store, "ann", "vs_1", "cat", "dog")
    assert sorted(each.file_id for each in found) == ["file-a", "file-b", "file-c"]
    assert found[0].file_id == "file-c"


async def test_the_words_of_one_store_do_not_move_the_scores_of_another(store: SqlStore) -> None:
    await create(store, "ann", "vs_1", "file-a")
    await index(store, {"file-a": ["cat and dog"]})
    [before] = await search(store, "ann", "vs_1", "cat")
    await create(store, "bob", "vs_2", "file-b")
    await index(store, {"file-b": ["cat"] * 50})
    assert await search(store, "ann", "vs_1", "cat") == [before]


async def test_a_claim_is_held_by_one_and_taken_over_without_doubles(
    store: SqlStore, other: SqlStore, tables: Database
) -> None:
    await create(store, "ann", "vs_1", "file-a")
    [first] = await store.indexing.claim_entries(5, lease_s=0.05)
    assert await store.indexing.add_chunks(first, build_chunks("cat half"))
    await asyncio.sleep(0.1)
    [second] = await other.indexing.claim_entries(5, lease_s=60)
    assert await store.indexing.claim_entries(5, lease_s=60) == []
    assert not await store.indexing.add_chunks(first, build_chunks("cat late"))
    assert not await store.indexing.complete_entry(first)
    assert not await store.indexing.fail_entry(first, ("server_error", "late"))
    assert await store.indexing.renew_claims([first, second], lease_s=60) == [second]
    assert await search(store, "ann", "vs_1", "cat") == []
    assert await other.indexing.add_chunks(second, build_chunks("cat whole", "cat again"))
    assert await other.indexing.complete_entry(second)
    found = await search(store, "ann", "vs_1", "cat")
    assert sorted(each.text for each in found) == ["cat again", "cat whole"]
    assert await store.indexing.remove_chunks() == 1
    assert await count_rows(tables, vector_chunks) == 2
    assert len(await search(store, "ann", "vs_1", "cat")) == 2


async def test_a_claim_that_was_released_can_be_taken_at_once(store: SqlStore) -> None:
    await create(store, "ann", "vs_1", "file-a")
    claims = await store.indexing.claim_entries(5, lease_s=60)
    await store.indexing.release_claims(claims)
    assert len(await store.indexing.claim_entries(5, lease_s=60)) == 1


@pytest.mark.parametrize("store_url", ["postgresql"], indirect=True)
async def test_a_file_that_is_completed_while_it_is_claimed_stays_complete(
    store: SqlStore, tables: Database, store_url: str
) -> None:
    await create(store, "ann", "vs_1", "file-a")
    [claim] = await store.indexing.claim_entries(5, lease_s=0)
    assert await store.indexing.add_chunks(claim, build_chunks("cat"))
    async with tables.write_transaction() as connection:
        is_held = vector_store_files.c.attempt == claim.attempt
        await connection.execute(update(vector_store_files).where(is_held).values(status="completed"))
        claiming = asyncio.create_task(store.indexing.claim_entries(5, lease_s=60))
        await read_until(lambda: count_waiting(store_url, "Lock"), bool)
    assert await claiming == []
    assert [found.text for found in await search(store, "ann", "vs_1", "cat")] == ["cat"]
    assert await store.indexing.remove_chunks() == 0


async def test_a_store_that_is_used_at_the_last_moment_is_not_swept(
    store: SqlStore, tables: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    await create(store, "ann", "vs_1", "file-a", expires_after_days=1)
    await create(store, "ann", "vs_2", "file-b", expires_after_days=1)
    await index(store, {"file-a": ["cat"], "file-b": ["cat"]})
    for store_id in ("vs_1", "vs_2"):
        await expire(tables, store_id)
    write_transaction, is_used = Database.write_transaction, False

    @asynccontextmanager
    async def use_before(database: Database, owner: str = "") -> AsyncGenerator[AsyncConnection, None]:
        """Uses one store between the sweeper's look for expired ones and its first transaction."""
        nonlocal is_used
        if not is_used:
            is_used = True
            async with write_transaction(database, "ann") as connection:
                later = update(vector_stores).where(vector_stores.c.id == "vs_1")
                await connection.execute(later.values(expires_us=4_000_000_000_000_000))
        async with write_transaction(database, owner) as connection:
            yield connection

    monkeypatch.setattr(Database, "write_transaction", use_before)
    await store.indexing.remove_chunks()
    assert is_used
    assert [found.text for found in await search(store, "ann", "vs_1", "cat")] == ["cat"]
    assert await count_rows(tables, vector_chunks) == 1, "the other one was swept"


@pytest.mark.parametrize("store_url", ["postgresql"], indirect=True)
@pytest.mark.parametrize("other_name", ["cancellation", "sweep"])
async def test_a_deletion_and_what_changes_all_entries_wait_for_each_other_in_one_order(
    store: SqlStore, tables: Database, store_url: str, other_name: str
) -> None:
    """Each waits for the store before it locks anything else, so that neither holds what the other needs."""
    await create(store, "ann", "vs_1", "file-a")
    stores = store.vector_stores
    await stores.attach_files("ann", "vs_1", [NewEntry("file-a")], most=10, batch_id="vsfb_1")
    if other_name == "sweep":
        await expire(tables, "vs_1")
    async with tables.write_transaction() as connection:
        await connection.execute(select(vector_stores).with_for_update())
        change = stores.cancel_batch("ann", "vs_1", "vsfb_1") if other_name == "cancellation" else None
        waiting = asyncio.create_task(change if change is not None else store.indexing.remove_chunks())
        await read_until(lambda: count_waiting(store_url, "Lock"), bool)
        for table in (vector_store_files, vector_store_batches):
            assert len((await connection.execute(select(table).with_for_update(nowait=True))).all()) == 1
    await waiting


@pytest.mark.parametrize("store_url", ["postgresql"], indirect=True)
async def test_entries_are_locked_in_one_order(store: SqlStore, tables: Database, store_url: str) -> None:
    """What locks several waits for the first of them, and holds none of the others meanwhile."""
    ids = [f"file-{letter}" for letter in "dbca"]
    await create(store, "ann", "vs_1", *ids)
    claims = await store.indexing.claim_entries(5, lease_s=60)
    stores, queue = store.vector_stores, store.indexing
    await stores.attach_files("ann", "vs_1", [NewEntry(file_id) for file_id in ids], most=10, batch_id="vsfb_1")
    for lock_all in (
        lambda: queue.renew_claims(claims[::-1], lease_s=60),
        lambda: queue.release_claims(claims[::-1]),
        lambda: stores.cancel_batch("ann", "vs_1", "vsfb_1"),
        lambda: stores.delete_store("ann", "vs_1"),
    ):
        async with tables.write_transaction() as connection:
            await connection.execute(select(vector_store_files).where(_is_file("file-a")).with_for_update())
            locking = asyncio.create_task(lock_all())
            await read_until(lambda: count_waiting(store_url, "Lock"), bool)
            others = select(vector_store_files).where(~_is_file("file-a")).with_for_update(nowait=True)
            assert len((await connection.execute(others)).all()) == 3
        await locking


def _is_file(file_id: str) -> ColumnElement[bool]:
    return vector_store_files.c.file_id == file_id


async def test_owners_take_turns(store: SqlStore) -> None:
    await create(store, "ann", "vs_1", *(f"file-{n}" for n in range(5)))
    await create(store, "bob", "vs_2", "file-z")
    claims = await store.indexing.claim_entries(2, lease_s=60)
    assert sorted(claim.owner for claim in claims) == ["ann", "bob"]
    assert await store.indexing.claim_entries(2, lease_s=60, but_of=["ann"]) == []
    [claim] = await store.indexing.claim_entries(1, lease_s=60, but_of=["bob"])
    assert claim.owner == "ann"


async def test_a_batch_counts_its_files_and_can_be_cancelled(store: SqlStore) -> None:
    await create(store, "ann", "vs_1", "file-a")
    for file_id in ("file-b", "file-c"):
        await add_file(store, "ann", file_id)
    stores = store.vector_stores
    entries = [NewEntry(file_id) for file_id in ("file-a", "file-b", "file-c")]
    await stores.attach_files("ann", "vs_1", entries, most=10, batch_id="vsfb_1")
    claims = await store.indexing.claim_entries(1, lease_s=60)
    await store.indexing.complete_entry(claims[0])
    cancelled = await stores.cancel_batch("ann", "vs_1", "vsfb_1")
    assert cancelled is not None
    assert (cancelled.render()["status"], cancelled.counts) == ("cancelled", (0, 1, 0, 2))
    assert await stores.load_batch("ann", "vs_1", "vsfb_1") == cancelled
    assert await stores.load_batch("ann", "vs_2", "vsfb_1") is None
    assert await stores.cancel_batch("bob", "vs_1", "vsfb_1") is None
    page = await stores.list_entries("ann", "vs_1", PageRequest(), status="cancelled", batch_id="vsfb_1")
    assert page is not None
    assert [row["id"] for row in page.rows] == ["file-c", "file-b"]
    assert await stores.list_entries("ann", "vs_1", PageRequest(), batch_id="vsfb_9") is None
    assert await store.indexing.claim_entries(5, lease_s=60) == []


async def test_a_file_attached_again_after_its_batch_was_cancelled_has_no_chunks_of_before(
    store: SqlStore, tables: Database
) -> None:
    await create(store, "ann", "vs_1")
    await add_file(store, "ann", "file-a")
    stores, entries = store.vector_stores, [NewEntry("file-a")]
    await stores.attach_files("ann", "vs_1", entries, most=10, batch_id="vsfb_1")
    (cancelled,) = await store.indexing.claim_entries(1, lease_s=60)
    assert await store.indexing.add_chunks(cancelled, build_chunks("old cat"))
    await stores.cancel_batch("ann", "vs_1", "vsfb_1")
    await stores.attach_files("ann", "vs_1", entries, most=10)
    # The process that indexed it goes on, because it does not know yet.
    assert not await store.indexing.add_chunks(cancelled, build_chunks("older cat"))
    assert not await store.indexing.complete_entry(cancelled)
    assert await store.indexing.renew_claims([cancelled], lease_s=60) == []
    await index(store, {"file-a": ["new cat"]})
    assert [found.text for found in await search(store, "ann", "vs_1", "cat")] == ["new cat"]
    assert await store.indexing.remove_chunks() == 1
    assert await count_rows(tables, vector_chunks) == 1


async def test_the_text_of_a_file_is_read_once(store: SqlStore) -> None:
    await create(store, "ann", "vs_1", "file-a")
    [claim] = await store.indexing.claim_entries(5, lease_s=60)
    chunks = [NewChunk("abcdef", "aabcdef", 0), NewChunk("defghi", "adefghi", 3), NewChunk("ghij", "aghij", 3)]
    await store.indexing.add_chunks(claim, chunks[:2])
    await store.indexing.add_chunks(claim, chunks[2:])
    page = await store.vector_stores.load_texts("ann", "vs_1", "file-a", PageRequest())
    assert page is not None
    assert page.rows == []
    await store.indexing.complete_entry(claim)
    page = await store.vector_stores.load_texts("ann", "vs_1", "file-a", PageRequest(limit=2))
    assert page is not None
    assert (page.rows, page.has_more) == ([{"type": "text", "text": "abcdef"}, {"type": "text", "text": "ghi"}], True)
    page = await store.vector_stores.load_texts("ann", "vs_1", "file-a", PageRequest(after="2"))
    assert page is not None
    assert (page.rows, page.has_more) == ([{"type": "text", "text": "j"}], False)
