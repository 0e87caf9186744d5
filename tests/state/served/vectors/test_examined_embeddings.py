"""The doctor examines the model of embeddings and its database, and a reload is checked like a start."""

import asyncio
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from openai import APIStatusError, AsyncOpenAI
from openai.types.vector_stores import VectorStoreFile
from sqlalchemy.engine import make_url

from gateway.config.settings import parse_settings
from gateway.doctor.embeddings import examine_embeddings
from gateway.doctor.part_diagnosis import PartDiagnosis
from gateway.state.database.migrate import migrate_database
from tests import databases
from tests.databases import Postgres
from tests.polling import wait_until
from tests.serving import be_patient
from tests.state.replicas import replica
from tests.state.served.vectors.meanings import answer
from tests.upstream import ScriptedUpstream
from tests.upstream.builders import error_reply, json_reply

EMBEDDINGS: dict[str, Any] = {"provider": "up", "model": "meanings"}


@pytest.fixture
async def upstream() -> AsyncIterator[ScriptedUpstream]:
    async with ScriptedUpstream() as running:
        running.on("/embeddings", answer)
        yield running


async def examine(upstream_url: str, store_url: str | None, **embeddings: Any) -> PartDiagnosis:
    config: Any = {
        "providers": {"up": {"type": "openai_compatible", "base_url": upstream_url, "retries": 0}},
        "models": {"*": {"provider": "up"}},
        "store": {"url": store_url},
        "tools": {"file_search": {"embeddings": {**EMBEDDINGS, **embeddings}}},
    }
    diagnosis = await asyncio.to_thread(examine_embeddings, parse_settings(config, environ={}))
    assert diagnosis is not None
    return diagnosis


def vectors(*numbers: list[float]) -> Any:
    return json_reply({"data": [{"index": n, "embedding": each} for n, each in enumerate(numbers)]})


FAILURES: dict[str, tuple[Any, str, str]] = {
    "a key that is refused": (error_reply(401, "who are you"), "", "Correct api_key at providers.up"),
    "no such model": (error_reply(404, "no model"), "", "Correct model at tools.file_search.embeddings"),
    "no model of embeddings": (error_reply(400, "it only talks"), "", "Check that the model makes embeddings"),
    "no vectors": (json_reply({"data": []}), "0 embeddings to 2 texts", "Check that the model makes embeddings"),
    "busy": (error_reply(429, "slowly"), "", "wait for its rate limit"),
    "away": (error_reply(503, "later"), "", "until then files wait"),
    "broken": (error_reply(500, "oops"), "", "Read the upstream's log."),
    "the same for all": (vectors([1, 2], [1, 2]), "the same vector", "does not tell texts apart"),
}


@pytest.mark.parametrize("kind", FAILURES)
async def test_the_doctor_says_what_is_wrong_with_the_model(upstream: ScriptedUpstream, kind: str) -> None:
    reply, detail, advice = FAILURES[kind]
    upstream.on("/embeddings", reply)
    diagnosis = await examine(upstream.url, None)
    (finding,) = diagnosis.findings
    assert (finding.check, finding.verdict, diagnosis.failed) == ("embed", "fail", True)
    assert detail in finding.detail
    assert advice in finding.advice


async def test_the_doctor_names_the_size_that_does_not_fit(upstream: ScriptedUpstream) -> None:
    (finding,) = (await examine(upstream.url, None, dimensions=7)).findings
    assert "embeddings of [5] numbers" in finding.detail
    assert "dimensions at tools.file_search.embeddings" in finding.advice


async def test_an_upstream_that_is_away_has_advice() -> None:
    (finding,) = (await examine("http://127.0.0.1:1/v1", None)).findings
    assert "Start the upstream" in finding.advice


async def test_the_doctor_passes_what_works(upstream: ScriptedUpstream, tmp_path: Path) -> None:
    diagnosis = await examine(upstream.url, databases.sqlite(tmp_path / "state.db"))
    assert [(each.check, each.verdict) for each in diagnosis.findings] == [("embed", "pass"), ("compare", "pass")]
    assert diagnosis.findings[0].detail == "vectors of 5 numbers"
    assert len(upstream.requests) == 1
    assert examine_embeddings(parse_settings({}, environ={})) is None


async def test_the_doctor_says_what_the_database_lacks(upstream: ScriptedUpstream, postgres: Postgres) -> None:
    url = postgres.database()

    async def compare(store_url: str) -> tuple[str, str]:
        finding = (await examine(upstream.url, store_url)).findings[1]
        return finding.verdict, finding.advice

    verdict, advice = await compare(url)
    assert (verdict, advice[:7]) == ("fail", "Install")
    postgres.sql("CREATE EXTENSION vector", make_url(url).database or "")
    assert await compare(url) == ("fail", "Run `responses-gateway migrate`.")
    await migrate_database(url)
    assert await compare(url) == ("pass", "")
    gone = url.replace(f"/{make_url(url).database}?", "/gone?")
    assert await compare(gone) == ("fail", "Start it, or check store.url.")
    postgres.drop(url)


async def test_a_reload_that_enables_embeddings_is_checked_like_a_start(
    upstream: ScriptedUpstream, postgres: Postgres, tmp_path: Path
) -> None:
    url = postgres.database()
    running = replica(tmp_path / "gateway", url, upstream.url)
    server = await asyncio.to_thread(running.__enter__)
    file = server.log.with_name("config.yaml")
    config: Any = yaml.safe_load(file.read_text())
    config["tools"] = {"file_search": {"embeddings": {"provider": "chat", "model": "meanings"}}}

    def reload() -> None:
        file.write_text(yaml.safe_dump(be_patient(config)))
        server.process.send_signal(signal.SIGHUP)

    try:
        reload()
        await wait_until(lambda: "configuration_rejected" in server.read_log())
        async with httpx.AsyncClient(trust_env=False, timeout=60) as http:
            ready = await http.get(server.url.removesuffix("/v1") + "/readyz")
        assert "tools.file_search.embeddings" in ready.text
        assert "CREATE EXTENSION vector" in server.read_log()
        # The present configuration stays in use: searches go by words.
        async with AsyncOpenAI(base_url=server.v1, api_key="none", max_retries=0) as client:
            store = await client.vector_stores.create()
            assert (await client.vector_stores.search(store.id, query="cat")).data == []
            assert upstream.requests == []
            postgres.sql("CREATE EXTENSION vector", make_url(url).database or "")
            await migrate_database(url)
            reload()
            await wait_until(lambda: "configuration_reloaded" in server.read_log())
            file_id = (await client.files.create(file=("a.txt", b"A cat."), purpose="assistants")).id
            entry = await client.vector_stores.files.create_and_poll(file_id, vector_store_id=store.id)
            assert (entry.status, len(upstream.requests)) == ("completed", 1)
    finally:
        await asyncio.to_thread(running.__exit__, None, None, None)
    postgres.drop(url)


async def test_a_reload_changes_how_files_are_indexed(
    upstream: ScriptedUpstream, store_url: str, tmp_path: Path
) -> None:
    running = replica(tmp_path / "gateway", store_url, upstream.url)
    server = await asyncio.to_thread(running.__enter__)
    file = server.log.with_name("config.yaml")
    config: Any = yaml.safe_load(file.read_text())
    config["tools"] = {"file_search": {"max_file_tokens": 4, "max_files": 2}}
    try:
        async with AsyncOpenAI(base_url=server.v1, api_key="none", max_retries=0) as client:
            store = await client.vector_stores.create()

            async def attach() -> VectorStoreFile:
                content = b"A cat sleeps for sixteen hours on each day of the year."
                file_id = (await client.files.create(file=("a.txt", content), purpose="assistants")).id
                return await client.vector_stores.files.create_and_poll(file_id, vector_store_id=store.id)

            assert (await attach()).status == "completed"
            file.write_text(yaml.safe_dump(be_patient(config)))
            server.process.send_signal(signal.SIGHUP)
            await wait_until(lambda: "configuration_reloaded" in server.read_log())
            failed = await attach()
            assert failed.last_error is not None
            assert failed.last_error.message == "The file has more than 4 tokens."
            with pytest.raises(APIStatusError, match="2 files"):
                await attach()
    finally:
        await asyncio.to_thread(running.__exit__, None, None, None)
