"""A runner on a store, and replies that tests hold back."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import orjson

from gateway.config.settings import BackgroundSettings, StoreSettings
from gateway.http.guard import DrainState
from gateway.jobs.runner import JobRunner
from gateway.replies.log_replay import LogReplay, open_log_replay
from gateway.state.sql.event_log import SqlEventLog
from gateway.state.sql.store import SqlStore
from gateway.state.values import ACTIVE_STATUSES, Job, NewResponse, StoredHeaders
from tests.state.conftest import DEADLINE_S
from tests.state.responses import WORKER, answered, completed, message_item, new, response
from tests.unit.support.translator_drivers import conclude
from translation.framing import sse
from translation.representation.json_types import Json

LEASE_S = 1.0
PATIENCE_S = 60.0
POLL_S = 0.05


def frame(kind: str, number: int, **fields: Any) -> bytes:
    fields = {"type": kind, "sequence_number": number} | fields
    return sse.encode_event(kind, orjson.dumps(fields))


class ScriptedWire:
    """A reply of three reads: its beginning, a text, its end.

    `start` holds back all of it, and `gate` the end, which `error` takes the place of.
    """

    def __init__(
        self,
        head: Json,
        *,
        start: asyncio.Event | None = None,
        gate: asyncio.Event | None = None,
        error: Exception | None = None,
        learns_upstream: bool = False,
        beginnings: Sequence[str] = ("response.created", "response.in_progress"),
    ) -> None:
        self.has_content = True
        self.learns_upstream = learns_upstream
        self._beginnings = beginnings
        self.ended = False
        self.closed = asyncio.Event()
        self.begun = asyncio.Event()
        self.final = completed(head | {"status": "in_progress"}, answered("HELLO"))
        self._head = head | {"status": "in_progress"}
        self._start = start
        self._gate = gate
        self._error = error
        self._end = b""

    def begin_job(self) -> None:
        """Nobody measures it."""

    def build_stream(self) -> "ScriptedWire":
        return self

    def find_stored_headers(self) -> StoredHeaders:
        return StoredHeaders("input=truncated" if self.ended else None, "second")

    async def frames(self) -> AsyncGenerator[bytes, None]:
        try:
            if self._start is not None:
                await self._start.wait()
            opened = self._head | {"temperature": 0.5} if self.learns_upstream else self._head
            yield b"".join(frame(kind, number, response=opened) for number, kind in enumerate(self._beginnings))
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


class Replica:
    """A runner on a store, and the resumed jobs."""

    def __init__(self, store: SqlStore, worker: str, **settings: Any) -> None:
        self.drain = DrainState()
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
async def open_store(url: str, event_log: type[SqlEventLog] = SqlEventLog) -> AsyncIterator[SqlStore]:
    store = SqlStore(StoreSettings(url=url, deadline_s=DEADLINE_S, poll_s=POLL_S), BackgroundSettings(lease_s=LEASE_S))
    store.event_log = event_log(store._database, store._notifier)
    await store.open()
    yield store
    await store.aclose()


async def ended(store: SqlStore, head: Json) -> Json:
    async with asyncio.timeout(PATIENCE_S), store.event_log.watch_response("ann", head["id"]) as watch:
        while True:
            stored = await store.responses.load_response("ann", head["id"])
            assert stored is not None
            if stored.response["status"] not in ACTIVE_STATUSES:
                return stored.response
            await watch.wait_for_change()


async def read_log_events(store: SqlStore, head: Json) -> list[tuple[int, str]]:
    """Returns number and type of each event of a whole stream, as a follower reads it."""
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


async def collected(wire: LogReplay) -> bytes:
    async with asyncio.timeout(PATIENCE_S):
        return b"".join([frames async for frames in wire.frames()]) + conclude(wire)
