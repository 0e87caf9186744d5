"""The job runner on both databases: each job runs once, events are stored before they are sent, leases are returned."""

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import replace

import pytest

from gateway.errors import StoreUnavailable, UnknownModel
from gateway.state.sql.event_log import SqlEventLog
from gateway.state.sql.store import SqlStore
from gateway.state.values import Job, LogEntry, StoredHeaders
from providers.errors import UpstreamBroken
from tests.state.responses import WORKER, message_item, new, response
from tests.state.served.jobs.job_replica import (
    LEASE_S,
    PATIENCE_S,
    WHOLE,
    ScriptedWire,
    ended,
    logged,
    open_store,
    queued,
    read_log_events,
    replica,
)


class ClingingWire(ScriptedWire):
    """A wire that ends with its last delta, and cannot be closed."""

    async def frames(self) -> AsyncGenerator[bytes, None]:
        *before, last = [made async for made in ScriptedWire.frames(self)]
        self.ended = False
        for made in before:
            yield made
        self.ended = True
        try:
            yield last
        finally:
            raise UpstreamBroken("too late to matter")


async def test_a_job_runs_where_it_was_accepted_and_is_stored_whole(store: SqlStore) -> None:
    head = queued()
    wire = ScriptedWire(head)
    async with replica(store) as here:
        await here.runner.submit_job(logged(head), wire)
        assert await ended(store, head) == wire.final
        assert await read_log_events(store, head) == WHOLE
        assert here.reopened == []
        assert await store.jobs.list_leased_responses(WORKER) == frozenset()
        stored = await store.responses.load_response("ann", head["id"])
        assert stored is not None
        assert stored.headers == StoredHeaders("input=truncated", "second")


async def test_jobs_of_other_workers_are_restarted_from_their_stored_state(store: SqlStore) -> None:
    head = queued()
    async with replica(store) as here:
        await store.responses.create_response(logged(head))
        assert (await ended(store, head))["status"] == "completed"
        assert await read_log_events(store, head) == WHOLE
        assert [(job.request, job.attempt, job.last_sequence_number) for job in here.reopened] == [
            ({"model": "m"}, 1, 0)
        ]


async def test_a_job_that_cannot_begin_fails_for_that_reason(store: SqlStore) -> None:
    def refuse(job: Job) -> ScriptedWire:
        raise UnknownModel("m", "there is no such model any more")

    head = queued()
    async with replica(store) as here:
        here.make = refuse
        await store.responses.create_response(logged(head))
        failed = await ended(store, head)
    assert (failed["status"], failed["error"]["message"]) == (
        "failed",
        "the model 'm' does not exist: there is no such model any more",
    )
    assert await read_log_events(store, head) == [(0, "response.created"), (1, "response.failed")]


async def test_an_upstream_failure_ends_the_response(store: SqlStore) -> None:
    head = queued()
    async with replica(store) as here:
        await here.runner.submit_job(logged(head), ScriptedWire(head, error=UpstreamBroken("cut")))
        assert (await ended(store, head))["error"]["message"] == "cut"
    assert await read_log_events(store, head) == [*WHOLE[:-1], (4, "response.failed")]


async def test_a_failure_after_the_end_changes_nothing(store: SqlStore) -> None:
    head = queued()
    async with replica(store) as here:
        await here.runner.submit_job(logged(head), ClingingWire(head))
        assert (await ended(store, head))["status"] == "completed"
    assert await read_log_events(store, head) == WHOLE


async def test_an_internal_error_ends_the_response_and_nothing_else(store: SqlStore) -> None:
    head, other = queued(), queued()
    async with replica(store) as here:
        await here.runner.submit_job(logged(head), ScriptedWire(head, error=ZeroDivisionError("ours")))
        assert (await ended(store, head))["status"] == "failed"
        await here.runner.submit_job(logged(other), ScriptedWire(other))
        assert (await ended(store, other))["status"] == "completed"


@pytest.mark.parametrize("end", ["cancel", "delete"])
async def test_a_lost_lease_closes_the_upstream(store: SqlStore, store_url: str, end: str) -> None:
    head = queued()
    wire = ScriptedWire(head, gate=asyncio.Event())
    async with replica(store) as here, open_store(store_url) as elsewhere:
        await here.runner.submit_job(logged(head), wire)
        async with asyncio.timeout(PATIENCE_S):
            await wire.begun.wait()
            await getattr(elsewhere.responses, f"{end}_response")("ann", head["id"])
            await wire.closed.wait()
        assert not wire.ended


async def test_a_living_worker_keeps_its_job_for_longer_than_a_lease(store: SqlStore, store_url: str) -> None:
    gate, head = asyncio.Event(), queued()
    wire = ScriptedWire(head, gate=gate)
    async with replica(store) as here, open_store(store_url) as elsewhere, replica(elsewhere, "worker-2") as there:
        await here.runner.submit_job(logged(head), wire)
        asyncio.get_running_loop().call_later(2.5 * LEASE_S, gate.set)
        assert await ended(store, head) == wire.final
        assert there.reopened == []


async def test_jobs_over_the_limit_are_left_to_other_workers(store: SqlStore, store_url: str) -> None:
    gate, heads = asyncio.Event(), [queued() for _ in range(3)]
    async with replica(store, max_running=1) as here:
        for head in heads:
            await here.runner.submit_job(logged(head), ScriptedWire(head, gate=gate))
        async with open_store(store_url) as elsewhere, replica(elsewhere, "worker-2") as there:
            for head in heads[1:]:
                assert (await ended(store, head))["status"] == "completed"
            assert {job.response_id for job in there.reopened} == {head["id"] for head in heads[1:]}
        gate.set()
        assert (await ended(store, heads[0]))["status"] == "completed"
        assert here.reopened == []


async def test_a_stream_that_has_begun_runs_here_even_at_the_limit_of_jobs(store: SqlStore) -> None:
    gate, first, second = asyncio.Event(), queued(), response("in_progress")
    async with replica(store, max_running=1) as here:
        await here.runner.submit_job(logged(first), ScriptedWire(first, gate=gate))
        await here.runner.submit_job(logged(second), ScriptedWire(second))
        assert (await ended(store, second))["status"] == "completed"
        gate.set()
        assert (await ended(store, first))["status"] == "completed"
        assert here.reopened == []


async def test_a_request_with_unstored_credentials_runs_here_even_at_the_limit_of_jobs(
    store: SqlStore,
) -> None:
    gate, first, second = asyncio.Event(), queued(), queued()
    bound = replace(logged(second), job_request={"model": "m", "bound": True})
    async with replica(store, max_running=1) as here:
        await here.runner.submit_job(logged(first), ScriptedWire(first, gate=gate))
        await here.runner.submit_job(bound, ScriptedWire(second))
        assert (await ended(store, second))["status"] == "completed"
        gate.set()
        assert (await ended(store, first))["status"] == "completed"
        assert here.reopened == []


class Flaky(SqlEventLog):
    """An event log in which every other write of events fails, although every fourth takes effect."""

    writes = 0

    async def append_log_entry(self, owner: str, response_id: str, entry: LogEntry, *, worker: str) -> None:
        Flaky.writes += 1
        if Flaky.writes % 4 == 1:
            await super().append_log_entry(owner, response_id, entry, worker=worker)
        if Flaky.writes % 2 == 1:
            raise StoreUnavailable
        await super().append_log_entry(owner, response_id, entry, worker=worker)


async def test_every_event_is_in_the_log_once_despite_store_outages(store_url: str) -> None:
    heads = [queued() for _ in range(4)]
    async with open_store(store_url, Flaky) as store, replica(store, lease_s=30) as here:
        for head in heads:
            await here.runner.submit_job(logged(head), ScriptedWire(head))
        for head in heads:
            assert (await ended(store, head))["status"] == "completed"
            assert await read_log_events(store, head) == WHOLE


class Deaf(SqlEventLog):
    """An event log that accepts no events."""

    async def append_log_entry(self, owner: str, response_id: str, entry: LogEntry, *, worker: str) -> None:
        raise StoreUnavailable


async def test_a_job_whose_lease_cannot_be_renewed_is_left_to_others(store_url: str) -> None:
    head = queued()
    wire = ScriptedWire(head)
    async with open_store(store_url, Deaf) as deaf, open_store(store_url) as store, replica(deaf, lease_s=0.3) as here:
        await here.runner.submit_job(logged(head), wire)
        async with asyncio.timeout(PATIENCE_S):
            await wire.closed.wait()
        here.drain.begin()  # takes nothing on any more, itself included
        async with replica(store, "worker-2") as there:
            assert (await ended(store, head))["status"] == "completed"
            assert [job.attempt for job in there.reopened] == [2]
    async with open_store(store_url) as store:
        assert await read_log_events(store, head) == WHOLE


async def test_a_replica_that_stops_leaves_queued_jobs_to_others_while_it_serves_requests(store: SqlStore) -> None:
    queued_head, streamed = queued(), response()
    wire = ScriptedWire(streamed)
    async with replica(store) as here:
        here.drain.stopping = True
        queued_job = new(queued_head, message_item("hello"), worker=None, job_request={"a": 1})
        await here.runner.submit_job(queued_job, ScriptedWire(queued_head))
        await here.runner.submit_job(logged(streamed), wire)
        assert (await ended(store, streamed))["status"] == "completed", "a stream that has begun runs here"
        stored = await store.responses.load_response("ann", queued_head["id"])
        assert stored is not None
        assert stored.response["status"] == "queued"
        async with replica(store, "worker-2"):
            assert (await ended(store, queued_head))["status"] == "completed"


async def test_leased_responses_without_a_job_are_ended(store: SqlStore) -> None:
    kept, left = response(), response()
    async with replica(store, lease_s=0.5) as here:
        here.runner.track_response("ann", kept["id"])
        await store.responses.create_response(new(kept, message_item("hello")))
        await store.responses.create_response(new(left, message_item("hello")))
        assert (await ended(store, left))["error"]["code"] == "interrupted"
        stored = await store.responses.load_response("ann", kept["id"])
        assert stored is not None
        assert stored.response["status"] == "in_progress"
        here.runner.untrack_response("ann", kept["id"])


async def test_a_worker_that_stops_releases_its_unfinished_jobs(store: SqlStore) -> None:
    head = queued()
    wire = ScriptedWire(head, gate=asyncio.Event())
    async with replica(store) as here:
        await here.runner.submit_job(new(head, message_item("hello"), worker=None, job_request={"a": 1}), wire)
        async with asyncio.timeout(PATIENCE_S):
            await wire.begun.wait()
    assert wire.closed.is_set()
    (job,) = await store.jobs.claim_jobs("worker-2", 1)
    assert (job.response_id, job.attempt) == (head["id"], 1)
