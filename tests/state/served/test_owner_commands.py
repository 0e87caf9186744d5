"""`responses-gateway erase` and `export`, on both databases."""

import asyncio
import json
import subprocess
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from openai import OpenAI

from gateway.config.settings import BackgroundSettings, StoreSettings
from gateway.state.sql.store import SqlStore
from gateway.state.values import PageRequest
from tests.forking import run_forked
from tests.serving import serving
from tests.state.conftest import DEADLINE_S
from translation.representation.json_types import Json

TIMEOUT_S = 60.0

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
        store = SqlStore(StoreSettings(url=url, deadline_s=DEADLINE_S), BackgroundSettings())
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


def _use_everything(v1: str, name: str) -> None:
    """Stores a file, an upload that has one part, a vector store with the file, and a prompt of one owner."""
    with OpenAI(base_url=v1, api_key=f"key-of-{name}-0123456", max_retries=0) as client:
        file = client.files.create(file=("notes.txt", b"Cats sleep."), purpose="assistants")
        upload = client.uploads.create(bytes=9, filename="a.txt", mime_type="text/plain", purpose="user_data")
        client.uploads.parts.create(upload.id, data=b"part")
        store = client.vector_stores.create(name=name)
        assert client.vector_stores.files.create_and_poll(file.id, vector_store_id=store.id).status == "completed"
        client.post("/prompts", body={"instructions": "Be brief."}, cast_to=object)


def test_erase_deletes_files_uploads_vector_stores_and_prompts_with_their_bytes(store_url: str, tmp_path: Path) -> None:
    settings: Json = {
        "store": {"url": store_url},
        "files": {"path": str(tmp_path / "bytes")},
        "auth": {"keys": [{"name": name, "key": f"key-of-{name}-0123456"} for name in ("ann", "bob")]},
        "providers": {"demo": {"type": "scripted"}},
        "models": {"*": {"provider": "demo"}},
    }
    file = tmp_path / "gateway.yaml"
    file.write_text(yaml.safe_dump(settings))
    blobs: list[int] = []
    with serving(settings) as gateway:
        for name in ("ann", "bob"):
            _use_everything(gateway.v1, name)
            blobs.append(_count_files(tmp_path / "bytes"))
        assert run("erase", "--owner", "ann", "--config", str(file)).returncode == 0
        for name, count in (("ann", 0), ("bob", 1)):
            with OpenAI(base_url=gateway.v1, api_key=f"key-of-{name}-0123456", max_retries=0) as client:
                lists: list[Any] = [client.files.list(), client.vector_stores.list()]
                lists.append(client.get("/prompts", cast_to=object))
                lengths = [len(each["data"] if isinstance(each, dict) else each.data) for each in lists]
            assert lengths == [count] * 3, name
    assert blobs == [2, 4]
    assert _count_files(tmp_path / "bytes") == 2, "those of bob"


def _count_files(folder: Path) -> int:
    return sum(path.is_file() for path in folder.rglob("*"))


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
