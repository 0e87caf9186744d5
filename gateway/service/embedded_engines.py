"""The embedded engines of one server process: reports their state together."""

from collections.abc import Iterable
from dataclasses import asdict
from typing import Literal

from providers.base import EngineHost, Provider
from translation.representation.json_types import Json


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
