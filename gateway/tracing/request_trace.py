"""The numbers of one traced request: its turns, the HTTP requests to upstreams, and the calls of tools."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from time import perf_counter_ns
from typing import Final, Protocol, TypeAlias

from gateway.replies.request_figures import RequestDescription, RequestFigures
from gateway.tracing.trace_context import ParentContext, make_span_id
from translation.hosted.tool_report import CallFigures
from translation.representation.events import Usage

MAX_PARTS: Final = 500
"""The most turns, and the most calls, of one trace."""


class HttpAttempt:
    """One HTTP request to an upstream. Times are those of the performance counter.

    Attributes that are set later have their defaults on the class, here and below, because that makes creation cheaper,
    and most traces are dropped.
    """

    ended = 0
    status: int | None = None
    result: str | None = None
    """The result of the attempt; None while it is not known."""

    def __init__(self, url: str, upstream: str) -> None:
        self.url = url
        self.upstream = upstream
        self.began = perf_counter_ns()
        self.span_id = make_span_id()


class TracedTurn:
    """One turn of a model: the attempts at its upstreams."""

    ended = 0
    first_content = 0
    upstream = ""
    model = ""
    """The upstream's name of the model that it was asked for, or that it said will answer."""
    usage: Usage | None = None
    finish_reason: str | None = None
    result: str | None = None

    def __init__(self) -> None:
        self.began = perf_counter_ns()
        self.http: list[HttpAttempt] = []


TracedCall: TypeAlias = tuple[str, int, int, CallFigures]
"""The name of a tool, when its call began and ended, and whether it failed."""


class TraceEnds(Protocol):
    """Keeps traces at their end, or drops them."""

    def end_trace(
        self,
        trace: "RequestTrace",
        figures: RequestFigures,
        status: int,
        elapsed_ns: int,
        fields: Mapping[str, object],
    ) -> None: ...


class RequestTrace:
    """Records the numbers of one request, of which its spans are built if the trace is kept. It is also the HttpTrace
    of the request."""

    parent: ParentContext | None = None
    has_remote_parent = False
    """Whether the parent span is that of the client, who has then decided whether the request is sampled."""
    endpoint = ""
    """The name of the client's API, or of a path that is only relayed."""
    response_id: str | None = None
    conversation_id: str | None = None
    body: Mapping[str, object] = {}
    """The body of the request, of which spans have numbers only."""
    calls: Sequence[TracedCall] = ()
    other_http: Sequence[HttpAttempt] = ()
    """HTTP requests to upstreams that belong to no turn, such as those for the count of tokens."""
    _turn: TracedTurn | None = None

    def __init__(self, ends: TraceEnds, log_id: str, *, is_sampled: bool) -> None:
        self._ends = ends
        self.log_id = log_id
        """The id of the trace, in the form that headers and log lines have."""
        self.is_sampled = is_sampled
        self.turns: list[TracedTurn] = []

    @cached_property
    def span_id(self) -> int:
        """The id of the span of the request itself."""
        return make_span_id()

    def describe(self, description: RequestDescription) -> None:
        """The request was accepted."""
        self.response_id, self.conversation_id, self.body = description

    def begin_job(self) -> "RequestTrace":
        """Returns the trace of a job that this request submits, as a part of its own."""
        state = "" if self.parent is None else self.parent.state
        job = RequestTrace(self._ends, self.log_id, is_sampled=self.is_sampled)
        job.parent = ParentContext(int(self.log_id, 16), self.span_id, self.is_sampled, state)
        job.has_remote_parent = self.has_remote_parent
        return job

    def end(self, figures: RequestFigures, status: int, elapsed_ns: int, fields: Mapping[str, object]) -> None:
        """The request has ended. `fields` are those of its log line."""
        self._ends.end_trace(self, figures, status, elapsed_ns, fields)

    def begin_attempt(self, upstream: str, model: str) -> None:
        """An attempt begins: the first of a turn, or a further one."""
        turn = self._turn
        if turn is None:
            turn = self._turn = TracedTurn()
            if len(self.turns) < MAX_PARTS:
                self.turns.append(turn)
        elif turn.ended:
            turn.ended, turn.result = 0, None
        turn.upstream, turn.model = upstream, model

    def note_content(self, now: int) -> None:
        """The first content of the reply has arrived."""
        if self._turn is not None:
            self._turn.first_content = now

    def note_model(self, model: str) -> None:
        """The upstream has named the model that answers."""
        if self._turn is not None:
            self._turn.model = model

    def end_attempt(self, usage: Usage | None, finish_reason: str | None, result: str | None) -> None:
        """The reply of an attempt has ended. `result` is None if it is not known yet."""
        if (turn := self._turn) is not None:
            turn.ended = now = perf_counter_ns()
            turn.usage, turn.finish_reason = usage, finish_reason
            if result is not None:
                turn.result = result
            if turn.http:
                last = turn.http[-1]
                last.ended = last.ended or now
                last.result = result or last.result

    def note_result(self, result: str) -> None:
        """The attempt that began last had this result."""
        if (turn := self._turn) is not None:
            turn.ended = turn.ended or perf_counter_ns()
            turn.result = result
            if turn.http:
                last = turn.http[-1]
                last.ended, last.result = last.ended or turn.ended, result

    def end_turn(self) -> None:
        """A round is complete: the next attempt begins another turn."""
        self._turn = None

    def add_call(self, tool: str, began_ns: int, figures: CallFigures) -> None:
        """A call of a hosted tool has ended."""
        if len(self.calls) < MAX_PARTS:
            self.calls = [*self.calls, (tool, began_ns, perf_counter_ns(), figures)]

    def begin_http(self, url: str, *, sends_context: bool) -> bytes:
        """Returns the header lines of an HTTP request to an upstream, which begins now."""
        turn = self._turn
        if turn is None:
            attempt = HttpAttempt(url, "")
            self.other_http = [*self.other_http[-MAX_PARTS:], attempt]
        else:
            attempt = HttpAttempt(url, turn.upstream)
            if len(turn.http) < MAX_PARTS:
                turn.http.append(attempt)
        if not sends_context:
            return b""
        line = f"traceparent: 00-{self.log_id}-{attempt.span_id:016x}-0{self.is_sampled:d}\r\n"
        if self.parent is not None and self.parent.state:
            line += f"tracestate: {self.parent.state}\r\n"
        return line.encode()

    def end_http(self, status: int | None) -> None:
        """The head of the reply to that request has arrived, with this status; None if it failed before."""
        attempts = self.other_http if self._turn is None else self._turn.http
        if not attempts:
            return
        attempts[-1].status = status
        if status is None:
            attempts[-1].result, attempts[-1].ended = "unreachable", perf_counter_ns()
