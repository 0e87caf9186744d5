"""The adapter for an embedded llama.cpp: while it is up, an upstream like any other on this machine."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any, NoReturn

import httpx
from pydantic import SecretStr

from dataplane.transport import PooledTransport
from providers.base import Capabilities, CountMethod, Dialect, EngineStatus, Exchange, RelayExchange
from providers.capabilities import CAPABILITIES
from providers.config import ProviderConfig
from providers.engines.servers.llama_provider import LlamaServerProvider
from providers.engines.supervisor import ReportProgress, Supervisor
from providers.errors import EngineUnavailable
from providers.http.transports import build_pooled_transport
from providers.http.upstream import Upstream
from providers.llamacpp.parameters import DEFAULT_SLOTS
from providers.llamacpp.process import EngineProcess, run_engine_process
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
    def engine_status(self) -> EngineStatus:
        condition = self._supervisor.engine_status
        return (
            replace(condition, running=self._supervisor.engine.transport.busy)
            if condition.state == "ready"
            else condition
        )

    def run_engine(self) -> AbstractAsyncContextManager[None]:
        return self._supervisor.run_engine()

    async def wait_until_settled(self) -> None:
        await self._supervisor.wait_until_settled()

    def prepare(self, turn: Turn, profile: Profile) -> Exchange:
        return self._server_provider.prepare(turn, profile)

    def prepare_relay(self, dialect: Dialect, body: Json) -> RelayExchange:
        return self._server_provider.prepare_relay(dialect, body)

    async def count_tokens(self, turn: Turn, profile: Profile, method: CountMethod) -> int:
        return await self._server_provider.count_tokens(turn, profile, method)

    async def list_models(self) -> Sequence[str]:
        return await self._server_provider.list_models()

    def redact(self, message: str) -> str:
        return self._server_provider.redact(message) if self._supervisor.engine_status.state == "ready" else message

    async def aclose(self) -> None:
        """There is nothing left to close once `running` has ended."""

    @property
    def _server_provider(self) -> LlamaServerProvider:
        return self._supervisor.engine.provider

    @asynccontextmanager
    async def _start(self, progress: ReportProgress) -> AsyncGenerator["_RunningEngine", None]:
        async with run_engine_process(self._name, self._config, progress) as process:
            known = {"type": "llama_server", "base_url": f"{process.url}/v1", "api_key": SecretStr(process.key)}
            transport = build_pooled_transport(self._config)
            upstream = _ChildUpstream(self._name, self._config.model_copy(update=known), f"{process.url}/v1", transport)
            provider = LlamaServerProvider(upstream, self._capabilities, "chat", has_llguidance=True)
            try:
                yield _RunningEngine(process, provider, transport)
            finally:
                await provider.aclose()


@dataclass(frozen=True)
class _RunningEngine:
    """One process and how it is spoken to."""

    process: EngineProcess
    provider: LlamaServerProvider
    transport: PooledTransport

    async def wait_until_dead(self) -> str:
        return await self.process.wait_until_dead()


class _ChildUpstream(Upstream):
    """A server that is out of reach only when it is dead."""

    def raise_provider_error(self, failure: Exception, *, reply_started: bool) -> NoReturn:
        if isinstance(failure, httpx.TimeoutException):
            super().raise_provider_error(failure, reply_started=reply_started)
        message = "the engine died in the middle of its answer" if reply_started else "the engine died"
        raise EngineUnavailable(message, provider=self.name) from failure


def _capabilities(config: ProviderConfig) -> Capabilities:
    """Those of its server, as far as a model alone can have them: pictures take a projector."""
    engine: dict[str, Any] = config.engine
    projector = any(key.partition(".")[0] == "mmproj" for key in engine)
    known = replace(
        CAPABILITIES["llama_server"],
        images=projector,
        audio=False,
        files=False,
        max_context_window=_context_window_of(engine),
    )
    return replace(known, dialects=frozenset(config.dialects), **config.capabilities.to_overrides())


def _context_window_of(engine: dict[str, Any]) -> int | None:
    """A request's share of the tokens that the operator gave; a model that was trained for fewer has those."""
    tokens, slots = engine.get("n_ctx", 0), engine.get("n_parallel", DEFAULT_SLOTS)
    if not isinstance(tokens, int) or not isinstance(slots, int) or tokens < 1 or slots < 1:
        return None
    return tokens if engine.get("kv_unified") else tokens // slots
