"""A gateway before a strict chat upstream, and the clients to point at it."""

import os
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

from tests.clients.codex import Codex
from tests.clients.running import Installed
from tests.clients.strict_chat import strict
from tests.serving import Gateway, serving
from tests.upstream import Script, ScriptedUpstream

Answer = Callable[..., None]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.clients)
            item.add_marker(pytest.mark.timeout(120))


@pytest.fixture(scope="session")
def clients(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    folder = os.environ.get("CLIENTS_DIR")
    if folder is None:
        raise pytest.UsageError("CLIENTS_DIR must name a folder that `scripts/setup_clients` filled")
    return Installed(Path(folder), tmp_path_factory.mktemp("clients"))


@pytest.fixture
async def upstream() -> AsyncIterator[ScriptedUpstream]:
    async with ScriptedUpstream() as running:
        yield running


@pytest.fixture
def answer(upstream: ScriptedUpstream) -> Answer:
    """Call it with what the upstream says to well-formed chat requests, in turn."""

    def set_answers(*scripts: Script) -> None:
        upstream.on("/chat/completions", *map(strict, scripts))

    return set_answers


@pytest.fixture
def gateway(upstream: ScriptedUpstream) -> Iterator[Gateway]:
    """`demo` is the embedded model; every other name is a model of the chat upstream."""
    config = {
        "providers": {
            "demo": {"type": "scripted"},
            "chat": {"type": "openai_compatible", "base_url": upstream.url, "retries": 0},
        },
        "models": {"demo": {"provider": "demo"}, "*": {"provider": "chat"}},
    }
    with serving(config) as running:
        yield running


@pytest.fixture
def codex(clients: Installed, gateway: Gateway, tmp_path: Path) -> Codex:
    return Codex(clients, gateway.v1, tmp_path)
