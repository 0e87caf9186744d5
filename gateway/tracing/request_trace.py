"""The numbers of one traced request: its turns, the HTTP requests to upstreams, and the calls of tools."""

from collections.abc import Mapping
from time import perf_counter_ns
from typing import Final, Protocol, TypeAlias

from gateway.replies.request_figures import RequestDescription, RequestFigures
from gateway.tracing.trace_context import ParentContext, make_span_id, write_traceparent
from translation.representation.events import Usage

MAX_PARTS: Final = 500
"""The most turns, and the most calls, of one trace."""


class HttpAttempt:
    """One HTTP request to an upstream. Times are those of the performance counter."""

    __slots__ = ("began", "ended", "result", "span_id", "status", "upstream", "url")

    def __init__(self, url: str, upstream: str) -> None:
        self.url = url
        self.upstream = upstream
        self.began = perf_counter_ns()
        self.ended = 0
        self.span_id = make_span_id()
        self.status: int | None = None
        self.result: str | None = None
        """The result of the attempt; None while it is not known."""


class TracedTurn:
    """One turn of a model: the attempts at its upstreams."""

    __slots__ = (
        "began",
        "ended",
        "error",
        "finish_reason",
        "first_content",
        "http",
        "model",
        "result",
        "span_id",
        "upstream",
        "usage",
    )

    def __init__(self) -> None:
        self.began = perf_counter_ns()
        self.ended = 0
        self.span_id = make_span_id()
        self.upstream = ""
        self.http: list[HttpAttempt] = []
        self.first_content = 0
        self.model = ""
        """The upstream's name of the model that it was asked for, or that it said will answer."""
        self.usage: Usage | None = None
        self.finish_reason: str | None = None
        self.result: str | None = None
        self.error: str | None = None


TracedCall: TypeAlias = tuple[str, int, int, bool]
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
    """What becomes the spans of one request, if it is kept. It is the HttpTrace of the request too."""

    def __init__(
        self, ends: TraceEnds, parent: ParentContext | None, trace_id: int, *, is_sampled: bool, has_remote_parent: bool
    ) -> None:
        """`has_remote_parent`: the parent is the caller's own, whose decision counts."""
        self._ends = ends
        self.parent = parent
        self.trace_id = trace_id
        self.is_sampled = is_sampled
        self.has_remote_parent = has_remote_parent
        self.span_id = make_span_id()
        self.endpoint = ""
        """The name of the client's API, or of a path that is only relayed."""
        self.response_id: str | None = None
        self.conversation_id: str | None = None
        self.body: Mapping[str, object] = {}
        """The body of the request, of which spans have numbers only."""
        self.turns: list[TracedTurn] = []
        self.calls: list[TracedCall] = []
        self.other_http: list[HttpAttempt] = []
        """HTTP requests to upstreams that belong to no turn, such as those for the count of tokens."""
        self._turn: TracedTurn | None = None

    @property
    def log_id(self) -> str:
        """The id that log lines have."""
        return f"{self.trace_id:032x}"

    def describe(self, endpoint: str, description: RequestDescription | None) -> None:
        """The request was accepted, at this API or relayed path."""
        self.endpoint = endpoint
        if description is not None:
            self.response_id, self.conversation_id = description.response_id, description.conversation_id
            self.body = description.body

    def begin_job(self) -> "RequestTrace":
        """Returns the trace of a job that this request submits, as a part of its own."""
        state = "" if self.parent is None else self.parent.state
        parent = ParentContext(self.trace_id, self.span_id, self.is_sampled, state)
        return RequestTrace(
            self._ends, parent, self.trace_id, is_sampled=self.is_sampled, has_remote_parent=self.has_remote_parent
        )

    def end(self, figures: RequestFigures, status: int, elapsed_ns: int, fields: Mapping[str, object]) -> None:
        """The request has ended. `fields` are those of its log line."""
        self._ends.end_trace(self, figures, status, elapsed_ns, fields)

    def begin_attempt(self, upstream: str, model: str) -> None:
        """An attempt begins: the first of a turn, or a further one."""
        if self._turn is None:
            self._turn = TracedTurn()
            if len(self.turns) < MAX_PARTS:
                self.turns.append(self._turn)
        self._turn.upstream, self._turn.ended, self._turn.result = upstream, 0, None
        self._turn.model = model

    def note_content(self, now: int) -> None:
        """The first content of the reply has arrived."""
        if self._turn is not None:
            self._turn.first_content = now

    def note_model(self, model: str) -> None:
        """The upstream has named the model that answers."""
        if self._turn is not None:
            self._turn.model = model

    def end_attempt(self, usage: Usage | None, finish_reason: str | None) -> None:
        """The reply of an attempt has ended."""
        if (turn := self._turn) is not None:
            turn.ended = perf_counter_ns()
            turn.usage, turn.finish_reason = usage, finish_reason
            if turn.http and not turn.http[-1].ended:
                turn.http[-1].ended = turn.ended

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

    def add_call(self, tool: str, began_ns: int, *, has_failed: bool) -> None:
        """A call of a hosted tool has ended."""
        if len(self.calls) < MAX_PARTS:
            self.calls.append((tool, began_ns, perf_counter_ns(), has_failed))

    def begin_http(self, url: str, *, sends_context: bool) -> dict[str, str]:
        """Returns the headers of an HTTP request to an upstream, which begins now."""
        turn = self._turn
        attempt = HttpAttempt(url, "" if turn is None else turn.upstream)
        attempts = self.other_http if turn is None else turn.http
        if len(attempts) < MAX_PARTS:
            attempts.append(attempt)
        if not sends_context:
            return {}
        headers = {"traceparent": write_traceparent(self.trace_id, attempt.span_id, is_sampled=self.is_sampled)}
        if self.parent is not None and self.parent.state:
            headers["tracestate"] = self.parent.state
        return headers

    def end_http(self, status: int | None) -> None:
        """The head of the reply to that request has arrived, with this status; None if it failed before."""
        attempts = self.other_http if self._turn is None else self._turn.http
        if not attempts:
            return
        attempts[-1].status = status
        if status is None:
            attempts[-1].result, attempts[-1].ended = "unreachable", perf_counter_ns()
