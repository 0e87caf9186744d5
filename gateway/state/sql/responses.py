"""Responses and their items in SQL."""

import math
import time
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import ColumnElement, and_, delete, insert, literal, null, select, tuple_, union_all, update
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway.state import endings
from gateway.state.database.change_notifier import JOBS, Signals
from gateway.state.database.database import Database
from gateway.state.database.tables import (
    INPUT,
    OUTPUT,
    conversation_items,
    items,
    jobs,
    responses,
    workers,
)
from gateway.state.ids import possible
from gateway.state.sql.deletion import forget
from gateway.state.sql.heartbeat import beat
from gateway.state.sql.json_columns import pack, unpack, with_output, without_output
from gateway.state.sql.keyset import beyond, ordered, place_of
from gateway.state.sql.lineage import ancestors, items_of
from gateway.state.sql.response_rows import (
    add_events,
    add_items,
    add_turn,
    bodies_of,
    item_rows,
    write_cancelled,
    write_end,
)
from gateway.state.sql.single_trip import finish_plain
from gateway.state.sql.statements import ADD_RESPONSE, FINISH, HOLD
from gateway.state.store import (
    ACTIVE,
    History,
    LogEntry,
    NewResponse,
    NotHeld,
    Page,
    PageRequest,
    StoredResponse,
)
from translation.errors import InvalidRequest
from translation.representation.json_types import Item, Json

_KEPT_IN_CONVERSATION = ("completed", "incomplete")
"""How a turn ends that goes on in its conversation; one that failed is to be sent again."""

_IDS_PER_QUERY = 1000
_ROWS_PER_TRANSACTION = 100
_US_PER_DAY = 86_400_000_000


class SqlResponses:
    """`Responses` over one database."""

    def __init__(self, database: Database, signals: Signals, *, lease_s: float) -> None:
        self._database = database
        self._signals = signals
        self._lease_s = lease_s
        self._beaten: dict[str, float] = {}

    async def begin(self, new: NewResponse) -> None:
        """Raises InvalidRequest when the parent has been deleted meanwhile."""
        response_id = new.response["id"]
        beats = new.worker is not None and self._is_due(new.worker)
        async with self._database.write() as connection:
            if new.worker is not None and beats:
                # With the row, so that at no moment it is there and its worker is not.
                await beat(connection, self._database, new.worker, lease_s=self._lease_s)
            if new.parent_id is not None:
                await self._hold_parent(connection, new.owner, new.parent_id)
            now = time.time_ns() // 1000
            await connection.execute(
                ADD_RESPONSE,
                {
                    "owner": new.owner,
                    "id": response_id,
                    "created_us": now,
                    "status": new.response["status"],
                    "parent_id": new.parent_id,
                    "conversation_id": new.conversation_id,
                    "body": without_output(new.response),
                    "background": bool(new.response.get("background")),
                    "logged": new.logged,
                    "losses": new.losses,
                    "worker": new.worker,
                },
            )
            await add_items(connection, new.owner, response_id, INPUT, new.items)
            if new.job is not None:
                await connection.execute(
                    insert(jobs).values(
                        owner=new.owner,
                        response_id=response_id,
                        created_us=now,
                        request=pack(new.job),
                        worker=new.worker,
                        attempt=0 if new.worker is None else 1,
                    )
                )
            if new.logged:
                created = endings.lifecycle_frame("response.created", new.response, 0)
                await add_events(connection, new.owner, response_id, LogEntry(0, 0, created))
        if new.worker is not None and beats:
            self._beaten[new.worker] = time.monotonic()
        if new.job is not None:
            self._signals.tell(JOBS)

    async def finish(
        self, owner: str, response: Json, *, worker: str, last: LogEntry | None = None, losses: str | None = None
    ) -> None:
        ended = {
            "its_owner": owner,
            "its_id": response["id"],
            "its_worker": worker,
            "ended_status": response["status"],
            "ended_body": without_output(response),
            "ended_losses": losses,
        }
        seems_plain = last is None and not response.get("background") and response.get("conversation") is None
        if not (seems_plain and self._database.is_sqlite and await self._finish_plain(owner, response, ended)):
            await self._finish(owner, response, ended, last)
        self._signals.tell(response["id"])

    async def _finish_plain(self, owner: str, response: Json, ended: Mapping[str, Any]) -> bool:
        produced = item_rows(owner, response["id"], OUTPUT, response["output"])
        return await self._database.at_once(lambda connection: finish_plain(connection, ended, produced))

    async def _finish(self, owner: str, response: Json, ended: Mapping[str, Any], last: LogEntry | None) -> None:
        response_id = response["id"]
        async with self._database.write() as connection:
            row = (await connection.execute(FINISH, ended)).one_or_none()
            if row is None:
                raise NotHeld(response_id)
            await add_items(connection, owner, response_id, OUTPUT, response["output"])
            if row.conversation_id is not None and response["status"] in _KEPT_IN_CONVERSATION:
                await add_turn(connection, owner, row.conversation_id, response)
            if last is not None:
                await add_events(connection, owner, response_id, last)
            if row.background or row.logged:  # others have no job, and a statement less is a quarter of it all
                await connection.execute(delete(jobs).where(jobs.c.owner == owner, jobs.c.response_id == response_id))

    async def response(self, owner: str, response_id: str) -> StoredResponse | None:
        if not possible(response_id):
            return None
        async with self._database.read() as connection:
            found = await connection.execute(self._shown().where(*_is(owner, response_id)))
            row = found.one_or_none()
            if row is None:
                return None
            output = await bodies_of(connection, owner, [response_id], OUTPUT)
        return StoredResponse(
            response=_as_shown(row, output.get(response_id, ())),
            logged=row.logged,
            background=row.background,
            losses=row.losses,
        )

    async def responses(self, owner: str, page: PageRequest) -> Page:
        order = (responses.c.created_us, responses.c.id)
        listed = self._shown().where(responses.c.owner == owner, ~responses.c.deleted)
        async with self._database.read() as connection:
            if page.after is not None:
                cursor = await place_of(connection, select(*order).where(*_is(owner, page.after)), page.after)
                listed = listed.where(beyond(page, order, cursor))
            found = await connection.execute(listed.order_by(*ordered(page, order)).limit(page.limit + 1))
            rows = found.all()
            shown = rows[: page.limit]
            output = await bodies_of(connection, owner, [row.id for row in shown], OUTPUT)
        return Page([_as_shown(row, output.get(row.id, ())) for row in shown], has_more=len(rows) > page.limit)

    async def delete(self, owner: str, response_id: str) -> bool:
        if not possible(response_id):
            return False
        async with self._database.write() as connection:
            was_there = await forget(connection, self._database, owner, response_id)
        if was_there:
            self._signals.tell(response_id, JOBS)
        return was_there

    async def cancel(self, owner: str, response_id: str) -> StoredResponse | None:
        if not possible(response_id):
            return None
        async with self._database.write() as connection:
            found = await connection.execute(
                select(responses).where(*_is(owner, response_id), responses.c.status.in_(ACTIVE)).with_for_update()
            )
            row = found.one_or_none()
            if row is not None:
                await write_cancelled(connection, row)
        if row is not None:
            self._signals.tell(response_id, JOBS)
        return await self.response(owner, response_id)

    async def input_items(self, owner: str, response_id: str, page: PageRequest) -> Page | None:
        if not possible(response_id):
            return None
        order = (items.c.position,)
        mine = (items.c.owner == owner, items.c.response_id == response_id, items.c.place == INPUT)
        listed = select(items.c.body).where(*mine)
        async with self._database.read() as connection:
            there = await connection.execute(select(responses.c.id).where(*_is(owner, response_id)))
            if there.one_or_none() is None:
                return None
            if page.after is not None:
                cursor = await place_of(
                    connection, select(*order).where(*mine, items.c.id == page.after).limit(1), page.after
                )
                listed = listed.where(beyond(page, order, cursor))
            found = await connection.execute(listed.order_by(*ordered(page, order)).limit(page.limit + 1))
            bodies = found.scalars().all()
        return Page([unpack(body) for body in bodies[: page.limit]], has_more=len(bodies) > page.limit)

    async def history(self, owner: str, response_id: str) -> History | None:
        if not possible(response_id):
            return None
        each = items_of(ancestors(owner, response_id), owner, is_sqlite=self._database.is_sqlite).subquery()
        head = self._shown().where(*_is(owner, response_id)).subquery()
        said = union_all(
            select(
                literal(-1).label("depth"),
                literal(0).label("place"),
                literal(0).label("position"),
                head.c.status,
                head.c.left,
                head.c.body,
            ),
            select(each.c.depth, each.c.place, each.c.position, null(), null(), each.c.body),
        ).subquery()
        async with self._database.read() as connection:
            found = await connection.execute(select(said).order_by(said.c.depth.desc(), said.c.place, said.c.position))
            rows = found.all()
        if not rows or rows[-1].depth != -1:
            return None
        last = rows[-1]
        status = "failed" if last.left else last.status
        said_so_far = [unpack(row.body) for row in rows[:-1] if row.body is not None]
        asked = unpack(last.body)
        return History(said_so_far, status, asked.get("usage"), (asked.get("conversation") or {}).get("id"))

    async def items(self, owner: str, item_ids: Sequence[str]) -> Mapping[str, Item]:
        wanted = list(dict.fromkeys(filter(possible, filter(None, item_ids))))
        found: dict[str, Item] = {}
        async with self._database.read() as connection:
            for start in range(0, len(wanted), _IDS_PER_QUERY):
                part = wanted[start : start + _IDS_PER_QUERY]
                in_conversations = select(conversation_items.c.id, conversation_items.c.body).where(
                    conversation_items.c.owner == owner, conversation_items.c.id.in_(part)
                )
                in_responses = (
                    select(items.c.id, items.c.body)
                    .join_from(
                        items,
                        responses,
                        and_(responses.c.owner == items.c.owner, responses.c.id == items.c.response_id),
                    )
                    .where(items.c.owner == owner, items.c.id.in_(part), ~responses.c.deleted)
                    .order_by(responses.c.created_us)
                )
                for query in (in_conversations, in_responses):
                    rows = await connection.execute(query)
                    found |= {row.id: unpack(row.body) for row in rows}
        return found

    async def recover(self, *, at_start: bool = False) -> int:
        if at_start:
            await self._free_everything()
        failed = 0
        while True:
            left = select(responses).where(self._left()).limit(_ROWS_PER_TRANSACTION)
            async with self._database.read() as connection:
                if (await connection.execute(left)).first() is None:
                    return failed
            async with self._database.write() as connection:
                rows = (await connection.execute(left.with_for_update(skip_locked=True, of=responses))).all()
                for row in rows:
                    await write_end(connection, row, endings.interrupted(unpack(row.body), []))
                long_dead = self._database.now_us() - _US_PER_DAY
                await connection.execute(delete(workers).where(workers.c.alive_until_us < long_dead))
            self._signals.tell(*(row.id for row in rows))
            failed += len(rows)
            if not rows:  # another replica has them
                return failed

    async def _free_everything(self) -> None:
        """Nobody works on anything."""
        held = select(jobs.c.owner, jobs.c.response_id).where(jobs.c.worker.is_not(None))
        async with self._database.write() as connection:
            await connection.execute(delete(workers))
            await connection.execute(
                update(responses).where(tuple_(responses.c.owner, responses.c.id).in_(held)).values(worker=None)
            )
            await connection.execute(update(jobs).values(worker=None))

    def _is_due(self, worker: str) -> bool:
        return time.monotonic() - self._beaten.get(worker, -math.inf) > self._lease_s / 3

    def _shown(self) -> Any:
        return select(
            responses.c.id,
            responses.c.status,
            responses.c.body,
            responses.c.logged,
            responses.c.background,
            responses.c.losses,
            self._left().label("left"),
        )

    def _left(self) -> ColumnElement[bool]:
        """Nobody works on it and nobody will: its replica died, and it has no job."""
        living = select(workers.c.id).where(
            workers.c.id == responses.c.worker, workers.c.alive_until_us > self._database.now_us()
        )
        job = select(jobs.c.owner).where(jobs.c.owner == responses.c.owner, jobs.c.response_id == responses.c.id)
        return and_(responses.c.status.in_(ACTIVE), ~living.exists(), ~job.exists())

    async def _hold_parent(self, connection: AsyncConnection, owner: str, parent_id: str) -> None:
        """Keep it from being forgotten before its child is there."""
        found = await connection.execute(HOLD, {"its_owner": owner, "its_id": parent_id})
        if found.one_or_none() is None:
            raise InvalidRequest(
                f"Previous response with id '{parent_id:.80}' not found.",
                param="previous_response_id",
                code="previous_response_not_found",
            )


def _is(owner: str, response_id: str) -> tuple[ColumnElement[bool], ...]:
    return responses.c.owner == owner, responses.c.id == response_id, ~responses.c.deleted


def _as_shown(row: Any, output: Sequence[str]) -> Json:
    shown = with_output(row.body, output)
    return endings.interrupted(shown, shown["output"]) if row.left else shown
