"""Stores chat completions in SQL."""

from collections.abc import Mapping, Sequence
from hashlib import sha256

import orjson
from sqlalchemy import Row, delete, select, tuple_, update
from sqlalchemy.ext.asyncio import AsyncConnection

from dataplane.body_weight import run_for_documents
from gateway.state.database.database import Database
from gateway.state.database.tables import completion_metadata, completions
from gateway.state.database.write_queue import ROW_BYTES
from gateway.state.row_pages import fetch_page_rows, parse_page, parse_rows
from gateway.state.row_values import dump_json, is_valid_id, parse_json, read_clock_us
from gateway.state.sql.deletion import delete_with_parts
from gateway.state.sql.response_rows import read_headers
from gateway.state.sql.single_trip import insert_completion
from gateway.state.sql.statements import INSERT_COMPLETION, INSERT_COMPLETION_METADATA
from gateway.state.values import NO_HEADERS, Page, PageRequest, StoredCompletion, StoredHeaders, UnknownCursor
from translation.representation.json_types import Json


class SqlCompletionStore:
    """Implements `CompletionStore` over one database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def store_completion(
        self, owner: str, completion: Json, messages: Sequence[Json], headers: StoredHeaders = NO_HEADERS
    ) -> None:
        row = {
            "owner": owner,
            "id": completion["id"],
            "created_us": read_clock_us(),
            "model": _encode_model_column(completion["model"]),
            "body": dump_json(completion),
            "messages": orjson.dumps(list(messages)).decode(),
            **headers._asdict(),
        }
        metadata_rows = _build_metadata_rows(owner, completion["id"], completion.get("metadata"))
        if self._database.is_sqlite:
            size = len(row["body"]) + len(row["messages"]) + ROW_BYTES * (1 + len(metadata_rows))
            await self._database.run_transaction(
                lambda connection: insert_completion(connection, row, metadata_rows), owner=owner, size=size
            )
            return
        async with self._database.write_transaction(owner) as connection:
            await connection.execute(INSERT_COMPLETION, row)
            if metadata_rows:
                await connection.execute(INSERT_COMPLETION_METADATA, metadata_rows)

    async def load_completion(self, owner: str, completion_id: str) -> StoredCompletion | None:
        async with self._database.read_transaction(owner) as connection:
            row = await _load_row(connection, owner, completion_id)
        return None if row is None else await run_for_documents([row.body], _read_row, row)

    async def list_completions(
        self, owner: str, page: PageRequest, *, model: str | None = None, metadata: Mapping[str, str] | None = None
    ) -> Page:
        sort_key = tuple_(completions.c.created_us, completions.c.id)
        query = select(completions.c.body).where(completions.c.owner == owner)
        if model is not None:
            query = query.where(completions.c.model == _encode_model_column(model))
        for key, value in (metadata or {}).items():
            matching_ids = select(completion_metadata.c.completion_id).where(
                completion_metadata.c.owner == owner, completion_metadata.c.entry == _hash_metadata_entry(key, value)
            )
            query = query.where(completions.c.id.in_(matching_ids))
        async with self._database.read_transaction(owner) as connection:
            if page.after is not None:
                cursor = await _load_created_us(connection, owner, page.after)
                if cursor is None:
                    raise UnknownCursor
                last = tuple_(cursor, page.after)
                query = query.where(sort_key > last if page.order == "asc" else sort_key < last)
            if page.order == "asc":
                query = query.order_by(completions.c.created_us, completions.c.id)
            else:
                query = query.order_by(completions.c.created_us.desc(), completions.c.id.desc())
            page_rows = await fetch_page_rows(
                connection, query, completions.c.body, page, self._database.max_page_bytes
            )
        return await parse_page(page_rows)

    async def update_completion(self, owner: str, completion_id: str, metadata: Json | None) -> StoredCompletion | None:
        # Nothing but the metadata of a completion ever changes.
        before = await self.load_completion(owner, completion_id)
        if before is None:
            return None
        after = before.completion | {"metadata": metadata}
        async with self._database.write_transaction(owner) as connection:
            # The row is locked first, so that one of two concurrent updates is complete before the other begins.
            result = await connection.execute(
                update(completions)
                .where(completions.c.owner == owner, completions.c.id == completion_id)
                .values(body=dump_json(after))
            )
            if not result.rowcount:
                return None
            await connection.execute(
                delete(completion_metadata).where(
                    completion_metadata.c.owner == owner, completion_metadata.c.completion_id == completion_id
                )
            )
            if metadata_rows := _build_metadata_rows(owner, completion_id, metadata):
                await connection.execute(INSERT_COMPLETION_METADATA, metadata_rows)
            return StoredCompletion(completion=after, headers=before.headers)

    async def delete_completion(self, owner: str, completion_id: str) -> bool:
        if not is_valid_id(completion_id):
            return False
        async with self._database.write_transaction(owner) as connection:
            return bool(await delete_completions(connection, [(owner, completion_id)]))

    async def list_completion_messages(self, owner: str, completion_id: str, page: PageRequest) -> Page | None:
        if not is_valid_id(completion_id):
            return None
        async with self._database.read_transaction(owner) as connection:
            text = await connection.scalar(
                select(completions.c.messages).where(completions.c.owner == owner, completions.c.id == completion_id)
            )
        if text is None:
            return None
        whole = await parse_rows([text], _parse_messages, text, page, has_more=False)
        return whole._replace(rows=whole.rows[: page.limit], has_more=len(whole.rows) > page.limit)


async def delete_completions(connection: AsyncConnection, keys: Sequence[tuple[str, str]]) -> int:
    """Deletes the completions with these keys (owner, id) and their metadata, within a transaction. Returns how many
    existed."""
    return await delete_with_parts(connection, completions, completion_metadata.c.completion_id, keys)


def _parse_messages(text: str, page: PageRequest) -> list[Json]:
    """Returns the messages of a completion from where the page begins. They are no more than a request may have."""
    messages: list[Json] = orjson.loads(text)
    if page.order == "desc":
        messages.reverse()
    if page.after is None:
        return messages
    positions = [position for position, message in enumerate(messages) if message["id"] == page.after]
    if not positions:
        raise UnknownCursor
    return messages[positions[0] + 1 :]


def _build_metadata_rows(owner: str, completion_id: str, metadata: Json | None) -> list[dict[str, str]]:
    keys = {"owner": owner, "completion_id": completion_id}
    return [keys | {"entry": _hash_metadata_entry(key, value)} for key, value in (metadata or {}).items()]


async def _load_row(
    connection: AsyncConnection, owner: str, completion_id: str
) -> Row[str, str | None, str | None] | None:
    if not is_valid_id(completion_id):
        return None
    result = await connection.execute(
        select(completions.c.body, completions.c.losses, completions.c.upstream).where(
            completions.c.owner == owner, completions.c.id == completion_id
        )
    )
    return result.one_or_none()


def _read_row(row: Row[str, str | None, str | None]) -> StoredCompletion:
    return StoredCompletion(completion=parse_json(row.body), headers=read_headers(row))


async def _load_created_us(connection: AsyncConnection, owner: str, completion_id: str) -> int | None:
    if not is_valid_id(completion_id):
        return None
    return await connection.scalar(
        select(completions.c.created_us).where(completions.c.owner == owner, completions.c.id == completion_id)
    )


def _hash_metadata_entry(key: str, value: object) -> str:
    """Returns a hash of fixed length: an index takes no long text, and a column cannot hold every character."""
    return sha256(orjson.dumps([key, value])).hexdigest()


def _encode_model_column(model: str) -> str:
    """Returns the name as JSON text without quotes. JSON escapes NUL, which a column cannot hold."""
    return orjson.dumps(model).decode()[1:-1]
