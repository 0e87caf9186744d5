"""What the runner does with jobs, on both databases: produce once, keep before telling, let go when told to."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import orjson
import pytest

from gateway.config.settings import BackgroundSettings, StoreSettings
from gateway.errors import StoreUnavailable, UnknownModel
from gateway.http.guard import Drain
from gateway.jobs.job_run import LogEntryBuilder
from gateway.jobs.runner import JobRunner
from gateway.replies.log_replay import LogReplay, open_log_replay
from gateway.state.sql.store import SqlStore
from gateway.state.store import ACTIVE_STATUSES, Job, LogEntry, NewResponse
from providers.errors import UpstreamBroken
from tests import databases
from tests.state.responses import WORKER, answered, completed, message_item, new, response
from tests.unit.support.translator_drivers import conclude
from translation.framing import sse
from translation.representation.json_types import Json

LEASE_S = 1.0
PATIENCE_S = 20.0
POLL_S = 0.05


def frame(kind: str, number: int, **fields: Any) -> bytes:
    fields = {"type": kind, "sequence_number": number} | fields
    return sse.encode_event(kind, orjson.dumps(fields))


class ScriptedWire:
    """A reply of three reads: its beginning, a text, its end. `gate` holds back the end, `error` takes its place."""

    def __init__(self, head: Json, *, gate: asyncio.Event | None = None, error: Exception | None = None) -> None:
        self.has_content = True
        self.ended = False
        self.closed = asyncio.Event()
        self.begun = asyncio.Event()
        self.final = completed(head | {"status": "in_progress"}, answered("HELLO"))
        self._head = head | {"status": "in_progress"}
        self._gate = gate
        self._error = error
        self._end = b""

    def build_stream(self) -> "ScriptedWire":
        return self

    def render_losses(self) -> str | None:
        return "input=truncated" if self.ended else None

    async def frames(self) -> AsyncGenerator[bytes, None]:
        try:
            beginnings = ("response.created", "response.in_progress")
            yield b"".join(frame(kind, number, response=self._head) for number, kind in enumerate(beginnings))
            self.begun.set()
            if self._gate is not None:
                await self._gate.wait()
            yield frame("response.output_text.delta", 2, delta="HEL")
            yield frame("response.output_text.delta", 3, delta="LO")
            if self._error is not None:
                raise self._error
            self.ended = True
            self._end = frame("response.completed", 4, response=self.final) + sse.DONE_FRAME
        finally:
            self.closed.set()

    def fail(self, error: Exception) -> bytes:
        self.ended = True
        self.final = self._head | {"status": "failed", "error": {"code": "server_error", "message": str(error)}}
        self._end = frame("response.failed", 4, response=self.final) + sse.DONE_FRAME
        return b""

    def conclude(self) -> bytes:
        assert self.ended
        end, self._end = self._end, b""
        return end

    def result(self) -> Json:
        return self.final


class ClingingWire(ScriptedWire):
    """Ends with its last delta, and cannot be let go of."""

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


class Replica:
    """A runner on a store, and the wires it was asked to begin again."""

    def __init__(self, store: SqlStore, worker: str, **settings: Any) -> None:
        self.drain = Drain()
        settings = {"lease_s": LEASE_S} | settings
        self.runner = JobRunner(store, BackgroundSettings(**settings), self.drain, worker=worker, drain_s=0)
        self.reopened: list[Job] = []
        self.make: Callable[[Job], ScriptedWire] = lambda job: ScriptedWire(queued(id=job.response_id))

    async def reopen(self, job: Job) -> ScriptedWire:
        self.reopened.append(job)
        return self.make(job)


def queued(**fields: Any) -> Json:
    return response("queued", background=True) | fields


def logged(head: Json) -> NewResponse:
    return new(head, message_item("hello"), worker=None, logged=True, job_request={"model": "m"})


@asynccontextmanager
async def replica(store: SqlStore, worker: str = WORKER, **settings: Any) -> AsyncIterator[Replica]:
    made = Replica(store, worker, **settings)
    async with made.runner.lifespan(made.reopen):
        yield made


@asynccontextmanager
async def open_store(url: str, kind: type[SqlStore] = SqlStore) -> AsyncIterator[SqlStore]:
    store = kind(StoreSettings(url=url, poll_s=POLL_S), BackgroundSettings(lease_s=LEASE_S))
    await store.open()
    yield store
    await store.aclose()


async def ended(store: SqlStore, head: Json) -> Json:
    async with asyncio.timeout(PATIENCE_S), store.watch_response("ann", head["id"]) as watch:
        while True:
            stored = await store.load_response("ann", head["id"])
            assert stored is not None
            if stored.response["status"] not in ACTIVE_STATUSES:
                return stored.response
            await watch.wait_for_change()


async def read_log_events(store: SqlStore, head: Json) -> list[tuple[int, str]]:
    """Number and type of each event of a whole stream, as a follower reads it."""
    wire = await open_log_replay(store, "ann", head["id"], after=None, max_outage_s=1)
    frames = await collected(wire)
    assert frames.endswith(sse.DONE_FRAME)
    return events(frames)


def events(frames: bytes) -> list[tuple[int, str]]:
    read = [orjson.loads(found.payload) for found in sse.FrameDecoder().feed(frames.removesuffix(sse.DONE_FRAME))]
    return [(event["sequence_number"], event["type"]) for event in read]


WHOLE = [
    (0, "response.created"),
    (1, "response.in_progress"),
    (2, "response.output_text.delta"),
    (3, "response.output_text.delta"),
    (4, "response.completed"),
]


async def test_a_job_is_run_where_it_was_accepted_and_all_of_it_is_kept(store: SqlStore) -> None:
    head = queued()
    wire = ScriptedWire(head)
    async with replica(store) as here:
        await here.runner.submit_job(logged(head), wire)
        assert await ended(store, head) == wire.final
        assert await read_log_events(store, head) == WHOLE
        assert here.reopened == []
        assert await store.list_leased_responses(WORKER) == frozenset()
        stored = await store.load_response("ann", head["id"])
        assert stored is not None
        assert stored.losses == "input=truncated"


async def test_jobs_of_others_are_begun_from_what_they_left(store: SqlStore) -> None:
    head = queued()
    async with replica(store) as here:
        await store.create_response(logged(head))
        assert (await ended(store, head))["status"] == "completed"
        assert await read_log_events(store, head) == WHOLE
        assert [(job.request, job.attempt, job.last_sequence_number) for job in here.reopened] == [
            ({"model": "m"}, 1, 0)
        ]


async def test_a_job_that_cannot_begin_fails_for_that_reason(store: SqlStore) -> None:
    def refuse(job: Job) -> ScriptedWire:
        raise UnknownModel("there is no such model any more")

    head = queued()
    async with replica(store) as here:
        here.make = refuse
        await store.create_response(logged(head))
        failed = await ended(store, head)
    assert (failed["status"], failed["error"]["message"]) == ("failed", "there is no such model any more")
    assert await read_log_events(store, head) == [(0, "response.created"), (1, "response.failed")]


async def test_what_goes_wrong_upstream_ends_the_response(store: SqlStore) -> None:
    head = queued()
    async with replica(store) as here:
        await here.runner.submit_job(logged(head), ScriptedWire(head, error=UpstreamBroken("cut")))
        assert (await ended(store, head))["error"]["message"] == "cut"
    assert await read_log_events(store, head) == [*WHOLE[:-1], (4, "response.failed")]


async def test_what_goes_wrong_after_the_end_changes_nothing(store: SqlStore) -> None:
    head = queued()
    async with replica(store) as here:
        await here.runner.submit_job(logged(head), ClingingWire(head))
        assert (await ended(store, head))["status"] == "completed"
    assert await read_log_events(store, head) == WHOLE


async def test_a_mistake_of_ours_ends_the_response_and_nothing_else(store: SqlStore) -> None:
    head, other = queued(), queued()
    async with replica(store) as here:
        await here.runner.submit_job(logged(head), ScriptedWire(head, error=ZeroDivisionError("ours")))
        assert (await ended(store, head))["status"] == "failed"
        await here.runner.submit_job(logged(other), ScriptedWire(other))
        assert (await ended(store, other))["status"] == "completed"


@pytest.mark.parametrize("end", ["cancel", "delete"])
async def test_a_response_that_is_taken_away_closes_its_upstream(store: SqlStore, store_url: str, end: str) -> None:
    head = queued()
    wire = ScriptedWire(head, gate=asyncio.Event())
    async with replica(store) as here, open_store(store_url) as elsewhere:
        await here.runner.submit_job(logged(head), wire)
        async with asyncio.timeout(PATIENCE_S):
            await wire.begun.wait()
            await getattr(elsewhere, f"{end}_response")("ann", head["id"])
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


async def test_more_than_may_run_are_left_to_whoever_is_free(store: SqlStore, store_url: str) -> None:
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


async def test_a_stream_that_has_begun_is_run_here_even_when_all_places_are_taken(store: SqlStore) -> None:
    gate, first, second = asyncio.Event(), queued(), response("in_progress")
    async with replica(store, max_running=1) as here:
        await here.runner.submit_job(logged(first), ScriptedWire(first, gate=gate))
        await here.runner.submit_job(logged(second), ScriptedWire(second))
        assert (await ended(store, second))["status"] == "completed"
        gate.set()
        assert (await ended(store, first))["status"] == "completed"
        assert here.reopened == []


async def test_a_request_whose_credentials_are_not_stored_is_run_here_even_when_all_places_are_taken(
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


class Flaky(SqlStore):
    """Every other write of events fails, and every fourth is made all the same."""

    writes = 0

    async def append_log_entry(self, owner: str, response_id: str, entry: LogEntry, *, worker: str) -> None:
        Flaky.writes += 1
        if Flaky.writes % 4 == 1:
            await super().append_log_entry(owner, response_id, entry, worker=worker)
        if Flaky.writes % 2 == 1:
            raise StoreUnavailable
        await super().append_log_entry(owner, response_id, entry, worker=worker)


async def test_every_event_is_in_the_log_once_though_the_store_comes_and_goes(store_url: str) -> None:
    heads = [queued() for _ in range(4)]
    async with open_store(store_url, Flaky) as store, replica(store, lease_s=30) as here:
        for head in heads:
            await here.runner.submit_job(logged(head), ScriptedWire(head))
        for head in heads:
            assert (await ended(store, head))["status"] == "completed"
            assert await read_log_events(store, head) == WHOLE


class Deaf(SqlStore):
    """Takes no events."""

    async def append_log_entry(self, owner: str, response_id: str, entry: LogEntry, *, worker: str) -> None:
        raise StoreUnavailable


async def test_a_job_that_cannot_be_kept_is_left_to_others(store_url: str) -> None:
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


async def test_what_is_held_without_being_worked_on_is_ended(store: SqlStore) -> None:
    kept, left = response(), response()
    async with replica(store, lease_s=0.5) as here:
        here.runner.track_response("ann", kept["id"])
        await store.create_response(new(kept, message_item("hello")))
        await store.create_response(new(left, message_item("hello")))
        assert (await ended(store, left))["error"]["code"] == "interrupted"
        stored = await store.load_response("ann", kept["id"])
        assert stored is not None
        assert stored.response["status"] == "in_progress"
        here.runner.untrack_response("ann", kept["id"])


async def test_a_worker_that_leaves_gives_back_what_it_did_not_end(store: SqlStore) -> None:
    head = queued()
    wire = ScriptedWire(head, gate=asyncio.Event())
    async with replica(store) as here:
        await here.runner.submit_job(new(head, message_item("hello"), worker=None, job_request={"a": 1}), wire)
        async with asyncio.timeout(PATIENCE_S):
            await wire.begun.wait()
    assert wire.closed.is_set()
    (job,) = await store.claim_jobs("worker-2", 1)
    assert (job.response_id, job.attempt) == (head["id"], 1)


def numbers(frames: Sequence[bytes], told: int) -> list[tuple[int, int, list[tuple[int, str]]]]:
    numbering = LogEntryBuilder(told)
    entries = [entry for read in frames if (entry := numbering.build_entry(read)) is not None]
    return [(entry.first, entry.last, events(entry.frames)) for entry in entries]


def test_what_was_told_is_not_told_again() -> None:
    beginning = frame("response.created", 0, response={}) + frame("response.in_progress", 1, response={})
    delta = frame("response.output_text.delta", 2, delta="a")
    rest = [(2, 2, [(2, "response.output_text.delta")])]
    assert numbers([beginning, delta], -1)[0][:2] == (0, 1)
    assert numbers([beginning, delta], 0) == [(1, 1, [(1, "response.in_progress")]), *rest]
    assert numbers([beginning, delta], 1) == rest


def test_numbers_have_no_gaps_whatever_an_upstream_counts() -> None:
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


def test_an_end_that_comes_early_is_told_after_what_was_told() -> None:
    reads = [frame("response.created", 0, response={}), frame("response.failed", 1, response={})]
    assert numbers(reads, 1) == [(2, 2, [(2, "response.failed")])]


async def test_a_follower_cuts_where_its_client_is(store: SqlStore) -> None:
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


async def test_a_stream_goes_on_when_its_database_has_been_restarted() -> None:
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
                await store.list_leased_responses(WORKER)
            await asyncio.to_thread(server.start)
            assert events(await following) == WHOLE
            assert await read_log_events(store, head) == WHOLE


async def collected(wire: LogReplay) -> bytes:
    async with asyncio.timeout(PATIENCE_S):
        return b"".join([frames async for frames in wire.frames()]) + conclude(wire)


class LookedAt(SqlStore):
    """Something happens while the runner looks at what its worker holds."""

    def __init__(self, url: str) -> None:
        super().__init__(StoreSettings(url=url, poll_s=POLL_S), BackgroundSettings(lease_s=3 * PATIENCE_S))
        self.meanwhile: Callable[[], None] | None = None

    async def list_leased_responses(self, worker: str) -> frozenset[tuple[str, str]]:
        held = await super().list_leased_responses(worker)
        if self.meanwhile is not None:
            self.meanwhile()
            self.meanwhile = None
        return held


async def test_what_is_dropped_while_the_runner_looks_is_ended_all_the_same(store_url: str) -> None:
    store = LookedAt(store_url)
    await store.open()
    async with replica(store, lease_s=3 * PATIENCE_S) as here:
        begun = response()
        here.runner.track_response("ann", begun["id"])
        await store.create_response(new(begun, message_item("hello")))
        store.meanwhile = lambda: here.runner.untrack_response("ann", begun["id"])
        assert (await ended(store, begun))["error"]["code"] == "interrupted"
    await store.aclose()
