"""The base class of providers of embedded engines: it runs the engine, and knows whether it is up."""

from abc import ABC, abstractmethod
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from typing import Generic, Protocol, TypeVar

from providers.base import Capabilities, EngineStatus
from providers.engines.supervisor import ProgressReporter, SupervisedEngine, Supervisor


class CountingEngine(SupervisedEngine, Protocol):
    """An engine that counts the requests in progress."""

    @property
    def running_requests(self) -> int: ...


_EngineT = TypeVar("_EngineT", bound=CountingEngine)


class EmbeddedEngineProvider(ABC, Generic[_EngineT]):
    """The part of a `Provider` and an `EngineHost` that does not depend on the engine.

    An adapter derives from it and adds `prepare`.
    """

    def __init__(self, name: str, capabilities: Capabilities) -> None:
        self._name = name
        self._capabilities = capabilities
        self._supervisor: Supervisor[_EngineT] = Supervisor(name, self._start)

    @property
    def name(self) -> str:
        return self._name

    @property
    def capabilities(self) -> Capabilities:
        return self._capabilities

    @property
    def engine_status(self) -> EngineStatus:
        status = self._supervisor.engine_status
        return replace(status, running=self._supervisor.engine.running_requests) if status.state == "ready" else status

    def run_engine(self) -> AbstractAsyncContextManager[None]:
        return self._supervisor.run_engine()

    async def wait_until_settled(self) -> None:
        await self._supervisor.wait_until_settled()

    async def aclose(self) -> None:
        """Does nothing: the end of `run_engine` closes everything."""

    @abstractmethod
    def _start(self, progress: ProgressReporter, /) -> AbstractAsyncContextManager[_EngineT]:
        """Starts one engine, as `providers.engines.supervisor.EngineStarter` describes."""
