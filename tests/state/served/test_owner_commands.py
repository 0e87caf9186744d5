"""`responses-gateway erase` and `export`, on both databases."""

import asyncio
import json
import subprocess
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
import yaml

from gateway.config.settings import BackgroundSettings, StoreSettings
from gateway.state.sql.store import SqlStore
from gateway.state.values import PageRequest
from tests.forking import run_forked
from translation.representation.json_types import Json

TIMEOUT_S = 30.0

CONVERSATION: Json = {"id": "conv_1", "object": "conversation", "created_at": 1, "metadata": {}}
ITEM: Json = {"type": "message", "id": "msg_1", "role": "user", "content": []}


@pytest.fixture
def config(store_url: str, tmp_path: Path) -> Path:
    file = tmp_path / "gateway.yaml"
    file.write_text(yaml.safe_dump({"store": {"url": store_url}}))
    _with_store(store_url, _fill)
    return file


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return run_forked(*arguments, folder=Path(), timeout=TIMEOUT_S)


def _with_store(url: str, use: Callable[[SqlStore], Awaitable[None]]) -> None:
    async def work() -> None:
        store = SqlStore(StoreSettings(url=url), BackgroundSettings())
        await store.open()
        try:
            await use(store)
        finally:
            await store.aclose()

    asyncio.run(work())


async def _fill(store: SqlStore) -> None:
    for owner in ("ann", "bob"):
        await store.conversations.create_conversation(owner, CONVERSATION, [ITEM])
        for number in range(2):
            completion = {"id": f"c{number}", "object": "chat.completion", "model": "m", "metadata": {}}
            await store.completions.store_completion(owner, completion, [])


def test_export_prints_one_object_a_line(config: Path) -> None:
    done = run("export", "--owner", "ann", "--config", str(config))
    assert done.returncode == 0
    first, *others = [json.loads(line) for line in done.stdout.splitlines()]
    assert first == CONVERSATION | {"items": [ITEM]}
    assert [other["id"] for other in others] == ["c0", "c1"]
    assert run("export", "--owner", "nobody", "--config", str(config)).stdout == ""


def test_erase_deletes_everything_of_one_owner(config: Path, store_url: str) -> None:
    done = run("erase", "--owner", "ann", "--config", str(config))
    assert (done.returncode, done.stdout) == (0, "erased 3 objects of ann\n")
    assert run("export", "--owner", "ann", "--config", str(config)).stdout == ""

    async def check(store: SqlStore) -> None:
        assert await store.conversations.load_conversation("bob", "conv_1") == CONVERSATION
        assert len((await store.completions.list_completions("bob", PageRequest())).rows) == 2

    _with_store(store_url, check)


@pytest.mark.parametrize("word", ["erase", "export"])
def test_without_a_store_the_commands_do_nothing(word: str, tmp_path: Path) -> None:
    file = tmp_path / "gateway.yaml"
    file.write_text("store: {url: null}\n")
    done = run(word, "--owner", "ann", "--config", str(file))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "nothing is stored: the config has no store.url\n"


@pytest.mark.parametrize("word", ["erase", "export"])
def test_a_missing_database_is_reported_with_exit_code_1(word: str, tmp_path: Path) -> None:
    file = tmp_path / "gateway.yaml"
    file.write_text("store: {url: 'postgresql+asyncpg://nobody@127.0.0.1:1/none', deadline_s: 2}\n")
    done = run(word, "--owner", "ann", "--config", str(file))
    assert (done.returncode, done.stdout) == (1, "")
    assert "start the database, or correct store.url" in done.stderr
