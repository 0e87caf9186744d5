"""A server that is killed while it indexes leaves no half of a file and nothing twice, on both databases."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from openai import OpenAI
from sqlalchemy.engine import make_url

from tests.databases import Postgres
from tests.polling import block_until
from tests.processes import PROC, child_pids, is_running, needs_proc
from tests.serving import Command, command
from tests.state.replicas import kill

SENTENCES = 60_000
TEXT = "\n".join(f"Sentence number{n} says what cat{n % 977} thinks of it." for n in range(SENTENCES))
"""About 3 MB. Each number is there once."""

COUNT_CHUNKS = "SELECT count(*) FROM vector_chunks"
COUNT_WAITING = "SELECT count(*) FROM vector_store_files WHERE status = 'in_progress'"
COUNT_REMOVALS = "SELECT count(*) FROM vector_removals"
READ_INDEXED = "SELECT chunks FROM vector_store_files"

SIZES: Any = {"type": "static", "static": {"max_chunk_size_tokens": 400, "chunk_overlap_tokens": 100}}
LEASE_S = 2.0
PATIENCE_S = 100.0


class Place:
    """A database and a folder of files, for servers that are started one after the other or beside each other."""

    def __init__(self, folder: Path, url: str, postgres: Postgres | None) -> None:
        self._folder = folder
        self._url = url
        self._postgres = postgres

    @contextmanager
    def serve(self, name: str) -> Iterator[tuple[Command, OpenAI]]:
        folder = self._folder / name
        folder.mkdir()
        config = {
            "providers": {"demo": {"type": "scripted"}},
            "models": {"*": {"provider": "demo"}},
            "store": {"url": self._url},
            "background": {"lease_s": LEASE_S},
            "files": {"path": str(self._folder / "files")},
        }
        with command(config, folder, forked=True) as server, OpenAI(base_url=server.v1, api_key="none") as client:
            yield server, client

    def read(self, query: str) -> int:
        """Returns the number that a query results in."""
        database = make_url(self._url).database
        assert database is not None
        if self._postgres is not None:
            return int(self._postgres.sql(query, database))
        with closing(sqlite3.connect(database, timeout=20)) as connection:
            return int(connection.execute(query).fetchone()[0])


@pytest.fixture
def place(store_url: str, tmp_path: Path, request: pytest.FixtureRequest) -> Place:
    is_postgres = store_url.startswith("postgresql")
    return Place(tmp_path, store_url, request.getfixturevalue("postgres") if is_postgres else None)


def attach(client: OpenAI) -> tuple[str, str]:
    file = client.files.create(file=("large.txt", TEXT.encode()), purpose="assistants")
    store = client.vector_stores.create()
    client.vector_stores.files.create(store.id, file_id=file.id, chunking_strategy=SIZES)
    return store.id, file.id


def find_parsers(server: Command) -> list[int]:
    """Returns the parser server of a gateway and its children."""
    found = []
    for child in child_pids(server.process.pid):
        if b"parser_server" in (PROC / str(child) / "cmdline").read_bytes():
            found += [child, *child_pids(child)]
    return found


def kill_in_the_middle(place: Place, server: Command) -> None:
    """Kills a server that has stored a part of the file."""
    parsers = find_parsers(server)
    kill(server)
    assert place.read(COUNT_WAITING) == 1, "it was killed too late"
    block_until(lambda: not any(map(is_running, parsers)), "the parser lives on", timeout_s=PATIENCE_S)


def read_content(client: OpenAI, store_id: str, file_id: str) -> str:
    """Returns the text of an indexed file, of all pages."""
    texts: list[str] = []
    page: str | None = ""
    while page is not None:
        path = f"/vector_stores/{store_id}/files/{file_id}/content"
        found: Any = client.get(path, cast_to=object, options={"params": {"page": page} if page else {}})
        texts += [part["text"] for part in found["data"]]
        page = found["next_page"]
    return "".join(texts)


def check_whole(place: Place, client: OpenAI, store_id: str, file_id: str) -> None:
    """Waits until the file is indexed, and checks that each of its chunks is there once."""

    def load() -> Any:
        return client.vector_stores.files.retrieve(file_id, vector_store_id=store_id)

    block_until(lambda: load().status != "in_progress", timeout_s=PATIENCE_S)
    entry = load()
    assert (entry.status, entry.last_error) == ("completed", None)
    assert read_content(client, store_id, file_id) == TEXT
    for number in (0, SENTENCES // 2, SENTENCES - 1):
        results = client.vector_stores.search(store_id, query=f"number{number}").data
        found = [result.content[0].text for result in results]
        assert 1 <= len(found) <= 3, "a sentence is in one chunk, and in those that overlap it"
        assert len({*found}) == len(found)
        assert all(f"number{number} " in text for text in found)
    # What the dead server had stored is deleted.
    block_until(lambda: place.read(COUNT_REMOVALS) == 0, timeout_s=PATIENCE_S)
    assert place.read(COUNT_CHUNKS) == place.read(READ_INDEXED)


@needs_proc
@pytest.mark.timeout(300)
def test_a_server_that_was_killed_and_restarted_indexes_the_file_again(place: Place) -> None:
    with place.serve("first") as (server, client):
        store_id, file_id = attach(client)
        block_until(lambda: place.read(COUNT_CHUNKS), timeout_s=PATIENCE_S)
        kill_in_the_middle(place, server)
    with place.serve("second") as (_, client):
        check_whole(place, client, store_id, file_id)


@needs_proc
@pytest.mark.timeout(300)
def test_another_replica_takes_over_what_a_killed_one_indexed(place: Place) -> None:
    with place.serve("first") as (first, client), place.serve("second") as (second, other):
        store_id, file_id = attach(client)
        block_until(lambda: place.read(COUNT_CHUNKS), timeout_s=PATIENCE_S)
        # Either of them may have claimed it.
        killed, survivor = (first, other) if find_parsers(first) else (second, client)
        kill_in_the_middle(place, killed)
        check_whole(place, survivor, store_id, file_id)
