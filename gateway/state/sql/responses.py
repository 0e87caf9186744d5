"""Stores responses and their items in SQL."""

import math
import time
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any, Final

from sqlalchemy import ColumnElement, delete, func, insert, select, tuple_
from sqlalchemy.ext.asyncio import AsyncConnection

from dataplane.body_weight import run_for_documents
from dataplane.sharing.work_pool import run_for_count, run_in_pool
from gateway.state import endings
from gateway.state.database.change_notifier import JOBS_KEY, ChangeNotifier
from gateway.state.database.database import ROWS_AT_ONCE, Database, insert_rows
from gateway.state.database.sqlite_statements import RowValues
from gateway.state.database.tables import INPUT_PLACE, OUTPUT_PLACE, items, jobs, responses
from gateway.state.database.write_queue import ROW_BYTES
from gateway.state.endings import LogOutput
from gateway.state.records.approvals import store_answers
from gateway.state.records.idempotency_keys import claim_key
from gateway.state.row_pages import fetch_page_rows, measure_bytes, parse_page, parse_rows
from gateway.state.row_values import (
    dump_json,
    dump_without_output,
    is_valid_id,
    parse_with_output,
    read_clock_us,
)
from gateway.state.sql.call_journal import settle_calls
from gateway.state.sql.conversations import claim_thread
from gateway.state.sql.deletion import delete_response_rows, shorten_logs
from gateway.state.sql.response_rows import (
    append_turn,
    build_item_rows,
    cancel_locked_response,
    claim_message,
    insert_items,
    insert_log_entry,
    load_item_bodies,
    load_log_entries,
    load_recorded_output,
    match_response,
    read_headers,
    replace_active_response,
    select_responses,
)
from gateway.state.sql.single_trip import finish_plain_response, insert_plain_response
from gateway.state.sql.statements import (
    FINISH_PLAIN_RESPONSE_WITH_ITEMS,
    FINISH_RESPONSE,
    INSERT_ITEMS,
    INSERT_RESPONSE,
    INSERT_RESPONSE_WITH_ITEMS,
    LOCK_RESPONSE,
    bind_items,
    upsert_lease,
)
from gateway.state.values import (
    ACTIVE_STATUSES,
    ENDED_WELL_STATUSES,
    LeaseLost,
    LogEntry,
    NewResponse,
    Page,
    PageRequest,
    StoredHeaders,
    StoredResponse,
    UnknownCursor,
)
from translation.errors import InvalidRequest
from translation.representation.json_types import Item, Json

_DECODED_ENTRIES: Final = 256
"""The most entries of an event log that are read and decoded at once."""


class SqlResponseStore:
    """Implements `ResponseStore` over one database.

    On SQLite, plain responses are written by `single_trip`, in transactions that many of them share. On PostgreSQL each
    is written by one statement.
    """

    def __init__(self, database: Database, notifier: ChangeNotifier, *, lease_s: float) -> None:
        self._database = database
        self._notifier = notifier
        self._lease_s = lease_s
        self._lease_renewed_at: dict[str, float] = {}

    async def create_response(self, new: NewResponse) -> None:
        row = _build_row(new, new.response, worker=new.worker)
        item_rows = await _build_rows_of_items(new.owner, row["id"], INPUT_PLACE, new.input_items)
        renews_lease = new.worker is not None and self._is_lease_renewal_due(new.worker)
        is_alone = new.thread is None and new.keyed is None and new.answers.is_empty and not new.continues_message
        is_plain = new.job_request is None and not new.logged and is_alone
        if is_plain and not renews_lease and self._takes_one_statement(new, len(item_rows)):
            await self._insert_plain(new, row, item_rows)
        else:
            await self._create_in_transaction(new, row, item_rows, renews_lease=renews_lease)
        if new.job_request is not None:
            self._notifier.notify_changed(JOBS_KEY)

    async def store_ended_response(
        self, new: NewResponse, response: Json, *, headers: StoredHeaders | None = None
    ) -> None:
        row = _build_row(new, response, worker=None)
        if headers is not None:
            row |= headers._asdict()
        item_rows = await _build_rows_of_items(new.owner, row["id"], INPUT_PLACE, new.input_items)
        item_rows += await _build_rows_of_items(new.owner, row["id"], OUTPUT_PLACE, response["output"])
        if new.conversation_id is None and new.answers.is_empty and self._takes_one_statement(new, len(item_rows)):
            await self._insert_plain(new, row, item_rows)
            return
        async with self._database.write_transaction(new.owner) as connection:
            await _insert_rows(connection, new, row, item_rows)
            if new.conversation_id is not None and _belongs_to_conversation(response):
                await append_turn(connection, new.owner, new.conversation_id, response)

    async def replace_beginning(self, owner: str, response: Json, *, worker: str, headers: StoredHeaders) -> None:
        async with self._database.write_transaction(owner) as connection:
            await replace_active_response(connection, owner, response, headers, worker=worker)

    async def finish_response(
        self,
        owner: str,
        response: Json,
        *,
        worker: str,
        last: LogEntry | None = None,
        headers: StoredHeaders | None = None,
        has_calls: bool = False,
    ) -> None:
        parameters = {
            "its_owner": owner,
            "its_id": response["id"],
            "its_worker": worker,
            "ended_status": response["status"],
            "ended_body": dump_without_output(response),
            # An empty text says that nothing was lost, whatever was stored at the beginning.
            "ended_losses": None if headers is None else headers.losses or "",
            "ended_upstream": None if headers is None else headers.upstream,
        }
        seems_plain = last is None and not response.get("background") and response.get("conversation") is None
        # PostgreSQL's one statement would encode the parameters of all items at once.
        seems_plain = seems_plain and (self._database.is_sqlite or len(response["output"]) <= ROWS_AT_ONCE)
        if has_calls or not (seems_plain and await self._finish_plain(owner, response, parameters)):
            await self._finish_in_transaction(owner, response, parameters, last, has_calls=has_calls)
        self._notifier.notify_changed(response["id"])

    async def load_response(self, owner: str, response_id: str) -> StoredResponse | None:
        if not is_valid_id(response_id):
            return None
        async with self._database.read_transaction(owner) as connection:
            result = await connection.execute(
                select_responses(self._database).where(*match_response(owner, response_id))
            )
            row = result.one_or_none()
            if row is None:
                return None
            output = await load_item_bodies(connection, owner, [response_id], OUTPUT_PLACE)
            recorded = await load_recorded_output(connection, owner, response_id) if row.left else None
        # Who waits for a thread must not hold a connection to the database.
        bodies = output.get(response_id, ())
        response = await run_for_documents([row.body, *bodies], _response_from_row, row, bodies)
        if recorded is not None:
            response["output"] = recorded
        return StoredResponse(
            response=response,
            logged=row.logged,
            background=row.background,
            headers=read_headers(row),
        )

    async def list_responses(self, owner: str, page: PageRequest) -> Page:
        order = (responses.c.created_us, responses.c.id)
        query = select_responses(self._database).where(responses.c.owner == owner, ~responses.c.deleted)
        async with self._database.read_transaction(owner) as connection:
            if page.after is not None:
                cursor = await _load_cursor(
                    connection, select(*order).where(*match_response(owner, page.after)), page.after
                )
                query = query.where(_build_cursor_condition(page, order, cursor))
            # The text of an output is in rows of its own.
            item_bytes = measure_bytes(items.c.body, is_sqlite=self._database.is_sqlite)
            output_bytes = (
                select(func.coalesce(func.sum(item_bytes), 0))
                .where(items.c.owner == owner, items.c.response_id == responses.c.id, items.c.place == OUTPUT_PLACE)
                .scalar_subquery()
            )
            ordered = query.order_by(*_order_columns(page, order))
            max_bytes = self._database.max_page_bytes
            rows, has_more = await fetch_page_rows(
                connection, ordered, responses.c.body, page, max_bytes, other_bytes=output_bytes
            )
            output = await load_item_bodies(connection, owner, [row.id for row in rows], OUTPUT_PLACE)
        documents = [*(row.body for row in rows), *chain.from_iterable(output.values())]
        return await parse_rows(documents, _read_rows, rows, output, has_more=has_more)

    async def delete_response(self, owner: str, response_id: str) -> bool:
        if not is_valid_id(response_id):
            return False
        if await self._is_active(owner, response_id):
            # Its log is still written to, and would be deleted at once.
            await self.cancel_response(owner, response_id)
        await shorten_logs(self._database, *match_response(owner, response_id), turn=owner)
        async with self._database.write_transaction(owner) as connection:
            was_there = await delete_response_rows(connection, self._database, owner, response_id)
        if was_there:
            self._notifier.notify_changed(response_id, JOBS_KEY)
        return was_there

    async def _is_active(self, owner: str, response_id: str) -> bool:
        is_active = (*match_response(owner, response_id), responses.c.status.in_(ACTIVE_STATUSES))
        async with self._database.read_transaction(owner) as connection:
            return (await connection.execute(select(responses.c.id).where(*is_active))).one_or_none() is not None

    async def cancel_response(self, owner: str, response_id: str) -> StoredResponse | None:
        if not is_valid_id(response_id):
            return None
        logged = await self._read_logged_output(owner, response_id)
        async with self._database.write_transaction(owner) as connection:
            result = await connection.execute(
                select(responses)
                .where(*match_response(owner, response_id), responses.c.status.in_(ACTIVE_STATUSES))
                .with_for_update()
            )
            row = result.one_or_none()
            if row is not None:
                await cancel_locked_response(connection, row, logged)
        if row is not None:
            self._notifier.notify_changed(response_id, JOBS_KEY)
        return await self.load_response(owner, response_id)

    async def list_input_items(self, owner: str, response_id: str, page: PageRequest) -> Page | None:
        if not is_valid_id(response_id):
            return None
        order = (items.c.position,)
        is_input = (items.c.owner == owner, items.c.response_id == response_id, items.c.place == INPUT_PLACE)
        query = select(items.c.body).where(*is_input)
        async with self._database.read_transaction(owner) as connection:
            existing = await connection.execute(select(responses.c.id).where(*match_response(owner, response_id)))
            if existing.one_or_none() is None:
                return None
            if page.after is not None:
                cursor = await _load_cursor(
                    connection, select(*order).where(*is_input, items.c.id == page.after).limit(1), page.after
                )
                query = query.where(_build_cursor_condition(page, order, cursor))
            ordered = query.order_by(*_order_columns(page, order))
            page_rows = await fetch_page_rows(connection, ordered, items.c.body, page, self._database.max_page_bytes)
        return await parse_page(page_rows)

    async def _read_logged_output(self, owner: str, response_id: str) -> LogOutput:
        """Returns the output of an active response in its event log until now. A thread decodes it: it may be long."""
        output = LogOutput({"id": response_id, "output": []})
        is_active = (*match_response(owner, response_id), responses.c.status.in_(ACTIVE_STATUSES))
        async with self._database.read_transaction(owner) as connection:
            has_more = await connection.scalar(select(responses.c.logged).where(*is_active))
        while has_more:
            async with self._database.read_transaction(owner) as connection:
                last = output.last_sequence_number
                entries = await load_log_entries(connection, owner, response_id, after=last, limit=_DECODED_ENTRIES)
            await run_in_pool(output.add, entries)
            has_more = len(entries) == _DECODED_ENTRIES
        return output

    def _takes_one_statement(self, new: NewResponse, item_count: int) -> bool:
        """Whether a plain response with so many items can be inserted without a transaction of several trips.

        On PostgreSQL a parent has to be locked first, and the parameters of all items would be encoded at once.
        """
        return self._database.is_sqlite or (new.parent_id is None and item_count <= ROWS_AT_ONCE)

    async def _insert_plain(self, new: NewResponse, row: RowValues, item_rows: Sequence[RowValues]) -> None:
        if not self._database.is_sqlite:
            parameters = {f"new_{name}": value for name, value in row.items()} | bind_items(item_rows)
            await self._database.run_statement(INSERT_RESPONSE_WITH_ITEMS, parameters, owner=new.owner)
            return
        was_inserted = await self._database.run_transaction(
            lambda connection: insert_plain_response(connection, row, item_rows),
            owner=new.owner,
            size=_size_of(row["body"], item_rows),
        )
        if not was_inserted:
            raise _unknown_parent(new)

    async def _create_in_transaction(
        self, new: NewResponse, row: RowValues, item_rows: Sequence[RowValues], *, renews_lease: bool
    ) -> None:
        async with self._database.write_transaction(new.owner) as connection:
            if new.worker is not None and renews_lease:
                # In the same transaction as the row: a response whose worker has no lease would read as orphaned.
                await upsert_lease(connection, self._database, new.worker, lease_s=self._lease_s)
            if new.keyed is not None:
                # First of all: a request that is sent again must not find that its own approvals are used.
                is_sqlite = self._database.is_sqlite
                await claim_key(connection, new.owner, new.keyed, row["id"], is_sqlite=is_sqlite)
            if new.thread is not None:
                await claim_thread(connection, new.owner, new.thread, row["id"])
            if new.continues_message and new.parent_id is not None:
                await claim_message(connection, self._database, new.owner, new.parent_id)
            await _insert_rows(connection, new, row, item_rows)
            if new.job_request is not None:
                await connection.execute(
                    insert(jobs).values(
                        owner=new.owner,
                        response_id=row["id"],
                        created_us=row["created_us"],
                        request=dump_json(new.job_request),
                        worker=new.worker,
                        attempt=0 if new.worker is None else 1,
                    )
                )
            if new.logged:
                created = endings.encode_lifecycle_frame("response.created", new.response, 0)
                await insert_log_entry(connection, new.owner, row["id"], LogEntry(0, 0, created))
        if new.worker is not None and renews_lease:
            self._lease_renewed_at[new.worker] = time.monotonic()

    async def _finish_plain(self, owner: str, response: Json, parameters: RowValues) -> bool:
        output_rows = await _build_rows_of_items(owner, response["id"], OUTPUT_PLACE, response["output"])
        if not self._database.is_sqlite:
            statement = FINISH_PLAIN_RESPONSE_WITH_ITEMS
            return bool(
                await self._database.run_statement(statement, {**parameters, **bind_items(output_rows)}, owner=owner)
            )
        return await self._database.run_transaction(
            lambda connection: finish_plain_response(connection, parameters, output_rows),
            owner=owner,
            size=_size_of(parameters["ended_body"], output_rows),
        )

    async def _finish_in_transaction(
        self, owner: str, response: Json, parameters: Mapping[str, Any], last: LogEntry | None, *, has_calls: bool
    ) -> None:
        response_id = response["id"]
        async with self._database.write_transaction(owner) as connection:
            row = (await connection.execute(FINISH_RESPONSE, parameters)).one_or_none()
            if row is None:
                raise LeaseLost(response_id)
            await insert_items(connection, owner, response_id, OUTPUT_PLACE, response["output"])
            if row.conversation_id is not None and _belongs_to_conversation(response):
                await append_turn(connection, owner, row.conversation_id, response)
            if last is not None:
                await insert_log_entry(connection, owner, response_id, last)
            if (
                row.background or row.logged
            ):  # others have no job; one statement is a quarter of this transaction's time
                await connection.execute(delete(jobs).where(jobs.c.owner == owner, jobs.c.response_id == response_id))
            if has_calls:
                await settle_calls(connection, owner, response_id)

    def _is_lease_renewal_due(self, worker: str) -> bool:
        return time.monotonic() - self._lease_renewed_at.get(worker, -math.inf) > self._lease_s / 3


async def _build_rows_of_items(
    owner: str, response_id: str, place: int, new_items: Sequence[Item]
) -> list[dict[str, Any]]:
    """Returns the rows of items. Many are built in a thread."""
    return await run_for_count(len(new_items), build_item_rows, owner, response_id, place, new_items)


def _build_row(new: NewResponse, response: Json, *, worker: str | None) -> dict[str, Any]:
    return {
        "owner": new.owner,
        "id": response["id"],
        "created_us": read_clock_us(),
        "status": response["status"],
        "parent_id": new.parent_id,
        "conversation_id": new.conversation_id,
        "body": dump_without_output(response),
        "background": bool(response.get("background")),
        "logged": new.logged,
        **new.headers._asdict(),
        "worker": worker,
    }


async def _insert_rows(
    connection: AsyncConnection, new: NewResponse, row: RowValues, item_rows: Sequence[RowValues]
) -> None:
    """Inserts a response with its items, and stores the approvals that its request answers.

    Raises InvalidRequest if its parent does not exist, or if an approval was answered before.

    The parent cannot be deleted until the transaction ends.
    """
    if new.parent_id is not None:
        parent = await connection.execute(LOCK_RESPONSE, {"its_owner": new.owner, "its_id": new.parent_id})
        if parent.one_or_none() is None:
            raise _unknown_parent(new)
    if not new.answers.is_empty:
        await store_answers(connection, new.owner, new.answers, row["id"])
    await connection.execute(INSERT_RESPONSE, row)
    await insert_rows(connection, INSERT_ITEMS, item_rows)


def _belongs_to_conversation(response: Json) -> bool:
    """Whether an ended response is added to its conversation.

    A failed one is not: the client sends its turn again. An approval cannot be sent again, so its call is added.
    """
    if response["status"] in ENDED_WELL_STATUSES:
        return True
    return any(item.get("approval_request_id") for item in response["output"])


def _unknown_parent(new: NewResponse) -> InvalidRequest:
    return InvalidRequest(
        f"Previous response with id '{new.parent_id:.80}' not found.",
        param="previous_response_id",
        code="previous_response_not_found",
    )


def _size_of(body: str, item_rows: Sequence[RowValues]) -> int:
    """Returns the size of a response's rows as a work of a group."""
    return ROW_BYTES + len(body) + sum(ROW_BYTES + len(row["body"]) for row in item_rows)


def _response_from_row(row: Any, output: Sequence[str]) -> Json:
    response = parse_with_output(row.body, output)
    return endings.build_interrupted_response(response, response["output"]) if row.left else response


def _read_rows(rows: Sequence[Any], output: Mapping[str, Sequence[str]]) -> list[Json]:
    """Returns the responses of these rows, for the texts of their output items."""
    return [_response_from_row(row, output.get(row.id, ())) for row in rows]


def _order_columns(page: PageRequest, order: Iterable[ColumnElement[Any]]) -> list[ColumnElement[Any]]:
    """Returns the columns with the direction of the page."""
    return [column.desc() if page.order == "desc" else column.asc() for column in order]


def _build_cursor_condition(
    page: PageRequest, order: Sequence[ColumnElement[Any]], cursor: Sequence[Any]
) -> ColumnElement[bool]:
    """Returns the condition for rows after the row whose ordering columns have the values `cursor`."""
    sort_key = tuple_(*order)
    return sort_key < tuple_(*cursor) if page.order == "desc" else sort_key > tuple_(*cursor)


async def _load_cursor(connection: AsyncConnection, query: Any, after: str) -> Sequence[Any]:
    """Returns the values of the row that a page starts after. `query` selects them; `after` is the row's id. Raises
    UnknownCursor if there is no such row."""
    if not is_valid_id(after):
        raise UnknownCursor
    result = await connection.execute(query)
    row: Sequence[Any] | None = result.one_or_none()
    if row is None:
        raise UnknownCursor
    return row
