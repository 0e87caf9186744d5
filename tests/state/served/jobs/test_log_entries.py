"""Entries of the event log, and clients that follow it while its database is interrupted."""

import asyncio
from collections.abc import Callable, Sequence

import pytest

from gateway.config.settings import BackgroundSettings, StoreSettings
from gateway.errors import StoreUnavailable
from gateway.jobs.job_attempt import LogEntryBuilder
from gateway.replies.log_replay import LogReplay, open_log_replay
from gateway.state.sql.jobs import SqlJobQueue
from gateway.state.sql.store import SqlStore
from tests import databases
from tests.state.conftest import DEADLINE_S
from tests.state.responses import WORKER, message_item, new, response
from tests.state.served.jobs.job_replica import (
    PATIENCE_S,
    POLL_S,
    WHOLE,
    ScriptedWire,
    collected,
    ended,
    events,
    frame,
    logged,
    open_store,
    queued,
    read_log_events,
    replica,
)
from translation.framing import sse


def numbers(frames: Sequence[bytes], told: int) -> list[tuple[int, int, list[tuple[int, str]]]]:
    numbering = LogEntryBuilder(told)
    entries = [entry for read in frames if (entry := numbering.build_entry(read)) is not None]
    return [(entry.first, entry.last, events(entry.frames)) for entry in entries]


def test_delivered_events_are_not_repeated() -> None:
    beginning = frame("response.created", 0, response={}) + frame("response.in_progress", 1, response={})
    delta = frame("response.output_text.delta", 2, delta="a")
    rest = [(2, 2, [(2, "response.output_text.delta")])]
    assert numbers([beginning, delta], -1)[0][:2] == (0, 1)
    assert numbers([beginning, delta], 0) == [(1, 1, [(1, "response.in_progress")]), *rest]
    assert numbers([beginning, delta], 1) == rest


def test_sequence_numbers_have_no_gaps_whatever_the_upstream_sends() -> None:
    reads = [
        frame("response.created", 0, response={}),
        frame("response.output_text.delta", 7, delta='"sequence_number":1,') + b": comment\n\n",
        b'event: response.odd\ndata: {"type":"response.odd","a":"b"}\n\n'
        + frame("response.completed", 3)
        + sse.DONE_FRAME,
    ]
    assert numbers(reads, 0) == [
        (1, 1, [(1, "response.output_text.delta")]),
        (2, 3, [(2, "response.odd"), (3, "response.completed")]),
    ]


def test_an_early_end_follows_the_delivered_events() -> None:
    reads = [frame("response.created", 0, response={}), frame("response.failed", 1, response={})]
    assert numbers(reads, 1) == [(2, 2, [(2, "response.failed")])]


async def test_a_follower_starts_at_its_clients_position(store: SqlStore) -> None:
    head = queued()
    async with replica(store) as here:
        await here.runner.submit_job(logged(head), ScriptedWire(head))
        await ended(store, head)
    for after in range(5):
        wire = LogReplay(store, "ann", head["id"], after=after, max_outage_s=1)
        wire.ended = after == 4
        frames = await collected(wire)
        assert events(frames) == WHOLE[after + 1 :]
        if after < 4:
            assert wire.result() == (await ended(store, head))


async def test_a_beginning_that_may_change_is_held_back_until_there_is_content(store: SqlStore) -> None:
    start, gate, head = asyncio.Event(), asyncio.Event(), queued()
    wire = ScriptedWire(head, start=start, gate=gate, learns_upstream=True)
    async with replica(store, lease_s=30) as here:
        await here.runner.submit_job(logged(head), wire)
        followers = [
            await open_log_replay(store, "ann", head["id"], after=None, max_outage_s=1, hold_s=hold_s)
            for hold_s in (PATIENCE_S, 0.001)
        ]
        held, released = (asyncio.get_running_loop().create_task(collected(each)) for each in followers)
        start.set()
        async with asyncio.timeout(PATIENCE_S):
            await wire.begun.wait()
        assert not followers[0].has_content
        gate.set()
        assert events(await held) == events(await released) == WHOLE
    assert {each.headers.upstream for each in followers} == {"second"}
    assert b'"temperature":0.5' in (await store.event_log.load_log_page("ann", head["id"], after=-1)).entries[0].frames


async def test_a_reply_that_begins_otherwise_leaves_the_opening_as_it_is(store: SqlStore) -> None:
    head = queued()
    wire = ScriptedWire(head, learns_upstream=True, beginnings=("response.in_progress",))
    async with replica(store) as here:
        await here.runner.submit_job(logged(head), wire)
        await ended(store, head)
    first = (await store.event_log.load_log_page("ann", head["id"], after=-1)).entries[0]
    assert (first.last, b"temperature" in first.frames) == (0, False)


async def test_a_stream_continues_after_a_restart_of_its_database() -> None:
    gate, head = asyncio.Event(), queued()
    wire = ScriptedWire(head, gate=gate)
    with databases.postgres() as server:
        url = server.database()
        async with open_store(url) as store, open_store(url) as elsewhere, replica(store, lease_s=30) as here:
            await here.runner.submit_job(logged(head), wire)
            async with asyncio.timeout(PATIENCE_S):
                await wire.begun.wait()
            follower = await open_log_replay(elsewhere, "ann", head["id"], after=None, max_outage_s=PATIENCE_S)
            following = asyncio.get_running_loop().create_task(collected(follower))
            await asyncio.to_thread(server.stop)
            gate.set()
            with pytest.raises(StoreUnavailable):
                await store.jobs.list_leased_responses(WORKER)
            await asyncio.to_thread(server.start)
            assert events(await following) == WHOLE
            assert await read_log_events(store, head) == WHOLE


class LookedAt(SqlJobQueue):
    """A queue of jobs in which something happens while the runner lists its leased responses."""

    meanwhile: Callable[[], None] | None = None

    async def list_leased_responses(self, worker: str) -> frozenset[tuple[str, str]]:
        held = await super().list_leased_responses(worker)
        if self.meanwhile is not None:
            self.meanwhile()
            self.meanwhile = None
        return held


async def test_a_job_released_during_a_check_is_ended_all_the_same(store_url: str) -> None:
    store = SqlStore(
        StoreSettings(url=store_url, deadline_s=DEADLINE_S, poll_s=POLL_S), BackgroundSettings(lease_s=3 * PATIENCE_S)
    )
    store.jobs = jobs = LookedAt(store._database, store._notifier, lease_s=3 * PATIENCE_S)
    await store.open()
    async with replica(store, lease_s=3 * PATIENCE_S) as here:
        begun = response()
        here.runner.track_response("ann", begun["id"])
        await store.responses.create_response(new(begun, message_item("hello")))
        jobs.meanwhile = lambda: here.runner.untrack_response("ann", begun["id"])
        assert (await ended(store, begun))["error"]["code"] == "interrupted"
    await store.aclose()
