"""All data of one owner can be measured, exported or erased, and nothing else."""

import asyncio
import random

import pytest
from sqlalchemy import func, insert, select

from gateway.state.call_records import CallRecord
from gateway.state.database.database import Database
from gateway.state.database.tables import events, metadata, owner_usage, unused_blobs, upload_parts, uploads
from gateway.state.file_records import FileQuota, StoredFile
from gateway.state.idempotency import KeyedRequest
from gateway.state.prompt_records import PromptQuota
from gateway.state.records.files import FileDeleter
from gateway.state.sql.retention import SqlRetention
from gateway.state.sql.store import SqlStore
from gateway.state.values import LogEntry, PageRequest
from gateway.state.vector_records import NewChunk, NewEntry, NewVectorStore
from tests.state.responses import build_approval
from tests.state.sql.test_lineage import queries_that_contain
from tests.state.sql.test_retention import (
    LATER,
    OTHER,
    OWNER,
    WORKER,
    age,
    begin,
    begun,
    complete,
    converse,
    count,
    finish,
    message,
    store_response,
)


@pytest.fixture
def tables(store: SqlStore) -> Database:
    return store._database


async def sum_logs(tables: Database) -> dict[str, int]:
    """Returns the bytes of the event logs of each owner, by reading all of them."""
    query = select(events.c.owner, func.sum(func.length(events.c.frames))).group_by(events.c.owner)
    async with tables.read_transaction() as connection:
        return {owner: int(total) for owner, total in await connection.execute(query)}


async def read_kept_sums(tables: Database) -> dict[str, int]:
    async with tables.read_transaction() as connection:
        rows = await connection.execute(select(owner_usage.c.owner, owner_usage.c.log_bytes))
        return {owner: total for owner, total in rows if total}


async def upload(store: SqlStore, tables: Database, owner: str) -> None:
    """Stores a file, an upload with one part, and a blob that no file has yet."""
    quota = FileQuota(files=10, size=1000)
    for blob_id in ("file-1", "file-unfinished"):
        await store.files.reserve_blob(owner, blob_id, hold_s=60)
    file = StoredFile(id="file-1", size=5, created_at=1, filename="a", purpose="user_data")
    await store.files.create_file(owner, file, quota)
    keys = {"owner": owner, "created_us": 1, "bytes": 5}
    fields = {"part_bytes": 0, "part_count": 1, "filename": "a", "purpose": "vision", "status": "pending"}
    async with tables.write_transaction() as connection:
        await connection.execute(insert(uploads).values(id="upload_1", expires_us=1, **keys, **fields))
        await connection.execute(insert(upload_parts).values(id="part_1", upload_id="upload_1", **keys | {"bytes": 0}))


async def attach(store: SqlStore, owner: str) -> None:
    """Stores two vector stores: one with a chunk and a batch, and one whose indexing is repeated."""
    stores, queue = store.vector_stores, store.indexing
    await stores.create_store(owner, NewVectorStore(f"vs_1_{owner}"), most=9)
    await stores.attach_files(owner, f"vs_1_{owner}", [NewEntry("file-1")], most=9, batch_id="vsfb_1")
    [claim] = await queue.claim_entries(9, lease_s=60)
    await queue.add_chunks(claim, [NewChunk("text", "atext", 0)])
    await queue.complete_entry(claim)
    await stores.create_store(owner, NewVectorStore(f"vs_2_{owner}", entries=[NewEntry("file-1")]), most=9)
    [claim] = await queue.claim_entries(9, lease_s=60)
    await queue.add_chunks(claim, [NewChunk("text", "atext", 0)])
    await queue.fail_entry(claim, ("server_error", "no"))


async def store_everything(store: SqlStore, tables: Database, owner: str) -> None:
    """Stores rows of one owner in every table that has owners."""
    for number in range(60):
        await store_response(store, f"r{number}", f"r{number - 1}" if number else None, owner)
    await begin(store, "running", owner, logged=True, job_request={})
    call = CallRecord({"id": "mcp_1"}, 0, "started")
    await store.call_journal.record_calls(owner, "running", [call], worker=WORKER, progress=None)
    await converse(store, "conv_1", owner)
    await complete(store, "c1", owner)
    await store.approvals.store_approvals(owner, [build_approval("mcpr_1")])
    await begin(store, "keyed", owner, keyed=KeyedRequest(key="k", digest="d"))
    await upload(store, tables, owner)
    await attach(store, owner)
    await store.prompts.create_prompt(owner, "pmpt_1", {"instructions": "x", "variables": []}, PromptQuota(9, 9))


async def test_erase_deletes_everything_of_one_owner_and_nothing_else(store, tables):
    for owner in (OWNER, OTHER):
        await store_everything(store, tables, owner)
    assert await store.owner_data.erase_owner(OWNER) == 68
    for table in metadata.sorted_tables:
        if "owner" in table.c:
            # Bytes are removed after the rows: of its file, of its part, and of what had no row.
            assert await count(tables, table) == (3 if table is unused_blobs else 0), table.name
            assert await count(tables, table, OTHER) > 0, table.name
    assert (OWNER, "running") not in await store.jobs.list_leased_responses(WORKER)
    assert await store.owner_data.erase_owner(OWNER) == 0


EXPORTED = {
    "approvals": "approval",
    "completions": "chat.completion",
    "conversations": "conversation",
    "files": "file",
    "idempotency_keys": "idempotency_key",
    "prompts": "prompt",
    "responses": "response",
    "vector_stores": "vector_store",
}
"""Table -> the object by which it is exported."""
UNEXPORTED = {
    "completion_metadata": "copies of the metadata of completions",
    "conversation_items": "in their conversations",
    "events": "frames of the responses",
    "file_usage": "a sum",
    "items": "in their responses",
    "jobs": "who runs a response",
    "owner_usage": "a sum",
    "prompt_versions": "each is an object of the prompt",
    "tool_calls": "the results of running responses",
    "unused_blobs": "bytes that no file has",
    "upload_parts": "bytes of unfinished uploads",
    "uploads": "an upload that is not finished",
    "vector_batch_files": "names of files in their stores",
    "vector_chunks": "slices of the files",
    "vector_removals": "what is being deleted",
    "vector_store_batches": "names of files in their stores",
    "vector_store_files": "in their stores",
    "vector_store_usage": "a sum",
}
"""Table -> why it has no object of its own in an export."""


async def test_each_table_with_owners_is_exported_or_says_why_not(store, tables):
    await store_everything(store, tables, OWNER)
    kinds = {row["object"] async for row in store.owner_data.export_owner(OWNER)}
    assert kinds == set(EXPORTED.values())
    assert {table.name for table in metadata.sorted_tables if "owner" in table.c} == EXPORTED.keys() | UNEXPORTED.keys()


async def test_export_has_everything_of_one_owner(store):
    for number in range(70):
        await store_response(store, f"r{number:02}")
    await store_response(store, "child", "r00")
    await store.responses.delete_response(OWNER, "r00")
    await converse(store, "conv_1")
    await complete(store, "c1")
    await store.approvals.store_approvals(OWNER, [build_approval("mcpr_1")])
    await store_response(store, "foreign", owner=OTHER)
    exported = [row async for row in store.owner_data.export_owner(OWNER)]
    approval = exported.pop()
    assert (approval["object"], approval["id"], approval["state"]) == ("approval", "mcpr_1", "open")
    assert len(exported) == 73
    gone, first = exported[:2]
    assert (gone["id"], gone["deleted"], gone["input"]) == ("r00", True, [message("in_r00")])
    assert first == begun("r01", "completed") | {"output": [message("out_r01")], "input": [message("in_r01")]}
    assert exported[-2]["items"] == [message("in_conv_1")]
    assert exported[-1]["messages"] == [{"id": "0", "role": "user", "content": "hi"}]
    assert {row["object"] for row in exported} == {"response", "conversation", "chat.completion"}
    assert (await store.responses.list_responses(OWNER, PageRequest(limit=1))).rows[0]["id"] == "child"


async def append(store: SqlStore, response_id: str, number: int, owner: str = OWNER, size: int = 100) -> None:
    entry = LogEntry(number, number, b"x" * size)
    await store.event_log.append_log_entry(owner, response_id, entry, worker=WORKER)


async def test_bytes_of_logs_are_counted_however_they_are_written_and_deleted(store, tables):
    retention = SqlRetention(tables, FileDeleter(), events_hours=1, idempotency_hours=1)
    assert await store.owner_data.measure_owner(OWNER) == (0, 0)
    for owner in (OWNER, OTHER):
        for response_id in ("finished", "cancelled", "deleted", "expired"):
            await begin(store, response_id, owner, logged=True, job_request={})
            await asyncio.gather(*(append(store, response_id, number, owner) for number in (1, 2, 3)))
            await append(store, response_id, 3, owner)  # again: it changes nothing
    expected = await sum_logs(tables)
    assert expected[OWNER] == expected[OTHER] > 4 * 300
    assert await read_kept_sums(tables) == expected
    assert (await store.owner_data.measure_owner(OWNER)) == (4, expected[OWNER])
    ended = begun("finished", "completed")
    await store.responses.finish_response(OWNER, ended, worker=WORKER, last=LogEntry(4, 4, b"x" * 50))
    await store.responses.cancel_response(OWNER, "cancelled")
    await store.responses.delete_response(OWNER, "deleted")
    await finish(store, "expired")
    await age(tables, "expired", hours=2)
    await retention.delete_expired(before=0)
    assert await count(tables, events) == 5 + 5
    assert await read_kept_sums(tables) == await sum_logs(tables) != expected
    await retention.delete_expired(before=LATER)
    await store.owner_data.erase_owner(OTHER)
    assert await read_kept_sums(tables) == await sum_logs(tables) == {}
    assert await count(tables, owner_usage, OTHER) == 0


async def test_counts_stay_exact_while_replicas_write_and_delete_at_once(store, other, tables):
    choose = random.Random(7)

    async def use_log(number: int) -> None:
        replica, owner = (store, other)[number % 2], (OWNER, OTHER, "cid")[number % 3]
        response_id = f"r{number}"
        await begin(replica, response_id, owner, logged=True, job_request={})
        sizes = [choose.randrange(1, 5000) for _ in range(choose.randrange(1, 6))]
        appends = [append(replica, response_id, place, owner, size) for place, size in enumerate(sizes, 1)]
        await asyncio.gather(*appends)
        match number % 4:
            case 0:
                await finish(replica, response_id, owner)
            case 1:
                await replica.responses.delete_response(owner, response_id)
            case 2:
                await replica.responses.cancel_response(owner, response_id)

    await asyncio.gather(*map(use_log, range(60)))
    expected = await sum_logs(tables)
    assert len(expected) == 3
    assert await read_kept_sums(tables) == expected


async def test_a_new_job_does_not_read_the_event_log(store):
    await begin(store, "r", logged=True, job_request={})
    await asyncio.gather(*(append(store, "r", number) for number in range(1, 5001)))
    with queries_that_contain("events") as reads:
        usage = await store.owner_data.measure_owner(OWNER)
    assert usage.log_bytes > 500_000
    assert reads == []
