"""Logging: JSON lines on stderr from the server and its libraries, and fields bound to one request's lines.

Knows no request or response bodies; nothing of them is logged.
"""

import json
import logging
import sys
from collections.abc import Mapping, Sequence
from contextvars import Context, ContextVar
from datetime import UTC, datetime
from functools import cache
from types import MappingProxyType
from typing import Any, BinaryIO, cast

import httpx
import orjson
import structlog

from gateway import errors
from gateway.log_writer import LogWriter
from providers.errors import UpstreamBroken, UpstreamTimeout, UpstreamUnreachable
from translation.representation.json_types import Json

_MAX_CAUSE_CHARS = 200

_NO_FIELDS: Mapping[str, object] = MappingProxyType({})

_BOUND_FIELDS: ContextVar[Mapping[str, object]] = ContextVar("bound_fields", default=_NO_FIELDS)
"""All bound fields in one context variable. structlog uses one variable per field, and searches all variables of the
context with every line and at both ends of a request."""


_access_log = structlog.get_logger("gateway.access")

_access_stream: LogWriter | None = None
"""The writer that `log_request` writes to directly; None if the level hides access lines. There is one access line per
request, and writing it without structlog halves its cost."""


def configure_logs(level: int = logging.INFO) -> None:
    """Configures structlog and the standard library's logging. Call it once per process, before the first request.

    `level` applies to the server's own lines. Libraries log from WARNING on.
    """
    global _access_stream
    writer = _open_writer(sys.stderr.buffer)
    _access_stream = writer if level <= logging.INFO else None
    shared: list[structlog.typing.Processor] = [
        _add_bound_fields,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
    ]
    structlog.configure(
        processors=[_render_line],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.BytesLoggerFactory(cast(BinaryIO, writer)),
        cache_logger_on_first_use=True,
    )
    handler = _WriterHandler(writer)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.EventRenamer("message"),
                structlog.processors.JSONRenderer(),
            ],
            foreign_pre_chain=shared,
        )
    )
    logging.basicConfig(handlers=[handler], level=logging.WARNING, force=True)


@cache
def _open_writer(stream: BinaryIO) -> LogWriter:
    return LogWriter(stream, _render_dropped)


def _render_dropped(count: int) -> bytes:
    line = {"dropped": count, "level": "warning", "timestamp": datetime.now(UTC), "message": "log_lines_dropped"}
    return _encode_line(line) + b"\n"


class _WriterHandler(logging.Handler):
    """Writes the lines of libraries where all others go."""

    def __init__(self, writer: LogWriter) -> None:
        super().__init__()
        self._writer = writer

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self._writer.write(self.format(record).encode(errors="backslashreplace") + b"\n")
        except Exception:  # as every handler: a line that cannot be rendered must not fail what logs it
            self.handleError(record)


def log_request(method: str, path: str, status: int, ms: float) -> None:
    """Writes the access line of a finished request, with all bound fields, and clears those. `ms` is its duration."""
    if _access_stream is None:
        _access_log.info("request", method=method, path=path, status=status, ms=ms)
    else:
        line = {
            **_BOUND_FIELDS.get(),
            "method": method,
            "path": path,
            "status": status,
            "ms": ms,
            "level": "info",
            "timestamp": datetime.now(UTC),
            "message": "request",
        }
        _access_stream.write(_encode_line(line) + b"\n")
        _access_stream.flush()
    _BOUND_FIELDS.set(_NO_FIELDS)


def _render_line(_logger: object, method: str, fields: structlog.typing.EventDict) -> bytes:
    """Renders one line of JSON. structlog's own processors cost three times as much."""
    if fields.get("exc_info"):
        fields = dict(structlog.processors.format_exc_info(None, method, fields))
    message = fields.pop("event")
    level = "error" if method == "exception" else method
    return _encode_line(
        {**_BOUND_FIELDS.get(), **fields, "level": level, "timestamp": datetime.now(UTC), "message": message}
    )


def _encode_line(line: dict[str, Any]) -> bytes:
    try:
        return orjson.dumps(line, default=repr, option=orjson.OPT_UTC_Z)
    except TypeError:  # orjson rejects lone surrogates, large integers and non-string keys; a request must not fail
        line["timestamp"] = line["timestamp"].isoformat().replace("+00:00", "Z")
        return json.dumps(line, default=repr, skipkeys=True).encode()


def _add_bound_fields(_logger: object, _method: str, fields: structlog.typing.EventDict) -> structlog.typing.EventDict:
    return {**_BOUND_FIELDS.get(), **fields}


def bound_fields() -> Mapping[str, object]:
    """Returns the fields that every log line of this context has in addition to its own."""
    return _BOUND_FIELDS.get()


def bind_fields(**fields: object) -> None:
    """Adds fields to every further log line of this context and of contexts copied from it: those of one request."""
    _BOUND_FIELDS.set({**_BOUND_FIELDS.get(), **fields})


def reset_fields(**fields: object) -> None:
    """Replaces all bound fields by these."""
    _BOUND_FIELDS.set(fields)


def adopt_fields(context: Context) -> None:
    """Replaces all bound fields by those of another context, such as a copy of this one that a thread has used."""
    _BOUND_FIELDS.set(context.get(_BOUND_FIELDS, _NO_FIELDS))


def bind_tool_warnings(warnings: Sequence[Json]) -> None:
    """Adds the number of tool calls with a warning to the request's log line, if there are any."""
    if warnings:
        bind_fields(tool_warnings=len(warnings))


def bind_unreported(param: str | None) -> None:
    """Adds the requested parameter that the upstream's reply has no result for to the request's log line, if any."""
    if param is not None:
        bind_fields(unreported=param)


def bind_failure(error: Exception) -> None:
    """Adds the cause of a failure to the request's log line: the error code, and the network error of the upstream.

    The message is not logged, since it may quote the request.
    """
    row = errors.resolve_error_reply(error)
    cause = error.__cause__
    is_network_failure = isinstance(error, UpstreamUnreachable | UpstreamTimeout | UpstreamBroken)
    bind_fields(error=row.code or row.type)
    if cause is not None and (is_network_failure or isinstance(cause, httpx.TransportError)):
        bind_fields(cause=f"{type(cause).__name__}: {cause}"[:_MAX_CAUSE_CHARS])
