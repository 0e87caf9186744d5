"""Connects the parts of metrics in one worker: the counting, the replies, and the tasks that run meanwhile."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager

from starlette.types import ASGIApp

from gateway.http.error_forms import ErrorReplyBuilder
from gateway.http.middleware import FindRefusal
from gateway.metrics.activity import ACTIVITY_PATH, ActivityReplies, parse_activity
from gateway.metrics.place import MetricsPlace
from gateway.metrics.reader import MetricsReader
from gateway.metrics.recent import ActivityLog
from gateway.metrics.replies import PATH, MainPortFigures, MetricsReplies, build_listener_app, run_listener
from gateway.metrics.samples import Series, parse_snapshot
from gateway.metrics.sources import WorkerFigures, add_up_regularly
from gateway.metrics.workers import WorkerSockets
from gateway.service.service import Service


class WorkerMetrics:
    """The metrics of one worker."""

    def __init__(self, find_service: Callable[[], Service], place: MetricsPlace) -> None:
        """`find_service` returns the service, which is built after the watch of its requests."""
        self.reader = MetricsReader(Series(), lambda: find_service().settings)
        figures = WorkerFigures(find_service, self.reader)
        self._sockets = WorkerSockets(place.folder, "figures", figures.take_snapshot, parse_snapshot)
        self._replies = MetricsReplies(self._sockets.ask_all)
        self._activity = ActivityLog(figures.take_snapshot, self.reader.recent)
        self._activity_sockets = WorkerSockets(place.folder, "activity", self._activity.take_activity, parse_activity)
        self._activity_replies = ActivityReplies(self._activity_sockets.ask_all)
        self._place = place

    def build_main_port_apps(
        self,
        service: Service,
        find_refusal: FindRefusal,
        build_error_reply: ErrorReplyBuilder,
    ) -> Mapping[str, ASGIApp]:
        """Returns the applications of the main port by their paths: that of the home page's activity, and that of
        `/metrics`, unless it has a listener of its own."""
        builders = {ACTIVITY_PATH: self._activity_replies.build_reply}
        if self._place.listener is None:
            builders[PATH] = self._replies.build_reply
        return {
            path: MainPortFigures(build_figures, service, find_refusal, build_error_reply)
            for path, build_figures in builders.items()
        }

    @asynccontextmanager
    async def lifespan(self, build_error_reply: ErrorReplyBuilder) -> AsyncGenerator[None, None]:
        """Answers the other workers, and the own listener if there is one, until the block ends."""
        async with AsyncExitStack() as running:
            await running.enter_async_context(self._sockets.listen())
            await running.enter_async_context(self._activity_sockets.listen())
            if (listener := self._place.listener) is not None:
                app = build_listener_app(self._replies, build_error_reply)
                await running.enter_async_context(run_listener(listener, app, self._place))
            tasks = await running.enter_async_context(asyncio.TaskGroup())
            loops = [tasks.create_task(loop) for loop in (add_up_regularly(self.reader), self._activity.add_marks())]
            try:
                yield
            finally:
                for loop in loops:
                    loop.cancel()
