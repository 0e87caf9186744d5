"""Reads and writes rows of responses within transactions: items, ends of responses, log entries."""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Row, and_, delete, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from dataplane.sharing.work_pool import run_for_count
from gateway.state import endings
from gateway.state.database.database import Database, fetch_rows, insert_rows
from gateway.state.database.tables import INPUT_PLACE, OUTPUT_PLACE, events, items, jobs, responses, workers
from gateway.state.row_values import dump_json, dump_without_output, lookup_id_of, parse_json
from gateway.state.sql.call_journal import load_call_records, settle_calls
from gateway.state.sql.conversations import append_item_rows
from gateway.state.sql.statements import INSERT_ITEMS, INSERT_LOG_ENTRY
from gateway.state.values import (
    ACTIVE_STATUSES,
    ENDED_WELL_STATUSES,
    MESSAGE_THREAD_KEY,
    THREAD_ALREADY_CONTINUED,
    THREAD_IN_FLIGHT,
    LeaseLost,
    LogEntry,
    StoredHeaders,
)
from providers.new_id import new_id
from translation.errors import InvalidRequest
from translation.representation.json_types import Item, Json


async def load_item_bodies(
    connection: AsyncConnection, owner: str, response_ids: Sequence[str], place: int
) -> Mapping[str, list[str]]:
    """Returns response id -> JSON texts of its items in `place`, which is INPUT_PLACE or OUTPUT_PLACE, in order."""
    result = await connection.execute(
        select(items.c.response_id, items.c.body)
        .where(items.c.owner == owner, items.c.response_id.in_(response_ids), items.c.place == place)
        .order_by(items.c.response_id, items.c.position)
    )
    rows = await fetch_rows(result)
    return await run_for_count(len(rows), _group_bodies, rows)


def _group_bodies(rows: Sequence[Row[Any]]) -> dict[str, list[str]]:
    """Returns response id -> JSON texts of its items."""
    bodies: dict[str, list[str]] = {}
    for row in rows:
        bodies.setdefault(row.response_id, []).append(row.body)
    return bodies


async def insert_items(
    connection: AsyncConnection, owner: str, response_id: str, place: int, new_items: Sequence[Item]
) -> None:
    """Inserts the items of one place, in order. The place has none yet."""
    if new_items:
        rows = await run_for_count(len(new_items), build_item_rows, owner, response_id, place, new_items)
        await insert_rows(connection, INSERT_ITEMS, rows)


def build_item_rows(owner: str, response_id: str, place: int, new_items: Sequence[Item]) -> list[dict[str, Any]]:
    """Returns the rows that `insert_items` inserts."""
    return [
        {
            "owner": owner,
            "response_id": response_id,
            "place": place,
            "position": position,
            "id": lookup_id_of(item),
            "body": dump_json(item),
        }
        for position, item in enumerate(new_items)
    ]


async def insert_log_entry(connection: AsyncConnection, owner: str, response_id: str, entry: LogEntry) -> None:
    """Inserts one entry of the event log. Does not check which worker holds the response."""
    await connection.execute(INSERT_LOG_ENTRY, {"owner": owner, "response_id": response_id, **entry._asdict()})


async def load_log_entries(
    connection: AsyncConnection, owner: str, response_id: str, *, after: int, limit: int | None = None
) -> list[LogEntry]:
    """Returns the entries of an event log with sequence numbers above `after`, in order."""
    rows = await connection.execute(
        select(events.c.first, events.c.last, events.c.frames)
        .where(events.c.owner == owner, events.c.response_id == response_id, events.c.last > after)
        .order_by(events.c.first)
        .limit(limit)
    )
    return [LogEntry(row.first, row.last, row.frames) for row in rows]


async def append_turn(connection: AsyncConnection, owner: str, conversation_id: str, response: Json) -> None:
    """Appends the input and output items of a response to its conversation, unless the conversation has been deleted
    meanwhile."""
    input_bodies = await load_item_bodies(connection, owner, [response["id"]], INPUT_PLACE)
    bodies = input_bodies.get(response["id"], ())
    turn = await run_for_count(len(bodies), _build_turn_items, bodies, response["output"])
    await append_item_rows(connection, owner, conversation_id, turn)


def _build_turn_items(input_bodies: Sequence[str], output: Sequence[Item]) -> list[Item]:
    """Returns the items of a turn, all with ids that can be looked up."""
    turn_items = [*map(parse_json, input_bodies), *output]
    return [item if lookup_id_of(item) else {**item, "id": new_id(item["type"])} for item in turn_items]


async def load_recorded_output(connection: AsyncConnection, owner: str, response_id: str) -> list[Item]:
    """Returns the output of a response without an event log whose replica died: its calls, as the journal has them."""
    return endings.build_output_from_calls(await load_call_records(connection, owner, response_id))


async def replace_active_response(
    connection: AsyncConnection, owner: str, response: Json, headers: StoredHeaders, *, worker: str
) -> None:
    """Replaces a response that runs, and its headers. Raises LeaseLost unless this worker holds it."""
    updated = await connection.execute(
        update(responses)
        .where(
            responses.c.owner == owner,
            responses.c.id == response["id"],
            responses.c.worker == worker,
            responses.c.status.in_(ACTIVE_STATUSES),
        )
        .values(body=dump_without_output(response), **headers._asdict())
    )
    if updated.rowcount == 0:
        raise LeaseLost(response["id"])


async def end_locked_response(connection: AsyncConnection, row: Any, ended: Json) -> None:
    """Stores the end of a response that its worker did not end itself. Its row is locked."""
    await connection.execute(
        update(responses)
        .where(responses.c.owner == row.owner, responses.c.id == row.id)
        .values(status=ended["status"], body=dump_without_output(ended), worker=None)
    )
    await insert_items(connection, row.owner, row.id, OUTPUT_PLACE, ended["output"])
    await connection.execute(delete(jobs).where(jobs.c.owner == row.owner, jobs.c.response_id == row.id))
    await settle_calls(connection, row.owner, row.id)


async def cancel_locked_response(connection: AsyncConnection, row: Any, logged: endings.LogOutput) -> None:
    """Cancels a response whose row is locked. Its output is that of its event log, and the log gets its last event.

    `logged` has the output up to a moment ago, so that little is read while the row is locked.
    """
    if row.logged:
        logged.add(await load_log_entries(connection, row.owner, row.id, after=logged.last_sequence_number))
        output = logged.build_items()
    else:
        output = await load_recorded_output(connection, row.owner, row.id)
    ended = endings.build_cancelled_response(parse_json(row.body), output)
    await end_locked_response(connection, row, ended)
    if row.logged:
        number = logged.last_sequence_number + 1
        # The API has no event for a cancellation: `response.incomplete` ends the stream, and the status says why.
        frame = endings.encode_lifecycle_frame("response.incomplete", ended, number)
        await insert_log_entry(connection, row.owner, row.id, LogEntry(number, number, frame))


def build_orphaned_condition(database: Database) -> ColumnElement[bool]:
    """Builds a condition: a response is active, its replica died, and it has no job, so no replica will ever run it."""
    living = select(workers.c.id).where(
        workers.c.id == responses.c.worker, workers.c.alive_until_us > database.now_us_expression()
    )
    job = select(jobs.c.owner).where(jobs.c.owner == responses.c.owner, jobs.c.response_id == responses.c.id)
    return and_(responses.c.status.in_(ACTIVE_STATUSES), ~living.exists(), ~job.exists())


async def claim_message(connection: AsyncConnection, database: Database, owner: str, message_id: str) -> None:
    """Locks a message of a thread until the transaction ends, which stores the response that continues it.

    Raises InvalidRequest if another response of the thread continues it or has done so. One that failed, was cancelled
    or deleted, or whose replica died does not count. Neither does one of the Responses API, where chains may branch.
    """
    is_message = (responses.c.owner == owner, responses.c.id == message_id)
    await connection.execute(select(responses.c.id).where(*is_message).with_for_update())
    continuations = select(responses.c.id, responses.c.status, responses.c.body).where(
        responses.c.owner == owner,
        responses.c.parent_id == message_id,
        ~responses.c.deleted,
        responses.c.status.in_((*ACTIVE_STATUSES, *ENDED_WELL_STATUSES)),
        ~build_orphaned_condition(database),
    )
    for row in await connection.execute(continuations):
        if MESSAGE_THREAD_KEY in parse_json(row.body):
            raise _message_continued(message_id, row.id, is_active=row.status in ACTIVE_STATUSES)


def _message_continued(message_id: str, continuation_id: str, *, is_active: bool) -> InvalidRequest:
    if is_active:
        text = "is being continued by another request: wait for its end"
        code = THREAD_IN_FLIGHT
    else:
        text = f"has been continued by '{continuation_id}': continue that one"
        code = THREAD_ALREADY_CONTINUED
    return InvalidRequest(
        f"The message '{message_id:.80}' {text}, or create a new thread with the whole conversation.",
        param="thread.previous_message_id",
        code=code,
    )


def select_responses(database: Database) -> Any:
    """Builds a query for responses. `left` says whether one is orphaned, and so has to read as interrupted."""
    return select(
        responses.c.id,
        responses.c.status,
        responses.c.body,
        responses.c.logged,
        responses.c.background,
        responses.c.losses,
        responses.c.upstream,
        build_orphaned_condition(database).label("left"),
    )


def read_headers(row: Any) -> StoredHeaders:
    """Returns the headers that are stored in a row of responses or completions."""
    return StoredHeaders(row.losses or None, row.upstream)


def match_response(owner: str, response_id: str) -> tuple[ColumnElement[bool], ...]:
    """Builds the conditions for a response that its owner can read."""
    return responses.c.owner == owner, responses.c.id == response_id, ~responses.c.deleted
