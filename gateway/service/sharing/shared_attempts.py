"""Begins, observes and ends the attempts of one run whose model has several upstreams."""

from collections.abc import Callable
from typing import Protocol

from gateway.logs import bind_fields
from gateway.planning.resolver import Route
from gateway.replies.attempted_reply import AttemptStream
from gateway.replies.observers import ReplyEnd, RequestObserver
from gateway.service.sharing.shared_rounds import SharedRounds
from gateway.upstreams.candidates import Candidate
from gateway.upstreams.health import UpstreamName
from gateway.upstreams.outcomes import ResultName, build_filter_failure
from gateway.upstreams.shared_turn import SharedTurn
from providers.errors import ProviderError
from translation.errors import InvalidRequest
from translation.hosted.tool_report import CallFigures
from translation.representation.events import Usage
from translation.representation.json_types import Json


class AttemptPlanner(Protocol):
    """A run that plans its attempts. It has the plan of the last one."""

    async def plan_attempt(self, index: int) -> None:
        """Plans the attempt at a target of the route. Raises InvalidRequest if the target cannot serve the request."""
        ...

    def build_attempt_stream(self) -> AttemptStream:
        """Returns the stream of the attempt that was planned last."""
        ...

    @property
    def may_have_run_tools(self) -> bool:
        """Whether a tool may have run because of the attempt, so that it must not be repeated."""
        ...


class SharedAttempts:
    """The attempts of one run. It is also a RequestObserver, because the results and times of a reply change the health
    of its upstream."""

    planner: AttemptPlanner
    keeper: str | None = None
    """The owner of a reply that its upstream stores, and no one else. It has to be asked for what continues it."""
    note_content: Callable[[], None] | None = None
    """Is called with the first content of an attempt, if what is stored of the reply depends on its upstream."""
    _stream: AttemptStream | None = None
    """The stream of a reply that its upstream stores."""

    def __init__(self, route: Route, turn: SharedTurn, planned_index: int, observer: RequestObserver) -> None:
        """`planned_index` is the place of the target that the run was planned for at first."""
        self.turn = turn
        self.observer = observer
        turn.report_result = observer.observe_result
        self.rounds: SharedRounds | None = None
        """The rounds of a reply whose tools the gateway runs. They make the attempts themselves."""
        self._route = route
        self._planned_index = planned_index
        self._has_failed = False

    @property
    def upstream(self) -> str | None:
        """The upstream that was asked last."""
        return self.turn.upstream if self.rounds is None else self.rounds.upstream

    @property
    def attempt_count(self) -> int:
        return self.turn.attempt_count if self.rounds is None else self.rounds.attempt_count

    @property
    def first_content_s(self) -> float | None:
        return self.turn.routing.first_content_s if self.rounds is None else None

    @property
    def deadline(self) -> float | None:
        return self.turn.deadline if self.rounds is None else None

    async def begin_stream(self) -> AttemptStream:
        """Begins the next attempt, and returns its stream. Raises what `begin` raises."""
        await self.begin()
        stream = self.planner.build_attempt_stream()
        if self.keeper is not None:
            self._stream = stream
        return stream

    async def begin(self) -> None:
        """Begins the next attempt: chooses an upstream, and plans for it if that has not been done.

        Raises what `SharedTurn.begin` raises.
        """
        while self.rounds is None:
            try:
                candidate = await self.turn.begin()
            except ProviderError:
                self.bind_log_fields()  # the turn may have waited, and a limit may have refused it
                raise
            if candidate.index != self._planned_index:
                try:
                    await self.planner.plan_attempt(candidate.index)
                except InvalidRequest:
                    self.turn.cancel()
                    self.turn.exclude(candidate.index)
                    continue
                except BaseException:
                    self.turn.cancel()
                    raise
            # An exchange is used once.
            self._planned_index = -1
            self._has_failed = False
            return

    async def move_on(self, error: Exception) -> bool:
        """Ends the attempt in a failure of which nothing was delivered. Returns whether another one may begin."""
        moves = False
        if self.rounds is None and self.planner.may_have_run_tools:
            self.turn.fail(error)
        elif self.rounds is None:
            moves = await self.turn.move_on(error, self._has_larger_window)
        self.bind_log_fields()
        return moves

    async def move_on_filtered(self) -> bool:
        """Ends the attempt, whose reply a content filter ended before content, if another one may begin.

        Returns whether another attempt may begin. If not, the client gets the filtered reply.
        """
        if self.rounds is not None or not self.turn.leaves_filtered:
            return False
        return await self.move_on(build_filter_failure())

    def find_failure(self, error: Exception) -> Exception:
        return error if self.rounds is not None else self.turn.find_failure(error)

    def build_timeout(self) -> ProviderError:
        return self.turn.build_timeout()

    def end_stream(self, *, is_complete: bool, has_failed: bool) -> None:
        """Ends the attempt, if one is in progress. If it neither is complete nor has failed, its client has left."""
        if self.rounds is not None:
            self.bind_log_fields()
        if self.rounds is not None or self.turn.attempt is None:
            return
        if self._stream is not None:
            self.note_maker(self._stream.result())
        if has_failed or self._has_failed:
            self.turn.cut()
        elif is_complete:
            self.turn.succeed()
        else:
            self.turn.leave()
        self.bind_log_fields()

    def note_maker(self, reply: Json | None) -> None:
        """Remembers the upstream of a reply that only it stores."""
        attempt = self.turn.attempt
        if self.keeper is None or reply is None or attempt is None:
            return
        target = self._route.find_target(attempt.candidate.index)
        maker = UpstreamName(target.provider.name, target.upstream_model)
        self.turn.makers.note_maker(self.keeper, reply.get("id"), maker)

    def bind_log_fields(self) -> None:
        """Adds to the log line which upstreams were asked, and why."""
        if fields := (self.rounds or self.turn).describe():
            bind_fields(**fields)

    def observe_attempt(self, provider: str, number: int, model: str) -> None:
        if self.rounds is None:  # rounds report their attempts themselves
            attempt = self.turn.attempt
            upstream = provider if attempt is None else attempt.candidate.upstream
            self.observer.observe_attempt(upstream, self.turn.attempt_count, model)

    def observe_head(self) -> None:
        self.observer.observe_head()

    def observe_content(self) -> None:
        if self.rounds is None:
            self.turn.observe_content()
        if self.note_content is not None:
            self.note_content()
        self.observer.observe_content()

    def observe_model(self, model: str) -> None:
        self.observer.observe_model(model)

    def observe_result(self, result: ResultName) -> None:
        self.observer.observe_result(result)

    def observe_round(self, usage: Usage | None, finish_reason: str | None) -> None:
        self.observer.observe_round(usage, finish_reason)

    def observe_call(self, tool: str, began_ns: int, figures: CallFigures) -> None:
        self.observer.observe_call(tool, began_ns, figures)

    def observe_end(self, end: ReplyEnd) -> None:
        self._has_failed = end.failed is not None
        self.observer.observe_end(end)

    def _has_larger_window(self, other: Candidate, failed: Candidate) -> bool:
        """Whether the context of another candidate is larger than that of the one that failed, or may be."""
        return self._route.has_larger_window(other.index, failed.index)
