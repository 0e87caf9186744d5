"""Prompts in the store: their versions, their owners and their quotas."""

import asyncio

import pytest
from sqlalchemy import func, insert, select, update

from gateway.errors import StorageQuotaExceeded
from gateway.state.database.database import Database
from gateway.state.database.tables import prompt_versions, prompts
from gateway.state.prompt_records import PromptQuota
from gateway.state.sql.store import SqlStore
from gateway.state.values import PageRequest, UnknownCursor
from tests.polling import read_until
from tests.state.processes.database_observer import count_waiting
from translation.representation.json_types import Json

QUOTA = PromptQuota(prompts=3, versions=3)


def content(text: str) -> Json:
    return {"instructions": text, "defaults": {}, "variables": []}


async def test_versions_are_kept_and_one_is_the_default(store: SqlStore) -> None:
    first = await store.prompts.create_prompt("ann", "pmpt_1", content("one"), QUOTA)
    assert first.render() | {"created_at": 0} == {
        "id": "pmpt_1",
        "object": "prompt",
        "created_at": 0,
        "version": "1",
        "default_version": "1",
        "is_default": True,
        **content("one"),
    }
    second = await store.prompts.add_prompt_version("ann", "pmpt_1", content("two"), QUOTA)
    assert second is not None
    assert (second.version, second.default_version) == (2, 1)
    assert await store.prompts.load_prompt("ann", "pmpt_1") == first
    assert (await store.prompts.load_prompt("ann", "pmpt_1", 2)) == second
    changed = await store.prompts.set_default_version("ann", "pmpt_1", 2)
    assert changed is not None
    assert await store.prompts.load_prompt("ann", "pmpt_1") == changed
    versions = await store.prompts.list_prompt_versions("ann", "pmpt_1", PageRequest())
    assert versions is not None
    assert [each["version"] for each in versions.rows] == ["2", "1"]
    assert await store.prompts.delete_prompt("ann", "pmpt_1")
    assert not await store.prompts.delete_prompt("ann", "pmpt_1")
    assert await store.prompts.list_prompt_versions("ann", "pmpt_1", PageRequest()) is None


@pytest.mark.parametrize("prompt_id", ["pmpt_1", "pmpt_2", "\0"])
async def test_another_owners_prompt_is_an_unknown_one(store: SqlStore, prompt_id: str) -> None:
    await store.prompts.create_prompt("ann", "pmpt_1", content("one"), QUOTA)
    assert await store.prompts.load_prompt("bob", prompt_id) is None
    assert await store.prompts.add_prompt_version("bob", prompt_id, content("two"), QUOTA) is None
    assert await store.prompts.set_default_version("bob", prompt_id, 1) is None
    assert await store.prompts.list_prompt_versions("bob", prompt_id, PageRequest()) is None
    assert not await store.prompts.delete_prompt("bob", prompt_id)
    with pytest.raises(UnknownCursor):
        await store.prompts.list_prompts("bob", PageRequest(prompt_id, 10, "asc"))
    assert await store.prompts.load_prompt("ann", "pmpt_1", 2) is None
    assert await store.prompts.set_default_version("ann", "pmpt_1", 2) is None


async def test_lists_have_the_default_versions_in_pages(store: SqlStore) -> None:
    for number in range(3):
        await store.prompts.create_prompt("ann", f"pmpt_{number}", content(str(number)), QUOTA)
    first = await store.prompts.list_prompts("ann", PageRequest(None, 2, "asc"))
    assert ([row["id"] for row in first.rows], first.has_more) == (["pmpt_0", "pmpt_1"], True)
    rest = await store.prompts.list_prompts("ann", PageRequest("pmpt_1", 2, "asc"))
    assert ([row["id"] for row in rest.rows], rest.has_more) == (["pmpt_2"], False)
    newest = await store.prompts.list_prompts("ann", PageRequest("pmpt_1", 2, "desc"))
    assert [row["id"] for row in newest.rows] == ["pmpt_0"]


async def test_no_owner_has_more_than_its_quota_also_at_once(store: SqlStore) -> None:
    creating = (store.prompts.create_prompt("ann", f"pmpt_{number}", content("x"), QUOTA) for number in range(6))
    results = await asyncio.gather(*creating, return_exceptions=True)
    assert sum(isinstance(result, StorageQuotaExceeded) for result in results) == 3
    await store.prompts.create_prompt("bob", "pmpt_9", content("x"), QUOTA)
    adding = (store.prompts.add_prompt_version("bob", "pmpt_9", content("x"), QUOTA) for _ in range(4))
    added = await asyncio.gather(*adding, return_exceptions=True)
    assert sum(isinstance(result, StorageQuotaExceeded) for result in added) == 2


@pytest.mark.parametrize("store_url", ["postgresql"], indirect=True)
@pytest.mark.parametrize("erases", [False, True])
async def test_a_version_that_is_added_during_a_deletion_is_deleted_too(
    store: SqlStore, tables: Database, store_url: str, erases: bool
) -> None:
    await store.prompts.create_prompt("ann", "pmpt_1", content("one"), QUOTA)
    async with tables.write_transaction("ann") as connection:
        is_one = (prompts.c.owner == "ann", prompts.c.id == "pmpt_1")
        await connection.execute(update(prompts).where(*is_one).values(last_version=2))
        await connection.execute(insert(prompt_versions).values(**VERSION, version=2))
        delete = store.owner_data.erase_owner("ann") if erases else store.prompts.delete_prompt("ann", "pmpt_1")
        deleting = asyncio.create_task(delete)
        await read_until(lambda: count_waiting(store_url, "Lock"), bool)
    assert await deleting == 1
    assert await count_versions(tables) == 0


async def test_versions_without_a_prompt_are_erased(store: SqlStore, tables: Database) -> None:
    async with tables.write_transaction("ann") as connection:
        await connection.execute(insert(prompt_versions).values(**VERSION, version=2))
    await store.prompts.create_prompt("bob", "pmpt_2", content("one"), QUOTA)
    await store.owner_data.erase_owner("bob")
    assert await count_versions(tables) == 1
    await store.owner_data.erase_owner("ann")
    assert await count_versions(tables) == 0


VERSION = {"owner": "ann", "prompt_id": "pmpt_1", "created_us": 1, "body": '{"instructions": "secret"}'}


async def count_versions(tables: Database) -> int:
    async with tables.read_transaction() as connection:
        return (await connection.scalar(select(func.count()).select_from(prompt_versions))) or 0


async def test_the_data_of_an_owner_includes_its_prompts(store: SqlStore) -> None:
    for owner in ("ann", "bob"):
        await store.prompts.create_prompt(owner, "pmpt_1", content("one"), QUOTA)
        await store.prompts.add_prompt_version(owner, "pmpt_1", content("two"), QUOTA)
    exported = [each async for each in store.owner_data.export_owner("ann")]
    assert [(each["id"], each["version"], each["instructions"]) for each in exported] == [
        ("pmpt_1", "1", "one"),
        ("pmpt_1", "2", "two"),
    ]
    assert await store.owner_data.erase_owner("ann") == 1
    assert await store.prompts.load_prompt("ann", "pmpt_1") is None
    assert await store.prompts.load_prompt("bob", "pmpt_1", 2) is not None
