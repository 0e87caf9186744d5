"""The embedded engines of one server process: kept alive together, told of together."""

from collections.abc import AsyncGenerator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import asdict
from typing import Literal

from providers.base import EngineHost, Provider
from translation.representation.json_types import Json


class EmbeddedEngines:
    """Those of the providers that have one. Without any, every question has its best answer."""

    def __init__(self, providers: Iterable[Provider]) -> None:
        self._hosts = [provider for provider in providers if isinstance(provider, EngineHost)]

    @asynccontextmanager
    async def lifespan(self) -> AsyncGenerator[None, None]:
        """Keep them alive until the block ends; entering does not wait for them."""
        async with AsyncExitStack() as stack:
            for host in self._hosts:
                await stack.enter_async_context(host.run_engine())
            yield

    async def wait_until_settled(self) -> None:
        """Wait until each is ready, or has failed for the first time."""
        for host in self._hosts:
            await host.wait_until_settled()

    @property
    def not_ready_reason(self) -> Literal["engine_down", "starting"] | None:
        """Why not every request can be served; the worst of it, and None where all are ready."""
        states = {host.engine_status.state for host in self._hosts}
        return "engine_down" if "down" in states else "starting" if "starting" in states else None

    def report_conditions(self) -> Json:
        """How each is, under its provider's name."""
        return {host.name: asdict(host.engine_status) for host in self._hosts}
