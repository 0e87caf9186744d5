"""Builds, starts and closes the providers of a server process, also when a new configuration replaces some of them.

Reports the state of the engines that some of them embed.
"""

import asyncio
import gc
import weakref
from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import asdict
from typing import Final, Literal, NamedTuple

import structlog

from gateway.config.settings import Settings
from gateway.tools.host import build_egress
from providers.base import EngineHost, Provider
from providers.registry import build_provider
from translation.representation.json_types import Json

_log = structlog.get_logger(__name__)

_COLLECT_S: Final = 30.0
"""Seconds between searches for reference cycles while a provider waits to be closed. A failed request may be in one."""


def build_providers(settings: Settings, overrides: Mapping[str, Provider] | None = None) -> dict[str, Provider]:
    """Builds the configured providers. The ones in `overrides` replace configured ones of the same names.

    Nothing is started or connected.
    """
    replaced = dict(overrides or {})
    egress = build_egress(settings.egress)
    configured = settings.providers.items()
    return {
        name: build_provider(name, config, egress) for name, config in configured if name not in replaced
    } | replaced


class ProviderHold:
    """Held by every object that may still send requests to the providers of one configuration.

    While it exists, none of them is closed. It has no content: only references to it count.
    """

    __slots__ = ("__weakref__",)


class _Retirement:
    """One configuration's providers, and whether their hold is gone."""

    def __init__(self, hold: ProviderHold) -> None:
        self.is_unused = asyncio.Event()
        loop = asyncio.get_running_loop()
        self._finalizer = weakref.finalize(hold, loop.call_soon_threadsafe, self.is_unused.set)
        self._finalizer.atexit = False

    async def wait_until_unused(self) -> None:
        while not self.is_unused.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(_COLLECT_S):
                    await self.is_unused.wait()
                    return
            gc.collect()

    def end(self) -> None:
        """Ends the wait, because the server stops. The end of the hold has no effect any more."""
        self._finalizer.detach()
        self.is_unused.set()


class _OpenProvider(NamedTuple):
    """One provider that is open. `task` ends when it is closed, which `stop` causes."""

    stop: asyncio.Event
    task: asyncio.Task[None]


class ProviderLifetimes:
    """The providers in use, by name. Each one is closed when no request can use it any more, or at the latest when the
    server stops.
    """

    def __init__(self, providers: Mapping[str, Provider]) -> None:
        self.providers = dict(providers)
        self._runs: dict[int, _OpenProvider] = {}
        """The providers that run, by `id()` of the provider."""
        self._retirements: list[_Retirement] = []
        self._tasks: asyncio.TaskGroup

    @asynccontextmanager
    async def lifespan(self) -> AsyncGenerator[None, None]:
        """Runs the engines of the providers until the block ends, and closes all providers then.

        Entering the block does not wait for engines to be ready.
        """
        async with asyncio.TaskGroup() as self._tasks:
            self._start(self.providers.values())
            try:
                yield
            finally:
                for retirement in self._retirements:
                    retirement.end()
                for run in self._runs.values():
                    run.stop.set()

    def replace(self, providers: Mapping[str, Provider], last_hold: ProviderHold) -> None:
        """Replaces the present providers by `providers`, and starts the new ones.

        Present providers that are absent from `providers` are closed once no request of an earlier configuration is
        left. `last_hold` is the hold of the configuration that ends now.
        """
        self._retirements = [entry for entry in self._retirements if not entry.is_unused.is_set()]
        self._retirements.append(_Retirement(last_hold))
        remaining = {id(provider) for provider in providers.values()}
        present = {id(provider) for provider in self.providers.values()}
        retired = [provider for provider in self.providers.values() if id(provider) not in remaining]
        self._start(provider for provider in providers.values() if id(provider) not in present)
        self.providers = dict(providers)
        if retired:
            self._tasks.create_task(self._retire(retired, list(self._retirements)))

    def _start(self, providers: Iterable[Provider]) -> None:
        for provider in providers:
            stop = asyncio.Event()
            task = self._tasks.create_task(self._run(provider, stop))
            self._runs[id(provider)] = _OpenProvider(stop, task)

    async def _run(self, provider: Provider, stop: asyncio.Event) -> None:
        """Runs one provider in a task of its own, because an engine must be stopped by the task that started it."""
        try:
            async with AsyncExitStack() as closing:
                closing.push_async_callback(provider.aclose)
                if isinstance(provider, EngineHost):
                    await closing.enter_async_context(provider.run_engine())
                await stop.wait()
        except Exception:  # other providers must remain open, and be closed in order
            _log.exception("provider_close_failed", provider=provider.name)
        finally:
            del self._runs[id(provider)]

    async def _retire(self, providers: Iterable[Provider], retirements: Iterable[_Retirement]) -> None:
        for retirement in retirements:
            await retirement.wait_until_unused()
        for provider in providers:
            if (run := self._runs.get(id(provider))) is not None:
                run.stop.set()
                await asyncio.wait([run.task])
                _log.info("provider_closed", provider=provider.name)


class EmbeddedEngines:
    """The engines of the providers that embed one. Without engines, the process counts as ready and settled."""

    def __init__(self, providers: Iterable[Provider]) -> None:
        self._hosts = [provider for provider in providers if isinstance(provider, EngineHost)]

    async def wait_until_settled(self) -> None:
        """Waits until each engine is ready or has failed for the first time."""
        for host in self._hosts:
            await host.wait_until_settled()

    @property
    def not_ready_reason(self) -> Literal["engine_down", "starting"] | None:
        """Returns the worst reason why some requests cannot be served; None if all engines are ready."""
        states = {host.engine_status.state for host in self._hosts}
        return "engine_down" if "down" in states else "starting" if "starting" in states else None

    def report_conditions(self) -> Json:
        """Returns the status of each engine as a JSON object, by provider name."""
        return {host.name: asdict(host.engine_status) for host in self._hosts}
