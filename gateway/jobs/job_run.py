"""One job from its start to its end: produced frames go to the log, the end to the store, and nothing anywhere else."""

import asyncio
import re
import time
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from typing import Final, Protocol

import orjson
import structlog

from gateway.errors import GatewayError, StoreUnavailable, as_event
from gateway.replies.event_stream import Wire
from gateway.state import endings
from gateway.state.store import Job, LogEntry, NotHeld, Store
from providers.errors import ProviderError
from translation.errors import TranslationError
from translation.framing import sse
from translation.representation.json_types import Item, Json
from translation.responses.snapshot import Snapshot

_log = structlog.get_logger(__name__)

_RETRY_S: Final = (0.05, 1.0)

_HEAD: Final = re.compile(rb'event: [^\n]*\ndata: \{"type":"[^"]*","sequence_number":(\d+)[,}]')
"""How our own frames begin; others are parsed."""

_BEGINNINGS: Final = (b"event: response.created\n", b"event: response.queued\n", b"event: response.in_progress\n")


class Runnable(Protocol):
    """A reply that can begin."""

    def wire(self) -> Wire: ...
    def losses(self) -> str | None: ...


class Numbering:
    """Produced frames to entries of a log that has its events up to `told` already.

    Those told are the response's beginning, which every attempt produces again. The rest is numbered on from there:
    numbers of a log have no gaps, whatever an upstream counts.
    """

    def __init__(self, told: int) -> None:
        self._told = told
        self._next = 0

    def take(self, frames: bytes) -> LogEntry | None:
        """Whole frames to an entry; None when there is nothing new in them."""
        kept: list[bytes] = []
        first = -1
        for frame in frames.split(b"\n\n"):
            if not frame.startswith(b"event: "):
                continue  # [DONE] and comments are no events
            if self._next <= self._told and frame.startswith(_BEGINNINGS):
                self._next += 1
                continue
            self._next = max(self._next, self._told + 1)
            if first < 0:
                first = self._next
            kept.append(_numbered(frame, self._next))
            self._next += 1
        return LogEntry(first, self._next - 1, b"".join(kept)) if kept else None


class JobRun:
    """Runs one job of `worker`.

    Raises NotHeld once the response is not this worker's any more, StoreUnavailable when what was produced could not be
    kept for `patience_s`; failures of the upstream are the response's end. Closes the upstream, however it ends.
    """

    def __init__(self, store: Store, job: Job, *, worker: str, patience_s: float) -> None:
        self._store = store
        self._job = job
        self._worker = worker
        self._patience_s = patience_s
        self._numbering = Numbering(job.told)
        self._losses: str | None = None
        self._finished = False

    async def run(self, runnable: Runnable) -> None:
        wire = runnable.wire()
        try:
            async with aclosing(wire.frames()) as frames:
                async for read in frames:
                    self._losses = runnable.losses() if wire.ended else None
                    await self._keep(wire, read)
        except (NotHeld, StoreUnavailable):
            raise
        except (GatewayError, ProviderError, TranslationError) as error:
            await self._keep(wire, wire.fail(error))
        except Exception as error:
            _log.exception("run_failed")
            await self._keep(wire, wire.fail(error))
        if not self._finished:
            _log.error("run_without_end")
            await self.interrupt()

    async def interrupt(self) -> None:
        """End it, `failed` with code `interrupted`, with the output that the log has."""
        await self._end(endings.interrupted)

    async def fail(self, error: Exception) -> None:
        """End it before it began."""

        def failed(response: Json, output: list[Item]) -> Json:
            snapshot = Snapshot(response, lambda: int(time.time()))
            snapshot.apply(as_event(error))
            return snapshot.response | {"output": output}

        await self._end(failed)

    async def _keep(self, wire: Wire, frames: bytes) -> None:
        if self._finished:
            return
        entry = self._numbering.take(frames) if self._job.logged else None
        if wire.ended:
            response = wire.result()
            assert response is not None  # a Responses wire always has one
            await self._finish(response, entry)
        elif entry is not None:
            job, worker = self._job, self._worker
            await self._insist(lambda: self._store.append(job.owner, job.response_id, entry, worker=worker))

    async def _end(self, ending: Callable[[Json, list[Item]], Json]) -> None:
        job = self._job
        stored = await self._store.response(job.owner, job.response_id)
        if stored is None:
            raise NotHeld(job.response_id)
        log: list[bytes] = []
        told, more = -1, job.logged
        while more:
            page = await self._store.entries(job.owner, job.response_id, after=told)
            log += [entry.frames for entry in page.entries]
            told, more = page.entries[-1].last if page.entries else told, page.more
        response = ending(stored.response, endings.output_of(stored.response, log))
        number = told + 1
        frame = endings.lifecycle_frame("response.failed", response, number)
        await self._finish(response, LogEntry(number, number, frame) if job.logged else None)

    async def _finish(self, response: Json, last: LogEntry | None) -> None:
        job, worker, losses = self._job, self._worker, self._losses
        await self._insist(lambda: self._store.finish(job.owner, response, worker=worker, last=last, losses=losses))
        self._finished = True

    async def _insist(self, write: Callable[[], Awaitable[None]]) -> None:
        """Write, again and again while the database is away; the upstream is not read meanwhile."""
        deadline = time.monotonic() + self._patience_s
        delay_s, longest_s = _RETRY_S
        while True:
            try:
                return await write()
            except StoreUnavailable:
                if time.monotonic() + delay_s > deadline:
                    raise
            await asyncio.sleep(delay_s)
            delay_s = min(delay_s * 2, longest_s)


def _numbered(frame: bytes, number: int) -> bytes:
    head = _HEAD.match(frame)
    if head is not None and int(head[1]) == number:
        return frame + b"\n\n"
    event = orjson.loads(frame.partition(b"\ndata: ")[2])
    if event.get("sequence_number") == number:
        return frame + b"\n\n"
    return sse.encode(event["type"], orjson.dumps(event | {"sequence_number": number}))
