"""One attempt at a job: appends its frames to the event log, and stores the end of its response. It knows no client."""

import re
import time
from collections.abc import Callable
from contextlib import aclosing
from typing import Final, Protocol

import orjson
import structlog

from dataplane.sharing.work_pool import run_in_pool
from gateway.error_replies import build_failed_event
from gateway.errors import GatewayError, StoreUnavailable
from gateway.http.error_forms import bind_failure
from gateway.replies.event_stream import ReplyStream, require_response
from gateway.replies.log_replay import LAST_OPENING_EVENT
from gateway.state import endings
from gateway.state.store import Store, retry_write
from gateway.state.values import Job, LeaseLost, LogEntry, LogOpening, StoredHeaders
from providers.errors import ProviderError
from translation.errors import TranslationError
from translation.framing import sse
from translation.representation.json_types import Item, Json
from translation.responses.client.snapshot import Snapshot

_log = structlog.get_logger(__name__)

_FRAME_HEAD: Final = re.compile(rb'event: [^\n]*\ndata: \{"type":"[^"]*","sequence_number":(\d+)[,}]')
"""The beginning of frames from the gateway's encoder. Frames with another beginning are parsed."""

_CREATED_EVENT: Final = b"event: response.created\n"
_OPENING_EVENTS: Final = (_CREATED_EVENT, b"event: response.queued\n", b"event: response.in_progress\n")


class JobNotResumable(Exception):
    """The job was interrupted after it had sent content, and cannot continue without sending it twice."""


class JobMeter(Protocol):
    """Measures one run of a job."""

    def end(self, status: int, elapsed_ns: int, fields: dict[str, object]) -> None:
        """The run has ended. `fields` are bound to its log lines. Those that only the last line has, which is written
        next, are added to them. It must not raise."""
        ...


class UnstartedRun(Protocol):
    """A run whose reply has not begun."""

    def begin_job(self) -> JobMeter | None:
        """Adds what is known of the run to its log line, and begins to measure it. None if nobody measures it."""
        ...

    def build_stream(self) -> ReplyStream:
        """Returns the reply as a stream."""
        ...

    def find_stored_headers(self) -> StoredHeaders:
        """Returns the headers of the reply that are stored with it, as far as they are known."""
        ...

    @property
    def learns_upstream(self) -> bool:
        """Whether its upstream is known with its first content, and not before."""
        ...


class LogEntryBuilder:
    """Builds log entries from produced frames, for a log that has the events up to `last_sequence_number`.

    These are the beginning of the response, which every attempt produces again, so they are left out. Further events
    are renumbered from there: sequence numbers of a log have no gaps, even if an upstream's numbers have.
    """

    def __init__(self, last_sequence_number: int) -> None:
        self._last_sequence_number = last_sequence_number
        self._next_sequence_number = 0

    def build_entry(self, frames: bytes) -> LogEntry | None:
        """Returns the entry for whole frames; None if they contain no new event."""
        numbered: list[bytes] = []
        first = -1
        for frame in frames.split(b"\n\n"):
            if not frame.startswith(b"event: "):
                continue  # [DONE] and comments are not events
            if self._next_sequence_number <= self._last_sequence_number and frame.startswith(_OPENING_EVENTS):
                self._next_sequence_number += 1
                continue
            self._next_sequence_number = max(self._next_sequence_number, self._last_sequence_number + 1)
            if first < 0:
                first = self._next_sequence_number
            numbered.append(_number_frame(frame, self._next_sequence_number))
            self._next_sequence_number += 1
        return LogEntry(first, self._next_sequence_number - 1, b"".join(numbered)) if numbered else None


def find_created_frame(frames: bytes) -> bytes | None:
    """Returns the frame of `response.created` that the frames of a reply begin with; None if they begin otherwise."""
    frame, separator, _ = frames.partition(b"\n\n")
    return frame + separator if frame.startswith(_CREATED_EVENT) else None


class JobAttempt:
    """One attempt of `worker` at a job.

    The upstream is not read while a write is retried. The methods raise LeaseLost once this worker no longer holds the
    response, and StoreUnavailable if the store failed for `max_outage_s`. A failure of the upstream is the end of the
    response, and is not raised.
    """

    def __init__(self, store: Store, job: Job, *, worker: str, max_outage_s: float) -> None:
        self._store = store
        self._job = job
        self._worker = worker
        self._max_outage_s = max_outage_s
        self._entry_builder = LogEntryBuilder(job.last_sequence_number)
        self._headers: StoredHeaders | None = None
        """The headers that are stored with the end; None leaves those that are stored."""
        self._finished = False
        self._unopened_run: UnstartedRun | None = None
        """The run whose upstream was not known when the opening was stored; None once the opening is replaced."""

    async def produce(self, run: UnstartedRun) -> None:
        """Produces the reply and stores it. Closes the upstream connection, however it ends."""
        if run.learns_upstream and self._job.logged and self._job.last_sequence_number <= LAST_OPENING_EVENT:
            self._unopened_run = run
        stream = run.build_stream()
        try:
            async with aclosing(stream.frames()) as frames:
                async for batch_frames in frames:
                    if stream.ended:
                        self._headers = run.find_stored_headers()
                    await self._persist_frames(stream, batch_frames)
            if stream.ended and not self._finished:  # the last batch had no frames before the terminal event
                self._headers = run.find_stored_headers()
                await self._persist_frames(stream, b"")
        except (LeaseLost, StoreUnavailable):
            raise
        except (GatewayError, ProviderError, TranslationError) as error:
            bind_failure(error)
            self._headers = run.find_stored_headers()
            await self._persist_frames(stream, stream.fail(error))
        except Exception as error:
            _log.exception("run_failed")
            bind_failure(error)
            await self._persist_frames(stream, stream.fail(error))
        if not self._finished:
            _log.error("run_end_missing")
            await self.interrupt()

    async def interrupt(self) -> None:
        """Ends the response as `failed` with code `interrupted`, and with the output in the event log.

        A response without a log, which is no job, gets the calls in its journal.
        """
        await self._end_early(endings.build_interrupted_response)

    async def fail(self, error: Exception) -> None:
        """Ends the response as `failed` with `error`, before it has begun to run."""

        def build_failed_response(response: Json, output: list[Item]) -> Json:
            snapshot = Snapshot(response, lambda: int(time.time()))
            snapshot.apply(build_failed_event(error))
            return snapshot.response | {"output": output}

        await self._end_early(build_failed_response)

    async def _persist_frames(self, stream: ReplyStream, frames: bytes) -> None:
        """Appends frames to the log; the last ones are committed together with the response and its terminal event."""
        if self._finished:
            return
        if stream.ended:
            frames += stream.conclude()
        if self._unopened_run is not None and frames:
            await self._replace_opening(self._unopened_run, frames)
        entry = self._entry_builder.build_entry(frames) if self._job.logged else None
        if stream.ended:
            await self._commit_end(require_response(stream), entry)
        elif entry is not None:
            job, worker = self._job, self._worker
            await retry_write(
                lambda: self._store.event_log.append_log_entry(job.owner, job.response_id, entry, worker=worker),
                self._max_outage_s,
            )

    async def _replace_opening(self, run: UnstartedRun, frames: bytes) -> None:
        """Stores what the response echoes, and its headers, for the upstream that sent its first frames."""
        self._unopened_run = None
        if (created := find_created_frame(frames)) is None:
            return
        job, worker = self._job, self._worker
        frame = _number_frame(created.removesuffix(b"\n\n"), 0)
        response = orjson.loads(frame.partition(b"\ndata: ")[2])["response"]
        opening = LogOpening(frame, response, run.find_stored_headers())
        await retry_write(
            lambda: self._store.event_log.replace_opening(job.owner, job.response_id, opening, worker=worker),
            self._max_outage_s,
        )

    async def _end_early(self, build_response: Callable[[Json, list[Item]], Json]) -> None:
        job = self._job
        stored = await self._store.responses.load_response(job.owner, job.response_id)
        if stored is None:
            raise LeaseLost(job.response_id)
        logged, has_more = endings.LogOutput(stored.response), job.logged
        while has_more:
            last_number = logged.last_sequence_number
            page = await self._store.event_log.load_log_page(job.owner, job.response_id, after=last_number)
            await run_in_pool(logged.add, page.entries)
            has_more = page.has_more
        calls = await self._store.call_journal.load_calls(job.owner, job.response_id)
        output = logged.build_items() if job.logged else endings.build_output_from_calls(calls)
        response = build_response(stored.response, output)
        number = logged.last_sequence_number + 1
        frame = endings.encode_lifecycle_frame("response.failed", response, number)
        await self._commit_end(response, LogEntry(number, number, frame) if job.logged else None, has_calls=bool(calls))

    async def _commit_end(self, response: Json, last: LogEntry | None, *, has_calls: bool = False) -> None:
        job, worker, headers = self._job, self._worker, self._headers
        await retry_write(
            lambda: self._store.responses.finish_response(
                job.owner,
                response,
                worker=worker,
                last=last,
                headers=headers,
                has_calls=has_calls or bool(job.request.get("runs_tools")),
            ),
            self._max_outage_s,
        )
        self._finished = True


def _number_frame(frame: bytes, number: int) -> bytes:
    head = _FRAME_HEAD.match(frame)
    if head is not None and int(head[1]) == number:
        return frame + b"\n\n"
    event = orjson.loads(frame.partition(b"\ndata: ")[2])
    if event.get("sequence_number") == number:
        return frame + b"\n\n"
    return sse.encode_event(event["type"], orjson.dumps(event | {"sequence_number": number}))
