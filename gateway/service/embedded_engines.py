"""The embedded engines of one server process: kept alive together, told of together."""

from collections.abc import AsyncGenerator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import asdict
from typing import Literal

from providers.base import Host, Provider
from translation.representation.json_types import Json


class Engines:
    """Those of the providers that have one. Without any, every question has its best answer."""

    def __init__(self, providers: Iterable[Provider]) -> None:
        self._hosts = [provider for provider in providers if isinstance(provider, Host)]

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None, None]:
        """Keep them alive until the block ends; entering does not wait for them."""
        async with AsyncExitStack() as stack:
            for host in self._hosts:
                await stack.enter_async_context(host.running())
            yield

    async def settled(self) -> None:
        """Wait until each is ready, or has failed for the first time."""
        for host in self._hosts:
            await host.settled()

    @property
    def hindrance(self) -> Literal["engine_down", "starting"] | None:
        """Why not every request can be served; the worst of it, and None where all are ready."""
        states = {host.condition.state for host in self._hosts}
        return "engine_down" if "down" in states else "starting" if "starting" in states else None

    def report(self) -> Json:
        """How each is, under its provider's name."""
        return {host.name: asdict(host.condition) for host in self._hosts}
