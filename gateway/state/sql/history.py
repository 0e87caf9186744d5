"""Reads in SQL what a new turn builds on: chains of responses, conversations, and items by their ids."""

from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import Any, NamedTuple

from sqlalchemy import Row, and_, func, literal, null, select, union_all

from dataplane.body_weight import INLINE_BYTES, weigh_documents
from dataplane.sharing.work_pool import run_for_count, run_in_pool
from gateway.state.database.database import Database, fetch_rows
from gateway.state.database.tables import conversation_items, conversations
from gateway.state.row_pages import measure_bytes
from gateway.state.row_values import count_bytes, is_valid_id, parse_json
from gateway.state.sql.lineage import select_ancestors, select_items, select_items_by_id
from gateway.state.sql.response_rows import match_response, select_responses
from gateway.state.values import History, HistoryTooLong, WeighedItems
from translation.representation.json_types import Item

_IDS_PER_QUERY = 1000


class HistoryLimits(NamedTuple):
    """The most items and bytes of history that one request may continue."""

    max_items: int = 100_000
    max_bytes: int = 64 * 1024 * 1024

    def require_items(self, count: int) -> None:
        """Raises HistoryTooLong for too many items."""
        if count > self.max_items:
            raise HistoryTooLong(f"it has more than {self.max_items} items (store.max_history_items)")

    def require_bytes(self, count: int) -> None:
        """Raises HistoryTooLong for items that are too large together."""
        if count > self.max_bytes:
            limit_mb = self.max_bytes / (1024 * 1024)
            raise HistoryTooLong(f"its items have more than {limit_mb:g} MiB as JSON (store.max_history_mb)")


class SqlHistoryReader:
    """Implements `HistoryReader` over one database.

    A chain of responses cannot grow far beyond the limits, because each response of it was joined with those before.
    Items of conversations and references can be added without that, so their size is asked for first.
    """

    def __init__(self, database: Database, limits: HistoryLimits) -> None:
        self._database = database
        self._limits = limits

    async def load_history(self, owner: str, response_id: str) -> History | None:
        if not is_valid_id(response_id):
            return None
        chain_items = select_items(
            select_ancestors(owner, response_id), owner, is_sqlite=self._database.is_sqlite
        ).subquery()
        head = select_responses(self._database).where(*match_response(owner, response_id)).subquery()
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
        async with self._database.read_transaction(owner) as connection:
            result = await connection.execute(
                select(history_query).order_by(
                    history_query.c.depth.desc(), history_query.c.place, history_query.c.position
                )
            )
            rows = await fetch_rows(result)
        if not rows or rows[-1].depth != -1:
            return None
        last = rows[-1]
        status = "failed" if last.left else last.status
        history_items = await self._parse_items(rows[:-1])
        response = parse_json(last.body)
        return History(history_items, status, response.get("usage"), (response.get("conversation") or {}).get("id"))

    async def load_items(self, owner: str, item_ids: Sequence[str]) -> Mapping[str, Item]:
        requested_ids = list(dict.fromkeys(filter(is_valid_id, filter(None, item_ids))))
        items_by_id: dict[str, Item] = {}
        all_rows: list[Sequence[Row[Any]]] = []
        byte_count = 0
        is_sqlite = self._database.is_sqlite
        async with self._database.read_transaction(owner) as connection:
            for start in range(0, len(requested_ids), _IDS_PER_QUERY):
                part = requested_ids[start : start + _IDS_PER_QUERY]
                for query in select_items_by_id(part, owner, is_sqlite=is_sqlite):
                    body = query.subquery().c.body
                    sizes = select(func.coalesce(func.sum(measure_bytes(body, is_sqlite=is_sqlite)), 0))
                    self._limits.require_bytes(byte_count := byte_count + (await connection.scalar(sizes) or 0))
                    all_rows.append(await fetch_rows(await connection.execute(query)))
        # Who waits for a thread must not hold a connection to the database.
        for found_rows in all_rows:
            rows = [row for row in found_rows if row.body is not None and not row.deleted]
            # If responses share an id, the item of the latest one is returned.
            rows.sort(key=attrgetter("created_us"))
            items = await self._parse_items(rows)
            items_by_id |= {row.id: item for row, item in zip(rows, items, strict=True)}
        return items_by_id

    async def load_conversation_history(self, owner: str, conversation_id: str) -> WeighedItems | None:
        if not is_valid_id(conversation_id):
            return None
        of_conversation = and_(
            conversation_items.c.owner == conversations.c.owner,
            conversation_items.c.conversation_id == conversations.c.id,
        )
        others = conversation_items.alias("others")
        size_of_item = measure_bytes(others.c.body, is_sqlite=self._database.is_sqlite)
        sizes = select(func.coalesce(func.sum(size_of_item), 0)).where(
            others.c.owner == owner, others.c.conversation_id == conversation_id
        )
        size = sizes.scalar_subquery()
        query = (
            select(size.label("size"), conversation_items.c.body)
            .select_from(conversations)
            .outerjoin(conversation_items, and_(of_conversation, size <= self._limits.max_bytes))
            .where(conversations.c.owner == owner, conversations.c.id == conversation_id)
            .order_by(conversation_items.c.position)
            .limit(self._limits.max_items + 1)
        )
        async with self._database.read_transaction(owner) as connection:
            rows = await fetch_rows(await connection.execute(query))
        if not rows:
            return None
        self._limits.require_bytes(rows[0].size)
        return await self._parse_items(rows)

    async def _parse_items(self, rows: Sequence[Row[Any]]) -> WeighedItems:
        """Returns the stored items of rows; rows without a body have none, such as those of an outer join. Many items
        are weighed and parsed in a thread. Raises HistoryTooLong."""
        bodies, weight = await run_for_count(len(rows), self._weigh_rows, rows)
        if weight <= INLINE_BYTES:
            return WeighedItems(map(parse_json, bodies), weight)
        return await run_in_pool(_parse_all, bodies, weight)

    def _weigh_rows(self, rows: Sequence[Row[Any]]) -> tuple[list[str], int]:
        """Returns the JSON texts of the items of rows, and their weight. Raises HistoryTooLong."""
        bodies = [row.body for row in rows if row.body is not None]
        self._limits.require_items(len(bodies))
        self._limits.require_bytes(sum(map(count_bytes, bodies)))
        return bodies, weigh_documents(bodies)


def _parse_all(bodies: Sequence[str], weight: int) -> WeighedItems:
    return WeighedItems(map(parse_json, bodies), weight)
