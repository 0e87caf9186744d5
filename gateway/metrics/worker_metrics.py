"""All that a worker needs for its metrics: what counts, what answers, and what has to run meanwhile."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager

from starlette.responses import Response
from starlette.types import ASGIApp, Scope

from gateway.http.error_forms import ErrorReplyBuilder
from gateway.metrics.observer import MetricsObserver
from gateway.metrics.place import MetricsPlace
from gateway.metrics.replies import PATH, MainPortMetrics, MetricsReplies, build_listener_app, run_listener
from gateway.metrics.samples import Series
from gateway.metrics.sources import WorkerFigures, add_up_regularly
from gateway.metrics.workers import WorkerSockets
from gateway.service.service import Service


class WorkerMetrics:
    """The metrics of one worker."""

    def __init__(self, find_service: Callable[[], Service], place: MetricsPlace) -> None:
        """`find_service` returns the service, which is built after the observer of its requests."""
        self.observer = MetricsObserver(Series(), lambda: find_service().settings)
        figures = WorkerFigures(find_service, self.observer)
        self._sockets = WorkerSockets(place.folder, figures.take_snapshot)
        self._replies = MetricsReplies(self._sockets.ask_all)
        self._place = place

    def build_main_port_app(
        self,
        service: Service,
        find_refusal: Callable[[Scope], Response | None],
        build_error_reply: ErrorReplyBuilder,
    ) -> Mapping[str, ASGIApp]:
        """Returns the application of `/metrics` on the main port by its path, unless it has a listener of its own."""
        if self._place.listener is not None:
            return {}
        return {PATH: MainPortMetrics(self._replies, service, find_refusal, build_error_reply)}

    @asynccontextmanager
    async def lifespan(self, build_error_reply: ErrorReplyBuilder) -> AsyncGenerator[None, None]:
        """Answers the other workers, and the own listener if there is one, until the block ends."""
        async with AsyncExitStack() as running:
            await running.enter_async_context(self._sockets.listen())
            if (listener := self._place.listener) is not None:
                app = build_listener_app(self._replies, build_error_reply)
                await running.enter_async_context(run_listener(listener, app, self._place.protocol))
            tasks = await running.enter_async_context(asyncio.TaskGroup())
            adding = tasks.create_task(add_up_regularly(self.observer))
            try:
                yield
            finally:
                adding.cancel()
