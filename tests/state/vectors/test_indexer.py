"""The indexer goes on whatever its store does, and fails no file because the store is slow."""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from gateway.blobs.folder import BlobFolder
from gateway.config.tool_settings import FileSearchSettings
from gateway.errors import FileStorageUnavailable, StoreUnavailable
from gateway.files.blob_keeper import BlobKeeper
from gateway.files.stored_files import FileRules, StoredFiles
from gateway.http.forms.form_body import FormPace
from gateway.http.guard import DrainState
from gateway.retrieval.embedding import Vector, pack_vector
from gateway.retrieval.parsing import parser_pool
from gateway.state.file_records import FileQuota, StoredFile
from gateway.state.sql.store import SqlStore
from gateway.state.vector_records import ChunkQuery, NewEntry, NewVectorStore, StoreEntry
from gateway.vector_stores import indexer as indexer_module
from gateway.vector_stores import patient_embedder
from gateway.vector_stores.indexer import Indexer
from gateway.vector_stores.patient_embedder import is_model_away
from providers.errors import UpstreamOverloaded, UpstreamRateLimited, UpstreamUnreachable
from tests.polling import read_until, wait_until

OWNER, STORE = "ann", "vs_1"
PARSE_S = 6.0
TRIES = 5
AddFile: TypeAlias = Callable[..., Coroutine[Any, Any, None]]
"""Stores a file and attaches it, by its id and bytes, and perhaps an owner and a store."""

QUEUE_METHODS = ("claim_entries", "renew_claims", "add_chunks", "complete_entry", "remove_chunks")


class FaultyQueue:
    """The queue of a store. `faults` are raised by the next calls of methods, and `before` is awaited first."""

    def __init__(self, store: SqlStore) -> None:
        self._queue = store.indexing
        self.faults: dict[str, list[Exception]] = {}
        self.before: dict[str, Callable[[], Any]] = {}
        self.calls: Counter[str] = Counter()

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._queue, name)

        async def call(*arguments: Any, **named: Any) -> Any:
            self.calls[name] += 1
            if name in self.before:
                await self.before[name]()
            if faults := self.faults.get(name):
                raise faults.pop(0)
            return await method(*arguments, **named)

        return call


@pytest.fixture
def blobs(tmp_path: Path) -> BlobFolder:
    return BlobFolder(tmp_path / "files")


@pytest.fixture
def queue(store: SqlStore) -> FaultyQueue:
    return FaultyQueue(store)


@pytest.fixture
async def add(store: SqlStore, blobs: BlobFolder) -> AddFile:
    await store.vector_stores.create_store(OWNER, NewVectorStore(STORE), most=10)

    async def add_file(file_id: str, content: bytes, owner: str = OWNER, store_id: str = STORE) -> None:
        if await store.vector_stores.load_store(owner, store_id) is None:
            await store.vector_stores.create_store(owner, NewVectorStore(store_id), most=10)
        await store.files.reserve_blob(owner, file_id, hold_s=60)
        async with blobs.write_blob(file_id) as blob:
            await blob.write(content)
            await blob.finish()
        file = StoredFile(
            id=file_id, size=len(content), created_at=1_700_000_000, filename="a.txt", purpose="assistants"
        )
        await store.files.create_file(owner, file, FileQuota(files=100, size=10**9))
        await store.vector_stores.attach_files(owner, store_id, [NewEntry(file_id)], most=100)

    return add_file


class FaultyEmbedder:
    """Makes vectors, unless there are `faults`, which its next calls raise. `texts` are those of all calls."""

    name = "model"

    def __init__(self) -> None:
        self.faults: list[Exception] = []
        self.texts: list[str] = []

    async def embed(self, texts: Sequence[str]) -> Sequence[Vector]:
        self.texts += texts
        if self.faults:
            raise self.faults.pop(0)
        return [pack_vector([1.0, 2.0]) for _ in texts]

    def is_away(self, error: Exception) -> bool:
        return is_model_away(error)


class EmbedderHolder:
    """Who makes vectors; nobody if a test does not say so."""

    embedder: FaultyEmbedder | None = None


@pytest.fixture
def holder() -> EmbedderHolder:
    return EmbedderHolder()


@pytest.fixture
def lease_s() -> float:
    """Longer than any test. On a busy machine a short lease may end before it is renewed."""
    return 60.0


@pytest.fixture
async def indexer(
    store: SqlStore,
    queue: FaultyQueue,
    blobs: BlobFolder,
    holder: EmbedderHolder,
    lease_s: float,
    monkeypatch: pytest.MonkeyPatch,
) -> AsyncIterator[Indexer]:
    monkeypatch.setattr(indexer_module, "_POLL_S", 0.05)
    pace = FormPace(10, 60)
    files = StoredFiles(store.files, blobs, BlobKeeper(store.files, blobs, 60), FileRules(10, pace), DrainState())
    running: Any = queue
    settings = FileSearchSettings(parse_s=PARSE_S, tries=TRIES)
    made = Indexer(running, files, settings, lease_s=lease_s, find_embedder=lambda: holder.embedder)
    async with made.lifespan():
        yield made


async def read_end(store: SqlStore, file_id: str, owner: str = OWNER, store_id: str = STORE) -> StoreEntry:
    async def load() -> StoreEntry:
        entry = await store.vector_stores.load_entry(owner, store_id, file_id)
        assert entry is not None
        return entry

    return await read_until(load, lambda entry: entry.status != "in_progress")


FAULTS: dict[str, Callable[[], Exception]] = {
    "outage": lambda: StoreUnavailable("the database is away"),
    "fault": lambda: RuntimeError("no outage"),
}


FAILING_METHODS = ("add_chunks", "complete_entry")
"""A file fails with a fault of these, without an outage."""


@pytest.mark.parametrize(
    ("method", "fault", "lease_s"),
    [
        # Only after an outage, and to be renewed, does a lease have to end.
        (method, fault, 60.0 if fault == "fault" and method in FAILING_METHODS else 1.0)
        for method in QUEUE_METHODS
        for fault in FAULTS
    ],
)
async def test_a_fault_of_the_store_ends_neither_the_indexer_nor_what_comes_later(
    store: SqlStore, queue: FaultyQueue, indexer: Indexer, add: AddFile, method: str, fault: str
) -> None:
    times = 1 if method in FAILING_METHODS else 2
    queue.faults[method] = [FAULTS[fault]() for _ in range(times)]
    await add("file-first", b"The first cat.")
    indexer.notify()
    if method == "renew_claims":
        queue.before["add_chunks"] = lambda: wait_until(lambda: not queue.faults[method])
    await wait_until(lambda: not queue.faults[method])
    await add("file-second", b"The second cat.")
    indexer.notify()
    assert (await read_end(store, "file-second")).status == "completed"
    # A chunk that cannot be stored, without an outage, is a fault of this file alone.
    first = await read_end(store, "file-first")
    failed = fault == "fault" and method in FAILING_METHODS
    assert (first.status, first.error and first.error[0]) == (
        ("failed", "server_error") if failed else ("completed", None)
    )


async def test_files_of_one_owner_do_not_keep_those_of_another_from_being_indexed(
    store: SqlStore, queue: FaultyQueue, indexer: Indexer, add: AddFile
) -> None:
    may_go_on = asyncio.Event()
    queue.before["add_chunks"] = may_go_on.wait
    for number in range(3):
        await add(f"file-{number}", b"A cat.")
    indexer.notify()
    await wait_until(lambda: queue.calls["add_chunks"] == 2)
    del queue.before["add_chunks"]
    await add("file-of-bob", b"A dog.", owner="bob", store_id="vs_2")
    indexer.notify()
    assert (await read_end(store, "file-of-bob", "bob", "vs_2")).status == "completed"
    assert queue.calls["add_chunks"] == 3, "the third file of the first owner waits"
    may_go_on.set()
    assert (await read_end(store, "file-2")).status == "completed"


async def test_files_do_not_wait_for_chunks_that_are_deleted(
    store: SqlStore, queue: FaultyQueue, indexer: Indexer, add: AddFile
) -> None:
    queue.before["remove_chunks"] = asyncio.Event().wait
    await wait_until(lambda: queue.calls["remove_chunks"] > 0)
    await add("file-first", b"The first cat.")
    indexer.notify()
    assert (await read_end(store, "file-first")).status == "completed"


@pytest.mark.parametrize("lease_s", [5.0])
async def test_a_fault_that_cannot_even_be_recorded_costs_a_lease_and_not_the_indexer(
    store: SqlStore, queue: FaultyQueue, indexer: Indexer, add: AddFile
) -> None:
    queue.faults = {"add_chunks": [RuntimeError("broken")], "fail_entry": [RuntimeError("broken too")]}
    await add("file-a", b"A cat.")
    indexer.notify()
    assert (await read_end(store, "file-a")).status == "completed"
    assert queue.calls["add_chunks"] == 2


async def test_the_time_of_a_slow_store_is_not_that_of_reading_the_file(
    store: SqlStore,
    queue: FaultyQueue,
    indexer: Indexer,
    add: AddFile,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    await add("file-warm", b"So that the parser server runs.")
    indexer.notify()
    await read_end(store, "file-warm")
    monkeypatch.setattr(parser_pool, "_GRACE_S", 0.0)
    slow_until = time.monotonic() + PARSE_S + 1

    async def wait_long() -> None:
        await wait_until(lambda: time.monotonic() > slow_until)

    queue.before["add_chunks"] = wait_long
    # More than the pipe holds, so that the child has to wait.
    await add("file-large", b"A sentence about cats. " * 7000)
    indexer.notify()
    ended = await read_end(store, "file-large")
    assert (ended.status, ended.error) == ("completed", None)
    assert queue.calls["add_chunks"] > 2


def make_embedder(holder: EmbedderHolder, *faults: Exception) -> FaultyEmbedder:
    holder.embedder = FaultyEmbedder()
    holder.embedder.faults = [*faults]
    return holder.embedder


@pytest.fixture
def postpones_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """No wait happens in place, and none is long."""
    monkeypatch.setattr(patient_embedder, "_HELD_S", 0.0)
    monkeypatch.setattr(patient_embedder, "_LONGEST_WAIT_S", 0.01)


@pytest.mark.usefixtures("postpones_at_once")
async def test_a_file_is_put_off_until_the_model_answers_and_costs_no_place_meanwhile(
    store: SqlStore,
    queue: FaultyQueue,
    indexer: Indexer,
    holder: EmbedderHolder,
    add: AddFile,
) -> None:
    embedder = make_embedder(holder, *(UpstreamOverloaded("busy", status=503) for _ in range(TRIES - 1)))
    await add("file-late", b"A late cat.")
    indexer.notify()
    seen = []

    async def record() -> None:
        entry = await store.vector_stores.load_entry(OWNER, STORE, "file-late")
        seen.append(entry and (entry.status, entry.error))

    queue.before["postpone_entry"] = record
    late = await read_end(store, "file-late")
    assert (late.status, late.error) == ("completed", None)
    assert seen == [("in_progress", None)] * (TRIES - 1)
    assert embedder.texts == ["A late cat."] * TRIES
    found = await store.vector_stores.search(OWNER, STORE, ChunkQuery([["acat"]], None, 10))
    assert found is not None
    [result] = found.chunks
    assert result.file_id == "file-late"


@pytest.mark.usefixtures("postpones_at_once")
async def test_after_the_last_try_a_file_fails_and_can_be_attached_again(
    store: SqlStore,
    queue: FaultyQueue,
    indexer: Indexer,
    holder: EmbedderHolder,
    add: AddFile,
) -> None:
    embedder = make_embedder(holder, *(UpstreamUnreachable("refused") for _ in range(TRIES + 1)))
    await add("file-a", b"A cat.")
    indexer.notify()
    failed = await read_end(store, "file-a")
    assert (failed.status, failed.error and failed.error[0]) == ("failed", "server_error")
    assert len(embedder.texts) == TRIES
    # One fault is left, and the tries are counted anew.
    await store.vector_stores.attach_files(OWNER, STORE, [NewEntry("file-a")], most=100)
    indexer.notify()
    assert (await read_end(store, "file-a")).status == "completed"
    assert len(embedder.texts) == TRIES + 2


async def test_a_file_that_waits_lets_others_pass_and_can_be_detached(
    store: SqlStore, queue: FaultyQueue, indexer: Indexer, holder: EmbedderHolder, add: AddFile
) -> None:
    make_embedder(holder, UpstreamRateLimited("busy", status=429, headers={"retry-after": "3000"}))
    await add("file-waiting", b"A waiting cat.")
    indexer.notify()
    await wait_until(lambda: queue.calls["postpone_entry"])
    await add("file-next", b"The next cat.")
    indexer.notify()
    assert (await read_end(store, "file-next")).status == "completed"
    waiting = await store.vector_stores.load_entry(OWNER, STORE, "file-waiting")
    assert waiting is not None
    assert waiting.status == "in_progress"
    assert await store.vector_stores.detach_file(OWNER, STORE, "file-waiting")
    assert await store.vector_stores.load_entry(OWNER, STORE, "file-waiting") is None


async def test_bytes_that_cannot_be_read_now_are_read_later(
    store: SqlStore,
    queue: FaultyQueue,
    indexer: Indexer,
    blobs: BlobFolder,
    add: AddFile,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(patient_embedder, "_LONGEST_WAIT_S", 0.01)
    opened = type(blobs).open_descriptor
    faults = [FileStorageUnavailable("the bucket is away") for _ in range(TRIES - 1)]

    def open_later(*arguments: Any, **named: Any) -> Any:
        if faults:
            raise faults.pop()
        return opened(*arguments, **named)

    monkeypatch.setattr(type(blobs), "open_descriptor", open_later)
    await add("file-a", b"A cat.")
    indexer.notify()
    assert (await read_end(store, "file-a")).status == "completed"
    faults += [FileStorageUnavailable("the bucket is away") for _ in range(TRIES)]
    await add("file-b", b"B cat.")
    indexer.notify()
    failed = await read_end(store, "file-b")
    assert failed.error == ("server_error", "The bytes of the file cannot be read now: attach it again later.")


@pytest.mark.usefixtures("postpones_at_once")
async def test_a_file_that_can_never_be_stored_fails_alone(
    store: SqlStore, queue: FaultyQueue, indexer: Indexer, add: AddFile
) -> None:
    """It would be tried for ever, and take the place of others."""
    queue.faults["add_chunks"] = [StoreUnavailable("too slow") for _ in range(TRIES)]
    await add("file-a", b"A cat.")
    indexer.notify()
    failed = await read_end(store, "file-a")
    assert failed.error == ("server_error", "The text of the file cannot be stored now: attach it again later.")
    await add("file-b", b"B cat.")
    indexer.notify()
    assert (await read_end(store, "file-b")).status == "completed"


@pytest.mark.parametrize("lease_s", [5.0])
async def test_an_outage_of_the_database_costs_a_file_no_try(
    store: SqlStore, queue: FaultyQueue, indexer: Indexer, add: AddFile
) -> None:
    for method in ("add_chunks", "postpone_entry"):
        queue.faults[method] = [StoreUnavailable("the database is away")]
    await add("file-a", b"A cat.")
    indexer.notify()
    assert (await read_end(store, "file-a")).status == "completed"
    assert queue.calls["postpone_entry"] == 1


async def test_stopping_survives_a_store_that_refuses(store: SqlStore, queue: FaultyQueue, blobs: BlobFolder) -> None:
    files = StoredFiles(
        store.files, blobs, BlobKeeper(store.files, blobs, 60), FileRules(10, FormPace(10, 60)), DrainState()
    )
    queue.faults = {"release_claims": [RuntimeError("broken")]}
    running: Any = queue
    async with asyncio.timeout(60), Indexer(running, files, FileSearchSettings(), lease_s=1.0).lifespan():
        await wait_until(lambda: queue.calls["claim_entries"])
    assert queue.calls["release_claims"] == 1
