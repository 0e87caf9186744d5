"""gateway/service/provider_lifetimes.py: the server reports that it listens after its engines have settled."""

import asyncio
import socket
import threading
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Literal

import httpx
import pytest

from gateway.config.settings import parse_settings
from gateway.process.server import GatewayServer, make_server
from gateway.service.provider_lifetimes import EmbeddedEngines
from providers.base import EngineStatus
from providers.config import ProviderConfig
from providers.scripted.provider import ScriptedProvider
from tests.serving import READY_S

State = Literal["starting", "ready", "down"]

CONFIG: dict[str, Any] = {
    "store": {"url": None},
    "providers": {"engine": {"type": "scripted"}, "other": {"type": "scripted"}},
    "models": {"demo": {"provider": "engine"}},
}


class FakeHost(ScriptedProvider):
    """An engine that a test, in another thread, lets be as it likes."""

    def __init__(self, name: str = "engine", state: State = "starting") -> None:
        super().__init__(name, ProviderConfig(type="scripted"))
        self.engine_status = EngineStatus(state)
        self.is_running = False
        self._has_settled = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None

    @asynccontextmanager
    async def run_engine(self) -> AsyncGenerator[None, None]:
        self._loop = asyncio.get_running_loop()
        self.is_running = True
        yield
        self.is_running = False

    async def wait_until_settled(self) -> None:
        await self._has_settled.wait()

    def settle(self, condition: EngineStatus) -> None:
        assert self._loop is not None
        self.engine_status = condition
        self._loop.call_soon_threadsafe(self._has_settled.set)


@contextmanager
def started(host: FakeHost, on_ready: Callable[[], None]) -> Iterator[tuple[GatewayServer, str]]:
    """A server that has bound its socket, ready or not, and its address."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = make_server(parse_settings(CONFIG, environ={}), on_ready, {"engine": host})
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        try:
            yield server, f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join(READY_S)
    assert not thread.is_alive()


def get(url: str) -> httpx.Response:
    return httpx.get(url, verify=False, trust_env=False, timeout=READY_S)


def test_a_server_replies_while_an_engine_starts_and_reports_that_it_listens_afterwards() -> None:
    host, ready = FakeHost(), threading.Event()
    host.engine_status = EngineStatus("starting", "loading tiny.gguf")
    with started(host, ready.set) as (_, url):
        assert get(f"{url}/healthz").status_code == 200
        reply = get(f"{url}/readyz")
        state = {"state": "starting", "detail": "loading tiny.gguf", "running": 0}
        assert (reply.status_code, reply.json()) == (503, {"status": "starting", "engines": {"engine": state}})
        assert not ready.is_set()

        host.settle(EngineStatus("ready", running=2))
        assert ready.wait(READY_S)
        reply = get(f"{url}/readyz")
        state = {"state": "ready", "detail": None, "running": 2}
        assert (reply.status_code, reply.json()) == (200, {"status": "ready", "engines": {"engine": state}})
        assert host.is_running
    assert not host.is_running, "it ends with the server"


def test_a_failed_engine_does_not_delay_others() -> None:
    host, ready = FakeHost(), threading.Event()
    with started(host, ready.set) as (_, url):
        assert get(f"{url}/healthz").status_code == 200
        host.settle(EngineStatus("down", "no memory"))
        assert ready.wait(READY_S)
        reply = get(f"{url}/readyz")
        assert (reply.status_code, reply.json()["status"]) == (503, "engine_down")
        assert reply.json()["engines"]["engine"]["detail"] == "no memory"


def test_a_server_can_be_stopped_before_its_engine_has_settled() -> None:
    host, ready = FakeHost(), threading.Event()
    with started(host, ready.set) as (server, url):
        assert get(f"{url}/healthz").status_code == 200
        server.should_exit = True
    assert not ready.is_set()
    assert not host.is_running


WORST: dict[str, tuple[list[State], str | None]] = {
    "no engine at all": ([], None),
    "all ready": (["ready", "ready"], None),
    "one still starting": (["ready", "starting"], "starting"),
    "one down is worse than one starting": (["starting", "down", "ready"], "engine_down"),
}


@pytest.mark.parametrize(("states", "hindrance"), WORST.values(), ids=WORST)
def test_the_reported_state_is_the_worst_one(states: list[State], hindrance: str | None) -> None:
    hosts = [FakeHost(f"engine-{number}", state) for number, state in enumerate(states)]
    engines = EmbeddedEngines([*hosts, ScriptedProvider("none", ProviderConfig(type="scripted"))])
    assert engines.not_ready_reason == hindrance
    assert list(engines.report_conditions()) == [host.name for host in hosts]
