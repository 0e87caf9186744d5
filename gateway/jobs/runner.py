"""Runs jobs: responses that outlive their HTTP request, submitted here or claimed from a replica that died.

Also renews the lease of this process, and ends responses whose process died. It knows no API: an `UnstartedRun`
produces the frames.
"""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import Final, TypeAlias

import structlog

from dataplane.sharing.fair_turns import NO_OWNER, current_owner
from gateway.config.settings import BackgroundSettings
from gateway.errors import StoreUnavailable
from gateway.http.auth import ANONYMOUS
from gateway.http.guard import DrainState
from gateway.jobs.job_attempt import JobAttempt, JobNotResumable, UnstartedRun
from gateway.logs import begin_fields, bind_fields, has_failed, log_round_faults, read_bound_fields
from gateway.replies.log_replay import LAST_OPENING_EVENT
from gateway.state.store import Store
from gateway.state.values import Job, LeaseLost, NewResponse, OwnerShares
from providers.request_ids import CURRENT_IDS, RequestIds
from translation.hosted.approvals import ApprovalAnswers

_log = structlog.get_logger(__name__)

_ROUND_FAILED: Final = "background_task_failed"
"""The event of a bug in one round of a loop, which must not stop the renewal of the lease."""
_access = structlog.get_logger("gateway.access")

_STATUS_OK: Final = 200
_STATUS_CANCELLED: Final = 499
_STATUS_FAILED: Final = 500

_POLL_S: Final = 1.0
"""The longest time between two polls of the store, and so the longest time until a cancelled run stops."""

_CLOSE_TIMEOUT_S: Final = 5.0
"""The time that stopped runs get to close their connections to upstreams."""

ResponseKey: TypeAlias = tuple[str, str]
"""Owner and response id."""


class JobRunner:
    """Runs the jobs of one server process, within `lifespan`. The name `worker` is new with each process.

    The lease is renewed while this process runs a job or tracks a response. A response that the store lists as this
    worker's, but that is neither run nor tracked here, is released, or ended as interrupted.
    """

    def __init__(
        self, store: Store, settings: BackgroundSettings, drain: DrainState, *, worker: str, drain_s: float
    ) -> None:
        self.worker = worker
        self._store = store
        self._settings = settings
        self._drain = drain
        self._drain_s = drain_s
        self._draining_since: float | None = None
        self._resume_job: Callable[[Job], Awaitable[UnstartedRun]]
        self._task_group: asyncio.TaskGroup
        self._job_tasks: dict[ResponseKey, asyncio.Task[None]] = {}
        self._starting: set[ResponseKey] = set()
        self._others_wait = False
        """Whether jobs may wait for a place here. Then new ones wait too, so that their owner overtakes no other."""
        self._tracked: set[ResponseKey] = set()
        self._abandoned: set[ResponseKey] = set()
        self._orphans: set[ResponseKey] = set()
        self._wake_up = asyncio.Event()

    def track_response(self, owner: str, response_id: str) -> None:
        """Records that this process works on a response in the foreground, so that its lease is renewed."""
        self._tracked.add((owner, response_id))

    def untrack_response(self, owner: str, response_id: str) -> None:
        """Ends the effect of `track_response`. If the response is still active in the store, a later poll ends it."""
        self._tracked.discard((owner, response_id))
        self._abandoned.add((owner, response_id))

    async def submit_job(self, new: NewResponse, run: UnstartedRun) -> None:
        """Stores a job and runs it here. Without room for it, it is only queued, for the first replica that has some.

        Raises what `Store.create_response` raises.
        """
        if (job_request := new.job_request) is None:
            raise ValueError("a job is stored with its request")
        # A stream that has begun is never queued: its client already waits for events. Nor is a request whose
        # credentials are not stored: no replica could run it later.
        never_waits = new.response["status"] == "in_progress" or job_request.get("bound")
        runs_here = never_waits or self._has_room(new.owner)
        new = replace(new, worker=self.worker if runs_here else None)
        key = new.owner, new.response["id"]
        self._tracked.add(key)
        if runs_here:
            self._starting.add(key)
        try:
            await self._store.responses.create_response(new)
            if runs_here:
                last_sequence_number = 0 if new.logged else -1
                job = Job(
                    owner=new.owner,
                    response_id=key[1],
                    request=job_request,
                    attempt=1,
                    logged=new.logged,
                    last_sequence_number=last_sequence_number,
                )
                self._start_task(job, run, queued=new.response["status"] == "queued")
        except BaseException:
            # The row may have been written all the same. The next poll then releases it to be run.
            self._abandoned.add(key)
            raise
        finally:
            self._tracked.discard(key)
            self._starting.discard(key)

    @asynccontextmanager
    async def lifespan(self, resume_job: Callable[[Job], Awaitable[UnstartedRun]]) -> AsyncGenerator[None, None]:
        """Runs and claims jobs until the block ends. Running jobs then get the rest of the drain time to finish."""
        self._resume_job = resume_job
        async with asyncio.TaskGroup() as tasks:
            self._task_group = tasks
            loops = [
                tasks.create_task(loop)
                for loop in (self._renew_lease(), self._watch_jobs(), self._poll_store(), self._recover_responses())
            ]
            try:
                yield
            finally:
                await self._stop_jobs()
                for loop in loops:
                    loop.cancel()

    def _has_room(self, owner: str) -> bool:
        shares = self._measure_shares()
        self._others_wait = self._others_wait or self._count_free_places(shares) <= 0
        return not (self._is_stopping or self._others_wait) and shares.has_room(owner)

    def _measure_shares(self) -> OwnerShares:
        """Returns the shares of owners: of four places, one is left for other owners."""
        most = self._settings.max_running - self._settings.max_running // 4
        running = Counter(owner for owner, _ in self._job_tasks.keys() | self._starting)
        return OwnerShares(most=most, running=running, exempt=ANONYMOUS.owner)

    def _count_free_places(self, shares: OwnerShares) -> int:
        """Returns the number of free places. Streams that cannot wait may be more than their owner's share, but take no
        more places than that."""
        limits = {shares.exempt: self._settings.max_running}
        in_use = sum(min(count, limits.get(owner, shares.most)) for owner, count in shares.running.items())
        return self._settings.max_running - in_use

    @property
    def _is_stopping(self) -> bool:
        """Whether new jobs are left to other replicas, which have the time to run them to the end."""
        if self._drain.begun:
            self._record_drain()
        return self._drain.stopping

    def _record_drain(self) -> float:
        """Returns the time at which this runner first noticed the drain."""
        if self._draining_since is None:
            self._draining_since = time.monotonic()
        return self._draining_since

    async def _renew_lease(self) -> None:
        while True:
            if self._job_tasks or self._tracked:
                with log_round_faults(_log, _ROUND_FAILED):
                    await self._store.jobs.renew_lease(self.worker)
            await asyncio.sleep(self._settings.lease_s / 3)

    async def _recover_responses(self) -> None:
        """Ends, periodically, the foreground responses of replicas that died."""
        while True:
            await asyncio.sleep(self._settings.lease_s)
            with log_round_faults(_log, _ROUND_FAILED):
                await self._store.jobs.fail_orphaned_responses()

    async def _watch_jobs(self) -> None:
        while True:
            async with self._store.jobs.watch_jobs() as watch:
                while True:
                    await watch.wait_for_change()
                    self._wake_up.set()

    async def _poll_store(self) -> None:
        while True:
            with log_round_faults(_log, _ROUND_FAILED):
                await self._reconcile()
            with suppress(TimeoutError):
                async with asyncio.timeout(_POLL_S):
                    await self._wake_up.wait()
            self._wake_up.clear()

    async def _reconcile(self) -> None:
        """Compares the store with this process once: cancels lost jobs, releases orphans, and claims free jobs."""
        # Sets are taken before the query: responses that begin meanwhile are not in its result, and those abandoned
        # meanwhile are left to the next round.
        running, tracked, abandoned = set(self._job_tasks), set(self._job_tasks) | self._tracked, set(self._abandoned)
        if tracked or abandoned or self._orphans:
            leased = await self._store.jobs.list_leased_responses(self.worker)
            for key in running - leased:
                if (task := self._job_tasks.get(key)) is not None and not task.cancelling():
                    task.cancel()
            await self._release_orphans(leased - tracked - set(self._job_tasks) - self._tracked)
            self._abandoned -= abandoned
        shares = self._measure_shares()
        if (free := self._count_free_places(shares)) > 0 and not self._is_stopping:
            jobs = await self._store.jobs.claim_jobs(self.worker, free, shares)
            self._others_wait = len(jobs) >= free
            if jobs and self._is_stopping:  # the server was told to stop during the query
                await self._store.jobs.release_jobs(self.worker, {(job.owner, job.response_id) for job in jobs})
                return
            for job in jobs:
                _log.info("job_claimed", response=job.response_id, attempt=job.attempt)
                self._start_task(job, None, queued=False)

    async def _release_orphans(self, orphans: Iterable[ResponseKey]) -> None:
        """Releases responses that are not run here, and ends responses that were released in the previous round.

        Released jobs are free for any replica. A response that this worker still holds one round later is no job, so it
        is ended as interrupted.
        """
        orphans = set(orphans)
        unowned, self._orphans = orphans & self._orphans, orphans
        if orphans:
            await self._store.jobs.release_jobs(self.worker, orphans)
        for owner, response_id in unowned:
            stored = await self._store.responses.load_response(owner, response_id)
            if stored is not None:
                job = Job(
                    owner=owner,
                    response_id=response_id,
                    request={},
                    attempt=0,
                    logged=stored.logged,
                    last_sequence_number=-1,
                )
                with suppress(LeaseLost):
                    await self._build_attempt(job).interrupt()

    def _start_task(self, job: Job, run: UnstartedRun | None, *, queued: bool) -> None:
        key = job.owner, job.response_id
        task = self._task_group.create_task(self._run_job(job, run, queued=queued))
        self._job_tasks[key] = task
        task.add_done_callback(lambda _: self._on_task_done(key, task))

    def _on_task_done(self, key: ResponseKey, task: asyncio.Task[None]) -> None:
        if self._job_tasks.get(key) is task:
            del self._job_tasks[key]
        self._wake_up.set()

    async def _run_job(self, job: Job, run: UnstartedRun | None, *, queued: bool) -> None:
        begin_fields(response=job.response_id, client=job.owner)
        CURRENT_IDS.set(ids := RequestIds(job.response_id))  # the id of all its log lines, on every replica
        current_owner.set(NO_OWNER if job.owner == ANONYMOUS.owner else job.owner)
        attempt = self._build_attempt(job)
        try:
            if queued:
                await self._store.jobs.mark_in_progress(job.owner, job.response_id, worker=self.worker)
            if run is None and job.attempt > self._settings.max_attempts:
                # The limit stops a job that kills its replicas.
                await self._reopen_approvals(job)
                await attempt.interrupt()
                return
            if run is None:
                try:
                    run = await self._resume_job(job)
                except JobNotResumable:
                    await attempt.interrupt()
                    return
                except StoreUnavailable:
                    raise
                except Exception as error:
                    await self._reopen_approvals(job)
                    await attempt.fail(error)
                    return
            await self._produce(attempt, run, ids)
        except LeaseLost:
            _log.info("job_lease_lost", why="cancelled, deleted or taken over")
        except StoreUnavailable:
            _log.warning("job_abandoned", why="the store is unavailable")
            self._abandoned.add((job.owner, job.response_id))
        except Exception:  # an exception in the task group would end every other job
            _log.exception("job_failed")
            self._abandoned.add((job.owner, job.response_id))

    async def _produce(self, attempt: JobAttempt, run: UnstartedRun, ids: RequestIds) -> None:
        """Produces the reply of a job, and writes its log line."""
        began_ns, status = time.perf_counter_ns(), _STATUS_OK
        meter = run.begin_job()
        try:
            await attempt.produce(run)
        except (LeaseLost, asyncio.CancelledError):
            status = _STATUS_CANCELLED
            raise
        except BaseException:
            status = _STATUS_FAILED
            raise
        finally:
            elapsed_ns = time.perf_counter_ns() - began_ns
            bind_fields(**ids.list_log_fields())
            if meter is not None:
                meter.end(status, elapsed_ns, read_bound_fields())
            log = _access.warning if has_failed(read_bound_fields()) else _access.info
            log("job", status=status, ms=round(elapsed_ns / 1e6, 1))

    async def _reopen_approvals(self, job: Job) -> None:
        """Makes the approvals of a job that ends here usable again, unless one of their calls may have begun."""
        if (fields := job.request.get("approvals")) and job.last_sequence_number <= LAST_OPENING_EVENT:
            request_ids = [*ApprovalAnswers.from_json(fields).approved]
            await self._store.approvals.reopen_approvals(job.owner, request_ids, job.response_id)

    def _build_attempt(self, job: Job) -> JobAttempt:
        return JobAttempt(self._store, job, worker=self.worker, max_outage_s=self._settings.lease_s)

    async def _stop_jobs(self) -> None:
        self._drain.begin()
        left_s = self._record_drain() + self._drain_s - time.monotonic()
        # The operator may end the drain before its time.
        waits = (self._drain.expiry.wait(), self._wait_for_tasks(max(left_s, 0.0)))
        tasks = [self._task_group.create_task(wait) for wait in waits]
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            task.cancel()
        for task in list(self._job_tasks.values()):
            task.cancel()
        await self._wait_for_tasks(_CLOSE_TIMEOUT_S)
        with log_round_faults(_log, _ROUND_FAILED):
            await self._store.jobs.release_jobs(self.worker)

    async def _wait_for_tasks(self, timeout_s: float) -> None:
        if self._job_tasks:
            await asyncio.wait(list(self._job_tasks.values()), timeout=timeout_s)
