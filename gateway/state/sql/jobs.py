"""Background work, leased to one replica at a time. Leases go by the database's clock.

Whoever changes a response and its job locks the response first, so that no two wait for each other.
"""

from collections.abc import Collection, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any

from sqlalchemy import Row, delete, func, or_, select, tuple_, update
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway.state.database.change_notifier import JOBS, Signals
from gateway.state.database.database import Database
from gateway.state.database.tables import events, jobs, responses, workers
from gateway.state.sql.heartbeat import beat
from gateway.state.sql.json_columns import pack, unpack
from gateway.state.store import ACTIVE, Job, NotHeld, Watch


class SqlJobs:
    """`Jobs` of the store's protocol, over one database."""

    def __init__(self, database: Database, signals: Signals, *, lease_s: float) -> None:
        self._database = database
        self._signals = signals
        self._lease_s = lease_s

    async def claim(self, worker: str, limit: int) -> Sequence[Job]:
        """The oldest first. Looking for work that is not there writes nothing."""
        free = (
            select(jobs, responses.c.logged)
            .join(responses, (responses.c.owner == jobs.c.owner) & (responses.c.id == jobs.c.response_id))
            .outerjoin(workers, workers.c.id == jobs.c.worker)
            .where(
                or_(jobs.c.worker.is_(None), jobs.c.worker != worker),
                or_(workers.c.id.is_(None), workers.c.alive_until_us < self._database.now_us()),
            )
            .order_by(jobs.c.created_us, jobs.c.response_id)
            .limit(limit)
        )
        async with self._database.read() as connection:
            found = (await connection.execute(free)).all()
        if not found:
            return ()
        async with self._database.write() as connection:
            await beat(connection, self._database, worker, lease_s=self._lease_s)
            # Locked in the order everyone has, then run in the order they came.
            taken = {row: await self._take(connection, row, worker) for row in sorted(found, key=_key)}
        return [job for row in found if (job := taken[row]) is not None]

    async def start(self, owner: str, response_id: str, *, worker: str) -> None:
        """A queued response is in progress from now on. Raises NotHeld."""
        async with self._database.write() as connection:
            if not await self._set_started(connection, owner, response_id, worker, worker):
                raise NotHeld(response_id)
        self._signals.tell(response_id, at_hand=True)  # its log says so itself

    async def heartbeat(self, worker: str) -> None:
        async with self._database.write() as connection:
            await beat(connection, self._database, worker, lease_s=self._lease_s)

    async def held(self, worker: str) -> frozenset[tuple[str, str]]:
        query = select(responses.c.owner, responses.c.id).where(
            responses.c.worker == worker, responses.c.status.in_(ACTIVE)
        )
        async with self._database.read() as connection:
            return frozenset((row.owner, row.id) for row in await connection.execute(query))

    async def release(self, worker: str, only: Collection[tuple[str, str]] | None = None) -> None:
        """What this worker did not begin, or began and leaves in order, does not count as an attempt."""
        query = (
            select(jobs.c.owner, jobs.c.response_id, responses.c.status)
            .join(responses, (responses.c.owner == jobs.c.owner) & (responses.c.id == jobs.c.response_id))
            .where(jobs.c.worker == worker)
            .order_by(jobs.c.owner, jobs.c.response_id)
        )
        if only is not None:
            query = query.where(tuple_(jobs.c.owner, jobs.c.response_id).in_(sorted(only)))
        async with self._database.write() as connection:
            rows = (await connection.execute(query)).all()
            for row in rows:
                await connection.execute(
                    update(responses)
                    .where(responses.c.owner == row.owner, responses.c.id == row.response_id)
                    .where(responses.c.worker == worker)
                    .values(worker=None)
                )
                tried = 0 if only is None or row.status == "queued" else 1
                await connection.execute(
                    update(jobs)
                    .where(jobs.c.owner == row.owner, jobs.c.response_id == row.response_id, jobs.c.worker == worker)
                    .values(worker=None, attempt=jobs.c.attempt - 1 + tried)
                )
            if only is None:
                await connection.execute(delete(workers).where(workers.c.id == worker))
        if rows:
            self._signals.tell(JOBS)

    def watch_jobs(self) -> AbstractAsyncContextManager[Watch]:
        return self._signals.watch(JOBS)

    async def _take(self, connection: AsyncConnection, job: Row[Any], worker: str) -> Job | None:
        """None when somebody was faster, or the response has ended."""
        if not await self._set_started(connection, job.owner, job.response_id, job.worker, worker):
            return None
        attempt = await connection.execute(
            update(jobs)
            .where(jobs.c.owner == job.owner, jobs.c.response_id == job.response_id)
            .values(worker=worker, attempt=jobs.c.attempt + 1)
            .returning(jobs.c.attempt)
        )
        last = select(func.max(events.c.last)).where(
            events.c.owner == job.owner, events.c.response_id == job.response_id
        )
        told = (await connection.execute(last)).scalar() if job.logged else None
        return Job(
            owner=job.owner,
            response_id=job.response_id,
            request=unpack(job.request),
            attempt=attempt.scalar_one(),
            logged=job.logged,
            told=-1 if told is None else told,
        )

    async def _set_started(
        self, connection: AsyncConnection, owner: str, response_id: str, holder: str | None, worker: str
    ) -> bool:
        taken = await connection.execute(
            update(responses)
            .where(
                responses.c.owner == owner,
                responses.c.id == response_id,
                responses.c.worker.is_not_distinct_from(holder),
                responses.c.status.in_(ACTIVE),
            )
            .values(worker=worker, status="in_progress")
            .returning(responses.c.body)
        )
        body = taken.scalar()
        if body is None:
            return False
        response = unpack(body)
        if response["status"] != "in_progress":
            await connection.execute(
                update(responses)
                .where(responses.c.owner == owner, responses.c.id == response_id)
                .values(body=pack({**response, "status": "in_progress"}))
            )
        return True


def _key(job: Row[Any]) -> tuple[str, str]:
    return job.owner, job.response_id
