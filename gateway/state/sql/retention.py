"""What goes after its time, or with its owner, and what an owner has, in SQL. Every transaction is a small one."""

import time
from collections import defaultdict
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from typing import Any, Final, TypeAlias

import orjson
from sqlalchemy import ColumnElement, Row, Select, Table, and_, delete, select, tuple_
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway.state.database.database import Database
from gateway.state.database.tables import (
    INPUT,
    OUTPUT,
    completions,
    conversation_items,
    conversations,
    events,
    items,
    jobs,
    responses,
    workers,
)
from gateway.state.sql.completions import delete_completions
from gateway.state.sql.conversations import delete_conversations
from gateway.state.sql.deletion import forget
from gateway.state.sql.json_columns import unpack, with_output
from gateway.state.store import ACTIVE
from translation.representation.json_types import Json

Keys: TypeAlias = Sequence[tuple[str, str]]
"""(owner, id) of rows."""

Rows: TypeAlias = Sequence[Row[Any]]
Whole: TypeAlias = Callable[[AsyncConnection, str, Rows], Awaitable[list[Json]]]

_BATCH: Final = 50
"""Rows of one transaction: a few milliseconds, so that what is asked meanwhile hardly waits for it."""

_LOGS: Final = 5
"""The same for logs, which are thousands of rows each."""

_DEAD_WORKER_US: Final = 3600 * 1_000_000
"""How long after its lease a replica is remembered. Nothing needs it; it is for whoever looks at the tables."""

_HOUR_US: Final = 3600 * 1_000_000


class SqlRetention:
    """The `Retention` of a store. `events_hours`: how long the log of a finished response is kept."""

    def __init__(self, database: Database, *, events_hours: float) -> None:
        self._database = database
        self._events_us = int(events_hours * _HOUR_US)

    async def sweep(self, *, before: int) -> int:
        """Also drops the logs of finished responses, and what replicas that died left behind."""
        cut = before * 1_000_000
        gone = await self._sweep(
            responses,
            responses.c.created_us < cut,
            ~responses.c.deleted,
            responses.c.status.not_in(ACTIVE),
            forget=self._forget_responses,
        )
        gone += await self._sweep(
            conversations, conversations.c.used_us < cut, forget=delete_conversations, order=conversations.c.used_us
        )
        gone += await self._sweep(completions, completions.c.created_us < cut, forget=delete_completions)
        await self._drop_logs()
        await self._drop_leftovers()
        return gone

    async def erase(self, owner: str) -> int:
        # Children go before their parents: wherever this is broken off, every history that is left is whole.
        gone = await self._sweep(
            responses, responses.c.owner == owner, forget=self._drop_responses, order=responses.c.created_us.desc()
        )
        gone += await self._sweep(conversations, conversations.c.owner == owner, forget=delete_conversations)
        return gone + await self._sweep(completions, completions.c.owner == owner, forget=delete_completions)

    async def export(self, owner: str) -> AsyncGenerator[Json, None]:
        """A response has its `input` beside its `output`, a conversation `items`, a completion `messages`. What is only
        kept as history of later responses is there too: `{"object": "response", "id", "deleted": true, ...}`."""
        for table, whole in (
            (responses, _whole_responses),
            (conversations, _whole_conversations),
            (completions, _whole_completions),
        ):
            async for kept in self._pages(table, owner, whole):
                yield kept

    async def _sweep(
        self,
        table: Table,
        *which: ColumnElement[bool],
        forget: Callable[[AsyncConnection, Keys], Awaitable[int]],
        order: ColumnElement[Any] | None = None,
    ) -> int:
        """Forget rows in batches until there are none left; how many it were."""
        gone = 0
        while True:
            async with self._database.write() as connection:
                # Replicas that do this at the same time take turns, so that they never wait for each other's rows.
                await self._database.one_at_a_time(connection, "retention")
                found = await connection.execute(
                    select(table.c.owner, table.c.id)
                    .where(*which)
                    .order_by(table.c.created_us if order is None else order, table.c.id)
                    .limit(_BATCH)
                )
                keys = [(row.owner, row.id) for row in found]
                gone += await forget(connection, keys)
            if len(keys) < _BATCH:
                return gone

    async def _forget_responses(self, connection: AsyncConnection, keys: Keys) -> int:
        # One owner after the other: each has a lock of its own, which a client's DELETE takes too.
        return sum(
            [await forget(connection, self._database, owner, response_id) for owner, response_id in sorted(keys)]
        )

    async def _drop_responses(self, connection: AsyncConnection, keys: Keys) -> int:
        if not keys:
            return 0
        await self._database.one_at_a_time(connection, keys[0][0])
        chosen = tuple_(responses.c.owner, responses.c.id).in_(keys)
        # In the order in which replicas lock them that claim work.
        await connection.execute(
            select(responses.c.id).where(chosen).order_by(responses.c.owner, responses.c.id).with_for_update()
        )
        counted = await connection.execute(delete(responses).where(chosen).returning(responses.c.deleted))
        for table in (jobs, events, items):
            await connection.execute(delete(table).where(tuple_(table.c.owner, table.c.response_id).in_(keys)))
        return sum(not deleted for deleted in counted.scalars())

    async def _drop_logs(self) -> None:
        finished = (
            select(events.c.owner, events.c.response_id)
            .join(responses, and_(responses.c.owner == events.c.owner, responses.c.id == events.c.response_id))
            .where(
                events.c.first == 0,
                responses.c.status.not_in(ACTIVE),
                responses.c.created_us < _now_us() - self._events_us,
            )
            .limit(_LOGS)
        )
        await self._drop(events, finished, _LOGS)

    async def _drop_leftovers(self) -> None:
        active = select(responses.c.id).where(
            responses.c.owner == jobs.c.owner, responses.c.id == jobs.c.response_id, responses.c.status.in_(ACTIVE)
        )
        await self._drop(jobs, select(jobs.c.owner, jobs.c.response_id).where(~active.exists()).limit(_BATCH), _BATCH)
        async with self._database.write() as connection:
            long_ago = self._database.now_us() - _DEAD_WORKER_US
            await connection.execute(delete(workers).where(workers.c.alive_until_us < long_ago))

    async def _drop(self, table: Table, found: Select[str, str], batch: int) -> None:
        """Delete what responses have in a table, in batches, until none are found."""
        while True:
            async with self._database.write() as connection:
                await self._database.one_at_a_time(connection, "retention")
                keys = [(row.owner, row.response_id) for row in await connection.execute(found)]
                if keys:
                    await connection.execute(delete(table).where(tuple_(table.c.owner, table.c.response_id).in_(keys)))
            if len(keys) < batch:
                return

    async def _pages(self, table: Table, owner: str, whole: Whole) -> AsyncGenerator[Json, None]:
        """An owner's rows, the oldest first, as `whole` makes them; read in pages, shown between transactions."""
        place = tuple_(table.c.created_us, table.c.id)
        query = select(table).where(table.c.owner == owner).order_by(table.c.created_us, table.c.id).limit(_BATCH)
        beyond = query
        while True:
            async with self._database.read() as connection:
                rows = (await connection.execute(beyond)).all()
                page = await whole(connection, owner, rows)
            for kept in page:
                yield kept
            if len(rows) < _BATCH:
                return
            beyond = query.where(place > tuple_(rows[-1].created_us, rows[-1].id))


async def _whole_responses(connection: AsyncConnection, owner: str, rows: Rows) -> list[Json]:
    found = await connection.execute(
        select(items.c.response_id, items.c.place, items.c.body)
        .where(items.c.owner == owner, items.c.response_id.in_([row.id for row in rows]))
        .order_by(items.c.response_id, items.c.place, items.c.position)
    )
    said: defaultdict[tuple[str, int], list[str]] = defaultdict(list)
    for item in found:
        said[item.response_id, item.place].append(item.body)
    return [
        ({"object": "response", "id": row.id, "deleted": True} if row.deleted else {})
        | with_output(row.body, said[row.id, OUTPUT])
        | {"input": [unpack(body) for body in said[row.id, INPUT]]}
        for row in rows
    ]


async def _whole_conversations(connection: AsyncConnection, owner: str, rows: Rows) -> list[Json]:
    found = await connection.execute(
        select(conversation_items.c.conversation_id, conversation_items.c.body)
        .where(conversation_items.c.owner == owner, conversation_items.c.conversation_id.in_([row.id for row in rows]))
        .order_by(conversation_items.c.conversation_id, conversation_items.c.position)
    )
    said: defaultdict[str, list[Json]] = defaultdict(list)
    for item in found:
        said[item.conversation_id].append(unpack(item.body))
    return [unpack(row.body) | {"items": said[row.id]} for row in rows]


async def _whole_completions(_: AsyncConnection, __: str, rows: Rows) -> list[Json]:
    return [unpack(row.body) | {"messages": orjson.loads(row.messages)} for row in rows]


def _now_us() -> int:
    return time.time_ns() // 1000
