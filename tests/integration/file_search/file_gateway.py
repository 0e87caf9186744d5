"""A gateway with a vector store of two files, before a scripted model that searches it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import orjson

from tests.databases import ready_sqlite
from tests.integration.mcp.tool_gateway import Hosting, hosting
from tests.upstream import chat_calls, chat_text
from tests.upstream.script import Script

CATS: Final = "A cat sleeps 【7】 for sixteen hours a day. 猫"
DOGS: Final = "A dog barks at the postman."


def search(*queries: str) -> tuple[str, str]:
    return "file_search", orjson.dumps({"queries": [*queries]}).decode()


ANSWER: Final = ("Cats 🐈 sleep (猫) ", "【1】.")
SEARCHED: Final = (chat_calls(search("sleeping cats")), chat_text(*ANSWER))
MORE: Final = (*SEARCHED, chat_text("Again 【1】", "."))


def place_state(folder: Path) -> dict[str, Any]:
    """Returns the sections of a configuration with a new database and a folder of files."""
    return {"store": {"url": ready_sqlite(folder / "state.db")}, "files": {"path": str(folder / "files")}}


@asynccontextmanager
async def searching(tmp_path: Path, *scripts: Script, **config: Any) -> AsyncIterator[tuple[Hosting, str]]:
    """Serves a gateway with a vector store of two files, and yields the id of the store."""
    async with hosting(*(scripts or SEARCHED), **place_state(tmp_path), **config) as served:
        stores = served.client.vector_stores
        store = await stores.create()
        for name, text in (("cats【1】.txt", CATS), ("dogs.txt", DOGS)):
            file = await served.client.files.create(file=(name, text.encode()), purpose="assistants")
            entry = await stores.files.create_and_poll(file.id, vector_store_id=store.id, attributes={"name": name})
            assert entry.status == "completed"
        yield served, store.id
