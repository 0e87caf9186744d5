"""A gateway before a strict chat upstream, and the clients to point at it."""

import os
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests import databases
from tests.clients.client_processes import InstalledClients
from tests.clients.coding_agents.codex import Codex
from tests.integration.engines import llama
from tests.serving import Gateway, serving
from tests.upstream import Script, ScriptedUpstream
from tests.upstream.strict_chat import strict

Answer = Callable[..., None]

NOTES = {"stdio": [sys.executable, "-m", "gateway.demo_notes"], "prefix": "", "approval": "never"}
"""The MCP server of the default configuration."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.clients)
            item.add_marker(pytest.mark.timeout(120))


@pytest.fixture(scope="session")
def clients(tmp_path_factory: pytest.TempPathFactory) -> InstalledClients:
    folder = os.environ.get("CLIENTS_DIR")
    if folder is None:
        raise pytest.UsageError("CLIENTS_DIR must name a folder that `scripts/setup_clients` filled")
    return InstalledClients(Path(folder), tmp_path_factory.mktemp("clients"))


@pytest.fixture
async def upstream() -> AsyncIterator[ScriptedUpstream]:
    async with ScriptedUpstream() as running:
        yield running


@pytest.fixture
def answer(upstream: ScriptedUpstream) -> Answer:
    """Returns a function that sets the upstream's replies to well-formed chat requests, in order."""

    def set_answers(*scripts: Script) -> None:
        upstream.on("/chat/completions", *map(strict, scripts))

    return set_answers


@pytest.fixture
def gateway(upstream: ScriptedUpstream, tmp_path: Path) -> Iterator[Gateway]:
    """`demo` is the embedded model; every other name is a model of the chat upstream. It has the default store."""
    with serving({**before(upstream.url), "store": store_section(tmp_path / "state.db")}) as running:
        yield running


@pytest.fixture
def stateless(upstream: ScriptedUpstream) -> Iterator[Gateway]:
    """The same gateway without a store."""
    with serving(before(upstream.url)) as running:
        yield running


@pytest.fixture(params=["chat", "responses"])
def front(request: pytest.FixtureRequest, upstream: ScriptedUpstream) -> Iterator[Gateway]:
    """A gateway without a store before the chat upstream: directly, or by a second one that has the Responses API."""
    with serving_over(request.param, upstream.url) as running:
        yield running


@pytest.fixture(scope="session")
def engine_gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """A gateway with a store before a real engine. Its model `tiny` knows what docs/demo.md lists."""
    folder = tmp_path_factory.mktemp("llama")
    with llama(folder / "server.log") as engine:
        tiny = {"provider": "engine", "thinking_switch": "chat_template_kwargs", "request_defaults": {"temperature": 0}}
        config = {
            "store": store_section(folder / "state.db"),
            "providers": {"engine": {"type": engine.kind, "base_url": f"{engine.url}/v1"}},
            "models": {"tiny": tiny},
        }
        with serving(config) as gateway:
            yield gateway


@pytest.fixture(params=["chat", "responses"])
def stateful_gateway(request: pytest.FixtureRequest, upstream: ScriptedUpstream, tmp_path: Path) -> Iterator[Gateway]:
    """A gateway that keeps state, before the chat upstream, or before one that speaks Responses: a second gateway,
    between it and the same chat upstream, which could keep state too and must never be asked to."""
    with ExitStack() as running:
        config = before(upstream.url)
        back = None
        if request.param == "responses":
            back = running.enter_context(serving({**config, "store": store_section(tmp_path / "upstream.db")}))
            config = before(back.v1, dialects=["responses"], unlisted_models="forward")
        yield running.enter_context(serving({**config, "store": store_section(tmp_path / "state.db")}))
        if back is not None:
            assert list_stored_objects(back) == []


@pytest.fixture
def codex(clients: InstalledClients, gateway: Gateway, tmp_path: Path) -> Codex:
    return Codex(clients, gateway.v1, tmp_path)


def before(upstream_url: str, **provider: Any) -> dict[str, Any]:
    """A configuration: the embedded model as `demo`, this upstream for every other name, and the server of notes."""
    upstream = {"type": "openai_compatible", "base_url": upstream_url, "retries": 0, **provider}
    return {
        "providers": {"demo": {"type": "scripted"}, "upstream": upstream},
        "models": {"demo": {"provider": "demo"}, "*": {"provider": "upstream"}},
        "tools": {"mcp": {"servers": {"notes": NOTES}}},
    }


@contextmanager
def serving_over(api: str, upstream_url: str, **sections: Any) -> Iterator[Gateway]:
    """A gateway with these sections before the chat upstream: directly, or by a second gateway that has the Responses
    API."""
    if api == "chat":
        with serving({**before(upstream_url), **sections}) as gateway:
            yield gateway
        return
    with (
        serving(before(upstream_url)) as back,
        serving({**before(back.v1, dialects=["responses"], unlisted_models="forward"), **sections}) as gateway,
    ):
        yield gateway


def store_section(file: Path) -> dict[str, str]:
    """The section `store` for a SQLite file."""
    return {"url": databases.sqlite(file)}


def list_stored_objects(gateway: Gateway) -> list[dict[str, Any]]:
    """The responses and chat completions in a gateway's store."""
    pages = [
        httpx.get(f"{gateway.v1}/{path}", params={"limit": 100}, trust_env=False, timeout=60).json()
        for path in ("responses", "chat/completions")
    ]
    return [row for page in pages for row in page["data"]]
