"""Conversations have their items in order, also with concurrent writers."""

import asyncio
from contextlib import AsyncExitStack

import pytest

from gateway.config.settings import BackgroundSettings, StoreSettings
from gateway.errors import RunInProgress
from gateway.state.database.database import Database
from gateway.state.sql.conversations import SqlConversationStore, claim_thread
from gateway.state.sql.history import HistoryLimits, SqlHistoryReader
from gateway.state.sql.store import SqlStore
from gateway.state.values import NewResponse, PageRequest, ThreadTurn, UnknownCursor
from tests.polling import read_until
from tests.state.conftest import DEADLINE_S
from tests.state.processes.database_observer import count_waiting
from translation.representation.json_types import Item, Json

OWNER = "ann"


@pytest.fixture
def conversation_store(database: Database) -> SqlConversationStore:
    return SqlConversationStore(database)


@pytest.fixture
def history(database: Database) -> SqlHistoryReader:
    return SqlHistoryReader(database, HistoryLimits())


def conversation(conversation_id: str = "conv_1") -> Json:
    return {"id": conversation_id, "object": "conversation", "created_at": 5, "metadata": {"z": "1", "a": "2"}}


def items(*ids: str) -> list[Item]:
    return [{"type": "message", "id": item_id, "role": "user", "content": []} for item_id in ids]


async def ids(
    conversation_store: SqlConversationStore, page: PageRequest, conversation_id: str = "conv_1"
) -> tuple[list[str], bool]:
    found = await conversation_store.list_conversation_items(OWNER, conversation_id, page)
    assert found is not None
    return [row["id"] for row in found.rows], found.has_more


async def test_a_conversation_is_returned_unchanged(conversation_store):
    await conversation_store.create_conversation(OWNER, conversation(), [])
    found = await conversation_store.load_conversation(OWNER, "conv_1")
    assert found == conversation()
    assert list(found["metadata"]) == ["z", "a"]


async def test_items_are_paged_both_ways(conversation_store):
    await conversation_store.create_conversation(OWNER, conversation(), items("a", "b", "c"))
    assert await conversation_store.add_conversation_items(OWNER, "conv_1", items("d", "e"))
    assert await ids(conversation_store, PageRequest(limit=2, order="asc")) == (["a", "b"], True)
    assert await ids(conversation_store, PageRequest("b", 2, "asc")) == (["c", "d"], True)
    assert await ids(conversation_store, PageRequest("d", 2, "asc")) == (["e"], False)
    assert await ids(conversation_store, PageRequest(limit=3)) == (["e", "d", "c"], True)
    assert await ids(conversation_store, PageRequest("c", 2, "desc")) == (["b", "a"], False)
    assert await ids(conversation_store, PageRequest("a")) == ([], False)


@pytest.mark.parametrize("cursor", ["nothing", "", "a\0", "x" * 300])
async def test_a_cursor_that_is_no_item_of_it_is_unknown(conversation_store, cursor):
    await conversation_store.create_conversation(OWNER, conversation(), items("a"))
    await conversation_store.create_conversation(OWNER, conversation("conv_2"), items("nothing"))
    with pytest.raises(UnknownCursor):
        await conversation_store.list_conversation_items(OWNER, "conv_1", PageRequest(cursor))


async def test_deleted_items_are_gone_and_the_others_keep_their_order(conversation_store, history):
    await conversation_store.create_conversation(OWNER, conversation(), items("a", "b", "c"))
    assert await conversation_store.delete_conversation_item(OWNER, "conv_1", "b")
    assert not await conversation_store.delete_conversation_item(OWNER, "conv_1", "b")
    await conversation_store.add_conversation_items(OWNER, "conv_1", items("d"))
    assert [item["id"] for item in await history.load_conversation_history(OWNER, "conv_1")] == ["a", "c", "d"]
    assert await conversation_store.load_conversation_item(OWNER, "conv_1", "b") is None
    assert await conversation_store.load_conversation_item(OWNER, "conv_1", "c") == items("c")[0]


async def test_history_distinguishes_an_empty_conversation_from_an_unknown_one(conversation_store, history):
    await conversation_store.create_conversation(OWNER, conversation(), [])
    assert await history.load_conversation_history(OWNER, "conv_1") == []
    assert await history.load_conversation_history(OWNER, "conv_2") is None


async def test_metadata_is_replaced(conversation_store):
    await conversation_store.create_conversation(OWNER, conversation(), [])
    after = await conversation_store.update_conversation(OWNER, "conv_1", {"only": "this"})
    assert (
        after
        == await conversation_store.load_conversation(OWNER, "conv_1")
        == conversation() | {"metadata": {"only": "this"}}
    )
    assert await conversation_store.update_conversation(OWNER, "conv_2", {}) is None


async def test_a_thread_keeps_its_run_when_its_metadata_is_replaced(store, tables):
    """Without it a second run could begin beside the first."""
    thread = {"id": "conv_1", "object": "conversation", "created_at": 1, "metadata": {"agui_thread": "t", "a": "b"}}
    async with tables.write_transaction(OWNER) as connection:
        first = ThreadTurn(conversation=thread, previous_run=None, state={"count": 1})
        await claim_thread(connection, OWNER, first, "resp_1")
    after = await store.conversations.update_conversation(OWNER, "conv_1", {"only": "this", "agui_run": "resp_9"})
    assert after == thread | {
        "metadata": {"only": "this", "agui_thread": "t", "agui_run": "resp_1"},
        "agui_state": {"count": 1},
    }
    assert await store.conversations.load_conversation(OWNER, "conv_1") == after
    async with tables.write_transaction(OWNER) as connection:
        with pytest.raises(RunInProgress):
            await claim_thread(connection, OWNER, ThreadTurn(conversation=thread, previous_run=None), "resp_2")


@pytest.mark.parametrize("store_url", ["postgresql"], indirect=True)
async def test_metadata_and_a_run_that_begins_meanwhile_are_both_kept(store, tables, store_url):
    thread = {"id": "conv_1", "object": "conversation", "created_at": 1, "metadata": {}}
    await store.conversations.create_conversation(OWNER, thread, [])
    async with tables.write_transaction(OWNER) as connection:
        await claim_thread(connection, OWNER, ThreadTurn(conversation=thread, previous_run=None, state=7), "resp_1")
        updating = asyncio.create_task(store.conversations.update_conversation(OWNER, "conv_1", {"a": "b"}))
        await read_until(lambda: count_waiting(store_url, "Lock"), bool)
    after = await updating
    assert after == thread | {"metadata": {"a": "b", "agui_run": "resp_1"}, "agui_state": 7}


async def test_an_id_in_a_conversation_is_not_used_twice(conversation_store):
    await conversation_store.create_conversation(OWNER, conversation(), items("msg_a"))
    await conversation_store.add_conversation_items(OWNER, "conv_1", items("msg_a", "msg_b", "msg_b"))
    found, _ = await ids(conversation_store, PageRequest(order="asc"))
    assert len(set(found)) == 4
    assert found[0] == "msg_a"
    assert all(item_id.startswith("msg_") for item_id in found)
    assert (await conversation_store.load_conversation_item(OWNER, "conv_1", found[1]))["id"] == found[1]


async def test_turns_that_end_at_once_are_neither_lost_nor_mixed(conversation_store):
    await conversation_store.create_conversation(OWNER, conversation(), [])
    turns = [[f"t{turn}_{place}" for place in range(4)] for turn in range(20)]
    async with asyncio.TaskGroup() as group:
        for turn in turns:
            group.create_task(conversation_store.add_conversation_items(OWNER, "conv_1", items(*turn)))
    found, _ = await ids(conversation_store, PageRequest(limit=100, order="asc"))
    assert sorted(found[place : place + 4] for place in range(0, len(found), 4)) == sorted(turns)


async def test_responses_that_end_at_once_in_two_replicas_keep_their_turns_whole(store_url, conversation_store):
    await conversation_store.create_conversation(OWNER, conversation(), [])
    names = [f"t{number}" for number in range(12)]
    async with AsyncExitStack() as opened:
        replicas = []
        for _ in range(2):
            replica = SqlStore(StoreSettings(url=store_url, deadline_s=DEADLINE_S), BackgroundSettings())
            await replica.open()
            opened.push_async_callback(replica.aclose)
            replicas.append(replica)
        for place, name in enumerate(names):
            begun: Json = {"id": name, "status": "in_progress", "output": [], "usage": None}
            said = items(f"{name}_asked", f"{name}_also")
            new = NewResponse(
                owner=OWNER, response=begun, input_items=said, conversation_id="conv_1", worker=f"w{place % 2}"
            )
            await replicas[place % 2].responses.create_response(new)
        async with asyncio.TaskGroup() as group:
            for place, name in enumerate(names):
                ended = {"id": name, "status": "completed", "output": items(f"{name}_said"), "usage": None}
                group.create_task(replicas[place % 2].responses.finish_response(OWNER, ended, worker=f"w{place % 2}"))
    found, _ = await ids(conversation_store, PageRequest(limit=100, order="asc"))
    turns = [found[place : place + 3] for place in range(0, len(found), 3)]
    assert sorted(turns) == sorted([f"{name}_asked", f"{name}_also", f"{name}_said"] for name in names)


async def test_a_deleted_conversation_is_unknown_and_accepts_nothing(conversation_store):
    await conversation_store.create_conversation(OWNER, conversation(), items("a"))
    assert await conversation_store.delete_conversation(OWNER, "conv_1")
    assert not await conversation_store.delete_conversation(OWNER, "conv_1")
    assert not await conversation_store.add_conversation_items(OWNER, "conv_1", items("b"))
    assert await conversation_store.load_conversation(OWNER, "conv_1") is None
    assert await conversation_store.list_conversation_items(OWNER, "conv_1", PageRequest()) is None
    await conversation_store.create_conversation(OWNER, conversation(), [])
    assert await ids(conversation_store, PageRequest()) == ([], False)


@pytest.mark.parametrize(("owner", "conversation_id"), [("bob", "conv_1"), (OWNER, "conv_2"), (OWNER, "conv_1\0")])
async def test_foreign_unknown_and_impossible_ids_are_indistinguishable(
    conversation_store, history, owner, conversation_id
):
    await conversation_store.create_conversation(OWNER, conversation(), items("a"))
    assert await conversation_store.load_conversation(owner, conversation_id) is None
    assert await conversation_store.update_conversation(owner, conversation_id, {}) is None
    assert not await conversation_store.add_conversation_items(owner, conversation_id, items("b"))
    assert await conversation_store.list_conversation_items(owner, conversation_id, PageRequest()) is None
    assert await history.load_conversation_history(owner, conversation_id) is None
    assert await conversation_store.load_conversation_item(owner, conversation_id, "a") is None
    assert not await conversation_store.delete_conversation_item(owner, conversation_id, "a")
    assert not await conversation_store.delete_conversation(owner, conversation_id)
    assert await ids(conversation_store, PageRequest()) == (["a"], False)


async def test_text_that_no_column_can_hold_is_stored_all_the_same(conversation_store, history):
    said = [{"type": "message", "id": "a", "role": "user", "content": [{"type": "input_text", "text": "\0\x01😀"}]}]
    await conversation_store.create_conversation(OWNER, conversation(), said)
    assert await history.load_conversation_history(OWNER, "conv_1") == said
