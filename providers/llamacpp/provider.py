"""The adapter for an embedded llama.cpp: while it is up, an upstream like any other on this machine."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any, NoReturn

import httpx
from pydantic import SecretStr

from dataplane.transport import PooledTransport
from providers.base import Capabilities, Condition, Counting, Dialect, Exchange, RelayExchange
from providers.capabilities import CAPABILITIES
from providers.config import ProviderConfig
from providers.engines.servers.llama_provider import LlamaServerProvider
from providers.engines.supervisor import Progress, Supervisor
from providers.errors import EngineUnavailable
from providers.http.transports import pooled
from providers.http.upstream import Upstream
from providers.llamacpp.parameters import SLOTS
from providers.llamacpp.process import Child, child
from translation.representation.json_types import Json
from translation.representation.profile import Profile
from translation.representation.turn import Turn


class LlamacppProvider:
    """A `Provider` and a `Host`. While the engine is not up, everything that needs it raises EngineUnavailable."""

    def __init__(self, name: str, config: ProviderConfig) -> None:
        self._name = name
        self._config = config
        self._capabilities = _capabilities(config)
        self._supervisor = Supervisor(name, self._start)

    @property
    def name(self) -> str:
        return self._name

    @property
    def capabilities(self) -> Capabilities:
        return self._capabilities

    @property
    def condition(self) -> Condition:
        condition = self._supervisor.condition
        return (
            replace(condition, running=self._supervisor.engine.transport.busy)
            if condition.state == "ready"
            else condition
        )

    def running(self) -> AbstractAsyncContextManager[None]:
        return self._supervisor.running()

    async def settled(self) -> None:
        await self._supervisor.settled()

    def prepare(self, turn: Turn, profile: Profile) -> Exchange:
        return self._wire.prepare(turn, profile)

    def relay(self, dialect: Dialect, body: Json) -> RelayExchange:
        return self._wire.relay(dialect, body)

    async def count(self, turn: Turn, profile: Profile, way: Counting) -> int:
        return await self._wire.count(turn, profile, way)

    async def models(self) -> Sequence[str]:
        return await self._wire.models()

    def scrub(self, message: str) -> str:
        return self._wire.scrub(message) if self._supervisor.condition.state == "ready" else message

    async def aclose(self) -> None:
        """There is nothing left to close once `running` has ended."""

    @property
    def _wire(self) -> LlamaServerProvider:
        return self._supervisor.engine.wire

    @asynccontextmanager
    async def _start(self, progress: Progress) -> AsyncGenerator["_Served", None]:
        async with child(self._name, self._config, progress) as process:
            known = {"type": "llama_server", "base_url": f"{process.url}/v1", "api_key": SecretStr(process.key)}
            transport = pooled(self._config)
            upstream = _Loopback(self._name, self._config.model_copy(update=known), f"{process.url}/v1", transport)
            wire = LlamaServerProvider(upstream, self._capabilities, "chat", guided=True)
            try:
                yield _Served(process, wire, transport)
            finally:
                await wire.aclose()


@dataclass(frozen=True)
class _Served:
    """One process and how it is spoken to."""

    process: Child
    wire: LlamaServerProvider
    transport: PooledTransport

    async def died(self) -> str:
        return await self.process.died()


class _Loopback(Upstream):
    """A server that is out of reach only when it is dead."""

    def raise_named(self, failure: Exception, *, begun: bool) -> NoReturn:
        if isinstance(failure, httpx.TimeoutException):
            super().raise_named(failure, begun=begun)
        said = "the engine died in the middle of its answer" if begun else "the engine died"
        raise EngineUnavailable(said, provider=self.name) from failure


def _capabilities(config: ProviderConfig) -> Capabilities:
    """Those of its server, as far as a model alone can have them: pictures take a projector."""
    engine: dict[str, Any] = config.engine
    projector = any(key.partition(".")[0] == "mmproj" for key in engine)
    known = replace(
        CAPABILITIES["llama_server"], images=projector, audio=False, files=False, max_context_window=_window(engine)
    )
    return replace(known, dialects=frozenset(config.dialects), **config.capabilities.given())


def _window(engine: dict[str, Any]) -> int | None:
    """A request's share of the tokens that the operator gave; a model that was trained for fewer has those."""
    tokens, slots = engine.get("n_ctx", 0), engine.get("n_parallel", SLOTS)
    if not isinstance(tokens, int) or not isinstance(slots, int) or tokens < 1 or slots < 1:
        return None
    return tokens if engine.get("kv_unified") else tokens // slots
