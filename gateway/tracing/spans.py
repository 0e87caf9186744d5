"""Builds the spans of a request from the numbers of its trace, when it has ended."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, TypeAlias
from urllib.parse import urlsplit

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags, TraceState

from gateway.replies.request_figures import RequestFigures
from gateway.tracing import conventions as names
from gateway.tracing.request_trace import HttpAttempt, RequestTrace, TracedTurn
from gateway.tracing.trace_context import make_span_id
from gateway.tracing.tracer import is_failure
from gateway.version import read_installed_version

SpanAttributes: TypeAlias = dict[str, str | int | float | bool | Sequence[str]]

_SCOPE: Final = InstrumentationScope("responses-gateway", read_installed_version())
_SAMPLED: Final = TraceFlags(TraceFlags.SAMPLED)
_UNSET: Final = Status(StatusCode.UNSET)
_ERROR: Final = Status(StatusCode.ERROR)
_OK_RESULT: Final = "ok"
_NS: Final = 1e-9

_FIELDS: Final[Mapping[str, str]] = {names.REQUEST_ID: "request_id", names.KEY_NAME: "client"}


class SpanBuilder:
    """Builds the spans of requests of one server process."""

    def __init__(
        self, service: Resource, find_provider_type: Callable[[str], str], find_route: Callable[[RequestFigures], str]
    ) -> None:
        """`find_provider_type` returns the type of an upstream by its name, and `find_route` the template of a
        request's path."""
        self._service = service
        self._find_provider_type = find_provider_type
        self._find_route = find_route

    def build(
        self, trace: RequestTrace, figures: RequestFigures, status: int, elapsed_ns: int, fields: Mapping[str, object]
    ) -> list[ReadableSpan]:
        """Returns the spans of a request that has ended. `fields` are those of its log line."""
        return [*_RequestSpans(self, trace, figures, fields).build(status, elapsed_ns)]

    def find_provider_name(self, upstream: str) -> str:
        """Returns the conventions' name for an upstream's provider."""
        kind = self._find_provider_type(upstream)
        return names.PROVIDERS.get(kind, kind)

    def find_route(self, figures: RequestFigures) -> str:
        return self._find_route(figures)

    @property
    def service(self) -> Resource:
        return self._service


class _RequestSpans:
    """Builds the spans of one request."""

    def __init__(
        self, builder: SpanBuilder, trace: RequestTrace, figures: RequestFigures, fields: Mapping[str, object]
    ) -> None:
        self._builder = builder
        self._trace = trace
        self._trace_id = int(trace.log_id, 16)
        self._figures = figures
        self._fields = fields
        self._offset = time.time_ns() - time.perf_counter_ns()
        state = "" if trace.parent is None else trace.parent.state
        self._state = TraceState.from_header([state]) if state else TraceState()

    def build(self, status: int, elapsed_ns: int) -> Iterator[ReadableSpan]:
        trace, figures, fields = self._trace, self._figures, self._fields
        parent = None if trace.parent is None else self._context(trace.parent.span_id, is_remote=True)
        scope = figures.scope
        route, method = self._builder.find_route(figures), scope.get("method", "GET")
        attributes: SpanAttributes = {names.METHOD: method, names.ROUTE: route, names.URL_PATH: scope["path"]}
        if figures.kind != "job" and status:
            attributes[names.STATUS] = status
        for name, field in _FIELDS.items():
            if isinstance(value := fields.get(field), str):
                attributes[name] = value
        failed = is_failure(status, fields)
        if failed:
            attributes[names.ERROR_TYPE] = str(fields.get("error") or status)
        is_job = figures.kind == "job"
        title = f"background {route}" if is_job else f"{_name_method(scope)} {route}"
        end = figures.began + elapsed_ns
        yield self._span(
            title,
            trace.span_id,
            parent,
            SpanKind.INTERNAL if is_job else SpanKind.SERVER,
            (figures.began, end),
            attributes,
            failed=failed,
        )
        root = self._context(trace.span_id)
        for turn in trace.turns:
            yield from self._build_turn(turn, root, end)
        for attempt in trace.other_http:
            yield self._build_http(attempt, 0, root, end)
        for tool, began, ended, call in trace.calls:
            yield self._span(
                f"{names.EXECUTE_TOOL} {tool}",
                None,
                root,
                SpanKind.INTERNAL,
                (began, ended),
                {
                    names.OPERATION: names.EXECUTE_TOOL,
                    names.TOOL_NAME: tool,
                    names.TOOL_BYTES: call.size,
                    names.TOOL_RESULTS: call.results,
                },
                failed=call.has_failed,
            )

    def _build_turn(self, turn: TracedTurn, root: SpanContext, end: int) -> Iterator[ReadableSpan]:
        trace, fields = self._trace, self._fields
        operation = names.OPERATIONS.get(trace.endpoint, names.CHAT_OPERATION)
        model = str(fields.get("model", ""))
        is_last = turn is trace.turns[-1]
        attributes: SpanAttributes = {
            names.OPERATION: operation,
            names.PROVIDER: self._builder.find_provider_name(turn.upstream),
            names.REQUEST_MODEL: model,
            names.REQUEST_STREAM: self._figures.streams,
            names.ATTEMPTS: max(1, len(turn.http)),
            names.LOSS_COUNT: _count_losses(fields),
            **names.read_sampling(trace.body),
        }
        optional = {
            names.RESPONSE_MODEL: turn.model,
            names.RESPONSE_ID: trace.response_id,
            names.CONVERSATION: trace.conversation_id,
            names.AFFINITY: fields.get("affinity"),
        }
        attributes |= {name: value for name, value in optional.items() if isinstance(value, str)}
        if turn.finish_reason is not None:
            attributes[names.RESPONSE_FINISH_REASONS] = (turn.finish_reason,)
        if turn.first_content and self._figures.streams:
            attributes[names.FIRST_CHUNK] = (turn.first_content - turn.began) * _NS
        if (usage := turn.usage) is not None:
            counts = {
                names.INPUT_TOKENS: usage.input,
                names.OUTPUT_TOKENS: usage.output,
                names.CACHED_TOKENS: usage.cache_read,
                names.REASONING_TOKENS: usage.reasoning,
            }
            attributes |= {name: count for name, count in counts.items() if count is not None}
        failed = turn.result not in (None, _OK_RESULT)
        if failed:
            code = fields.get("error") if is_last else None
            attributes[names.ERROR_TYPE] = str(code or turn.result)
        turn_id = make_span_id()
        yield self._span(
            f"{operation} {model}",
            turn_id,
            root,
            SpanKind.CLIENT if turn.http else SpanKind.INTERNAL,
            (turn.began, turn.ended or end),
            attributes,
            failed=failed,
        )
        own = self._context(turn_id)
        for number, attempt in enumerate(turn.http):
            yield self._build_http(attempt, number, own, turn.ended or end)

    def _build_http(self, attempt: HttpAttempt, number: int, parent: SpanContext, end: int) -> ReadableSpan:
        parts = urlsplit(attempt.url)
        host = parts.hostname or ""
        port = parts.port or (443 if parts.scheme == "https" else 80)
        address = f"[{host}]" if ":" in host else host
        public_url = f"{parts.scheme}://{address}" + ("" if parts.port is None else f":{port}") + parts.path
        attributes: SpanAttributes = {
            names.METHOD: "POST",
            names.SERVER_ADDRESS: host,
            names.SERVER_PORT: port,
            names.URL: public_url,
        }
        if attempt.status is not None:
            attributes[names.STATUS] = attempt.status
        if number:
            attributes[names.RESEND_COUNT] = number
        if attempt.upstream:
            attributes[names.UPSTREAM] = attempt.upstream
        result = attempt.result
        if result is not None:
            attributes[names.RESULT] = result
        failed = result not in (None, _OK_RESULT) or (attempt.status is not None and attempt.status >= 400)
        if failed:
            has_status = attempt.status is not None and attempt.status >= 400
            attributes[names.ERROR_TYPE] = str(attempt.status if has_status else result)
        times = (attempt.began, attempt.ended or end)
        return self._span("POST", attempt.span_id, parent, SpanKind.CLIENT, times, attributes, failed=failed)

    def _span(
        self,
        name: str,
        span_id: int | None,
        parent: SpanContext | None,
        kind: SpanKind,
        times: tuple[int, int],
        attributes: SpanAttributes,
        *,
        failed: bool,
    ) -> ReadableSpan:
        began, ended = times
        return ReadableSpan(
            name,
            context=self._context(span_id),
            parent=parent,
            resource=self._builder.service,
            attributes=attributes,
            kind=kind,
            status=_ERROR if failed else _UNSET,
            start_time=began + self._offset,
            end_time=max(began, ended) + self._offset,
            instrumentation_scope=_SCOPE,
        )

    def _context(self, span_id: int | None, *, is_remote: bool = False) -> SpanContext:
        own = make_span_id() if span_id is None else span_id
        return SpanContext(self._trace_id, own, is_remote, _SAMPLED, self._state)


def _name_method(scope: Mapping[str, object]) -> object:
    return scope.get("method", "WEBSOCKET")


def _count_losses(fields: Mapping[str, object]) -> int:
    losses = fields.get("losses")
    return len(losses) if isinstance(losses, list) else 0
