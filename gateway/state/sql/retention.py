"""Deletes expired objects in SQL. Each transaction is small."""

from typing import Final

from sqlalchemy import Select, Table, and_, bindparam, delete, select
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway.state.database.database import RETENTION, Database
from gateway.state.database.pacing import PacedTransactions
from gateway.state.database.tables import (
    approvals,
    completions,
    conversations,
    events,
    files,
    idempotency_keys,
    jobs,
    owner_usage,
    responses,
    tool_calls,
    uploads,
    vector_store_batches,
    workers,
)
from gateway.state.records.approvals import compute_expiry_cutoff_us, delete_approvals
from gateway.state.records.files import FileDeleter, has_expired
from gateway.state.records.idempotency_keys import delete_keys
from gateway.state.records.open_calls import delete_open_calls, settle_abandoned_calls
from gateway.state.records.uploads import delete_uploads, expire_uploads, is_overdue
from gateway.state.row_values import read_clock_us
from gateway.state.sql.completions import delete_completions
from gateway.state.sql.conversations import delete_conversations
from gateway.state.sql.deletion import BATCH_ROWS, RowKeys, delete_in_batches, delete_response_rows, shorten_logs
from gateway.state.values import ACTIVE_STATUSES
from gateway.state.vectors.stores import delete_file_batches

_SELECTED_KEYS: Final = 1000
"""Keys that are selected at once, without a lock, to be deleted in several transactions."""

_DEAD_WORKER_TTL_US: Final = 3600 * 1_000_000
"""The time that the row of a replica remains after its lease has expired. It only helps operators who read the
tables."""

_ENDED_UPLOAD_TTL_US: Final = 86_400 * 1_000_000
"""The time for which an upload is still known after its parts could arrive, so that its client reads how it ended."""

_HOUR_US: Final = 3600 * 1_000_000

_BATCH_TTL_US: Final = 7 * 24 * _HOUR_US
"""The time that a batch of files of a vector store can be read. Its files remain."""


class SqlRetention:
    """Implements `Retention` over one database.

    The event log of a finished response remains for `events_hours`, and the key of a request for `idempotency_hours`,
    both counted from the response's creation.
    """

    def __init__(
        self, database: Database, file_deleter: FileDeleter, *, events_hours: float, idempotency_hours: float
    ) -> None:
        self._database = database
        self._file_deleter = file_deleter
        self._log_ttl_us = int(events_hours * _HOUR_US)
        self._key_ttl_us = int(idempotency_hours * _HOUR_US)

    async def delete_expired(self, *, before: int) -> int:
        """Deletes expired objects, event logs of finished responses that have expired, and rows of dead replicas."""
        cutoff_us = before * 1_000_000
        log_cutoff_us = read_clock_us() - self._log_ttl_us
        await shorten_logs(self._database, responses.c.created_us < max(cutoff_us, log_cutoff_us), turn=RETENTION)
        deleted_count = await delete_in_batches(
            self._database,
            responses,
            responses.c.created_us < cutoff_us,
            ~responses.c.deleted,
            responses.c.status.not_in(ACTIVE_STATUSES),
            delete_rows=self._delete_expired_responses,
        )
        deleted_count += await delete_in_batches(
            self._database,
            conversations,
            conversations.c.used_us < cutoff_us,
            delete_rows=delete_conversations,
            order=conversations.c.used_us,
        )
        deleted_count += await delete_in_batches(
            self._database, completions, completions.c.created_us < cutoff_us, delete_rows=delete_completions
        )
        deleted_count += await delete_in_batches(
            self._database,
            files,
            has_expired(),
            delete_rows=self._file_deleter.delete_files,
            order=files.c.expires_us,
        )
        await delete_in_batches(
            self._database, uploads, is_overdue(), delete_rows=expire_uploads, order=uploads.c.expires_us
        )
        await delete_in_batches(
            self._database,
            uploads,
            uploads.c.expires_us < read_clock_us() - _ENDED_UPLOAD_TTL_US,
            delete_rows=delete_uploads,
            order=uploads.c.expires_us,
        )
        await delete_in_batches(
            self._database,
            vector_store_batches,
            vector_store_batches.c.created_us < read_clock_us() - _BATCH_TTL_US,
            delete_rows=delete_file_batches,
        )
        await delete_in_batches(
            self._database,
            approvals,
            approvals.c.expires_us < compute_expiry_cutoff_us(),
            delete_rows=delete_approvals,
            order=approvals.c.expires_us,
        )
        await settle_abandoned_calls(self._database)
        await delete_open_calls(self._database, tool_calls.c.changed_us < cutoff_us)
        await delete_in_batches(
            self._database,
            idempotency_keys,
            idempotency_keys.c.created_us < read_clock_us() - self._key_ttl_us,
            delete_rows=delete_keys,
        )
        await self._delete_expired_logs()
        await self._delete_orphaned_rows()
        return deleted_count

    async def _delete_expired_responses(self, connection: AsyncConnection, keys: RowKeys) -> int:
        # Sorted by owner: each owner has an advisory lock, which a client's DELETE takes too.
        return sum(
            [
                await delete_response_rows(connection, self._database, owner, response_id)
                for owner, response_id in sorted(keys)
            ]
        )

    async def _delete_expired_logs(self) -> None:
        finished = (
            select(events.c.owner, events.c.response_id)
            .join(responses, and_(responses.c.owner == events.c.owner, responses.c.id == events.c.response_id))
            .where(
                events.c.first == 0,
                responses.c.status.not_in(ACTIVE_STATUSES),
                responses.c.created_us < read_clock_us() - self._log_ttl_us,
            )
            .limit(_SELECTED_KEYS)
        )
        await self._delete_response_data(events, finished)

    async def _delete_orphaned_rows(self) -> None:
        active = select(responses.c.id).where(
            responses.c.owner == jobs.c.owner,
            responses.c.id == jobs.c.response_id,
            responses.c.status.in_(ACTIVE_STATUSES),
        )
        orphaned = select(jobs.c.owner, jobs.c.response_id).where(~active.exists()).limit(_SELECTED_KEYS)
        await self._delete_response_data(jobs, orphaned)
        async with self._database.write_transaction(RETENTION) as connection:
            long_ago = self._database.now_us_expression() - _DEAD_WORKER_TTL_US
            await connection.execute(delete(workers).where(workers.c.alive_until_us < long_ago))
            await connection.execute(delete(owner_usage).where(owner_usage.c.log_bytes == 0))

    async def _delete_response_data(self, table: Table, query: Select[str, str]) -> None:
        """Deletes the rows of ended responses in a table, until `query` returns fewer than _SELECTED_KEYS keys.

        `query` selects the (owner, response_id) of the next ones. It may scan much, so no transaction that writes
        executes it.
        """
        transactions = PacedTransactions(self._database, most_rows=BATCH_ROWS)
        is_key = table.c.owner == bindparam("its_owner"), table.c.response_id == bindparam("its_id")
        while True:
            async with self._database.read_transaction(RETENTION) as connection:
                keys = [{"its_owner": row[0], "its_id": row[1]} for row in await connection.execute(query)]
            start = 0
            while start < len(keys):
                batch = keys[start : start + transactions.rows]
                async with transactions.open() as connection:
                    await self._database.acquire_advisory_lock(connection, "retention")
                    await connection.execute(delete(table).where(*is_key), batch)
                start += len(batch)
            if len(keys) < _SELECTED_KEYS:
                return
