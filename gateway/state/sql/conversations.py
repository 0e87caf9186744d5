"""Stores conversations and their items in SQL, and the threads that are conversations."""

from collections.abc import Sequence
from typing import Any, Final

from sqlalchemy import Row, delete, insert, select, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection

from dataplane.body_weight import run_for_documents
from dataplane.sharing.work_pool import run_for_count
from gateway.errors import RunInProgress
from gateway.state.database.database import Database, fetch_rows, insert_rows
from gateway.state.database.tables import conversation_items, conversations
from gateway.state.row_pages import PageRows, fetch_page_rows, parse_page
from gateway.state.row_values import dump_json, is_valid_id, lookup_id_of, parse_json, read_clock_us
from gateway.state.sql.deletion import delete_with_parts
from gateway.state.sql.lineage import select_existing_ids
from gateway.state.values import LAST_RUN_KEY, STATE_KEY, THREAD_KEYS, Page, PageRequest, ThreadTurn, UnknownCursor
from providers.new_id import new_id
from translation.representation.json_types import Item, Json

_MAX_PREFIX_CHARS: Final = 16


class SqlConversationStore:
    """Implements `ConversationStore` over one database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def create_conversation(self, owner: str, conversation: Json, items: Sequence[Item]) -> None:
        now = read_clock_us()
        row = {"owner": owner, "id": conversation["id"], "created_us": now, "used_us": now, "next_position": 0}
        async with self._database.write_transaction(owner) as connection:
            await connection.execute(insert(conversations).values(**row, body=dump_json(conversation)))
            await append_item_rows(connection, owner, conversation["id"], items)

    async def load_conversation(self, owner: str, conversation_id: str) -> Json | None:
        async with self._database.read_transaction(owner) as connection:
            return await _load_conversation(connection, owner, conversation_id)

    async def update_conversation(self, owner: str, conversation_id: str, metadata: Json) -> Json | None:
        async with self._database.write_transaction(owner) as connection:
            before = await _load_conversation(connection, owner, conversation_id, locks=True)
            if before is None:
                return None
            thread_metadata = {
                key: value for key, value in (before.get("metadata") or {}).items() if key in THREAD_KEYS
            }
            after = before | {"metadata": {**metadata, **thread_metadata}}
            await connection.execute(
                update(conversations)
                .where(conversations.c.owner == owner, conversations.c.id == conversation_id)
                .values(body=dump_json(after))
            )
            return after

    async def delete_conversation(self, owner: str, conversation_id: str) -> bool:
        if not is_valid_id(conversation_id):
            return False
        async with self._database.write_transaction(owner) as connection:
            return bool(await delete_conversations(connection, [(owner, conversation_id)]))

    async def add_conversation_items(self, owner: str, conversation_id: str, items: Sequence[Item]) -> bool:
        if not is_valid_id(conversation_id):
            return False
        async with self._database.write_transaction(owner) as connection:
            return await append_item_rows(connection, owner, conversation_id, items)

    async def list_conversation_items(self, owner: str, conversation_id: str, page: PageRequest) -> Page | None:
        async with self._database.read_transaction(owner) as connection:
            if await _load_conversation(connection, owner, conversation_id) is None:
                return None
            page_rows = await _load_item_page(connection, owner, conversation_id, page, self._database.max_page_bytes)
        return await parse_page(page_rows)

    async def load_conversation_item(self, owner: str, conversation_id: str, item_id: str) -> Item | None:
        async with self._database.read_transaction(owner) as connection:
            row = await _load_item_row(connection, owner, conversation_id, item_id)
        return None if row is None else await run_for_documents([row.body], parse_json, row.body)

    async def delete_conversation_item(self, owner: str, conversation_id: str, item_id: str) -> bool:
        async with self._database.write_transaction(owner) as connection:
            row = await _load_item_row(connection, owner, conversation_id, item_id)
            if row is None:
                return False
            result = await connection.execute(
                delete(conversation_items).where(
                    conversation_items.c.owner == owner,
                    conversation_items.c.conversation_id == conversation_id,
                    conversation_items.c.position == row.position,
                )
            )
            return bool(result.rowcount)


async def append_item_rows(
    connection: AsyncConnection, owner: str, conversation_id: str, items: Sequence[Item]
) -> bool:
    """Appends items to a conversation, within a transaction. Returns whether the conversation exists.

    The items get consecutive positions, because the conversation's row is locked until the transaction ends. An item
    whose id the conversation already has gets a new one: ids are cursors.
    """
    next_position = await connection.scalar(
        update(conversations)
        .where(conversations.c.owner == owner, conversations.c.id == conversation_id)
        .values(next_position=conversations.c.next_position + len(items), used_us=read_clock_us())
        .returning(conversations.c.next_position)
    )
    if next_position is None:
        return False
    if not items:
        return True
    new_ids = await run_for_count(len(items), _list_lookup_ids, items)
    is_sqlite = connection.dialect.name == "sqlite"
    existing_query = select_existing_ids(new_ids, owner, conversation_id, is_sqlite=is_sqlite)
    existing = await fetch_rows(await connection.execute(existing_query))
    key = (owner, conversation_id)
    rows = await run_for_count(len(items), _build_rows, key, items, next_position - len(items), existing)
    await insert_rows(connection, insert(conversation_items), rows)
    return True


def _list_lookup_ids(items: Sequence[Item]) -> list[str]:
    return sorted({lookup_id_of(item) for item in items})


def _build_rows(
    conversation: tuple[str, str], items: Sequence[Item], first_position: int, existing: Sequence[Row[Any]]
) -> list[dict[str, Any]]:
    """Returns the rows of new items, for the owner and id of their conversation. `existing` has the ids in use."""
    owner, conversation_id = conversation
    existing_ids = {row.id for row in existing}
    rows = []
    for position, item in enumerate(items, first_position):
        key = lookup_id_of(item)
        if not key or key in existing_ids:
            key = new_id(key.partition("_")[0][:_MAX_PREFIX_CHARS] or "item")
            item = {**item, "id": key}
        existing_ids.add(key)
        keys = {"owner": owner, "conversation_id": conversation_id, "position": position}
        rows.append(keys | {"id": key, "body": dump_json(item)})
    return rows


async def claim_thread(connection: AsyncConnection, owner: str, turn: ThreadTurn, run: str) -> None:
    """Makes `run` the last run of a thread, within the transaction that creates its response.

    The thread's row is locked until the transaction ends. Raises RunInProgress if the last run is not the one that is
    expected: then another one has begun.
    """
    conversation_id = turn.conversation["id"]
    is_thread = (conversations.c.owner == owner, conversations.c.id == conversation_id)
    now = read_clock_us()
    body = await connection.scalar(
        update(conversations).where(*is_thread).values(used_us=now).returning(conversations.c.body)
    )
    if body is None:
        row = {"owner": owner, "id": conversation_id, "created_us": now, "used_us": now, "next_position": 0}
        claimed = _with_run(turn.conversation, run, turn.state)
        try:
            await connection.execute(insert(conversations).values(**row, body=dump_json(claimed)))
        except IntegrityError:
            raise RunInProgress from None
        return
    conversation = parse_json(body)
    if (conversation.get("metadata") or {}).get(LAST_RUN_KEY) != turn.previous_run:
        raise RunInProgress
    await connection.execute(
        update(conversations).where(*is_thread).values(body=dump_json(_with_run(conversation, run, turn.state)))
    )
    if turn.remaining_item_count is not None:
        await _delete_items_after(connection, owner, conversation_id, turn.remaining_item_count)


async def delete_conversations(connection: AsyncConnection, keys: Sequence[tuple[str, str]]) -> int:
    """Deletes the conversations with these keys (owner, id) and their items, within a transaction. Returns how many
    existed."""
    return await delete_with_parts(connection, conversations, conversation_items.c.conversation_id, keys)


async def _load_conversation(
    connection: AsyncConnection, owner: str, conversation_id: str, *, locks: bool = False
) -> Json | None:
    if not is_valid_id(conversation_id):
        return None
    is_one = (conversations.c.owner == owner, conversations.c.id == conversation_id)
    query = select(conversations.c.body).where(*is_one)
    body = await connection.scalar(query.with_for_update() if locks else query)
    return None if body is None else parse_json(body)


async def _load_item_row(
    connection: AsyncConnection, owner: str, conversation_id: str, item_id: str
) -> Row[int, str] | None:
    if not (is_valid_id(conversation_id) and is_valid_id(item_id)):
        return None
    result = await connection.execute(
        select(conversation_items.c.position, conversation_items.c.body)
        .where(
            conversation_items.c.owner == owner,
            conversation_items.c.conversation_id == conversation_id,
            conversation_items.c.id == item_id,
        )
        .limit(1)
    )
    return result.one_or_none()


async def _load_item_page(
    connection: AsyncConnection, owner: str, conversation_id: str, page: PageRequest, max_bytes: int
) -> PageRows:
    position = conversation_items.c.position
    query = select(conversation_items.c.body).where(
        conversation_items.c.owner == owner, conversation_items.c.conversation_id == conversation_id
    )
    if page.after is not None:
        cursor = await _load_item_row(connection, owner, conversation_id, page.after)
        if cursor is None:
            raise UnknownCursor
        query = query.where(position > cursor.position if page.order == "asc" else position < cursor.position)
    query = query.order_by(position.asc() if page.order == "asc" else position.desc())
    return await fetch_page_rows(connection, query, conversation_items.c.body, page, max_bytes)


async def _delete_items_after(connection: AsyncConnection, owner: str, conversation_id: str, count: int) -> None:
    """Deletes all items of a conversation but its first `count`."""
    position = conversation_items.c.position
    is_item = (conversation_items.c.owner == owner, conversation_items.c.conversation_id == conversation_id)
    first = await connection.scalar(select(position).where(*is_item).order_by(position).offset(count).limit(1))
    if first is not None:
        await connection.execute(delete(conversation_items).where(*is_item, position >= first))


def _with_run(conversation: Json, run: str, state: Any) -> Json:
    remaining = {name: value for name, value in conversation.items() if name != STATE_KEY}
    metadata = {**(conversation.get("metadata") or {}), LAST_RUN_KEY: run}
    return remaining | {"metadata": metadata} | ({} if state is None else {STATE_KEY: state})
