"""Vector stores with a model of embeddings find texts with other words too, on both databases."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import openai
import pytest
from openai import AsyncOpenAI
from sqlalchemy import update
from sqlalchemy.engine import make_url

from gateway.config.settings import parse_settings
from gateway.config.yaml_file import ConfigError
from gateway.state.database.database import Database
from gateway.state.database.migrate import migrate_database, validate_database_schema
from gateway.state.database.tables import vector_store_files
from gateway.state.sql.store import SqlStore
from gateway.state.values import SchemaMismatch
from tests.databases import Postgres
from tests.polling import read_until, wait_until
from tests.serving import Command, serving
from tests.state.replicas import kill, replica
from tests.state.served.vectors.meanings import answer, answer_in_size
from tests.upstream import ScriptedUpstream, chat_calls, chat_text, reset
from tests.upstream.builders import error_reply, json_reply
from tests.upstream.script import Exchange

TEXTS = {
    "felines.txt": "A feline likes to slumber at noon.",
    "hounds.txt": "A hound barks at the postman.",
    "keys.txt": "Whoever wants to unlock the door looks under the mat.",
}
EMBEDDINGS: Any = {"provider": "up", "model": "meanings"}


@pytest.fixture
async def upstream() -> AsyncIterator[ScriptedUpstream]:
    async with ScriptedUpstream() as running:
        running.on("/embeddings", answer)
        yield running


def build_config(
    upstream: ScriptedUpstream, url: str, folder: Path, *, tries: int = 1, **embeddings: Any
) -> dict[str, Any]:
    return {
        "providers": {"up": {"type": "openai_compatible", "base_url": upstream.url, "retries": 0}},
        "models": {"*": {"provider": "up"}},
        "store": {"url": url},
        "files": {"path": str(folder / "files")},
        "tools": {"file_search": {"tries": tries, "embeddings": {**EMBEDDINGS, **embeddings}}},
    }


@pytest.fixture
async def client(upstream: ScriptedUpstream, vector_url: str, tmp_path: Path) -> AsyncIterator[AsyncOpenAI]:
    running = serving(build_config(upstream, vector_url, tmp_path))
    gateway = running.__enter__()
    try:
        async with AsyncOpenAI(base_url=gateway.v1, api_key="none", max_retries=0) as found:
            yield found
    finally:
        await asyncio.to_thread(running.__exit__, None, None, None)


async def attach(client: AsyncOpenAI, store_id: str, name: str, text: str) -> Any:
    file = await client.files.create(file=(name, text.encode()), purpose="assistants")
    return await client.vector_stores.files.create_and_poll(
        file.id, vector_store_id=store_id, attributes={"name": name}
    )


async def build_store(client: AsyncOpenAI) -> str:
    store = await client.vector_stores.create()
    for name, text in TEXTS.items():
        entry = await attach(client, store.id, name, text)
        assert (entry.status, entry.last_error) == ("completed", None)
        assert entry.usage_bytes == len(text.encode()) + 4 * 5
    return store.id


async def test_a_search_finds_other_words_of_the_same_meaning(client: AsyncOpenAI, upstream: ScriptedUpstream) -> None:
    store_id = await build_store(client)
    for query, first in (("Do cats nap?", "felines.txt"), ("canine", "hounds.txt"), ("the key", "keys.txt")):
        page = await client.vector_stores.search(store_id, query=query)
        assert page.data[0].filename == first, query
        assert 0 < page.data[0].score <= 1
    both = await client.vector_stores.search(store_id, query="hound")
    assert (both.data[0].filename, both.data[0].score) == ("hounds.txt", 1.0), "it is first by words and by meaning"
    several = await client.vector_stores.search(store_id, query=["kitten", "unlock"], max_num_results=2)
    assert {each.filename for each in several.data} == {"felines.txt", "keys.txt"}
    others = await client.vector_stores.search(
        store_id, query="cats", filters={"type": "ne", "key": "name", "value": "felines.txt"}
    )
    assert "felines.txt" not in {each.filename for each in others.data}
    asked = [request.json for request in upstream.requests]
    assert asked[0] == {"model": "meanings", "input": [TEXTS["felines.txt"]], "encoding_format": "float"}


async def test_a_model_searches_by_the_weights_of_its_client(client: AsyncOpenAI, upstream: ScriptedUpstream) -> None:
    store_id = await build_store(client)
    call = ("file_search", '{"queries": ["canine at noon"]}')
    for weights, first in (((1, 0), "hounds.txt"), ((0, 1), "felines.txt")):
        upstream.on("/chat/completions", chat_calls(call), chat_text("Done."))
        ranking = {"hybrid_search": {"embedding_weight": weights[0], "text_weight": weights[1]}}
        tool: Any = {"type": "file_search", "vector_store_ids": [store_id], "ranking_options": ranking}
        raw = await client.responses.with_raw_response.create(
            model="m", input="Hi", tools=[tool], include=["file_search_call.results"]
        )
        item: Any = raw.parse().output[0]
        assert item.results[0].filename == first
        assert "x-gateway-loss" not in raw.headers


@pytest.mark.parametrize(
    ("weights", "param"),
    [
        ({"embedding_weight": 1}, "tools[0].ranking_options.hybrid_search.text_weight"),
        ({"embedding_weight": -1, "text_weight": 1}, "tools[0].ranking_options.hybrid_search.embedding_weight"),
        ({"embedding_weight": 0, "text_weight": 0}, "tools[0].ranking_options.hybrid_search"),
    ],
)
async def test_weights_that_cannot_be_are_refused_by_name(
    client: AsyncOpenAI, weights: dict[str, float], param: str
) -> None:
    store = await client.vector_stores.create()
    tool: Any = {
        "type": "file_search",
        "vector_store_ids": [store.id],
        "ranking_options": {"hybrid_search": weights},
    }
    with pytest.raises(openai.BadRequestError) as refused:
        await client.responses.create(model="m", input="Hi", tools=[tool])
    body: Any = refused.value.body
    assert body["param"] == param


BROKEN: dict[str, Any] = {
    "an error": json_reply({"error": {"message": "no such model"}}, status=404),
    "no vectors": json_reply({"data": []}),
    "no numbers": json_reply({"data": [{"index": 0, "embedding": ["a"]}]}),
    "no direction": json_reply({"data": [{"index": 0, "embedding": [0, 0]}]}),
}


AWAY: dict[str, Any] = {
    "an error": json_reply({"error": {"message": "overloaded"}}, status=503),
    "busy": json_reply({"error": {"message": "slow down"}}, status=429),
    "gone": reset,
}


@pytest.mark.parametrize("reply", AWAY.values(), ids=AWAY)
async def test_searches_go_by_words_while_the_model_is_away(
    client: AsyncOpenAI, upstream: ScriptedUpstream, reply: Any
) -> None:
    store_id = await build_store(client)
    upstream.on("/embeddings", reply)
    upstream.on("/chat/completions", chat_calls(("file_search", '{"queries": ["hounds"]}')), chat_text("Yes."))
    raw = await client.vector_stores.with_raw_response.search(store_id, query="hounds")
    assert raw.headers["x-gateway-loss"] == "query=searched by words alone"
    assert [each.filename for each in raw.parse().data] == ["hounds.txt"]
    tool: Any = {"type": "file_search", "vector_store_ids": [store_id]}
    include: Any = ["gateway.report", "file_search_call.results"]
    response: Any = await client.responses.create(model="m", input="Hi", tools=[tool], include=include)
    item = response.output[0]
    assert (item.status, [each.filename for each in item.results]) == ("completed", ["hounds.txt"])
    assert response.gateway_report["notes"] == [{"tool": "file_search", "note": "by_words", "calls": 1}]
    upstream.on("/embeddings", answer)
    again = await client.vector_stores.with_raw_response.search(store_id, query="hounds")
    assert "x-gateway-loss" not in again.headers


@pytest.mark.parametrize("reply", BROKEN.values(), ids=BROKEN)
async def test_a_failing_model_fails_files_and_searches_by_name(
    client: AsyncOpenAI, upstream: ScriptedUpstream, reply: Any
) -> None:
    store_id = await build_store(client)
    upstream.on("/embeddings", reply)
    upstream.on("/chat/completions", chat_calls(("file_search", '{"queries": ["cat"]}')), chat_text("Sorry."))
    entry = await attach(client, store_id, "late.txt", "Late.")
    assert (entry.status, entry.last_error.code) == ("failed", "server_error")
    assert "embeddings" in entry.last_error.message
    with pytest.raises(openai.APIStatusError) as refused:
        await client.vector_stores.search(store_id, query="cat")
    assert refused.value.status_code in (404, 502)
    tool: Any = {"type": "file_search", "vector_store_ids": [store_id]}
    response = await client.responses.create(model="m", input="Hi", tools=[tool])
    item: Any = response.output[0]
    assert (item.status, response.output_text) == ("failed", "Sorry.")
    # Once the model answers again, the file is indexed when it is attached again.
    upstream.on("/embeddings", answer)
    await client.vector_stores.files.create(store_id, file_id=entry.id)

    async def load() -> Any:
        return await client.vector_stores.files.retrieve(entry.id, vector_store_id=store_id)

    assert (await read_until(load, lambda each: each.status != "in_progress")).status == "completed"


async def test_a_busy_model_delays_files_and_a_kill_between_two_tries_loses_none(
    upstream: ScriptedUpstream, vector_url: str, tmp_path: Path
) -> None:
    """A file waits in its place, and another one is put off. The next server indexes both."""
    upstream.on(
        "/embeddings",
        json_reply({"error": {"message": "busy"}}, status=429, headers={"retry-after": "30"}),
        json_reply({"error": {"message": "busy"}}, status=429, headers={"retry-after": "120"}),
    )
    config = build_config(upstream, vector_url, tmp_path, tries=12)
    names = ("files", "providers", "models", "tools")
    sections = {name: config[name] for name in names} | {"background": {"lease_s": 1.0}}

    @contextmanager
    def serve(name: str) -> Iterator[Command]:
        with replica(tmp_path / name, vector_url, upstream.url, **sections) as server:
            yield server

    running = serve("first")
    first = await asyncio.to_thread(running.__enter__)
    try:
        async with AsyncOpenAI(base_url=first.v1, api_key="none", max_retries=0) as before:
            store = await before.vector_stores.create()
            files = [
                await before.files.create(file=(name, text.encode()), purpose="assistants")
                for name, text in TEXTS.items()
            ][:2]
            for file in files:
                await before.vector_stores.files.create(store.id, file_id=file.id)
            await wait_until(lambda: len(upstream.requests) == 2)
            for file in files:
                entry = await before.vector_stores.files.retrieve(file.id, vector_store_id=store.id)
                assert (entry.status, entry.last_error) == ("in_progress", None)
        await asyncio.to_thread(kill, first)
    finally:
        await asyncio.to_thread(running.__exit__, None, None, None)
    upstream.on("/embeddings", answer)
    await _end_waits(vector_url)
    second = serve("second")
    server = await asyncio.to_thread(second.__enter__)
    try:
        async with AsyncOpenAI(base_url=server.v1, api_key="none", max_retries=0) as after:

            async def load() -> Any:
                return await after.vector_stores.retrieve(store.id)

            done = await read_until(load, lambda each: each.file_counts.completed == 2)
            assert (done.status, done.file_counts.failed) == ("completed", 0)
            found = await after.vector_stores.search(store.id, query="canine")
            assert [each.filename for each in found.data] == ["hounds.txt", "felines.txt"]
    finally:
        await asyncio.to_thread(second.__exit__, None, None, None)


async def _end_waits(url: str) -> None:
    """Lets the next server claim all files at once."""
    database = Database(url, deadline_s=60)
    async with database.write_transaction() as connection:
        await connection.execute(update(vector_store_files).values(leased_us=0))
    await database.aclose()


class Gate:
    """A model of embeddings that makes no vectors of files while it is closed, but those of queries."""

    def __init__(self) -> None:
        self.is_open = False
        self.inputs: list[list[str]] = []

    async def answer(self, exchange: Exchange) -> None:
        body: Any = exchange.request.json
        if not self.is_open and set(body["input"]) & set(TEXTS.values()):
            await error_reply(503, "busy")(exchange)
            return
        self.inputs.append(body["input"])
        await answer_in_size(exchange)


async def search(client: AsyncOpenAI, store_id: str, query: str) -> tuple[list[str], str]:
    """Returns the files that a search found, and its losses."""
    reply = await client.vector_stores.with_raw_response.search(store_id, query=query)
    return [each.filename for each in reply.parse().data], reply.headers.get("x-gateway-loss", "")


CHANGES: dict[str, dict[str, Any]] = {
    "the model": {"model": "others"},
    "the dimensions": {"dimensions": 8},
    "the provider": {"provider": "other"},
}
BY_WORDS = "query=some files searched by words alone"


@pytest.mark.parametrize("change", CHANGES)
async def test_vectors_of_another_model_are_not_compared_and_are_made_again(
    client: AsyncOpenAI, upstream: ScriptedUpstream, vector_url: str, tmp_path: Path, change: str
) -> None:
    """The server with the model of before goes on, as during the update of a fleet."""
    store_id = await build_store(client)
    gate = Gate()
    upstream.on("/embeddings", gate.answer)
    config = build_config(upstream, vector_url, tmp_path, tries=12, **CHANGES[change])
    config["providers"]["other"] = config["providers"]["up"]
    running = serving(config)
    gateway = running.__enter__()
    try:
        async with AsyncOpenAI(base_url=gateway.v1, api_key="none", max_retries=0) as other:
            assert await search(other, store_id, "kitten") == ([], BY_WORDS)
            assert await search(other, store_id, "feline") == (["felines.txt"], BY_WORDS)
            files = (await other.vector_stores.files.list(store_id)).data
            assert {each.status for each in files} == {"completed"}
            gate.is_open = True
            names, losses = await read_until(lambda: search(other, store_id, "kitten"), lambda reply: not reply[1])
            assert (names[0], losses) == ("felines.txt", "")
            made = [text for each in gate.inputs for text in each if text in TEXTS.values()]
            assert sorted(made) == sorted(TEXTS.values())
            store = await other.vector_stores.retrieve(store_id)
            size = CHANGES[change].get("dimensions", 5)
            assert store.usage_bytes == sum(len(text.encode()) + 4 * size for text in TEXTS.values())
            # The other server does not make them again.
            assert await search(client, store_id, "feline") == (["felines.txt"], BY_WORDS)
    finally:
        await asyncio.to_thread(running.__exit__, None, None, None)


async def test_vectors_count_neither_while_embeddings_are_off_nor_before_they_are_made(
    upstream: ScriptedUpstream, vector_url: str, tmp_path: Path
) -> None:
    gate = Gate()
    gate.is_open = True
    upstream.on("/embeddings", gate.answer)
    with_model = build_config(upstream, vector_url, tmp_path, tries=12)
    by_words = {**with_model, "tools": {"file_search": {}}}

    async def serve(config: dict[str, Any], use: Callable[[AsyncOpenAI], Awaitable[str]]) -> str:
        running = serving(config)
        gateway = await asyncio.to_thread(running.__enter__)
        try:
            async with AsyncOpenAI(base_url=gateway.v1, api_key="none", max_retries=0) as client:
                return await use(client)
        finally:
            await asyncio.to_thread(running.__exit__, None, None, None)

    async def index_by_words(client: AsyncOpenAI) -> str:
        store = await client.vector_stores.create()
        for name, text in TEXTS.items():
            assert (await attach(client, store.id, name, text)).usage_bytes == len(text.encode())
        return store.id

    store_id = await serve(by_words, index_by_words)
    assert gate.inputs == []

    async def search_by_meaning(client: AsyncOpenAI) -> str:
        names, _ = await read_until(lambda: search(client, store_id, "kitten"), lambda reply: not reply[1])
        return names[0]

    assert await serve(with_model, search_by_meaning) == "felines.txt"
    asked = len(gate.inputs)

    async def search_by_words(client: AsyncOpenAI) -> str:
        assert await search(client, store_id, "feline") == (["felines.txt"], "")
        return str(await search(client, store_id, "kitten"))

    assert await serve(by_words, search_by_words) == "([], '')"
    assert len(gate.inputs) == asked
    # The vectors remained: they count again at once, and are not made again.
    assert await serve(with_model, search_by_meaning) == "felines.txt"
    assert not [text for each in gate.inputs[asked:] for text in each if text in TEXTS.values()]


async def test_a_model_that_cannot_make_vectors_leaves_files_to_be_found_by_words(
    client: AsyncOpenAI, upstream: ScriptedUpstream, vector_url: str, tmp_path: Path
) -> None:
    store_id = await build_store(client)
    refused: list[str] = []

    async def refuse_files(exchange: Exchange) -> None:
        body: Any = exchange.request.json
        if set(body["input"]) & set(TEXTS.values()):
            refused.extend(body["input"])
            await error_reply(400, "too long")(exchange)
        else:
            await answer(exchange)

    upstream.on("/embeddings", refuse_files)
    running = serving(build_config(upstream, vector_url, tmp_path, model="others"))
    gateway = await asyncio.to_thread(running.__enter__)
    try:
        async with AsyncOpenAI(base_url=gateway.v1, api_key="none", max_retries=0) as other:
            await wait_until(lambda: refused)
            assert await search(other, store_id, "feline") == (["felines.txt"], BY_WORDS)
            files = (await other.vector_stores.files.list(store_id)).data
            assert {(each.status, each.last_error) for each in files} == {("completed", None)}
    finally:
        await asyncio.to_thread(running.__exit__, None, None, None)


async def test_postgres_without_pgvector_is_refused_by_name(postgres: Postgres) -> None:
    url = postgres.database()

    async def refuse(remedy: str) -> None:
        with pytest.raises(SchemaMismatch, match=remedy):
            await validate_database_schema(url, deadline_s=60, needs_vectors=True)
        settings = parse_settings({"store": {"url": url}}, environ={})
        store = SqlStore(settings.store, settings.background, needs_vectors=True)
        with pytest.raises(SchemaMismatch, match=rf"tools\.file_search\.embeddings.*{remedy}"):
            await store.open()

    await refuse("CREATE EXTENSION vector")
    postgres.sql("CREATE EXTENSION vector", make_url(url).database or "")
    await refuse("run `responses-gateway migrate`")
    await migrate_database(url)
    await migrate_database(url)
    await validate_database_schema(url, deadline_s=60, needs_vectors=True)
    postgres.drop(url)


async def test_a_database_whose_pgvector_is_out_of_sight_is_migrated_without_it(postgres: Postgres) -> None:
    url = postgres.database()
    database = make_url(url).database or ""
    for statement in ("CREATE SCHEMA elsewhere", "CREATE EXTENSION vector SCHEMA elsewhere"):
        postgres.sql(statement, database)
    await migrate_database(url)
    await validate_database_schema(url, deadline_s=60)
    with pytest.raises(SchemaMismatch, match=r"tools\.file_search\.embeddings.*search_path.*SET SCHEMA public"):
        await validate_database_schema(url, deadline_s=60, needs_vectors=True)
    postgres.sql("ALTER EXTENSION vector SET SCHEMA public", database)
    await migrate_database(url)
    await validate_database_schema(url, deadline_s=60, needs_vectors=True)
    postgres.drop(url)


@pytest.mark.parametrize(
    ("provider", "name", "problem"),
    [
        ({"type": "ollama"}, "upp", "there is no provider 'upp'"),
        ({"type": "scripted"}, "up", "the provider 'up' has no /v1/embeddings"),
        ({"type": "anthropic", "api_key": "k"}, "up", "the provider 'up' has no /v1/embeddings"),
        ({"type": "ollama", "capabilities": {"endpoints": []}}, "up", "the provider 'up' has no /v1/embeddings"),
        ({"type": "anthropic", "api_key": "k", "capabilities": {"endpoints": ["embeddings"]}}, "up", None),
        ({"type": "ollama"}, "up", None),
    ],
)
def test_a_provider_without_embeddings_is_refused_by_name(provider: Any, name: str, problem: str | None) -> None:
    config: Any = {
        "providers": {"up": provider},
        "models": {"m": {"provider": "up"}},
        "tools": {"file_search": {"embeddings": {"provider": name, "model": "m"}}},
    }
    if problem is None:
        assert parse_settings(config, environ={}).tools.file_search.embeddings is not None
        return
    with pytest.raises(ConfigError, match=rf"tools\.file_search\.embeddings\.provider.*{problem}"):
        parse_settings(config, environ={})
