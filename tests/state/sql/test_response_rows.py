"""Responses on both databases: atomicity, ownership and deletion."""

import asyncio
import random
from collections.abc import Coroutine
from typing import Any

import orjson
import pytest
from sqlalchemy import Table, event, func, select

from gateway.state.database.database import Database
from gateway.state.database.tables import events, items, jobs, responses
from gateway.state.sql.store import SqlStore
from gateway.state.values import LeaseLost, LogEntry, PageRequest, StoredHeaders
from tests.state.responses import WORKER, answered, completed, message_item, new, response, texts, turn
from tests.state.sql.response_rows import pages
from translation.errors import InvalidRequest
from translation.representation.json_types import Json


async def rows(database: Database, table: Table) -> int:
    async with database.read_transaction() as connection:
        return int(await connection.scalar(select(func.count()).select_from(table)) or 0)


async def history(store: SqlStore, leaf: Json) -> list[str]:
    found = await store.history.load_history("ann", leaf["id"])
    assert found is not None
    return texts(found.items)


async def test_json_is_returned_byte_for_byte(store: SqlStore) -> None:
    odd = {"z": 1, "a": [1.0, 1e-7, -0.0, 2**63, "\u0000\u2028\U0001f600"], "": {"b": None, "a": {}}}
    begun = response(metadata=odd)
    await store.responses.create_response(new(begun, message_item("a") | {"extra": odd}))
    ended = completed(begun, answered("b") | {"extra": odd})
    await store.responses.finish_response("ann", ended, worker=WORKER)
    found = await store.responses.load_response("ann", begun["id"])
    assert found is not None
    assert orjson.dumps(found.response) == orjson.dumps(ended)


LATER = StoredHeaders("n=dropped, input=truncated", "second")


@pytest.mark.parametrize("background", [False, True], ids=["plain", "job"])
@pytest.mark.parametrize(
    ("later", "kept"),
    [
        (None, StoredHeaders("n=dropped", "first")),
        (LATER, LATER),
        (StoredHeaders(None, "second"), StoredHeaders(None, "second")),
        (StoredHeaders(None, None), StoredHeaders(None, "first")),
    ],
    ids=["none", "others", "nothing was lost", "no upstream"],
)
async def test_headers_are_those_of_the_end_if_it_has_some(
    store: SqlStore, later: StoredHeaders | None, kept: StoredHeaders, background: bool
) -> None:
    begun = response(background=background)
    fields: dict[str, Any] = {"job_request": {"body": 1}} if background else {}
    first = StoredHeaders("n=dropped", "first")
    await store.responses.create_response(new(begun, message_item("a"), headers=first, **fields))
    await store.responses.finish_response("ann", completed(begun), worker=WORKER, headers=later)
    found = await store.responses.load_response("ann", begun["id"])
    assert found is not None
    assert found.headers == kept


async def test_headers_of_a_response_that_is_stored_as_a_whole_are_those_of_its_end(store: SqlStore) -> None:
    begun = response()
    beginning = new(begun, message_item("a"), headers=StoredHeaders("n=dropped", "first"))
    await store.responses.store_ended_response(beginning, completed(begun), headers=StoredHeaders(None, "second"))
    found = await store.responses.load_response("ann", begun["id"])
    assert found is not None
    assert found.headers == StoredHeaders(None, "second")


async def test_an_end_is_written_once_and_by_its_worker(store: SqlStore) -> None:
    begun = response()
    await store.responses.create_response(new(begun, message_item("a")))
    with pytest.raises(LeaseLost):
        await store.responses.finish_response("ann", completed(begun), worker="another")
    with pytest.raises(LeaseLost):
        await store.responses.finish_response("bob", completed(begun), worker=WORKER)
    await store.responses.finish_response("ann", completed(begun), worker=WORKER)
    with pytest.raises(LeaseLost):
        await store.responses.finish_response("ann", completed(begun, answered("again")), worker=WORKER)
    found = await store.responses.load_response("ann", begun["id"])
    assert found is not None
    assert found.response == completed(begun)


@pytest.mark.parametrize("gone", ["cancel", "delete"])
async def test_a_cancelled_or_deleted_response_is_lost_to_its_worker(store: SqlStore, gone: str) -> None:
    begun = response(background=True)
    await store.responses.create_response(new(begun, message_item("a"), job_request={"body": 1}, logged=True))
    await getattr(store.responses, f"{gone}_response")("ann", begun["id"])
    with pytest.raises(LeaseLost):
        await store.responses.finish_response("ann", completed(begun), worker=WORKER)
    with pytest.raises(LeaseLost):
        await store.event_log.append_log_entry("ann", begun["id"], LogEntry(1, 1, b"x"), worker=WORKER)
    assert await store.jobs.list_leased_responses(WORKER) == frozenset()
    await store.jobs.release_jobs(WORKER)
    assert not await store.jobs.claim_jobs("another", 10)


async def broken_off(work: Coroutine[Any, Any, None], steps: int) -> bool:
    """Cancels the work after some turns of the event loop. Returns whether it had not ended."""
    task = asyncio.create_task(work)
    for _ in range(steps):
        await asyncio.sleep(0)
    broken = not task.done()
    task.cancel()
    await asyncio.wait({task})
    return broken


async def test_an_end_is_stored_whole_or_not_at_all_wherever_it_is_interrupted(
    store: SqlStore, tables: Database
) -> None:
    await store.conversations.create_conversation("ann", {"id": "conv_1", "metadata": {}}, [])
    steps, whole = 1.0, 0
    while not whole:
        begun = response(background=True)
        await store.responses.create_response(
            new(begun, message_item("a"), conversation_id="conv_1", job_request={"body": 1}, logged=True)
        )
        before = len(await store.history.load_conversation_history("ann", "conv_1") or ())
        ended = completed(begun, answered("b"), answered("c"))
        steps = max(steps + 1, steps * 1.1)
        broken = await broken_off(
            store.responses.finish_response("ann", ended, worker=WORKER, last=LogEntry(1, 1, b"x")), int(steps)
        )
        found = await store.responses.load_response("ann", begun["id"])
        assert found is not None
        log = (await store.event_log.load_log_page("ann", begun["id"], after=0)).entries
        said_now = len(await store.history.load_conversation_history("ann", "conv_1") or ())
        state = (found.response, len(log), said_now - before)
        assert state in ((begun, 0, 0), (ended, 1, 3))
        whole += not broken
        await store.responses.delete_response("ann", begun["id"])
    assert await rows(tables, jobs) == 0


async def test_a_plain_end_is_stored_whole_or_not_at_all_wherever_it_is_interrupted(store: SqlStore) -> None:
    steps, whole = 1.0, 0
    while not whole:
        begun = response()
        await store.responses.create_response(new(begun, message_item("a")))
        ended = completed(begun, answered("b"), answered("c"))
        steps = max(steps + 1, steps * 1.1)
        broken = await broken_off(store.responses.finish_response("ann", ended, worker=WORKER), int(steps))
        found = await store.responses.load_response("ann", begun["id"])
        assert found is not None
        assert found.response in (begun, ended)
        whole += not broken


async def test_an_end_that_only_seems_plain_ends_everything(store: SqlStore, tables: Database) -> None:
    await store.conversations.create_conversation("ann", {"id": "conv_1", "metadata": {}}, [])
    for fields in ({"conversation_id": "conv_1"}, {"job_request": {"body": 1}}, {"logged": True}):
        begun = response(background="job_request" in fields)
        await store.responses.create_response(new(begun, message_item("a"), **fields))
        ended = completed(begun, answered("b"))
        del ended["background"]
        await store.responses.finish_response("ann", ended, worker=WORKER)
        found = await store.responses.load_response("ann", begun["id"])
        assert found is not None
        assert found.response == ended
    assert len(await store.history.load_conversation_history("ann", "conv_1") or ()) == 2
    assert await rows(tables, jobs) == 0


async def test_a_chain_of_a_thousand_is_one_query_without_overhead(store: SqlStore, tables: Database) -> None:
    parent = await turn(store, "a")
    for number in range(998):
        begun = response()
        await store.responses.create_response(new(begun, message_item(str(number)), parent_id=parent["id"]))
        parent = begun
    parent = await turn(store, "z", parent)
    requests: list[str] = []
    event.listen(
        store._database._engines["write"].sync_engine,
        "before_cursor_execute",
        lambda *arguments, **_: requests.append(arguments[2]),
    )
    assert await history(store, parent) == ["a", "A", *map(str, range(998)), "z", "Z"]
    assert len(requests) == 1
    assert await rows(tables, items) == 1002


async def test_a_chain_is_deleted_with_its_last_response_in_any_order(store: SqlStore, tables: Database) -> None:
    for order in (1, -1):
        chain: list[Json] = []
        for number in range(60):
            chain.append(await turn(store, f"{number}", chain[-1] if chain else None))
        for one in chain[::order]:
            assert await store.responses.delete_response("ann", one["id"])
            assert not await store.responses.delete_response("ann", one["id"])
        assert [await rows(tables, table) for table in (responses, items)] == [0, 0]


async def test_deletions_leave_every_remaining_history_whole(store: SqlStore, tables: Database) -> None:
    chance = random.Random(1)
    alive: list[Json] = []
    expected: dict[str, list[str]] = {}
    for number in range(40):
        parent = chance.choice([None, *alive]) if alive else None
        one = await turn(store, f"a{number}", parent)
        expected[one["id"]] = [*(expected[parent["id"]] if parent else ()), f"a{number}", f"A{number}"]
        alive.append(one)
        if chance.random() < 0.4:
            gone = alive.pop(chance.randrange(len(alive)))
            await store.responses.delete_response("ann", gone["id"])
    for one in alive:
        assert await history(store, one) == expected[one["id"]]
    chance.shuffle(alive)
    await asyncio.gather(*(store.responses.delete_response("ann", one["id"]) for one in alive))
    assert [await rows(tables, table) for table in (responses, items, events, jobs)] == [0, 0, 0, 0]


async def test_a_tombstone_has_no_content(store: SqlStore) -> None:
    one = await turn(store, "secret")
    await turn(store, "b", one)
    (item,) = one["output"]
    await store.responses.delete_response("ann", one["id"])
    assert await store.responses.load_response("ann", one["id"]) is None
    assert await store.history.load_history("ann", one["id"]) is None
    assert await store.responses.list_input_items("ann", one["id"], PageRequest()) is None
    assert await store.responses.cancel_response("ann", one["id"]) is None
    assert await store.history.load_items("ann", [item["id"]]) == {}
    assert one["id"] not in await pages(store)
    with pytest.raises(InvalidRequest) as refused:
        await turn(store, "c", one)
    assert (refused.value.code, refused.value.param) == ("previous_response_not_found", "previous_response_id")


async def test_a_parent_deleted_while_a_child_begins_is_refused_or_preserved(store: SqlStore) -> None:
    for _ in range(15):
        parent = await turn(store, "a")
        child = response()
        begun, deleted = await asyncio.gather(
            store.responses.create_response(new(child, message_item("b"), parent_id=parent["id"])),
            store.responses.delete_response("ann", parent["id"]),
            return_exceptions=True,
        )
        assert deleted is True
        if isinstance(begun, InvalidRequest):
            assert await store.responses.load_response("ann", child["id"]) is None
        else:
            assert begun is None
            assert await history(store, child) == ["a", "A", "b"]


@pytest.mark.parametrize("why", ["running", "another worker", "another owner", "ended"])
async def test_the_beginning_is_replaced_only_by_the_worker_of_a_running_response(why: str, store: SqlStore) -> None:
    begun = response()
    await store.responses.create_response(new(begun, message_item("a")))
    if why == "ended":
        await store.responses.finish_response("ann", completed(begun, answered("b")), worker=WORKER)
    owner, worker = ("bob" if why == "another owner" else "ann"), ("w2" if why == "another worker" else WORKER)
    replacing = store.responses.replace_beginning(
        owner, begun | {"temperature": 0.5}, worker=worker, headers=StoredHeaders("n=dropped", "second")
    )
    if why == "running":
        await replacing
    else:
        with pytest.raises(LeaseLost):
            await replacing
    stored = await store.responses.load_response("ann", begun["id"])
    assert stored is not None
    found = stored.response.get("temperature"), stored.headers.upstream
    assert found == ((0.5, "second") if why == "running" else (None, None))
