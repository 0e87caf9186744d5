"""Idempotency keys of requests in the store."""

import asyncio
import time
from typing import Any

import pytest

from gateway.state.idempotency import KeyedRequest, KeyTaken
from gateway.state.records.files import FileDeleter
from gateway.state.sql.retention import SqlRetention
from gateway.state.sql.store import SqlStore
from gateway.state.values import NewResponse
from tests.state.responses import response


def keyed(response_id: str, owner: str = "ann", **key: Any) -> NewResponse:
    request = KeyedRequest(**{"key": "k", "digest": "d", **key})
    return NewResponse(owner=owner, response=response(id=response_id), input_items=[], keyed=request)


async def test_of_requests_with_one_key_one_begins(store: SqlStore) -> None:
    created = await asyncio.gather(
        *(store.responses.create_response(keyed(f"resp_{number}")) for number in range(5)), return_exceptions=True
    )
    assert sum(isinstance(result, KeyTaken) for result in created) == 4
    stored = await store.idempotency_keys.load_key("ann", "k")
    assert stored is not None
    assert stored.digest == "d"
    assert abs(stored.created_at - time.time()) < 60
    responses = [await store.responses.load_response("ann", f"resp_{number}") for number in range(5)]
    assert [response is not None for response in responses].count(True) == 1
    winner = next(response for response in responses if response is not None)
    assert winner.response["id"] == stored.response_id
    assert await store.idempotency_keys.load_key("bob", "k") is None
    assert await store.idempotency_keys.load_key("ann", "\0") is None


async def test_a_key_is_taken_over_once_from_the_response_that_had_it(store: SqlStore) -> None:
    await store.responses.create_response(keyed("resp_1"))
    taken = await asyncio.gather(
        *(store.responses.create_response(keyed(f"resp_{number}", replaces="resp_1", digest="e")) for number in (2, 3)),
        return_exceptions=True,
    )
    assert sum(isinstance(result, KeyTaken) for result in taken) == 1
    stored = await store.idempotency_keys.load_key("ann", "k")
    assert stored is not None
    assert (stored.digest, stored.response_id in ("resp_2", "resp_3")) == ("e", True)
    # The key of a response that was deleted by the sweeper meanwhile is new again.
    await store.responses.create_response(keyed("resp_4", key="other", replaces="resp_gone"))


async def test_keys_are_counted_exported_and_erased_with_their_owner(store: SqlStore) -> None:
    for number in range(3):
        await store.responses.create_response(keyed(f"resp_{number}", key=f"k{number}"))
    await store.responses.create_response(keyed("resp_b", owner="bob"))
    assert [await store.idempotency_keys.count_keys("ann", limit) for limit in (2, 9)] == [2, 3]
    exported = [each async for each in store.owner_data.export_owner("ann") if each["object"] == "idempotency_key"]
    assert [(each["id"], each["response_id"]) for each in exported] == [(f"k{n}", f"resp_{n}") for n in range(3)]
    await store.owner_data.erase_owner("ann")
    assert (await store.idempotency_keys.count_keys("ann", 9), await store.idempotency_keys.count_keys("bob", 9)) == (
        0,
        1,
    )


@pytest.mark.parametrize(("hours", "left"), [(1.0, 1), (0.0, 0)])
async def test_keys_are_deleted_when_they_have_expired(store: SqlStore, hours: float, left: int) -> None:
    await store.responses.create_response(keyed("resp_1"))
    await SqlRetention(store._database, FileDeleter(), events_hours=1, idempotency_hours=hours).delete_expired(before=0)
    assert await store.idempotency_keys.count_keys("ann", 9) == left
