from gateway.state.sql.store import SqlStore
from gateway.state.store import PageRequest
from tests.state.responses import WORKER, answered, completed, new, response, said, texts, turn


async def test_a_response_reads_as_it_was_written(store: SqlStore) -> None:
    begun = response()
    await store.begin(new(begun, said("hello")))
    ended = completed(begun, answered("hi"), answered("there"))
    await store.finish("ann", ended, worker=WORKER)
    found = await store.response("ann", begun["id"])
    assert found is not None
    assert list(found.response.items()) == list(ended.items())
    page = await store.input_items("ann", begun["id"], PageRequest())
    assert page is not None
    assert texts(page.rows) == ["hello"]


async def test_history_is_everything_said_on_the_way(store: SqlStore) -> None:
    one = await turn(store, "a")
    two = await turn(store, "b", one)
    other = await turn(store, "x", one)
    for leaf, expected in ((two, ["a", "A", "b", "B"]), (other, ["a", "A", "x", "X"])):
        history = await store.history("ann", leaf["id"])
        assert history is not None
        assert texts(history.items) == expected
        assert history.usage == leaf["usage"]


async def test_what_a_child_needs_outlives_its_deletion_and_goes_with_the_child(store: SqlStore) -> None:
    one = await turn(store, "a")
    two = await turn(store, "b", one)
    assert await store.delete("ann", one["id"])
    assert await store.response("ann", one["id"]) is None
    history = await store.history("ann", two["id"])
    assert history is not None
    assert texts(history.items) == ["a", "A", "b", "B"]
    assert await store.delete("ann", two["id"])


async def test_cancel(store: SqlStore) -> None:
    begun = response(status="queued", background=True)
    await store.begin(new(begun, said("hello"), worker=None, job={"x": 1}, logged=True))
    found = await store.cancel("ann", begun["id"])
    assert found is not None
    assert found.response == begun | {"status": "cancelled"}
    assert await store.recover() == 0


async def test_recover(store: SqlStore) -> None:
    begun = response()
    await store.begin(new(begun, said("hello"), worker="dead"))
    await store.release("dead")
    found = await store.response("ann", begun["id"])
    assert found is not None
    assert found.response["status"] == "failed"
    assert (await store.responses("ann", PageRequest())).rows == [found.response]
    assert await store.recover() == 1
    assert await store.response("ann", begun["id"]) == found
    assert set(await store.items("ann", ["msg_0", "\0"])) <= {"msg_0"}
