"""Rows of responses as transactions write them: items, the ends of responses, log entries."""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import delete, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway.state import endings
from gateway.state.database.tables import INPUT, OUTPUT, events, items, jobs, responses
from gateway.state.sql.conversations import append_items
from gateway.state.sql.json_columns import findable, pack, unpack, without_output
from gateway.state.sql.statements import ADD_EVENTS, ADD_ITEMS
from gateway.state.store import LogEntry
from providers.new_id import new_id
from translation.representation.json_types import Item, Json


async def bodies_of(
    connection: AsyncConnection, owner: str, response_ids: Sequence[str], place: int
) -> Mapping[str, list[str]]:
    """Response id -> its items in one place, as text."""
    found = await connection.execute(
        select(items.c.response_id, items.c.body)
        .where(items.c.owner == owner, items.c.response_id.in_(response_ids), items.c.place == place)
        .order_by(items.c.response_id, items.c.position)
    )
    bodies: dict[str, list[str]] = {}
    for row in found:
        bodies.setdefault(row.response_id, []).append(row.body)
    return bodies


async def add_items(
    connection: AsyncConnection, owner: str, response_id: str, place: int, added: Sequence[Item]
) -> None:
    """The items of one place, in order, from the first."""
    if added:
        await connection.execute(ADD_ITEMS, item_rows(owner, response_id, place, added))


def item_rows(owner: str, response_id: str, place: int, added: Sequence[Item]) -> list[dict[str, Any]]:
    """What `add_items` adds."""
    return [
        {
            "owner": owner,
            "response_id": response_id,
            "place": place,
            "position": position,
            "id": findable(item),
            "body": pack(item),
        }
        for position, item in enumerate(added)
    ]


async def add_events(connection: AsyncConnection, owner: str, response_id: str, entry: LogEntry) -> None:
    """One entry of the log, whoever holds the response."""
    await connection.execute(ADD_EVENTS, {"owner": owner, "response_id": response_id, **entry._asdict()})


async def add_turn(connection: AsyncConnection, owner: str, conversation_id: str, response: Json) -> None:
    """What was said and answered, after what the conversation has; nothing where it was deleted meanwhile."""
    asked = await bodies_of(connection, owner, [response["id"]], INPUT)
    said = [*map(unpack, asked.get(response["id"], ())), *response["output"]]
    turn = [item if findable(item) else {**item, "id": new_id(item["type"])} for item in said]
    await append_items(connection, owner, conversation_id, turn)


async def write_end(connection: AsyncConnection, row: Any, ended: Json) -> None:
    """An end that is not the worker's own, of a response whose row is locked."""
    await connection.execute(
        update(responses)
        .where(responses.c.owner == row.owner, responses.c.id == row.id)
        .values(status=ended["status"], body=without_output(ended), worker=None)
    )
    await add_items(connection, row.owner, row.id, OUTPUT, ended["output"])
    await connection.execute(delete(jobs).where(jobs.c.owner == row.owner, jobs.c.response_id == row.id))


async def write_cancelled(connection: AsyncConnection, row: Any) -> None:
    """Cancel a response whose row is locked; what its log had told is its output, and the log ends."""
    begun = unpack(row.body)
    output: list[Item] = []
    told = -1
    if row.logged:
        found = await connection.execute(
            select(events.c.last, events.c.frames)
            .where(events.c.owner == row.owner, events.c.response_id == row.id)
            .order_by(events.c.first)
        )
        log = found.all()
        output = endings.output_of(begun, [entry.frames for entry in log])
        told = log[-1].last if log else -1
    ended = endings.cancelled(begun, output)
    await write_end(connection, row, ended)
    if row.logged:
        number = told + 1
        # The API has no event for it: `response.incomplete` ends the stream, and the status says why.
        frame = endings.lifecycle_frame("response.incomplete", ended, number)
        await add_events(connection, row.owner, row.id, LogEntry(number, number, frame))
