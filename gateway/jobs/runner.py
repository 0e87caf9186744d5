"""Runs jobs: responses that do not end with their HTTP request, begun here or left by a replica that died."""

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import Final, TypeAlias

import structlog

from gateway.config.settings import Background
from gateway.errors import StoreUnavailable
from gateway.http.guard import Drain
from gateway.jobs.job_run import JobRun, Runnable
from gateway.logs import note_only
from gateway.state.store import Job, NewResponse, NotHeld, Store

_log = structlog.get_logger(__name__)

_ROUND_S: Final = 1.0
"""The longest time between two looks at what is held and what is left: how late a cancelled run ends at most."""

_CLOSE_S: Final = 5.0
"""For upstreams of runs that are stopped to be closed."""

_BEGINNING: Final = 1
"""The last number of an attempt that told nothing but `response.created` and `response.in_progress`."""

Key: TypeAlias = tuple[str, str]
"""Owner and response id."""


class JobRunner:
    """One per server process, whose `worker` name is new with each. Runs jobs inside of `running()`.

    While anything is held, by a job or by `hold`, the lease is renewed. What the store has as this worker's own and
    nobody here holds is given back, or ended as interrupted.
    """

    def __init__(self, store: Store, settings: Background, drain: Drain, *, worker: str, drain_s: float) -> None:
        self.worker = worker
        self._store = store
        self._settings = settings
        self._drain = drain
        self._drain_s = drain_s
        self._draining_since: float | None = None
        self._reopen: Callable[[Job], Runnable]
        self._tasks: asyncio.TaskGroup
        self._running: dict[Key, asyncio.Task[None]] = {}
        self._held: set[Key] = set()
        self._given_up: set[Key] = set()
        self._orphans: set[Key] = set()
        self._due = asyncio.Event()

    def hold(self, owner: str, response_id: str) -> None:
        """This process works on it, though not as a job."""
        self._held.add((owner, response_id))

    def drop(self, owner: str, response_id: str) -> None:
        """The end of what `hold` began. Where that could not be written, a round will see, and end it."""
        self._held.discard((owner, response_id))
        self._given_up.add((owner, response_id))

    async def accept(self, new: NewResponse, runnable: Runnable) -> None:
        """Write a job down and run it here, unless as many run as may: then it waits for whoever is free first.

        Raises what `Store.begin` does.
        """
        # Whoever waits for a stream that has begun is not sent elsewhere.
        here = not self._is_full or new.response["status"] == "in_progress"
        new = replace(new, worker=self.worker if here else None)
        key = new.owner, new.response["id"]
        assert new.job is not None
        self._held.add(key)
        try:
            await self._store.begin(new)
            if here:
                told = 0 if new.logged else -1
                job = Job(owner=new.owner, response_id=key[1], request=new.job, attempt=1, logged=new.logged, told=told)
                self._start(job, runnable, queued=new.response["status"] == "queued")
        except BaseException:
            # It may have been written all the same: a round will see, and have it run.
            self._given_up.add(key)
            raise
        finally:
            self._held.discard(key)

    @asynccontextmanager
    async def running(self, reopen: Callable[[Job], Runnable]) -> AsyncGenerator[None, None]:
        """Take on jobs until the block ends; then those that run get what is left of the time to drain."""
        self._reopen = reopen
        async with asyncio.TaskGroup() as tasks:
            self._tasks = tasks
            loops = [
                tasks.create_task(loop) for loop in (self._renew(), self._listen(), self._look_after(), self._recover())
            ]
            try:
                yield
            finally:
                await self._stop()
                for loop in loops:
                    loop.cancel()

    @property
    def _is_full(self) -> bool:
        return self._is_draining or len(self._running) >= self._settings.max_running

    @property
    def _is_draining(self) -> bool:
        if self._drain.begun and self._draining_since is None:
            self._draining_since = time.monotonic()
        return self._draining_since is not None

    async def _renew(self) -> None:
        while True:
            if self._running or self._held:
                await self._surely(self._store.heartbeat(self.worker))
            await asyncio.sleep(self._settings.lease_s / 3)

    async def _recover(self) -> None:
        """End what ran in the foreground of replicas that died."""
        while True:
            await asyncio.sleep(self._settings.lease_s)
            await self._surely(self._store.recover())

    async def _listen(self) -> None:
        while True:
            async with self._store.watch_jobs() as watch:
                while True:
                    await watch.changed()
                    self._due.set()

    async def _look_after(self) -> None:
        while True:
            await self._surely(self._look())
            with suppress(TimeoutError):
                async with asyncio.timeout(_ROUND_S):
                    await self._due.wait()
            self._due.clear()

    async def _look(self) -> None:
        """One round: stop what is no longer ours, hand back what we do not run, take what is free."""
        # What begins while the store answers is not in its answer; what is given up meanwhile is for the next round.
        running, mine, given_up = set(self._running), set(self._running) | self._held, set(self._given_up)
        if mine or given_up or self._orphans:
            held = await self._store.held(self.worker)
            for key in running - held:
                if (task := self._running.get(key)) is not None and not task.cancelling():
                    task.cancel()
            await self._disown(held - mine - set(self._running) - self._held)
            self._given_up -= given_up
        if (free := self._settings.max_running - len(self._running)) > 0 and not self._is_draining:
            jobs = await self._store.claim(self.worker, free)
            if jobs and self._is_draining:  # since it was asked
                await self._store.release(self.worker, {(job.owner, job.response_id) for job in jobs})
                return
            for job in jobs:
                _log.info("job_claimed", response=job.response_id, attempt=job.attempt)
                self._start(job, None, queued=False)

    async def _disown(self, orphans: Iterable[Key]) -> None:
        """Two steps, because jobs are for others to run, and only what is left then has nobody."""
        orphans = set(orphans)
        twice, self._orphans = orphans & self._orphans, orphans
        if orphans:
            await self._store.release(self.worker, orphans)
        for owner, response_id in twice:
            stored = await self._store.response(owner, response_id)
            if stored is not None:
                job = Job(owner=owner, response_id=response_id, request={}, attempt=0, logged=stored.logged, told=-1)
                with suppress(NotHeld):
                    await self._run_of(job).interrupt()

    async def _surely(self, work: Awaitable[object]) -> None:
        """Nothing that goes wrong here may end the loop that it is one round of."""
        try:
            await work
        except StoreUnavailable:
            pass  # the store has said so in the log; the next round tries again
        except Exception:  # a bug must not stop the lease of everything else
            _log.exception("background_failed")

    def _start(self, job: Job, runnable: Runnable | None, *, queued: bool) -> None:
        key = job.owner, job.response_id
        task = self._tasks.create_task(self._run(job, runnable, queued=queued))
        self._running[key] = task
        task.add_done_callback(lambda _: self._ended(key, task))

    def _ended(self, key: Key, task: asyncio.Task[None]) -> None:
        if self._running.get(key) is task:
            del self._running[key]
        self._due.set()

    async def _run(self, job: Job, runnable: Runnable | None, *, queued: bool) -> None:
        note_only(response=job.response_id, client=job.owner)
        run = self._run_of(job)
        try:
            if queued:
                await self._store.start(job.owner, job.response_id, worker=self.worker)
            if runnable is None and not self._may_begin(job):
                await run.interrupt()
                return
            if runnable is None:
                try:
                    runnable = self._reopen(job)
                except Exception as error:
                    await run.fail(error)
                    return
            await run.run(runnable)
        except NotHeld:
            _log.info("job_gone", why="cancelled, deleted or taken over")
        except StoreUnavailable:
            _log.warning("job_given_up", why="the store is away")
            self._given_up.add((job.owner, job.response_id))
        except Exception:  # in the task group it would end every other job
            _log.exception("job_failed")
            self._given_up.add((job.owner, job.response_id))

    def _run_of(self, job: Job) -> JobRun:
        return JobRun(self._store, job, worker=self.worker, patience_s=self._settings.lease_s)

    def _may_begin(self, job: Job) -> bool:
        """Whether nobody will read anything twice, and it has not brought down too many replicas already."""
        return job.attempt <= self._settings.max_attempts and job.told <= _BEGINNING

    async def _stop(self) -> None:
        self._drain.begin()
        assert self._is_draining
        assert self._draining_since is not None
        left_s = self._draining_since + self._drain_s - time.monotonic()
        await self._wait(max(left_s, 0.0))
        for task in list(self._running.values()):
            task.cancel()
        await self._wait(_CLOSE_S)
        await self._surely(self._store.release(self.worker))

    async def _wait(self, timeout_s: float) -> None:
        if self._running:
            await asyncio.wait(list(self._running.values()), timeout=timeout_s)
