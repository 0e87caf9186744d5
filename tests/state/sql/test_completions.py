"""Stored chat completions are listed, filtered and changed."""

import pytest

from gateway.state.database.database import Database
from gateway.state.sql.completions import SqlCompletionStore
from gateway.state.values import PageRequest, StoredCompletion, StoredHeaders, UnknownCursor
from translation.representation.json_types import Json

OWNER = "ann"
MESSAGES = [{"id": f"m-{place}", "role": "user", "content": f"hello \0 {place}"} for place in range(3)]


@pytest.fixture
def completion_store(database: Database) -> SqlCompletionStore:
    return SqlCompletionStore(database)


def completion(completion_id: str, model: str = "small", **metadata: str) -> Json:
    return {"id": completion_id, "object": "chat.completion", "model": model, "choices": [], "metadata": metadata}


async def ids(completion_store: SqlCompletionStore, page: PageRequest, **which) -> tuple[list[str], bool]:
    found = await completion_store.list_completions(OWNER, page, **which)
    return [row["id"] for row in found.rows], found.has_more


async def fill(completion_store: SqlCompletionStore) -> None:
    await completion_store.store_completion(OWNER, completion("c", topic="a", user="1"), MESSAGES)
    await completion_store.store_completion(OWNER, completion("b", topic="b", user="1"), MESSAGES)
    await completion_store.store_completion(OWNER, completion("a", "large", topic="a"), MESSAGES)
    await completion_store.store_completion("bob", completion("z", topic="a"), MESSAGES)


async def test_lists_are_ordered_by_time_and_paged(completion_store):
    await fill(completion_store)
    assert await ids(completion_store, PageRequest(limit=2, order="asc")) == (["c", "b"], True)
    assert await ids(completion_store, PageRequest("b", 2, "asc")) == (["a"], False)
    assert await ids(completion_store, PageRequest("b", 2, "desc")) == (["c"], False)
    assert await ids(completion_store, PageRequest(limit=3)) == (["a", "b", "c"], False)


async def test_lists_are_filtered_by_model_and_all_metadata(completion_store):
    await fill(completion_store)
    page = PageRequest(order="asc")
    assert await ids(completion_store, page, model="small") == (["c", "b"], False)
    assert await ids(completion_store, page, metadata={"topic": "a"}) == (["c", "a"], False)
    assert await ids(completion_store, page, metadata={"topic": "a", "user": "1"}) == (["c"], False)
    assert await ids(completion_store, page, model="large", metadata={"user": "1"}) == ([], False)
    assert await ids(completion_store, page, model="sm\0all", metadata={"\0": "\0"}) == ([], False)
    assert await ids(completion_store, PageRequest("c", 1, "asc"), metadata={"topic": "a"}) == (["a"], False)


@pytest.mark.parametrize("cursor", ["nothing", "", "c\0", "z"])
async def test_a_cursor_that_is_not_the_owners_is_unknown(completion_store, cursor):
    await fill(completion_store)
    with pytest.raises(UnknownCursor):
        await completion_store.list_completions(OWNER, PageRequest(cursor))


async def test_completions_are_found_by_new_metadata(completion_store):
    await fill(completion_store)
    after = await completion_store.update_completion(OWNER, "c", {"topic": "new"})
    assert (
        after
        == await completion_store.load_completion(OWNER, "c")
        == StoredCompletion(completion=completion("c", topic="new"))
    )
    assert await ids(completion_store, PageRequest(), metadata={"topic": "new"}) == (["c"], False)
    assert await ids(completion_store, PageRequest(), metadata={"user": "1"}) == (["b"], False)
    assert (await completion_store.update_completion(OWNER, "c", None)).completion["metadata"] is None
    assert await ids(completion_store, PageRequest(), metadata={"topic": "new"}) == ([], False)


async def test_long_metadata_is_found(completion_store):
    long = {"🎈" * 64: "\0" * 512}
    await completion_store.store_completion(OWNER, completion("c") | {"metadata": long}, [])
    assert await ids(completion_store, PageRequest(), metadata=long) == (["c"], False)


async def test_messages_are_paged_both_ways(completion_store):
    await fill(completion_store)
    first = await completion_store.list_completion_messages(OWNER, "c", PageRequest(limit=2, order="asc"))
    assert (first.rows, first.has_more) == (MESSAGES[:2], True)
    last = await completion_store.list_completion_messages(OWNER, "c", PageRequest("m-1", 2, "asc"))
    assert (last.rows, last.has_more) == (MESSAGES[2:], False)
    backwards = await completion_store.list_completion_messages(OWNER, "c", PageRequest("m-2", 1, "desc"))
    assert (backwards.rows, backwards.has_more) == ([MESSAGES[1]], True)
    with pytest.raises(UnknownCursor):
        await completion_store.list_completion_messages(OWNER, "c", PageRequest("m-9"))


@pytest.mark.parametrize(("owner", "completion_id"), [("bob", "c"), (OWNER, "z"), (OWNER, "c\0"), (OWNER, "")])
async def test_foreign_unknown_and_impossible_ids_are_indistinguishable(completion_store, owner, completion_id):
    await fill(completion_store)
    assert await completion_store.load_completion(owner, completion_id) is None
    assert await completion_store.update_completion(owner, completion_id, {}) is None
    assert await completion_store.list_completion_messages(owner, completion_id, PageRequest()) is None
    assert not await completion_store.delete_completion(owner, completion_id)
    assert (await completion_store.load_completion(OWNER, "c")).completion == completion("c", topic="a", user="1")


async def test_deleted_completions_are_unknown(completion_store):
    await fill(completion_store)
    assert await completion_store.delete_completion(OWNER, "c")
    assert not await completion_store.delete_completion(OWNER, "c")
    assert await completion_store.load_completion(OWNER, "c") is None
    assert await ids(completion_store, PageRequest(), metadata={"topic": "a"}) == (["a"], False)


async def test_headers_are_stored_with_a_completion_and_outlive_changes(completion_store):
    headers = StoredHeaders("store=dropped", "second")
    await completion_store.store_completion(OWNER, completion("c"), [], headers)
    stored = StoredCompletion(completion=completion("c"), headers=headers)
    assert await completion_store.load_completion(OWNER, "c") == stored
    changed = StoredCompletion(completion=completion("c", topic="new"), headers=headers)
    assert await completion_store.update_completion(OWNER, "c", {"topic": "new"}) == changed
    assert await completion_store.load_completion(OWNER, "c") == changed
