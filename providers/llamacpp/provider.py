"""The provider for llama.cpp in a child process. While the process is up, it is used like any llama-server."""

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any, NoReturn

import httpx
from pydantic import SecretStr

from dataplane.transport import PooledTransport
from providers.base import Capabilities, CountMethod, Dialect, Exchange, RelayExchange
from providers.capabilities import CAPABILITIES
from providers.config import ProviderConfig
from providers.engines.embedded_provider import EmbeddedEngineProvider
from providers.engines.servers.llama_provider import LlamaServerProvider
from providers.engines.supervisor import ProgressReporter
from providers.errors import EngineUnavailable
from providers.http.transports import build_pooled_transport
from providers.http.upstream import Upstream
from providers.llamacpp.parameters import DEFAULT_SLOTS
from providers.llamacpp.process import EngineProcess, run_engine_process
from translation.representation.json_types import Json
from translation.representation.profile import Profile
from translation.representation.turn import Turn


class LlamacppProvider(EmbeddedEngineProvider["_RunningEngine"]):
    """A `Provider` and an `EngineHost`. While the engine is not up, methods that need it raise EngineUnavailable."""

    def __init__(self, name: str, config: ProviderConfig) -> None:
        self._config = config
        super().__init__(name, _build_capabilities(config))

    def prepare(self, turn: Turn, profile: Profile) -> Exchange:
        return self._server_provider.prepare(turn, profile)

    def prepare_relay(self, dialect: Dialect, body: Json, credentials: Sequence[str] = ()) -> RelayExchange:
        return self._server_provider.prepare_relay(dialect, body, credentials)

    async def count_tokens(self, turn: Turn, profile: Profile, method: CountMethod) -> int:
        return await self._server_provider.count_tokens(turn, profile, method)

    async def list_models(self) -> Sequence[str]:
        return await self._server_provider.list_models()

    def redact(self, message: str) -> str:
        return self._server_provider.redact(message) if self._supervisor.engine_status.state == "ready" else message

    @property
    def _server_provider(self) -> LlamaServerProvider:
        return self._supervisor.engine.provider

    @asynccontextmanager
    async def _start(self, progress: ProgressReporter) -> AsyncGenerator["_RunningEngine", None]:
        async with run_engine_process(self._name, self._config, progress) as process:
            address = {"type": "llama_server", "base_url": f"{process.url}/v1", "api_key": SecretStr(process.key)}
            transport = build_pooled_transport(self._config)
            config = self._config.model_copy(update=address)
            upstream = _ChildUpstream(self._name, config, f"{process.url}/v1", transport, process.is_dead)
            provider = LlamaServerProvider(upstream, self._capabilities, "chat", has_llguidance=True)
            try:
                yield _RunningEngine(process, provider, transport)
            finally:
                await provider.aclose()


@dataclass(frozen=True)
class _RunningEngine:
    """One process, and the provider and transport for it."""

    process: EngineProcess
    provider: LlamaServerProvider
    transport: PooledTransport

    @property
    def running_requests(self) -> int:
        return self.transport.busy

    async def wait_until_dead(self) -> str:
        return await self.process.wait_until_dead()


class _ChildUpstream(Upstream):
    """An upstream in a child process. Its failures name the end of the process if it has ended."""

    def __init__(
        self, name: str, config: ProviderConfig, base_url: str, transport: PooledTransport, is_dead: Callable[[], bool]
    ) -> None:
        super().__init__(name, config, base_url, transport)
        self._is_dead = is_dead

    def raise_provider_error(self, failure: Exception, *, reply_started: bool) -> NoReturn:
        if isinstance(failure, httpx.TimeoutException) or not self._is_dead():
            super().raise_provider_error(failure, reply_started=reply_started)
        message = "the engine died in the middle of its reply" if reply_started else "the engine died"
        raise EngineUnavailable(message, provider=self.name) from failure


def _build_capabilities(config: ProviderConfig) -> Capabilities:
    """Returns the capabilities of a llama-server that follow from the configuration. Images need a projector.

    Its endpoints beside the client APIs are not relayed: the engine is the gateway's own.
    """
    engine: dict[str, Any] = config.engine
    has_projector = any(key.partition(".")[0] == "mmproj" for key in engine)
    capabilities = replace(
        CAPABILITIES["llama_server"],
        images=has_projector,
        audio=False,
        files=False,
        endpoints=frozenset(),
        max_context_window=_compute_context_window(engine),
    )
    return config.capabilities.apply_to(replace(capabilities, dialects=frozenset(config.dialects)))


def _compute_context_window(engine: dict[str, Any]) -> int | None:
    """Returns the context window of one request, from `n_ctx` and `n_parallel`; None if the operator did not set
    `n_ctx`. It is smaller if the model was trained with fewer tokens."""
    tokens, slots = engine.get("n_ctx", 0), engine.get("n_parallel", DEFAULT_SLOTS)
    if not isinstance(tokens, int) or not isinstance(slots, int) or tokens < 1 or slots < 1:
        return None
    return tokens if engine.get("kv_unified") else tokens // slots
