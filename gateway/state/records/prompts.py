"""Stores prompts and their versions in SQL."""

import re
from collections.abc import Sequence
from typing import Any, Final

from sqlalchemy import Row, Select, and_, delete, func, insert, select, tuple_, update
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway.errors import StorageQuotaExceeded
from gateway.state.database.database import Database
from gateway.state.database.tables import prompt_versions, prompts
from gateway.state.prompt_records import PromptQuota, StoredPrompt
from gateway.state.row_pages import PageRows, fetch_page_rows, parse_page
from gateway.state.row_values import dump_json, is_valid_id, parse_json, read_clock_us
from gateway.state.values import Page, PageRequest, UnknownCursor
from translation.representation.json_types import Json

_MICROSECONDS: Final = 1_000_000

_VERSION: Final = re.compile(r"[1-9][0-9]{0,8}").fullmatch


class SqlPromptStore:
    """Implements `PromptStore` over one database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def create_prompt(self, owner: str, prompt_id: str, content: Json, quota: PromptQuota) -> StoredPrompt:
        now = read_clock_us()
        async with self._database.write_transaction(owner) as connection:
            # The transaction must see the prompts that other replicas add, to count them.
            await self._database.acquire_advisory_lock(connection, owner)
            count = await connection.scalar(select(func.count()).where(prompts.c.owner == owner))
            if (count or 0) >= quota.prompts:
                raise StorageQuotaExceeded(
                    f"{quota.prompts} prompts are stored for this owner: delete some", limit="limits.prompts"
                )
            row = {"owner": owner, "id": prompt_id, "created_us": now, "default_version": 1, "last_version": 1}
            await connection.execute(insert(prompts).values(**row))
            await _insert_version(connection, (owner, prompt_id, 1), now, content)
        return _build_prompt(prompt_id, 1, 1, now, content)

    async def add_prompt_version(
        self, owner: str, prompt_id: str, content: Json, quota: PromptQuota
    ) -> StoredPrompt | None:
        if not is_valid_id(prompt_id):
            return None
        now = read_clock_us()
        async with self._database.write_transaction(owner) as connection:
            raised = (
                await connection.execute(
                    update(prompts)
                    .where(_is_prompt(owner, prompt_id))
                    .values(last_version=prompts.c.last_version + 1)
                    .returning(prompts.c.last_version, prompts.c.default_version)
                )
            ).one_or_none()
            if raised is None:
                return None
            version, default_version = raised
            if version > quota.versions:
                raise StorageQuotaExceeded(
                    f"a prompt may have {quota.versions} versions: create another prompt",
                    limit="limits.prompt_versions",
                )
            await _insert_version(connection, (owner, prompt_id, version), now, content)
        return _build_prompt(prompt_id, version, default_version, now, content)

    async def load_prompt(self, owner: str, prompt_id: str, version: int | None = None) -> StoredPrompt | None:
        if not is_valid_id(prompt_id):
            return None
        wanted = prompts.c.default_version if version is None else version
        query = _select_versions(owner).where(prompts.c.id == prompt_id, prompt_versions.c.version == wanted)
        async with self._database.read_transaction(owner) as connection:
            row = (await connection.execute(query)).one_or_none()
        return None if row is None else _read_row(row)

    async def set_default_version(self, owner: str, prompt_id: str, version: int) -> StoredPrompt | None:
        if not is_valid_id(prompt_id):
            return None
        async with self._database.write_transaction(owner) as connection:
            query = _select_versions(owner).where(prompts.c.id == prompt_id, prompt_versions.c.version == version)
            row = (await connection.execute(query)).one_or_none()
            if row is None:
                return None
            await connection.execute(
                update(prompts).where(_is_prompt(owner, prompt_id)).values(default_version=version)
            )
        return _build_prompt(prompt_id, version, version, row.created_us, parse_json(row.body))

    async def list_prompts(self, owner: str, page: PageRequest) -> Page:
        sort_key = tuple_(prompts.c.created_us, prompts.c.id)
        query = _select_versions(owner).where(prompt_versions.c.version == prompts.c.default_version)
        async with self._database.read_transaction(owner) as connection:
            if page.after is not None:
                if not is_valid_id(page.after):
                    raise UnknownCursor
                cursor = select(prompts.c.created_us).where(_is_prompt(owner, page.after))
                created_us = await connection.scalar(cursor)
                if created_us is None:
                    raise UnknownCursor
                last = tuple_(created_us, page.after)
                query = query.where(sort_key > last if page.order == "asc" else sort_key < last)
            columns = (prompts.c.created_us, prompts.c.id)
            order = columns if page.order == "asc" else [column.desc() for column in columns]
            page_rows = await self._fetch_rows(connection, query.order_by(*order), page)
        return await parse_page(page_rows, _render_row)

    async def list_prompt_versions(self, owner: str, prompt_id: str, page: PageRequest) -> Page | None:
        if not is_valid_id(prompt_id):
            return None
        version = prompt_versions.c.version
        query = _select_versions(owner).where(prompts.c.id == prompt_id)
        query = query.order_by(version.asc() if page.order == "asc" else version.desc())
        async with self._database.read_transaction(owner) as connection:
            last_version = await connection.scalar(select(prompts.c.last_version).where(_is_prompt(owner, prompt_id)))
            if last_version is None:
                return None
            if page.after is not None:
                if not _VERSION(page.after) or int(page.after) > last_version:
                    raise UnknownCursor
                after = int(page.after)
                query = query.where(version > after if page.order == "asc" else version < after)
            page_rows = await self._fetch_rows(connection, query, page)
        return await parse_page(page_rows, _render_row)

    async def _fetch_rows(self, connection: AsyncConnection, query: Select[Any], page: PageRequest) -> PageRows:
        return await fetch_page_rows(connection, query, prompt_versions.c.body, page, self._database.max_page_bytes)

    async def delete_prompt(self, owner: str, prompt_id: str) -> bool:
        if not is_valid_id(prompt_id):
            return False
        async with self._database.write_transaction(owner) as connection:
            return bool(await delete_prompts(connection, [(owner, prompt_id)]))


async def delete_prompts(connection: AsyncConnection, keys: Sequence[tuple[str, str]]) -> int:
    """Deletes prompts of one owner with their versions, by owner and id. Returns how many there were."""
    if not keys:
        return 0
    owner, ids = keys[0][0], [prompt_id for _, prompt_id in keys]
    # The prompts first: a transaction that adds a version waits for their rows and then finds none.
    result = await connection.execute(delete(prompts).where(prompts.c.owner == owner, prompts.c.id.in_(ids)))
    is_version = and_(prompt_versions.c.owner == owner, prompt_versions.c.prompt_id.in_(ids))
    await connection.execute(delete(prompt_versions).where(is_version))
    return result.rowcount


async def load_all_versions(connection: AsyncConnection, owner: str, ids: Sequence[str]) -> list[Json]:
    """Returns all versions of prompts as objects of the API, oldest first."""
    query = _select_versions(owner).where(prompts.c.id.in_(ids))
    rows = await connection.execute(query.order_by(prompts.c.created_us, prompts.c.id, prompt_versions.c.version))
    return [_read_row(row).render() for row in rows]


async def _insert_version(
    connection: AsyncConnection, key: tuple[str, str, int], created_us: int, content: Json
) -> None:
    owner, prompt_id, version = key
    row = {"owner": owner, "prompt_id": prompt_id, "version": version, "created_us": created_us}
    await connection.execute(insert(prompt_versions).values(**row, body=dump_json(content)))


def _render_row(row: Row[Any]) -> Json:
    return _read_row(row).render()


def _is_prompt(owner: str, prompt_id: str) -> Any:
    return and_(prompts.c.owner == owner, prompts.c.id == prompt_id)


def _select_versions(owner: str) -> Select[Any]:
    return (
        select(prompts.c.id, prompts.c.default_version, prompt_versions.c.version)
        .add_columns(prompt_versions.c.created_us, prompt_versions.c.body)
        .join(
            prompt_versions,
            and_(prompt_versions.c.owner == prompts.c.owner, prompt_versions.c.prompt_id == prompts.c.id),
        )
        .where(prompts.c.owner == owner)
    )


def _read_row(row: Row[Any]) -> StoredPrompt:
    return _build_prompt(row.id, row.version, row.default_version, row.created_us, parse_json(row.body))


def _build_prompt(prompt_id: str, version: int, default_version: int, created_us: int, content: Json) -> StoredPrompt:
    return StoredPrompt(
        id=prompt_id,
        version=version,
        default_version=default_version,
        created_at=created_us // _MICROSECONDS,
        content=content,
    )
