"""Sends the spans of kept traces to a collector: in a thread of its own, from a bounded queue that drops the oldest."""

import threading
from collections.abc import Callable, Mapping
from typing import Final

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import SERVICE_NAME, OTELResourceDetector, Resource
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from gateway.config.telemetry_settings import DEFAULT_SERVICE, TracingSettings
from gateway.replies.request_figures import RequestFigures
from gateway.tracing.request_trace import RequestTrace
from gateway.tracing.spans import SpanBuilder

_PATH: Final = "/v1/traces"
_END_S: Final = 2.0
"""The longest wait for the collector when the server stops."""


class SpanExporter:
    """A TraceExporter that sends spans by OTLP over HTTP."""

    def __init__(
        self,
        settings: TracingSettings,
        find_provider_type: Callable[[str], str],
        find_route: Callable[[RequestFigures], str],
    ) -> None:
        endpoint = None if settings.endpoint is None else settings.endpoint.rstrip("/") + _PATH
        headers = {name: value.get_secret_value() for name, value in settings.headers.items()} or None
        resource = Resource.create({SERVICE_NAME: settings.service or DEFAULT_SERVICE})
        if settings.service is None:
            resource = resource.merge(OTELResourceDetector().detect())
        self._builder = SpanBuilder(resource, find_provider_type, find_route)
        self._processor = BatchSpanProcessor(OTLPSpanExporter(endpoint=endpoint, headers=headers))

    def export(
        self, trace: RequestTrace, figures: RequestFigures, status: int, elapsed_ns: int, fields: Mapping[str, object]
    ) -> None:
        for span in self._builder.build(trace, figures, status, elapsed_ns, fields):
            self._processor.on_end(span)

    def close(self) -> None:
        """Sends what is queued, for two seconds at most. It may wait, so it is called in a thread."""
        ending = threading.Thread(target=self._processor.shutdown, daemon=True)
        ending.start()
        ending.join(_END_S)
