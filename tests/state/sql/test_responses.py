from gateway.state.sql.store import SqlStore
from gateway.state.values import PageRequest
from tests.state.responses import WORKER, answered, completed, message_item, new, response, texts, turn


async def test_a_response_reads_as_it_was_written(store: SqlStore) -> None:
    begun = response()
    await store.responses.create_response(new(begun, message_item("hello")))
    ended = completed(begun, answered("hi"), answered("there"))
    await store.responses.finish_response("ann", ended, worker=WORKER)
    found = await store.responses.load_response("ann", begun["id"])
    assert found is not None
    assert list(found.response.items()) == list(ended.items())
    page = await store.responses.list_input_items("ann", begun["id"], PageRequest())
    assert page is not None
    assert texts(page.rows) == ["hello"]


async def test_history_has_all_items_of_the_chain(store: SqlStore) -> None:
    one = await turn(store, "a")
    two = await turn(store, "b", one)
    other = await turn(store, "x", one)
    for leaf, expected in ((two, ["a", "A", "b", "B"]), (other, ["a", "A", "x", "X"])):
        history = await store.history.load_history("ann", leaf["id"])
        assert history is not None
        assert texts(history.items) == expected
        assert history.usage == leaf["usage"]


async def test_a_deleted_parent_is_preserved_until_its_child_is_deleted(store: SqlStore) -> None:
    one = await turn(store, "a")
    two = await turn(store, "b", one)
    assert await store.responses.delete_response("ann", one["id"])
    assert await store.responses.load_response("ann", one["id"]) is None
    history = await store.history.load_history("ann", two["id"])
    assert history is not None
    assert texts(history.items) == ["a", "A", "b", "B"]
    assert await store.responses.delete_response("ann", two["id"])


async def test_cancel(store: SqlStore) -> None:
    begun = response(status="queued", background=True)
    await store.responses.create_response(
        new(begun, message_item("hello"), worker=None, job_request={"x": 1}, logged=True)
    )
    found = await store.responses.cancel_response("ann", begun["id"])
    assert found is not None
    assert found.response == begun | {"status": "cancelled"}
    assert await store.jobs.fail_orphaned_responses() == 0


async def test_recover(store: SqlStore) -> None:
    begun = response()
    await store.responses.create_response(new(begun, message_item("hello"), worker="dead"))
    await store.jobs.release_jobs("dead")
    found = await store.responses.load_response("ann", begun["id"])
    assert found is not None
    assert found.response["status"] == "failed"
    assert (await store.responses.list_responses("ann", PageRequest())).rows == [found.response]
    assert await store.jobs.fail_orphaned_responses() == 1
    assert await store.responses.load_response("ann", begun["id"]) == found
    assert set(await store.history.load_items("ann", ["msg_0", "\0"])) <= {"msg_0"}
