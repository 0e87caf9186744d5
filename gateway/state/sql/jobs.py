"""Stores background jobs in SQL and leases each to one replica at a time. Leases use the database's clock.

A transaction that changes a response and its job locks the response first, so that no two wait for each other.
"""

from collections.abc import Collection, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any

from sqlalchemy import ColumnElement, Row, Select, case, delete, func, or_, select, tuple_, update
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway.state import endings
from gateway.state.database.change_notifier import JOBS_KEY, ChangeNotifier
from gateway.state.database.database import Database
from gateway.state.database.tables import events, jobs, responses, workers
from gateway.state.row_values import dump_json, parse_json
from gateway.state.sql.response_rows import build_orphaned_condition, end_locked_response, load_recorded_output
from gateway.state.sql.statements import upsert_lease
from gateway.state.store import ChangeWatch
from gateway.state.values import ACTIVE_STATUSES, Job, LeaseLost, OwnerShares

_ROWS_PER_TRANSACTION = 100
_US_PER_DAY = 86_400_000_000


class SqlJobQueue:
    """Implements `JobQueue` over one database."""

    def __init__(self, database: Database, notifier: ChangeNotifier, *, lease_s: float) -> None:
        self._database = database
        self._notifier = notifier
        self._lease_s = lease_s

    async def claim_jobs(self, worker: str, limit: int, shares: OwnerShares | None = None) -> Sequence[Job]:
        """Without jobs to lease, nothing is written."""
        unleased = self._select_next_jobs(worker, limit, shares)
        async with self._database.read_transaction() as connection:
            rows_to_claim = (await connection.execute(unleased)).all()
        if not rows_to_claim:
            return ()
        async with self._database.write_transaction() as connection:
            await upsert_lease(connection, self._database, worker, lease_s=self._lease_s)
            # Rows are locked in the order that all replicas use. The jobs are returned in the order of the queue.
            claimed = {
                row: await self._claim_job(connection, row, worker) for row in sorted(rows_to_claim, key=_job_key)
            }
        return [job for row in rows_to_claim if (job := claimed[row]) is not None]

    async def mark_in_progress(self, owner: str, response_id: str, *, worker: str) -> None:
        async with self._database.write_transaction(owner) as connection:
            if not await self._lease_response(connection, owner, response_id, worker, worker):
                raise LeaseLost(response_id)
        self._notifier.notify_changed(response_id, is_cached=True)  # the worker appends this to the log itself

    async def renew_lease(self, worker: str) -> None:
        async with self._database.write_transaction() as connection:
            await upsert_lease(connection, self._database, worker, lease_s=self._lease_s)

    async def list_leased_responses(self, worker: str) -> frozenset[tuple[str, str]]:
        query = select(responses.c.owner, responses.c.id).where(
            responses.c.worker == worker, responses.c.status.in_(ACTIVE_STATUSES)
        )
        async with self._database.read_transaction() as connection:
            return frozenset((row.owner, row.id) for row in await connection.execute(query))

    async def release_jobs(self, worker: str, only: Collection[tuple[str, str]] | None = None) -> None:
        """Releases the worker's jobs.

        A job that the worker has not started, or gives up because it stops, does not count as an attempt.
        """
        query = (
            select(jobs.c.owner, jobs.c.response_id, responses.c.status)
            .join(responses, (responses.c.owner == jobs.c.owner) & (responses.c.id == jobs.c.response_id))
            .where(jobs.c.worker == worker)
            .order_by(jobs.c.owner, jobs.c.response_id)
        )
        if only is not None:
            query = query.where(tuple_(jobs.c.owner, jobs.c.response_id).in_(sorted(only)))
        async with self._database.write_transaction() as connection:
            rows = (await connection.execute(query)).all()
            for row in rows:
                await connection.execute(
                    update(responses)
                    .where(responses.c.owner == row.owner, responses.c.id == row.response_id)
                    .where(responses.c.worker == worker)
                    .values(worker=None)
                )
                counted_attempts = 0 if only is None or row.status == "queued" else 1
                await connection.execute(
                    update(jobs)
                    .where(jobs.c.owner == row.owner, jobs.c.response_id == row.response_id, jobs.c.worker == worker)
                    .values(worker=None, attempt=jobs.c.attempt - 1 + counted_attempts)
                )
            if only is None:
                await connection.execute(delete(workers).where(workers.c.id == worker))
        if rows:
            self._notifier.notify_changed(JOBS_KEY)

    def watch_jobs(self) -> AbstractAsyncContextManager[ChangeWatch]:
        return self._notifier.watch(JOBS_KEY)

    async def fail_orphaned_responses(self, *, is_only_process: bool = False) -> int:
        if is_only_process:
            await self._release_all_leases()
        failed = 0
        while True:
            orphaned = select(responses).where(build_orphaned_condition(self._database)).limit(_ROWS_PER_TRANSACTION)
            async with self._database.read_transaction() as connection:
                if (await connection.execute(orphaned)).first() is None:
                    return failed
            async with self._database.write_transaction() as connection:
                rows = (await connection.execute(orphaned.with_for_update(skip_locked=True, of=responses))).all()
                for row in rows:
                    output = await load_recorded_output(connection, row.owner, row.id)
                    await end_locked_response(
                        connection, row, endings.build_interrupted_response(parse_json(row.body), output)
                    )
                long_dead = self._database.now_us_expression() - _US_PER_DAY
                await connection.execute(delete(workers).where(workers.c.alive_until_us < long_dead))
            self._notifier.notify_changed(*(row.id for row in rows))
            failed += len(rows)
            if not rows:  # another replica has locked them
                return failed

    def _select_next_jobs(self, worker: str, limit: int, shares: OwnerShares | None) -> Select[Any]:
        """Builds a query for the next jobs that nobody has leased, in the order of the queue."""
        place = func.row_number().over(partition_by=jobs.c.owner, order_by=(jobs.c.created_us, jobs.c.response_id))
        unleased = (
            select(jobs.c.owner, jobs.c.response_id, jobs.c.created_us, place.label("place"))
            .outerjoin(workers, workers.c.id == jobs.c.worker)
            .where(
                or_(jobs.c.worker.is_(None), jobs.c.worker != worker),
                or_(workers.c.id.is_(None), workers.c.alive_until_us < self._database.now_us_expression()),
            )
            .subquery("unleased")
        )
        columns = unleased.c
        count: ColumnElement[int] = columns.place  # the jobs that the owner would run, with this one
        if shares is not None and shares.running:
            count = count + case(dict(shares.running), value=columns.owner, else_=0)
        queue = select(columns.owner, columns.response_id, columns.created_us, count.label("count"))
        if shares is not None:
            queue = queue.where(or_(count <= shares.most, columns.owner == shares.exempt))
        chosen = queue.order_by(count, columns.created_us, columns.response_id).limit(limit).subquery("chosen")
        return (
            select(jobs, responses.c.logged)
            .join_from(chosen, jobs, (jobs.c.owner == chosen.c.owner) & (jobs.c.response_id == chosen.c.response_id))
            .join(responses, (responses.c.owner == jobs.c.owner) & (responses.c.id == jobs.c.response_id))
            .order_by(chosen.c["count"], chosen.c.created_us, chosen.c.response_id)
        )

    async def _claim_job(self, connection: AsyncConnection, job: Row[Any], worker: str) -> Job | None:
        """Claims a job within a transaction. Returns None if another worker was faster, or the response has ended."""
        if not await self._lease_response(connection, job.owner, job.response_id, job.worker, worker):
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
        last_number = (await connection.execute(last)).scalar() if job.logged else None
        return Job(
            owner=job.owner,
            response_id=job.response_id,
            request=parse_json(job.request),
            attempt=attempt.scalar_one(),
            logged=job.logged,
            last_sequence_number=-1 if last_number is None else last_number,
            progress=None if job.progress is None else parse_json(job.progress),
        )

    async def _lease_response(
        self, connection: AsyncConnection, owner: str, response_id: str, previous_worker: str | None, worker: str
    ) -> bool:
        updated = await connection.execute(
            update(responses)
            .where(
                responses.c.owner == owner,
                responses.c.id == response_id,
                responses.c.worker.is_not_distinct_from(previous_worker),
                responses.c.status.in_(ACTIVE_STATUSES),
            )
            .values(worker=worker, status="in_progress")
            .returning(responses.c.body)
        )
        body = updated.scalar()
        if body is None:
            return False
        response = parse_json(body)
        if response["status"] != "in_progress":
            await connection.execute(
                update(responses)
                .where(responses.c.owner == owner, responses.c.id == response_id)
                .values(body=dump_json({**response, "status": "in_progress"}))
            )
        return True

    async def _release_all_leases(self) -> None:
        """Releases every job and deletes every worker's lease."""
        leased_jobs = select(jobs.c.owner, jobs.c.response_id).where(jobs.c.worker.is_not(None))
        async with self._database.write_transaction() as connection:
            await connection.execute(delete(workers))
            await connection.execute(
                update(responses).where(tuple_(responses.c.owner, responses.c.id).in_(leased_jobs)).values(worker=None)
            )
            await connection.execute(update(jobs).values(worker=None))


def _job_key(job: Row[Any]) -> tuple[str, str]:
    return job.owner, job.response_id
