"""Jobs: leased to one replica at a time, taken over when it dies, given back when it leaves."""

import asyncio
from typing import Any

import pytest

from gateway.config.settings import BackgroundSettings, StoreSettings
from gateway.state.sql.store import SqlStore
from gateway.state.values import Job, LeaseLost, LogEntry, OwnerShares
from tests.state.conftest import DEADLINE_S
from tests.state.responses import WORKER, answered, completed, message_item, new, response
from translation.representation.json_types import Json

OTHER = "worker-2"
SHORT_S = 0.05


async def queued(store: SqlStore, *, worker: str | None = None, owner: str = "ann", **fields: Any) -> Json:
    head = response("queued", background=True)
    await store.responses.create_response(
        new(head, message_item("hello"), owner=owner, worker=worker, job_request={"model": "m", "n": [1]}, **fields)
    )
    return head


async def short_lived(url: str) -> SqlStore:
    """The store as a replica sees it whose leases end before one can look."""
    store = SqlStore(StoreSettings(url=url, deadline_s=DEADLINE_S, poll_s=0.05), BackgroundSettings(lease_s=SHORT_S))
    await store.open()
    return store


async def claimed_by(store: SqlStore, worker: str) -> Job:
    """Waits until the worker gets a job, and returns it."""
    async with asyncio.timeout(60):
        async with store.jobs.watch_jobs() as watch:
            while not (jobs := await store.jobs.claim_jobs(worker, 1)):
                await watch.wait_for_change()
    return jobs[0]


async def test_a_job_is_claimed_with_what_it_needs_to_run(store: SqlStore) -> None:
    head = await queued(store)
    (job,) = await store.jobs.claim_jobs(WORKER, 5)
    assert job == Job(
        owner="ann",
        response_id=head["id"],
        request={"model": "m", "n": [1]},
        attempt=1,
        logged=False,
        last_sequence_number=-1,
    )
    stored = await store.responses.load_response("ann", head["id"])
    assert stored is not None
    assert stored.response == head | {"status": "in_progress"}


async def test_jobs_are_claimed_oldest_first_up_to_the_requested_number(store: SqlStore) -> None:
    heads = [await queued(store, owner=owner) for owner in ("bob", "ann", "bob", "ann")]
    first, second = await store.jobs.claim_jobs(WORKER, 3), await store.jobs.claim_jobs(WORKER, 3)
    assert [job.response_id for job in (*first, *second)] == [head["id"] for head in heads]
    assert (len(first), len(second)) == (3, 1)
    assert await store.jobs.claim_jobs(WORKER, 3) == ()


async def test_owners_take_turns_whatever_they_have_queued_before(store: SqlStore) -> None:
    many = [await queued(store) for _ in range(6)]
    bob = [await queued(store, owner="bob") for _ in range(2)]
    cid = [await queued(store, owner="cid")]
    shares = OwnerShares(most=4, running={"bob": 1})
    claimed = await store.jobs.claim_jobs(WORKER, 5, shares)
    expected = [many[0], cid[0], many[1], bob[0], many[2]]
    assert [job.response_id for job in claimed] == [head["id"] for head in expected]
    shares = OwnerShares(most=4, running={"ann": 3, "bob": 2, "cid": 1})
    claimed = await store.jobs.claim_jobs(WORKER, 5, shares)
    assert [job.response_id for job in claimed] == [bob[1]["id"], many[3]["id"]], "ann has her share then"
    shares = OwnerShares(most=4, running={"ann": 4, "bob": 3, "cid": 1}, exempt="ann")
    claimed = await store.jobs.claim_jobs(WORKER, 5, shares)
    assert [job.response_id for job in claimed] == [head["id"] for head in many[4:]]


async def test_every_job_is_claimed_by_one_worker_only(store: SqlStore, store_url: str) -> None:
    other = SqlStore(StoreSettings(url=store_url, deadline_s=DEADLINE_S), BackgroundSettings())
    await other.open()
    heads = [await queued(store) for _ in range(12)]
    claims = await asyncio.gather(
        *(replica.jobs.claim_jobs(f"worker-{number}", 5) for number, replica in enumerate([store, other] * 4))
    )
    claimed = [job.response_id for jobs in claims for job in jobs]
    while left := await store.jobs.claim_jobs("last", 5):
        claimed += [job.response_id for job in left]
    assert sorted(claimed) == sorted(head["id"] for head in heads)
    await other.aclose()


async def test_a_job_belongs_to_the_worker_that_began_it(store: SqlStore) -> None:
    head = await queued(store, worker=WORKER)
    await store.jobs.renew_lease(WORKER)
    assert await store.jobs.claim_jobs(OTHER, 5) == ()
    assert await store.jobs.claim_jobs(WORKER, 5) == ()
    assert await store.jobs.list_leased_responses(WORKER) == {("ann", head["id"])}


async def test_a_queued_response_is_started_by_its_lease_holder(store: SqlStore) -> None:
    head = await queued(store, worker=WORKER)
    with pytest.raises(LeaseLost):
        await store.jobs.mark_in_progress("ann", head["id"], worker=OTHER)
    await store.jobs.mark_in_progress("ann", head["id"], worker=WORKER)
    stored = await store.responses.load_response("ann", head["id"])
    assert stored is not None
    assert stored.response["status"] == "in_progress"
    await store.responses.cancel_response("ann", head["id"])
    with pytest.raises(LeaseLost):
        await store.jobs.mark_in_progress("ann", head["id"], worker=WORKER)


async def test_the_job_of_a_worker_that_died_is_taken_over(store_url: str) -> None:
    store = await short_lived(store_url)
    head = await queued(store)
    (first,) = await store.jobs.claim_jobs(WORKER, 1)
    second = await claimed_by(store, OTHER)
    assert (first.response_id, first.attempt) == (head["id"], 1)
    assert (second.response_id, second.attempt) == (head["id"], 2)
    with pytest.raises(LeaseLost):
        await store.responses.finish_response("ann", completed(head, answered("late")), worker=WORKER)
    await store.responses.finish_response("ann", completed(head, answered("HELLO")), worker=OTHER)
    assert await store.jobs.list_leased_responses(OTHER) == frozenset()
    assert await store.jobs.claim_jobs("worker-3", 1) == ()
    await store.aclose()


async def test_a_worker_that_renews_its_leases_keeps_its_jobs(store: SqlStore, store_url: str) -> None:
    impatient = await short_lived(store_url)
    await queued(impatient)
    await impatient.jobs.claim_jobs(WORKER, 1)
    await store.jobs.renew_lease(WORKER)  # for much longer than the lease it had
    async with asyncio.timeout(60):
        for _ in range(20):
            assert await impatient.jobs.claim_jobs(OTHER, 1) == ()
    await impatient.aclose()


async def test_a_job_has_the_delivered_output_of_its_earlier_attempt(store_url: str) -> None:
    store = await short_lived(store_url)
    head = await queued(store, logged=True)
    (first,) = await store.jobs.claim_jobs(WORKER, 1)
    assert (first.logged, first.last_sequence_number) == (True, 0)
    await store.event_log.append_log_entry(
        "ann", head["id"], LogEntry(1, 7, b"event: e\ndata: {}\n\n" * 7), worker=WORKER
    )
    second = await claimed_by(store, OTHER)
    assert (second.attempt, second.last_sequence_number) == (2, 7)
    await store.aclose()


async def test_jobs_are_free_at_once_when_their_worker_leaves(store: SqlStore) -> None:
    head = await queued(store)
    await store.jobs.claim_jobs(WORKER, 1)
    await store.jobs.release_jobs(WORKER)
    assert await store.jobs.list_leased_responses(WORKER) == frozenset()
    (job,) = await store.jobs.claim_jobs(OTHER, 1)
    assert (job.response_id, job.attempt) == (head["id"], 1)


async def test_single_jobs_can_be_released(store: SqlStore) -> None:
    begun, kept, waiting = await queued(store, worker=WORKER), await queued(store), await queued(store, worker=WORKER)
    await store.jobs.mark_in_progress("ann", begun["id"], worker=WORKER)
    await store.jobs.claim_jobs(WORKER, 1)
    await store.jobs.release_jobs(WORKER, [("ann", begun["id"]), ("ann", waiting["id"]), ("ann", "resp_unknown")])
    assert await store.jobs.list_leased_responses(WORKER) == {("ann", kept["id"])}
    attempts = {job.response_id: job.attempt for job in await store.jobs.claim_jobs(OTHER, 5)}
    # What never began was no attempt.
    assert attempts == {begun["id"]: 2, waiting["id"]: 1}


async def test_leased_responses_are_the_active_ones_of_a_worker(store: SqlStore) -> None:
    foreground = response()
    await store.responses.create_response(new(foreground, message_item("hello")))
    ended, cancelled, deleted, job = [await queued(store, worker=WORKER) for _ in range(4)]
    await store.responses.finish_response("ann", completed(ended), worker=WORKER)
    await store.responses.cancel_response("ann", cancelled["id"])
    await store.responses.delete_response("ann", deleted["id"])
    await queued(store, worker=OTHER)
    assert await store.jobs.list_leased_responses(WORKER) == {("ann", foreground["id"]), ("ann", job["id"])}


async def test_cancelled_and_deleted_jobs_are_never_claimed(store: SqlStore) -> None:
    for end in (store.responses.cancel_response, store.responses.delete_response):
        head = await queued(store)
        await end("ann", head["id"])
        assert await store.jobs.claim_jobs(WORKER, 5) == ()


async def test_workers_are_notified_of_new_and_cancelled_jobs(store_url: str) -> None:
    store = SqlStore(StoreSettings(url=store_url, deadline_s=DEADLINE_S, poll_s=3600), BackgroundSettings())
    await store.open()
    async with asyncio.timeout(60), store.jobs.watch_jobs() as watch:
        head = await queued(store)
        await watch.wait_for_change()
        await store.responses.cancel_response("ann", head["id"])
        await watch.wait_for_change()
        head = await queued(store)
        await watch.wait_for_change()
        await store.jobs.claim_jobs(WORKER, 1)
        await store.jobs.release_jobs(WORKER)
        await watch.wait_for_change()
        await store.responses.delete_response("ann", head["id"])
        await watch.wait_for_change()
    await store.aclose()
