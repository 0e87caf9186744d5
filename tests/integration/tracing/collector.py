"""A collector of traces: an HTTP server that reads OTLP as protobuf, and keeps the spans."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.polling import wait_until

KINDS = {1: "internal", 2: "server", 3: "client"}
_ERROR = 2


class Span(NamedTuple):
    """One span that was received."""

    name: str
    kind: str
    trace_id: str
    span_id: str
    parent_id: str
    attributes: dict[str, Any]
    is_error: bool
    began: int
    ended: int
    state: str


class Collector:
    """What a collector has received."""

    def __init__(self) -> None:
        self.spans: list[Span] = []
        self.resources: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.raw = b""
        self.url = ""

    async def await_spans(self, count: int, name: str = "") -> None:
        """Waits for this number of spans, or of those with the name.

        A server that stops sends what it has left for two seconds at most, which can be too short on a busy machine.
        """
        await wait_until(lambda: len(self.named(name) if name else self.spans) >= count)

    def named(self, name: str) -> list[Span]:
        return [span for span in self.spans if span.name == name]

    def children(self, parent: Span) -> list[Span]:
        found = [span for span in self.spans if span.parent_id == parent.span_id]
        return sorted(found, key=lambda span: span.began)

    def receive(self, body: bytes, headers: dict[str, str]) -> None:
        self.raw += body
        self.headers.append(headers)
        for part in ExportTraceServiceRequest.FromString(body).resource_spans:
            self.resources.append(_read_attributes(part.resource.attributes))
            for scope in part.scope_spans:
                self.spans += [_read_span(span) for span in scope.spans]


def _read_span(span: Any) -> Span:
    return Span(
        span.name,
        KINDS[span.kind],
        span.trace_id.hex(),
        span.span_id.hex(),
        span.parent_span_id.hex(),
        _read_attributes(span.attributes),
        span.status.code == _ERROR,
        span.start_time_unix_nano,
        span.end_time_unix_nano,
        span.trace_state,
    )


def _read_attributes(attributes: Any) -> dict[str, Any]:
    return {each.key: _read_value(each.value) for each in attributes}


def _read_value(value: Any) -> Any:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [_read_value(each) for each in value.array_value.values]
    return getattr(value, kind)


@contextmanager
def collecting() -> Iterator[Collector]:
    """Runs a collector on a free port."""
    collector = Collector()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            assert self.path == "/v1/traces"
            collector.receive(body, {name.lower(): value for name, value in self.headers.items()})
            self.send_response(200)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, format: str, *arguments: Any) -> None:
            """Writes nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    collector.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield collector
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
