"""Reads in SQL what a new turn builds on: chains of responses, conversations, and items by their ids."""

from collections.abc import Mapping, Sequence
from operator import attrgetter

from sqlalchemy import and_, literal, null, select, union_all

from gateway.state.database.database import Database
from gateway.state.database.tables import conversation_items, conversations
from gateway.state.row_values import is_valid_id, parse_json
from gateway.state.sql.lineage import select_ancestors, select_items, select_items_by_id
from gateway.state.sql.response_rows import match_response, select_responses
from gateway.state.values import History
from translation.representation.json_types import Item

_IDS_PER_QUERY = 1000


class SqlHistoryReader:
    """Implements `HistoryReader` over one database."""

    def __init__(self, database: Database) -> None:
        self._database = database

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
        async with self._database.read_transaction(owner) as connection:
            for start in range(0, len(requested_ids), _IDS_PER_QUERY):
                part = requested_ids[start : start + _IDS_PER_QUERY]
                for query in select_items_by_id(part, owner, is_sqlite=self._database.is_sqlite):
                    rows = [row for row in await connection.execute(query) if row.body is not None and not row.deleted]
                    # If responses share an id, the item of the latest one is returned.
                    rows.sort(key=attrgetter("created_us"))
                    items_by_id |= {row.id: parse_json(row.body) for row in rows}
        return items_by_id

    async def load_conversation_history(self, owner: str, conversation_id: str) -> Sequence[Item] | None:
        if not is_valid_id(conversation_id):
            return None
        query = (
            select(conversation_items.c.body)
            .select_from(conversations)
            .outerjoin(
                conversation_items,
                and_(
                    conversation_items.c.owner == conversations.c.owner,
                    conversation_items.c.conversation_id == conversations.c.id,
                ),
            )
            .where(conversations.c.owner == owner, conversations.c.id == conversation_id)
            .order_by(conversation_items.c.position)
        )
        async with self._database.read_transaction(owner) as connection:
            bodies = (await connection.scalars(query)).all()
        # Because of the outer join, a conversation without items is one row with a null body.
        return [parse_json(body) for body in bodies if body is not None] if bodies else None
