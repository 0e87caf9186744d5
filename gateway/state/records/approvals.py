"""Stores approvals of calls in SQL."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from sqlalchemy import Row, delete, insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway.state.database.database import Database
from gateway.state.database.tables import approvals
from gateway.state.row_values import is_valid_id, read_clock_us
from translation.hosted.approvals import (
    ApprovalAnswers,
    ApprovalRecord,
    ApprovalState,
    build_expired_approval_error,
    build_unknown_approval_error,
    build_used_approval_error,
)

_IDS_PER_QUERY: Final = 500

_EXPIRED_RETENTION_US: Final = 7 * 86_400 * 1_000_000
"""The time that the record of an expired request remains, so that a late answer gets a specific error."""

_COLUMNS: Final = [column for column in approvals.columns if column.name not in ("owner", "created_us")]
"""The columns that are the fields of a record."""


class SqlApprovalStore:
    """Implements `ApprovalStore` over one database."""

    def __init__(
        self, database: Database, was_erased_since: Callable[[str, int], bool] = lambda _owner, _begun_us: False
    ) -> None:
        """`was_erased_since` is that of `OwnerData`."""
        self._database = database
        self._was_erased_since = was_erased_since

    async def store_approvals(
        self, owner: str, records: Sequence[ApprovalRecord], *, begun_us: int | None = None
    ) -> None:
        if begun_us is not None and self._was_erased_since(owner, begun_us):
            return
        created_us = read_clock_us()
        rows = [
            {"owner": owner, "created_us": created_us}
            | {column.name: getattr(record, column.name) for column in _COLUMNS}
            for record in records
        ]
        async with self._database.write_transaction(owner) as connection:
            await connection.execute(insert(approvals), rows)

    async def load_approvals(self, owner: str, request_ids: Sequence[str]) -> Mapping[str, ApprovalRecord]:
        ids = list(dict.fromkeys(filter(is_valid_id, request_ids)))
        records: dict[str, ApprovalRecord] = {}
        async with self._database.read_transaction(owner) as connection:
            for start in range(0, len(ids), _IDS_PER_QUERY):
                records |= await _load_records(connection, owner, ids[start : start + _IDS_PER_QUERY])
        return records

    async def answer_approvals(self, owner: str, answers: ApprovalAnswers, response_id: str) -> None:
        async with self._database.write_transaction(owner) as connection:
            await store_answers(connection, owner, answers, response_id)

    async def void_approvals(self, owner: str, request_ids: Sequence[str], response_id: str) -> None:
        await self._change_used(owner, request_ids, response_id, {"state": "void"})

    async def reopen_approvals(self, owner: str, request_ids: Sequence[str], response_id: str) -> None:
        await self._change_used(owner, request_ids, response_id, {"state": "open", "answered_by": None})

    async def _change_used(
        self, owner: str, request_ids: Sequence[str], response_id: str, values: Mapping[str, Any]
    ) -> None:
        async with self._database.write_transaction(owner) as connection:
            for request_id in sorted(request_ids):
                await connection.execute(
                    update(approvals)
                    .where(
                        approvals.c.owner == owner,
                        approvals.c.id == request_id,
                        approvals.c.state == "used",
                        approvals.c.answered_by == response_id,
                    )
                    .values(values)
                )


async def store_answers(connection: AsyncConnection, owner: str, answers: ApprovalAnswers, response_id: str) -> None:
    """Stores the answers of a response that begins, within its transaction.

    Raises InvalidRequest for an answer that no longer counts: another request was faster, or the approval has expired.
    """
    # In one order, so that two requests with the same answers never wait for each other.
    for request_id in sorted([*answers.approved, *answers.denied]):
        state: ApprovalState = "used" if request_id in answers.approved else "denied"
        answered = await connection.execute(
            update(approvals)
            .where(
                approvals.c.owner == owner,
                approvals.c.id == request_id,
                approvals.c.state == "open",
                approvals.c.expires_us > read_clock_us(),
            )
            .values(state=state, answered_by=response_id)
        )
        if answered.rowcount == 0:
            await _require_harmless(connection, owner, request_id, state, answers.find_param(request_id))


async def delete_approvals(connection: AsyncConnection, keys: Sequence[tuple[str, str]]) -> int:
    """Deletes the records with these keys (owner, id), within a transaction. Returns the number of keys."""
    for owner, request_id in keys:
        await connection.execute(delete(approvals).where(approvals.c.owner == owner, approvals.c.id == request_id))
    return len(keys)


async def delete_approvals_of(connection: AsyncConnection, owner: str, response_ids: Sequence[str]) -> None:
    """Deletes the records of requests that these responses made."""
    await connection.execute(
        delete(approvals).where(approvals.c.owner == owner, approvals.c.response_id.in_(response_ids))
    )


def compute_expiry_cutoff_us() -> int:
    """Returns the time before which expired records are deleted, in epoch microseconds."""
    return read_clock_us() - _EXPIRED_RETENTION_US


async def _require_harmless(
    connection: AsyncConnection, owner: str, request_id: str, state: ApprovalState, param: str
) -> None:
    """Raises InvalidRequest, naming `param`, unless an answer that was not stored changes nothing, as a repeated denial
    does."""
    record = (await _load_records(connection, owner, [request_id])).get(request_id)
    if record is None:
        raise build_unknown_approval_error(request_id, param)
    if state == "denied" and record.state in ("denied", "expired"):
        return
    if record.state == "expired":
        raise build_expired_approval_error(request_id, param)
    raise build_used_approval_error(record, param)


async def _load_records(
    connection: AsyncConnection, owner: str, request_ids: Sequence[str]
) -> Mapping[str, ApprovalRecord]:
    query = select(*_COLUMNS).where(approvals.c.owner == owner, approvals.c.id.in_(request_ids))
    return {row.id: _record_of(row) for row in await connection.execute(query)}


def _record_of(row: Row[Any]) -> ApprovalRecord:
    fields = dict(row._mapping)
    if fields["state"] == "open" and fields["expires_us"] <= read_clock_us():
        fields["state"] = "expired"
    return ApprovalRecord(**fields)
