"""The numbers of each request, which the object that observes it keeps for the log line, metrics and traces.

A request is one over HTTP, a turn over a WebSocket, or the run of a background response.
"""

import sys
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from time import perf_counter_ns
from types import MappingProxyType
from typing import Final, Literal, NamedTuple, Protocol, TypeAlias

from starlette.types import Scope

from gateway.errors import TurnFailed
from gateway.http.guard import ClientDisconnected
from gateway.logs import add_usage_fields, bind_attempt, bind_fields
from gateway.replies.observers import LogObserver, ReplyEnd, RequestObserver, bind_problems
from gateway.upstreams.outcomes import ResultName, find_outcome
from providers.request_ids import CURRENT_IDS
from translation.hosted.tool_report import CallFigures
from translation.representation.events import Failed, Usage, add_usage
from translation.representation.json_types import Json

_CURRENT: ContextVar["RequestFigures | None"] = ContextVar("request_figures", default=None)

RequestKind: TypeAlias = Literal["request", "submission", "job"]
"""`job`: the run of a response that goes on without its client. `submission`: the request that such a run is for."""

_ENDED: Final[Scope] = {"type": "http", "path": ""}

_ROUTING_KEYS: Final = ("type", "method", "path", "route")


class RequestDescription(NamedTuple):
    """The facts of an accepted request for its trace, without its content."""

    response_id: str
    conversation_id: str | None
    body: Json
    """The body of the request, of which only numbers are read."""


class TraceRecord(Protocol):
    """Records what the spans of one request are made of. Its methods must neither wait nor raise."""

    log_id: str
    """The id that log lines have."""
    endpoint: str
    """The name of the client's API, or of a path that is only relayed."""

    def describe(self, description: RequestDescription) -> None:
        """The request was accepted."""
        ...

    def begin_job(self) -> "TraceRecord":
        """Returns the trace of a job that the request submits."""
        ...

    def begin_attempt(self, upstream: str, model: str) -> None: ...
    def note_content(self, now: int) -> None: ...
    def note_model(self, model: str) -> None: ...
    def end_attempt(self, usage: Usage | None, finish_reason: str | None, result: str | None) -> None: ...
    def note_result(self, result: str) -> None: ...
    def end_turn(self) -> None: ...
    def add_call(self, tool: str, began_ns: int, figures: CallFigures) -> None: ...
    def begin_http(self, url: str, *, sends_context: bool) -> bytes: ...
    def end_http(self, status: int | None) -> None: ...
    def end(self, figures: "RequestFigures", status: int, elapsed_ns: int, fields: Mapping[str, object]) -> None: ...


class RequestTracer(Protocol):
    """Begins the traces of requests."""

    def begin_trace(self, scope: Scope) -> TraceRecord:
        """Returns the trace of a request that has arrived."""
        ...

    def begin_job_trace(self) -> TraceRecord:
        """Returns the trace of a job whose request this process does not know."""
        ...


class AttemptMeter(Protocol):
    """Counts the attempts at one upstream. Its method must not raise."""

    def end_attempt(
        self,
        figures: "RequestFigures",
        elapsed_ns: int,
        result: ResultName | None,
        usage: Usage | None,
        *,
        is_last: bool,
    ) -> None:
        """An attempt has ended. `result` is None if its turn is shared, and counts its attempts itself.

        `usage` has the token counts of the whole reply, if this is its last attempt. `is_last`: the reply has ended,
        unless another attempt begins; this is not the end of a round of hosted tools.
        """
        ...


class FiguresReader(Protocol):
    """Counts requests and attempts by their figures. Its methods must not raise."""

    def begin_attempt(self, figures: "RequestFigures") -> AttemptMeter:
        """An attempt has begun, at the upstream of the figures. Returns the object that counts its end."""
        ...

    def begin_stream(self, figures: "RequestFigures") -> None:
        """A request was accepted whose client gets a stream. The stream ends with the request."""
        ...

    def end_request(
        self, figures: "RequestFigures", status: int, elapsed_ns: int, fields: Mapping[str, object]
    ) -> None:
        """A request has ended, whether or not it was for a model. `fields` are those of its log line."""
        ...

    def end_socket(self, fields: Mapping[str, object]) -> None:
        """A WebSocket has ended, or was refused. Its turns are requests of their own."""
        ...


class RequestWatch:
    """Keeps the figures of the requests of one server process."""

    def __init__(
        self,
        reader: FiguresReader | None = None,
        tracer: RequestTracer | None = None,
        job_paths: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """`job_paths` are the paths of the APIs whose replies may be jobs, by the names of their endpoints."""
        self._reader = reader
        self._tracer = tracer
        self._job_paths = job_paths

    def begin_request(self, scope: Scope, began_ns: int) -> "RequestFigures":
        """Returns the figures of a request that has arrived, which its context has from now on."""
        figures = RequestFigures(self._reader, scope, began_ns)
        _CURRENT.set(figures)
        if self._tracer is not None:
            figures.begin_trace(self._tracer.begin_trace(scope))
        return figures

    def end_socket(self, fields: Mapping[str, object]) -> None:
        """A WebSocket has ended, or was refused. `fields` are those of its log line."""
        if self._reader is not None:
            self._reader.end_socket(fields)

    def observe_request(
        self, endpoint: str, model: str, *, streams: bool, is_shared: bool, is_job: bool = False
    ) -> RequestObserver:
        figures = _CURRENT.get()
        is_ended_by_nobody = False
        if is_job:
            figures = self._submit_job(figures, self._job_paths.get(endpoint, ""), streams=streams)
        elif figures is None or figures.is_over or (figures.model is not None and not figures.is_planned_again):
            figures, is_ended_by_nobody = RequestFigures(self._reader, _ENDED, perf_counter_ns()), True
        begins_stream = streams and not figures.streams and not is_ended_by_nobody
        figures.is_planned_again = False
        figures.model = model
        figures.streams = streams
        figures.is_shared = is_shared
        if figures.trace is not None:
            figures.trace.endpoint = endpoint
        if begins_stream and figures.kind == "request" and self._reader is not None:
            self._reader.begin_stream(figures)
        return figures

    def _submit_job(self, submission: "RequestFigures | None", path: str, *, streams: bool) -> "RequestFigures":
        """Returns the figures of a job. The request that it is for is not counted beside it. `path` is that of requests
        that submit such jobs, for those that another process submitted."""
        scope: Scope = {"type": "http", "method": "POST", "path": path}
        if submission is not None and submission.model is None and not submission.is_over:
            scope = {key: submission.scope[key] for key in _ROUTING_KEYS if key in submission.scope}
            submission.kind = "submission"
            if streams and not submission.streams:
                submission.streams = True
                if self._reader is not None:
                    self._reader.begin_stream(submission)
        figures = RequestFigures(self._reader, scope, perf_counter_ns())
        figures.kind = "job"
        if self._tracer is not None:
            trace = None if submission is None else submission.trace
            figures.trace = self._tracer.begin_job_trace() if trace is None else trace.begin_job()
        return figures


class RequestFigures(LogObserver):
    """The numbers of one request, until its end. Times are those of the performance counter, in nanoseconds."""

    __slots__ = (
        "_attempt_began",
        "_attempt_meter",
        "_reader",
        "_round_usage",
        "_tried",
        "_usage",
        "attempt_count",
        "began",
        "first_content",
        "is_over",
        "is_planned_again",
        "is_shared",
        "kind",
        "model",
        "outcome",
        "overhead_ns",
        "scope",
        "streams",
        "trace",
        "upstream",
        "upstream_ns",
    )

    def __init__(self, reader: FiguresReader | None, scope: Scope, began_ns: int) -> None:
        self._reader = reader
        self.scope = scope
        """The scope of the request; of a job only the keys of routing."""
        self.began = began_ns
        self.kind: RequestKind = "request"
        self.model: str | None = None
        """The name or pattern of the configuration that the requested model belongs to; None until the request is
        accepted."""
        self.upstream = ""
        """The upstream that was asked last; empty if none was."""
        self.attempt_count = 0
        self.streams = False
        self.is_over = False
        """Whether what runs on in its context belongs to another request."""
        self.is_planned_again = False
        """Whether its plan was given up, and another one of the same request follows."""
        self.is_shared = False
        """Whether the turn is shared between upstreams."""
        self.outcome: Literal["ok", "incomplete", "client_gone"] = "ok"
        """How the reply ended, unless it failed."""
        self.first_content = 0
        """When the first content arrived; 0 if none did."""
        self.upstream_ns = 0
        """The time in which upstreams were waited for."""
        self.overhead_ns = 0
        """The time of the request without those at upstreams and in the queue, once it has ended."""
        self.trace: TraceRecord | None = None
        """Its trace; None while traces are off."""
        self._attempt_began = 0
        self._attempt_meter: AttemptMeter | None = None
        """Counts the attempt in progress, if somebody counts."""
        self._tried: Sequence[dict[str, object]] = ()
        """The rounds of hosted tools that have ended, unless a turn keeps them."""
        self._round_usage: Usage | None = None
        self._usage: Usage | None = None
        """The token counts of the reply, as far as they are known."""

    @property
    def content_ns(self) -> int:
        """The time to the first content of a stream; 0 if it had none."""
        return self.first_content - self.began if self.first_content and self.streams else 0

    def restart(self) -> None:
        """Begins to measure from now on."""
        self.began = perf_counter_ns()
        _CURRENT.set(self)
        if self.trace is not None:
            self.begin_trace(self.trace)

    def begin_trace(self, trace: TraceRecord) -> None:
        """Records the request in a trace too, whose id its log lines get."""
        self.trace = trace
        bind_fields(trace_id=trace.log_id)
        if (ids := CURRENT_IDS.get()) is not None:
            ids.trace = trace

    def observe_attempt(self, provider: str, number: int, model: str) -> None:
        bind_attempt(provider, number)
        self.upstream = provider
        self.attempt_count = number
        self._attempt_began = perf_counter_ns()
        if self.trace is not None:
            self.trace.begin_attempt(provider, model)
        if self._reader is not None:
            self._attempt_meter = self._reader.begin_attempt(self)

    def observe_content(self) -> None:
        if not self.first_content:
            self.first_content = now = perf_counter_ns()
            if self.trace is not None:
                self.trace.note_content(now)

    def observe_model(self, model: str) -> None:
        bind_fields(upstream_model=model)
        if self.trace is not None:
            self.trace.note_model(model)

    def observe_result(self, result: ResultName) -> None:
        if self._attempt_began:
            self._end_attempt(None, None, is_last=False)
        if self.trace is not None:
            self.trace.note_result(result)

    def observe_call(self, tool: str, began_ns: int, figures: CallFigures) -> None:
        if self.trace is not None:
            self.trace.add_call(tool, began_ns, figures)

    def observe_round(self, usage: Usage | None, finish_reason: str | None) -> None:
        self._round_usage = add_usage(self._round_usage, usage)
        if self._attempt_began:
            self._end_attempt(None if self.is_shared else "ok", None, is_last=False)
        if self.trace is not None:
            self.trace.end_attempt(usage, finish_reason, None if self.is_shared else "ok")
            self.trace.end_turn()

    def observe_end(self, end: ReplyEnd) -> None:
        failed = end.failed
        if end.warnings or end.unreported or failed is not None:
            bind_problems(end)
        usage = end.usage or self._round_usage
        if usage is not None:
            self._usage = usage
        # Replies end in `finally` blocks, whose exception is the failure of the attempt. Nobody else has it there.
        error = sys.exception()
        result: ResultName = "ok"
        self.outcome = "incomplete" if end.is_cut_off else "ok"
        if error is not None or failed is not None:
            self.outcome = "client_gone" if isinstance(error, ClientDisconnected) else "ok"
            result = self._find_result(error, failed)
        if self._attempt_began:
            own_result = None if self.is_shared else result
            if self.trace is not None:
                self.trace.end_attempt(usage, end.finish_reason, own_result)
            self._end_attempt(own_result, usage, is_last=True)

    def _end_attempt(self, result: ResultName | None, usage: Usage | None, *, is_last: bool) -> None:
        began, self._attempt_began = self._attempt_began, 0
        elapsed = perf_counter_ns() - began
        self.upstream_ns += elapsed
        if result is not None and (self.attempt_count > 1 or not is_last):
            tried = {"upstream": self.upstream, "result": result, "ms": round_ms(elapsed)}
            self._tried = [*self._tried, tried]
        if self._attempt_meter is not None:
            self._attempt_meter.end_attempt(self, elapsed, result, usage, is_last=is_last)

    def _find_result(self, error: BaseException | None, failed: Failed | None) -> ResultName:
        """Returns the result of an attempt that failed, by the exception that ended it or the failure in its reply."""
        if failed is not None and error is None:
            error = TurnFailed(failed)
        outcome = find_outcome(error) if isinstance(error, Exception) else None
        if outcome is None:
            return "client_gone"
        return "cut" if self.first_content else outcome.result

    def leave(self) -> None:
        """The request is over: what runs on in its context is another one."""
        self.is_over = True

    def end(self, status: int, elapsed_ns: int, fields: dict[str, object]) -> None:
        """The request has ended: lets readers count it. `fields` are bound to its log lines, and get its times."""
        if self._attempt_began:  # nobody read the reply
            if self.trace is not None and not self.is_shared:
                self.trace.note_result("client_gone")
            self._end_attempt(None if self.is_shared else "client_gone", None, is_last=True)
        if self.attempt_count:
            overhead_ns = elapsed_ns - self.upstream_ns
            if "queue_ms" in fields and isinstance(queue_ms := fields["queue_ms"], float):
                overhead_ns -= int(queue_ms * 1e6)
            self.overhead_ns = overhead_ns = overhead_ns if overhead_ns > 0 else 0
            fields["overhead_ms"] = round_ms(overhead_ns)
            if self._usage is not None:
                add_usage_fields(fields, self._usage)
            if self.first_content and self.streams:
                fields["first_content_ms"] = round_ms(self.first_content - self.began)
            if len(self._tried) > 1:
                fields["tried"] = self._tried
        if self._reader is not None:
            self._reader.end_request(self, status, elapsed_ns, fields)
        if self.trace is not None:
            self.trace.end(self, status, elapsed_ns, fields)
        # The figures may be kept: the scope has the headers of the client, and the token counts the upstream's object.
        self.scope, self._usage, self.is_over = _ENDED, None, True


def round_ms(elapsed_ns: int) -> float:
    """Returns a time in milliseconds, to a tenth. `round` would take a microsecond."""
    return (elapsed_ns + 50_000) // 100_000 / 10
