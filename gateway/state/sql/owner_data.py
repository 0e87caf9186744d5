"""Measures, erases and exports all data of an owner, in SQL. Each transaction is small."""

from collections import defaultdict
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from typing import Any, Final, TypeAlias
from urllib.parse import quote

import orjson
from sqlalchemy import Row, Table, and_, delete, func, select, tuple_
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway.state.database.change_notifier import ChangeNotifier
from gateway.state.database.database import Database
from gateway.state.database.tables import (
    INPUT_PLACE,
    OUTPUT_PLACE,
    approvals,
    completions,
    conversation_items,
    conversations,
    events,
    file_usage,
    files,
    idempotency_keys,
    items,
    jobs,
    owner_usage,
    prompt_versions,
    prompts,
    responses,
    tool_calls,
    uploads,
    vector_store_usage,
    vector_stores,
)
from gateway.state.owner_data import OwnerUsage
from gateway.state.records.approvals import delete_approvals, delete_approvals_of
from gateway.state.records.files import FileDeleter, build_file, release_blobs_of
from gateway.state.records.idempotency_keys import delete_keys
from gateway.state.records.open_calls import delete_open_calls
from gateway.state.records.prompts import delete_prompts, load_all_versions
from gateway.state.records.uploads import delete_uploads
from gateway.state.row_values import parse_json, parse_with_output, read_clock_us
from gateway.state.sql.completions import delete_completions
from gateway.state.sql.conversations import delete_conversations
from gateway.state.sql.deletion import RowKeys, delete_in_batches, shorten_logs
from gateway.state.vectors.entries import count_entries
from gateway.state.vectors.indexing import remove_chunks_of
from gateway.state.vectors.stores import build_vector_store, delete_vector_stores
from translation.representation.json_types import Json

SelectedRows: TypeAlias = Sequence[Row[Any]]
RowExporter: TypeAlias = Callable[[AsyncConnection, str, SelectedRows], Awaitable[list[Json]]]

_MOST_ERASURES: Final = 1000
_LONGEST_RUN_US: Final = 86_400 * 1_000_000
"""Of more erasures those are forgotten that are older than any run."""

_PAGE_ROWS: Final = 50
"""The rows of one page of an export."""


class SqlOwnerData:
    """Implements `OwnerData` over one database."""

    def __init__(self, database: Database, notifier: ChangeNotifier, file_deleter: FileDeleter) -> None:
        self._database = database
        self._notifier = notifier
        self._file_deleter = file_deleter
        self._erased_us: dict[str, int] = {}
        """The time of the last erasure of owners, by their percent-encoded names, in any replica that signals it."""
        notifier.on_erased = self._note_erasure

    async def measure_owner(self, owner: str) -> OwnerUsage:
        # Neither reads more than the limits allow an owner: the bytes are a kept sum, and ended jobs have no row.
        counts = select(
            select(func.count()).where(jobs.c.owner == owner).scalar_subquery(),
            select(owner_usage.c.log_bytes).where(owner_usage.c.owner == owner).scalar_subquery(),
        )
        async with self._database.read_transaction(owner) as connection:
            job_count, log_bytes = (await connection.execute(counts)).one()
        return OwnerUsage(job_count, log_bytes or 0)

    async def erase_owner(self, owner: str) -> int:
        self._notifier.notify_erased(quote(owner, safe=""))
        deleted_count = await self._erase_rows(owner)
        # What was begun meanwhile, and is not stored yet, counts as begun before.
        self._notifier.notify_erased(quote(owner, safe=""))
        return deleted_count

    def was_erased_since(self, owner: str, begun_us: int) -> bool:
        return bool(self._erased_us) and self._erased_us.get(quote(owner, safe=""), -1) >= begun_us

    def _note_erasure(self, encoded_owner: str) -> None:
        now_us = read_clock_us()
        if len(self._erased_us) > _MOST_ERASURES:
            self._erased_us = {name: at for name, at in self._erased_us.items() if now_us - at < _LONGEST_RUN_US}
        self._erased_us[encoded_owner] = now_us

    async def _erase_rows(self, owner: str) -> int:
        await shorten_logs(self._database, responses.c.owner == owner, turn=owner)
        # Children are deleted before their parents: if this is interrupted, every remaining history is complete.
        deleted_count = await delete_in_batches(
            self._database,
            responses,
            responses.c.owner == owner,
            delete_rows=self._erase_responses,
            order=responses.c.created_us.desc(),
        )
        deleted_count += await delete_in_batches(
            self._database, conversations, conversations.c.owner == owner, delete_rows=delete_conversations
        )
        await delete_in_batches(self._database, approvals, approvals.c.owner == owner, delete_rows=delete_approvals)
        await delete_open_calls(self._database, tool_calls.c.owner == owner)
        await delete_in_batches(
            self._database, idempotency_keys, idempotency_keys.c.owner == owner, delete_rows=delete_keys
        )
        deleted_count += await delete_in_batches(
            self._database,
            vector_stores,
            vector_stores.c.owner == owner,
            delete_rows=delete_vector_stores,
            order=vector_stores.c.number,
        )
        deleted_count += await delete_in_batches(
            self._database, prompts, prompts.c.owner == owner, delete_rows=delete_prompts
        )
        await remove_chunks_of(self._database, owner)
        # Before the files: an upload that is running now either has stored its file, or cannot store it any more.
        await release_blobs_of(self._database, owner)
        await delete_in_batches(self._database, uploads, uploads.c.owner == owner, delete_rows=delete_uploads)
        deleted_count += await delete_in_batches(
            self._database,
            files,
            files.c.owner == owner,
            delete_rows=self._file_deleter.delete_files,
            order=files.c.number,
        )
        async with self._database.write_transaction(owner) as connection:
            await connection.execute(
                delete(vector_store_usage).where(vector_store_usage.c.owner == owner, vector_store_usage.c.stores == 0)
            )
            is_known = prompt_versions.c.prompt_id.in_(select(prompts.c.id).where(prompts.c.owner == owner))
            await connection.execute(delete(prompt_versions).where(prompt_versions.c.owner == owner, ~is_known))
            # Files may be empty. Their numbers are given out from this row.
            is_unused = and_(file_usage.c.owner == owner, file_usage.c.files == 0, file_usage.c.bytes == 0)
            await connection.execute(delete(file_usage).where(is_unused))
            # A response that began meanwhile keeps the row: its bytes are not 0.
            await connection.execute(
                delete(owner_usage).where(owner_usage.c.owner == owner, owner_usage.c.log_bytes == 0)
            )
        return deleted_count + await delete_in_batches(
            self._database, completions, completions.c.owner == owner, delete_rows=delete_completions
        )

    async def export_owner(self, owner: str) -> AsyncGenerator[Json, None]:
        """Yields a response with `input` beside `output`, a conversation with `items`, a completion with `messages`, a
        file without its bytes, and each version of a prompt.

        Deleted responses that remain only as history of later ones are included:
        `{"object": "response", "id", "deleted": true, ...}`. Approvals and idempotency keys have digests only.
        """
        for table, export_rows in (
            (responses, _export_responses),
            (conversations, _export_conversations),
            (completions, _export_completions),
            (files, _export_files),
            (vector_stores, _export_vector_stores),
            (prompts, _export_prompts),
            (approvals, _export_approvals),
            (idempotency_keys, _export_keys),
        ):
            async for exported in self._export_table(table, owner, export_rows):
                yield exported

    async def _erase_responses(self, connection: AsyncConnection, keys: RowKeys) -> int:
        if not keys:
            return 0
        owner = keys[0][0]
        await self._database.acquire_advisory_lock(connection, owner)
        # Not a list of pairs: SQLite would scan the whole table for it.
        response_ids = [response_id for _, response_id in keys]
        has_key = and_(responses.c.owner == owner, responses.c.id.in_(response_ids))
        # In the order in which replicas that claim jobs lock the rows.
        await connection.execute(
            select(responses.c.id).where(has_key).order_by(responses.c.owner, responses.c.id).with_for_update()
        )
        result = await connection.execute(delete(responses).where(has_key).returning(responses.c.deleted))
        await delete_approvals_of(connection, owner, response_ids)
        for table in (jobs, events, items, tool_calls):
            await connection.execute(delete(table).where(table.c.owner == owner, table.c.response_id.in_(response_ids)))
        return sum(not deleted for deleted in result.scalars())

    async def _export_table(self, table: Table, owner: str, export_rows: RowExporter) -> AsyncGenerator[Json, None]:
        """Yields an owner's rows, oldest first, as `export_rows` renders them.

        Each page is read in one transaction and yielded after it.
        """
        sort_key = tuple_(table.c.created_us, table.c.id)
        query = select(table).where(table.c.owner == owner).order_by(table.c.created_us, table.c.id).limit(_PAGE_ROWS)
        page_query = query
        while True:
            async with self._database.read_transaction(owner) as connection:
                rows = (await connection.execute(page_query)).all()
                page = await export_rows(connection, owner, rows)
            for exported in page:
                yield exported
            if len(rows) < _PAGE_ROWS:
                return
            page_query = query.where(sort_key > tuple_(rows[-1].created_us, rows[-1].id))


async def _export_responses(connection: AsyncConnection, owner: str, rows: SelectedRows) -> list[Json]:
    result = await connection.execute(
        select(items.c.response_id, items.c.place, items.c.body)
        .where(items.c.owner == owner, items.c.response_id.in_([row.id for row in rows]))
        .order_by(items.c.response_id, items.c.place, items.c.position)
    )
    bodies: defaultdict[tuple[str, int], list[str]] = defaultdict(list)
    for item in result:
        bodies[item.response_id, item.place].append(item.body)
    return [
        ({"object": "response", "id": row.id, "deleted": True} if row.deleted else {})
        | parse_with_output(row.body, bodies[row.id, OUTPUT_PLACE])
        | {"input": [parse_json(body) for body in bodies[row.id, INPUT_PLACE]]}
        for row in rows
    ]


async def _export_conversations(connection: AsyncConnection, owner: str, rows: SelectedRows) -> list[Json]:
    result = await connection.execute(
        select(conversation_items.c.conversation_id, conversation_items.c.body)
        .where(conversation_items.c.owner == owner, conversation_items.c.conversation_id.in_([row.id for row in rows]))
        .order_by(conversation_items.c.conversation_id, conversation_items.c.position)
    )
    conversation_bodies: defaultdict[str, list[Json]] = defaultdict(list)
    for item in result:
        conversation_bodies[item.conversation_id].append(parse_json(item.body))
    return [parse_json(row.body) | {"items": conversation_bodies[row.id]} for row in rows]


async def _export_completions(_: AsyncConnection, __: str, rows: SelectedRows) -> list[Json]:
    return [parse_json(row.body) | {"messages": orjson.loads(row.messages)} for row in rows]


async def _export_files(_: AsyncConnection, __: str, rows: SelectedRows) -> list[Json]:
    return [build_file(row).render() for row in rows]


async def _export_vector_stores(connection: AsyncConnection, owner: str, rows: SelectedRows) -> list[Json]:
    counts = await count_entries(connection, owner, [row.id for row in rows])
    return [build_vector_store(row, counts.get(row.id)).render() for row in rows]


async def _export_prompts(connection: AsyncConnection, owner: str, rows: SelectedRows) -> list[Json]:
    return await load_all_versions(connection, owner, [row.id for row in rows])


async def _export_approvals(_: AsyncConnection, __: str, rows: SelectedRows) -> list[Json]:
    return _columns_of(rows, "approval")


async def _export_keys(_: AsyncConnection, __: str, rows: SelectedRows) -> list[Json]:
    return _columns_of(rows, "idempotency_key")


def _columns_of(rows: SelectedRows, object_name: str) -> list[Json]:
    return [
        {"object": object_name} | {name: value for name, value in row._mapping.items() if name != "owner"}
        for row in rows
    ]
