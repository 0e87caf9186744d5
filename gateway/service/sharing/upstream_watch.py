"""Asks upstreams for their state: ejected ones whether they are healthy again, busy ones how many requests wait."""

import asyncio
from collections import defaultdict
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Final

import structlog

from gateway.config.settings import Settings
from gateway.logs import log_round_faults
from gateway.planning.resolver import Resolver, Route, Target
from gateway.upstreams.health import UpstreamHealth
from gateway.upstreams.load_reports import read_waiting_metric
from gateway.upstreams.registry import UpstreamRegistry
from providers.base import ShareableProvider

_log = structlog.get_logger(__name__)

_PERIOD_S: Final = 1.0
_HEALTH_PERIODS: Final = 2
"""An ejected upstream is asked for its health once in so many periods."""

_RECENT_S: Final = 10.0
"""Seconds after the last turn of a name in which the load of its upstreams is asked for."""

_METRICS_PATH: Final = "/metrics"


class UpstreamWatch:
    """Asks the upstreams of one configuration."""

    def __init__(self, settings: Settings, resolver: Resolver, registry: UpstreamRegistry) -> None:
        self._settings = settings
        self._registry = registry
        self._routes: list[Route] = [
            route
            for row in resolver.list_rows()
            if (route := row.build_route(row.pattern)).sharing is not None and len(route.targets) > 1
        ]
        self._providers = {target.provider.name: target.provider for route in self._routes for target in route.targets}
        self._without_report: set[str] = set()
        self._count = 0

    async def ask_once(self) -> None:
        """Asks every upstream that has to be asked now, all at once."""
        self._count += 1
        now = self._registry.clock()
        questions = {}
        for route in self._routes:
            is_recent = route.sharing is not None and now - route.sharing.state.budget.last_turn_at <= _RECENT_S
            for target in route.targets:
                name = target.provider.name
                if is_recent and self._settings.providers[name].find_load_report() == "metrics":
                    questions[name, _METRICS_PATH] = self._ask_load(target)
        if self._count % _HEALTH_PERIODS == 0:
            ejected: defaultdict[str, list[UpstreamHealth]] = defaultdict(list)
            for upstream, health in self._registry.list_ejected(now):
                ejected[upstream.provider].append(health)
            for name, healths in ejected.items():
                config, provider = self._settings.providers.get(name), self._providers.get(name)
                path = None if config is None else config.find_health_path()
                if path is not None and isinstance(provider, ShareableProvider):
                    questions[name, path] = self._ask_health(name, provider, path, healths)
        if questions:
            await asyncio.gather(*questions.values())

    async def _ask_health(
        self, name: str, provider: ShareableProvider, path: str, ejected: Sequence[UpstreamHealth]
    ) -> None:
        """Ends the ejections of a provider's models if it says that it is well, and lets turns that wait for that
        begin."""
        if await provider.probe(path) is not None:
            for health in ejected:
                health.end_ejection(self._registry.clock())
            self._registry.find_load(name).offer_slots()

    async def _ask_load(self, target: Target) -> None:
        provider, name = target.provider, target.provider.name
        if not isinstance(provider, ShareableProvider) or (text := await provider.probe(_METRICS_PATH)) is None:
            return
        waiting, load = read_waiting_metric(text), self._registry.find_load(name)
        load.report = "none" if waiting is None else "metrics"
        if waiting is not None:
            load.report_waiting(waiting, self._registry.clock())
        elif name not in self._without_report:
            self._without_report.add(name)
            _log.warning("load_report_missing", upstream=name, hint="load_report: none")


@asynccontextmanager
async def run_upstream_watch(find_watch: Callable[[], UpstreamWatch]) -> AsyncGenerator[None, None]:
    """Asks the upstreams of the present configuration until the block ends."""

    async def watch() -> None:
        while True:
            await asyncio.sleep(_PERIOD_S)
            with log_round_faults(_log, "upstream_watch_failed"):
                await find_watch().ask_once()

    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(watch())
        try:
            yield
        finally:
            task.cancel()
