"""The journal of tool calls: written before a call is sent, fenced, and settled with its response."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from gateway.state.call_records import CallRecord
from gateway.state.sql.store import SqlStore
from gateway.state.values import LeaseLost, PageRequest
from tests.state.responses import WORKER, completed, message_item, new, response
from translation.representation.json_types import Item, Json

OTHER = "worker-2"


def call_item(item_id: str, **more: Any) -> Item:
    return {"id": item_id, "type": "mcp_call", "status": "in_progress", "name": "add", "output": None, **more}


def records() -> list[CallRecord]:
    return [
        CallRecord(call_item("mcp_2"), 2, "intended", is_repeatable=True),
        CallRecord(call_item("mcp_1"), 1, "started"),
    ]


async def begun(store: SqlStore, *, is_job: bool = True) -> Json:
    head = response(background=is_job)
    await store.responses.create_response(
        new(head, message_item("hello"), job_request={"a": 1} if is_job else None, logged=is_job)
    )
    return head


async def states(store: SqlStore, head: Json) -> list[str]:
    return [call.state for call in await store.call_journal.load_calls("ann", head["id"])]


async def test_calls_are_read_as_they_were_written_in_the_order_of_the_output(store: SqlStore) -> None:
    head = await begun(store)
    first, second = records()
    await store.call_journal.record_calls("ann", head["id"], [first, second], worker=WORKER, progress={"round": 1})
    assert await store.call_journal.load_calls("ann", head["id"]) == [second, first]
    assert await store.call_journal.load_calls("bob", head["id"]) == []
    done, media = call_item("mcp_1", status="completed", output="3"), [{"type": "input_image"}]
    await store.call_journal.finish_call("ann", head["id"], done, worker=WORKER, media=media)
    await store.call_journal.start_call("ann", head["id"], "mcp_2", worker=WORKER)
    finished, started = await store.call_journal.load_calls("ann", head["id"])
    assert finished == CallRecord(done, 1, "finished", media=media)
    assert started == first._replace(state="started")


async def test_a_write_that_is_repeated_changes_nothing(store: SqlStore) -> None:
    head = await begun(store)
    for _ in range(2):
        await store.call_journal.record_calls("ann", head["id"], records(), worker=WORKER, progress=None)
    for _ in range(2):
        await store.call_journal.start_call("ann", head["id"], "mcp_2", worker=WORKER)
    for _ in range(2):
        await store.call_journal.finish_call("ann", head["id"], call_item("mcp_2", output="x"), worker=WORKER)
    assert await states(store, head) == ["started", "finished"]


WRITES: dict[str, Callable[[SqlStore, str, str], Awaitable[None]]] = {
    "record": lambda store, key, worker: store.call_journal.record_calls(
        "ann", key, records(), worker=worker, progress={}
    ),
    "start": lambda store, key, worker: store.call_journal.start_call("ann", key, "mcp_2", worker=worker),
    "finish": lambda store, key, worker: store.call_journal.finish_call("ann", key, call_item("mcp_1"), worker=worker),
}


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
async def test_only_the_lease_holder_of_a_response_writes(
    write: Callable[[SqlStore, str, str], Awaitable[None]], store: SqlStore
) -> None:
    head = await begun(store)
    await store.call_journal.record_calls("ann", head["id"], records(), worker=WORKER, progress=None)
    with pytest.raises(LeaseLost):
        await write(store, head["id"], OTHER)
    assert await states(store, head) == ["started", "intended"]
    await store.responses.finish_response("ann", completed(head), worker=WORKER, has_calls=True)
    with pytest.raises(LeaseLost):
        await write(store, head["id"], WORKER)


async def test_a_call_that_is_finished_is_not_started_and_one_that_is_not_recorded_neither(store: SqlStore) -> None:
    head = await begun(store)
    await store.call_journal.record_calls("ann", head["id"], records(), worker=WORKER, progress=None)
    await store.call_journal.finish_call("ann", head["id"], call_item("mcp_1"), worker=WORKER)
    for item_id in ("mcp_1", "mcp_9"):
        with pytest.raises(LeaseLost):
            await store.call_journal.start_call("ann", head["id"], item_id, worker=WORKER)


async def test_a_job_is_claimed_with_its_progress(store: SqlStore) -> None:
    head = await begun(store)
    await store.call_journal.record_calls("ann", head["id"], [], worker=WORKER, progress={"round": 2})
    await store.jobs.release_jobs(WORKER)
    (job,) = await store.jobs.claim_jobs(OTHER, 1)
    assert job.progress == {"round": 2}


async def test_calls_without_a_result_are_unknown_at_the_end_and_the_items_are_in_the_output_only(
    store: SqlStore,
) -> None:
    head = await begun(store)
    await store.call_journal.record_calls("ann", head["id"], records(), worker=WORKER, progress=None)
    await store.responses.finish_response("ann", completed(head), worker=WORKER, has_calls=True)
    unknown, intended = await store.call_journal.load_calls("ann", head["id"])
    assert (unknown, intended.state) == (CallRecord({"id": "mcp_1"}, 1, "unknown"), "intended")


async def test_a_cancelled_response_settles_its_calls(store: SqlStore) -> None:
    head = await begun(store)
    await store.call_journal.record_calls("ann", head["id"], records(), worker=WORKER, progress=None)
    await store.responses.cancel_response("ann", head["id"])
    assert await states(store, head) == ["unknown", "intended"]


@pytest.mark.parametrize("is_failed_first", [False, True], ids=["read at once", "failed first"])
async def test_a_foreground_response_whose_server_died_has_its_calls(is_failed_first: bool, store: SqlStore) -> None:
    head = await begun(store, is_job=False)
    await store.call_journal.record_calls("ann", head["id"], records(), worker=WORKER, progress=None)
    done = call_item("mcp_1", status="completed", output="3")
    await store.call_journal.finish_call("ann", head["id"], done, worker=WORKER)
    await store.jobs.renew_lease(OTHER)
    await store.jobs.release_jobs(WORKER)  # it has lost its lease
    if is_failed_first:
        assert await store.jobs.fail_orphaned_responses() == 1
    stored = await store.responses.load_response("ann", head["id"])
    assert stored is not None
    assert (stored.response["status"], stored.response["error"]["code"]) == ("failed", "interrupted")
    assert stored.response["output"] == [done, call_item("mcp_2", status="incomplete")]


async def test_the_journal_is_deleted_with_its_response(store: SqlStore) -> None:
    for erases in (False, True):
        head = await begun(store)
        await store.call_journal.record_calls("ann", head["id"], records(), worker=WORKER, progress=None)
        await (store.owner_data.erase_owner("ann") if erases else store.responses.delete_response("ann", head["id"]))
        assert await store.call_journal.load_calls("ann", head["id"]) == []
        assert list((await store.responses.list_responses("ann", PageRequest())).rows) == []
