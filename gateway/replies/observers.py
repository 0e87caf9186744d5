"""The interface by which the log, metrics and traces watch the moments of a request."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from gateway.errors import TurnFailed
from gateway.http.error_forms import bind_failure
from gateway.logs import bind_attempt, bind_fields, bind_tool_warnings, bind_unreported, bind_usage
from gateway.upstreams.outcomes import ResultName
from translation.hosted.tool_report import CallFigures
from translation.representation.events import Failed, Usage
from translation.representation.json_types import Json


@dataclass(slots=True)
class ReplyEnd:
    """What is known of a reply that has ended."""

    usage: Usage | None = None
    """The token counts, as far as the upstream has reported them."""
    warnings: Sequence[Json] = ()
    """The warnings about tool calls of the reply."""
    unreported: Sequence[str] = ()
    """The requested parameters that the upstream's reply has no result for."""
    failed: Failed | None = None
    """The event that ended the reply in failure."""
    is_cut_off: bool = False
    """Whether the reply is known to be incomplete: it reached a limit, or a filter ended it."""
    finish_reason: str | None = None
    """Why the model stopped, if it is known."""


NO_REPLY: Final = ReplyEnd()
"""The end of an attempt that got no reply."""


class RequestObserver(Protocol):
    """Watches one accepted request. Its methods are called in this order, must not raise, and must not wait.

    A stream reports each of them. A reply that is one JSON object has no head and no content of its own: its observer
    gets the attempts, their models and their ends.
    """

    def observe_attempt(self, provider: str, number: int, model: str) -> None:
        """A target of this provider is asked next, for the model that it has under this name. `number` counts the
        attempts of the request from 1."""
        ...

    def observe_head(self) -> None:
        """The upstream has begun to reply."""
        ...

    def observe_model(self, model: str) -> None:
        """An upstream that chooses the model itself has named the one that answers."""
        ...

    def observe_content(self) -> None:
        """The first content has arrived: from now on no other target can be asked."""
        ...

    def observe_result(self, result: ResultName) -> None:
        """The attempt that began last has ended, and this is its result. Only turns that are shared report it."""
        ...

    def observe_round(self, usage: Usage | None, finish_reason: str | None) -> None:
        """A round of a reply with hosted tools is complete: its tools are run next, or the reply ends."""
        ...

    def observe_call(self, tool: str, began_ns: int, figures: CallFigures) -> None:
        """A call of a hosted tool has ended, which began at this time of the performance counter."""
        ...

    def observe_end(self, end: ReplyEnd) -> None:
        """An attempt has ended, also because the client left. The reply has ended if no other attempt begins."""
        ...


class ObservedRounds:
    """A LoopObserver. Each round is an attempt, unless the turns of the name are shared: those report their own."""

    def __init__(self, observer: RequestObserver, provider: str, model: str, *, is_shared: bool) -> None:
        """`model` is the provider's name of the model."""
        self.count = 0
        """The rounds that have begun."""
        self._observer = observer
        self._provider = provider
        self._model = model
        self._is_shared = is_shared

    def begin_round(self) -> None:
        self.count += 1
        if not self._is_shared:
            self._observer.observe_attempt(self._provider, self.count, self._model)

    def end_round(self, usage: Usage | None, finish_reason: str | None) -> None:
        self._observer.observe_round(usage, finish_reason)

    def end_call(self, tool: str, began_ns: int, figures: CallFigures) -> None:
        self._observer.observe_call(tool, began_ns, figures)


class Observer(Protocol):
    """Watches the requests of one server process."""

    def observe_request(
        self, endpoint: str, model: str, *, streams: bool, is_shared: bool, is_job: bool = False
    ) -> RequestObserver:
        """A request was accepted. Returns its observer. `endpoint` is the name of the client's API, and `model` the
        name or pattern of the configuration that the request's model belongs to.

        `is_shared`: its turn is shared between upstreams, and counts its attempts itself. `is_job`: its reply goes on
        without its client.
        """
        ...


def bind_problems(end: ReplyEnd) -> None:
    """Adds what most replies do not have to the log line of the request: warnings, missing results, a failure."""
    bind_tool_warnings(end.warnings)
    bind_unreported(end.unreported)
    if end.failed is not None:
        bind_failure(TurnFailed(end.failed))


class LogObserver:
    """Adds what it observes to the log line of the request. It has no state, so one object observes all requests."""

    __slots__ = ()

    def observe_request(
        self, endpoint: str, model: str, *, streams: bool, is_shared: bool, is_job: bool = False
    ) -> RequestObserver:
        return self

    def observe_attempt(self, provider: str, number: int, model: str) -> None:
        bind_attempt(provider, number)

    def observe_head(self) -> None:
        return

    def observe_model(self, model: str) -> None:
        bind_fields(upstream_model=model)

    def observe_content(self) -> None:
        return

    def observe_result(self, result: ResultName) -> None:
        return

    def observe_round(self, usage: Usage | None, finish_reason: str | None) -> None:
        return

    def observe_call(self, tool: str, began_ns: int, figures: CallFigures) -> None:
        return

    def observe_end(self, end: ReplyEnd) -> None:
        if end.warnings or end.unreported or end.failed is not None:
            bind_problems(end)
        if end.usage is not None:
            bind_usage(end.usage)


LOG_OBSERVER: Final = LogObserver()
