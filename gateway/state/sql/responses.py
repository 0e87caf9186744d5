"""Stores responses and their items in SQL."""

from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Any

from sqlalchemy import ColumnElement, delete, literal, null, select, tuple_, union_all, update
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway.state import endings
from gateway.state.database.change_notifier import JOBS_KEY, ChangeNotifier
from gateway.state.database.database import Database
from gateway.state.database.tables import (
    INPUT_PLACE,
    OUTPUT_PLACE,
    items,
    jobs,
    responses,
    workers,
)
from gateway.state.paging import Page, PageRequest, UnknownCursor
from gateway.state.row_values import is_valid_id
from gateway.state.sql.deletion import delete_response_rows
from gateway.state.sql.json_columns import parse_json, parse_with_output
from gateway.state.sql.lineage import select_ancestors, select_items, select_items_by_id
from gateway.state.sql.response_rows import (
    build_orphaned_condition,
    cancel_locked_response,
    end_locked_response,
    load_item_bodies,
    load_recorded_output,
)
from gateway.state.values import ACTIVE_STATUSES, History, StoredResponse
from translation.representation.json_types import Item, Json

_IDS_PER_QUERY = 1000
_ROWS_PER_TRANSACTION = 100
_US_PER_DAY = 86_400_000_000


class SqlResponseStore:
    """Implements `ResponseStore` over one database, without the methods of `SqlResponseWriter`."""

    def __init__(self, database: Database, notifier: ChangeNotifier) -> None:
        self._database = database
        self._notifier = notifier

    async def load_response(self, owner: str, response_id: str) -> StoredResponse | None:
        if not is_valid_id(response_id):
            return None
        async with self._database.read_transaction() as connection:
            result = await connection.execute(self._select_responses().where(*_match_response(owner, response_id)))
            row = result.one_or_none()
            if row is None:
                return None
            output = await load_item_bodies(connection, owner, [response_id], OUTPUT_PLACE)
            response = _response_from_row(row, output.get(response_id, ()))
            if row.left:
                response["output"] = await load_recorded_output(connection, owner, response_id)
        return StoredResponse(
            response=response,
            logged=row.logged,
            background=row.background,
            losses=row.losses,
        )

    async def list_responses(self, owner: str, page: PageRequest) -> Page:
        order = (responses.c.created_us, responses.c.id)
        query = self._select_responses().where(responses.c.owner == owner, ~responses.c.deleted)
        async with self._database.read_transaction() as connection:
            if page.after is not None:
                cursor = await _load_cursor(
                    connection, select(*order).where(*_match_response(owner, page.after)), page.after
                )
                query = query.where(_build_cursor_condition(page, order, cursor))
            result = await connection.execute(query.order_by(*_order_columns(page, order)).limit(page.limit + 1))
            rows = result.all()
            page_rows = rows[: page.limit]
            output = await load_item_bodies(connection, owner, [row.id for row in page_rows], OUTPUT_PLACE)
        return Page(
            [_response_from_row(row, output.get(row.id, ())) for row in page_rows], has_more=len(rows) > page.limit
        )

    async def delete_response(self, owner: str, response_id: str) -> bool:
        if not is_valid_id(response_id):
            return False
        async with self._database.write_transaction(owner) as connection:
            was_there = await delete_response_rows(connection, self._database, owner, response_id)
        if was_there:
            self._notifier.notify_changed(response_id, JOBS_KEY)
        return was_there

    async def cancel_response(self, owner: str, response_id: str) -> StoredResponse | None:
        if not is_valid_id(response_id):
            return None
        async with self._database.write_transaction(owner) as connection:
            result = await connection.execute(
                select(responses)
                .where(*_match_response(owner, response_id), responses.c.status.in_(ACTIVE_STATUSES))
                .with_for_update()
            )
            row = result.one_or_none()
            if row is not None:
                await cancel_locked_response(connection, row)
        if row is not None:
            self._notifier.notify_changed(response_id, JOBS_KEY)
        return await self.load_response(owner, response_id)

    async def list_input_items(self, owner: str, response_id: str, page: PageRequest) -> Page | None:
        if not is_valid_id(response_id):
            return None
        order = (items.c.position,)
        is_input = (items.c.owner == owner, items.c.response_id == response_id, items.c.place == INPUT_PLACE)
        query = select(items.c.body).where(*is_input)
        async with self._database.read_transaction() as connection:
            existing = await connection.execute(select(responses.c.id).where(*_match_response(owner, response_id)))
            if existing.one_or_none() is None:
                return None
            if page.after is not None:
                cursor = await _load_cursor(
                    connection, select(*order).where(*is_input, items.c.id == page.after).limit(1), page.after
                )
                query = query.where(_build_cursor_condition(page, order, cursor))
            result = await connection.execute(query.order_by(*_order_columns(page, order)).limit(page.limit + 1))
            bodies = result.scalars().all()
        return Page([parse_json(body) for body in bodies[: page.limit]], has_more=len(bodies) > page.limit)

    async def load_history(self, owner: str, response_id: str) -> History | None:
        if not is_valid_id(response_id):
            return None
        chain_items = select_items(
            select_ancestors(owner, response_id), owner, is_sqlite=self._database.is_sqlite
        ).subquery()
        head = self._select_responses().where(*_match_response(owner, response_id)).subquery()
        history_query = union_all(
            select(
                literal(-1).label("depth"),
                literal(0).label("place"),
                literal(0).label("position"),
                head.c.status,
                head.c.left,
                head.c.body,
            ),
            select(
                chain_items.c.depth, chain_items.c.place, chain_items.c.position, null(), null(), chain_items.c.body
            ),
        ).subquery()
        async with self._database.read_transaction() as connection:
            result = await connection.execute(
                select(history_query).order_by(
                    history_query.c.depth.desc(), history_query.c.place, history_query.c.position
                )
            )
            rows = result.all()
        if not rows or rows[-1].depth != -1:
            return None
        last = rows[-1]
        status = "failed" if last.left else last.status
        history_items = [parse_json(row.body) for row in rows[:-1] if row.body is not None]
        response = parse_json(last.body)
        return History(history_items, status, response.get("usage"), (response.get("conversation") or {}).get("id"))

    async def load_items(self, owner: str, item_ids: Sequence[str]) -> Mapping[str, Item]:
        requested_ids = list(dict.fromkeys(filter(is_valid_id, filter(None, item_ids))))
        items_by_id: dict[str, Item] = {}
        async with self._database.read_transaction() as connection:
            for start in range(0, len(requested_ids), _IDS_PER_QUERY):
                part = requested_ids[start : start + _IDS_PER_QUERY]
                for query in select_items_by_id(part, owner, is_sqlite=self._database.is_sqlite):
                    rows = [row for row in await connection.execute(query) if row.body is not None and not row.deleted]
                    # If responses share an id, the item of the latest one is returned.
                    rows.sort(key=attrgetter("created_us"))
                    items_by_id |= {row.id: parse_json(row.body) for row in rows}
        return items_by_id

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

    async def _release_all_leases(self) -> None:
        """Releases every job and deletes every worker's lease."""
        leased_jobs = select(jobs.c.owner, jobs.c.response_id).where(jobs.c.worker.is_not(None))
        async with self._database.write_transaction() as connection:
            await connection.execute(delete(workers))
            await connection.execute(
                update(responses).where(tuple_(responses.c.owner, responses.c.id).in_(leased_jobs)).values(worker=None)
            )
            await connection.execute(update(jobs).values(worker=None))

    def _select_responses(self) -> Any:
        return select(
            responses.c.id,
            responses.c.status,
            responses.c.body,
            responses.c.logged,
            responses.c.background,
            responses.c.losses,
            build_orphaned_condition(self._database).label("left"),
        )


def _match_response(owner: str, response_id: str) -> tuple[ColumnElement[bool], ...]:
    return responses.c.owner == owner, responses.c.id == response_id, ~responses.c.deleted


def _response_from_row(row: Any, output: Sequence[str]) -> Json:
    response = parse_with_output(row.body, output)
    return endings.build_interrupted_response(response, response["output"]) if row.left else response


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
        raise UnknownCursor(after)
    result = await connection.execute(query)
    row: Sequence[Any] | None = result.one_or_none()
    if row is None:
        raise UnknownCursor(after)
    return row
