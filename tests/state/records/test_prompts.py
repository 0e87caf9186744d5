"""Prompts in the store: their versions, their owners and their quotas."""

import asyncio

import pytest

from gateway.errors import StorageQuotaExceeded
from gateway.state.prompt_records import PromptQuota
from gateway.state.sql.store import SqlStore
from gateway.state.values import PageRequest, UnknownCursor
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
    versions = await store.prompts.list_prompt_versions("ann", "pmpt_1")
    assert versions is not None
    assert [each.version for each in versions] == [2, 1]
    assert await store.prompts.delete_prompt("ann", "pmpt_1")
    assert not await store.prompts.delete_prompt("ann", "pmpt_1")
    assert await store.prompts.list_prompt_versions("ann", "pmpt_1") is None


@pytest.mark.parametrize("prompt_id", ["pmpt_1", "pmpt_2", "\0"])
async def test_another_owners_prompt_is_an_unknown_one(store: SqlStore, prompt_id: str) -> None:
    await store.prompts.create_prompt("ann", "pmpt_1", content("one"), QUOTA)
    assert await store.prompts.load_prompt("bob", prompt_id) is None
    assert await store.prompts.add_prompt_version("bob", prompt_id, content("two"), QUOTA) is None
    assert await store.prompts.set_default_version("bob", prompt_id, 1) is None
    assert await store.prompts.list_prompt_versions("bob", prompt_id) is None
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
