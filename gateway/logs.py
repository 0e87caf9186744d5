"""Logging: lines on stderr from the server and its libraries, as JSON or text, and fields bound to a request's lines.

Knows no request or response bodies: they are never logged.
"""

import json
import logging
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from functools import cache
from itertools import islice
from typing import Any, BinaryIO, Final, Literal, TypeAlias, cast

import orjson
import structlog

from gateway.errors import StoreUnavailable
from gateway.log_writer import LogWriter
from gateway.terminal_text import render_text_line
from translation.decoding.usage import list_impossible_counts
from translation.representation.events import Usage
from translation.representation.json_types import Json
from translation.representation.loss import Loss

MAX_LOGGED_CHARS: Final = 200
"""The longest text of a client that a log line has, such as the name of a model."""

_MAX_LOGGED_LOSSES: Final = 50

FAILED_UPSTREAM: Final = "upstream_failed"
"""The field of requests that failed at an upstream, whatever status their clients got."""

_SERVER_ERROR = 500
"""The lowest status of failures that the client did not cause."""

_NO_FIELDS: dict[str, object] = {}
"""The fields of a context that has none yet. Nothing is added to it."""

_BOUND_FIELDS: ContextVar[dict[str, object]] = ContextVar("bound_fields", default=_NO_FIELDS)
"""All bound fields in one dictionary, which a request has from its start, and shares with its tasks and threads.
structlog uses a context variable per field, and searches all variables of the context with every line and at both ends
of a request."""


_access_log = structlog.get_logger("gateway.access")

_access_stream: LogWriter | None = None
"""The writer that `write_request_lines` writes to directly; None if the level hides access lines. There is one access
line per request, and writing it without structlog halves its cost."""


LineFormat: TypeAlias = Literal["auto", "json", "text"]
"""The form of log lines. `auto` is text on a terminal, else JSON."""

_encode_fields: Callable[[dict[str, Any]], bytes]
"""Encodes the fields of one line, without a line end, in the configured form."""


def configure_logs(level: int = logging.INFO, line_format: LineFormat = "auto") -> None:
    """Configures structlog and the standard library's logging. Call it once per process, before the first request.

    `level` applies to the server's own lines. Libraries log from WARNING on.
    """
    global _access_stream, _encode_fields
    as_text = sys.stderr.isatty() if line_format == "auto" else line_format == "text"
    _encode_fields = _encode_text if as_text else _encode_line
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
                _render_text if as_text else structlog.processors.JSONRenderer(),
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
    return _encode_fields(line) + b"\n"


class _WriterHandler(logging.Handler):
    """Writes the lines of libraries to the same stream as the server's."""

    def __init__(self, writer: LogWriter) -> None:
        super().__init__()
        self._writer = writer

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self._writer.write(self.format(record).encode(errors="backslashreplace") + b"\n")
        except Exception:  # as in every handler: a line that cannot be rendered must not fail its caller
            self.handleError(record)


def render_request(method: str, path: str, status: int, ms: float, fields: dict[str, object], now: datetime) -> bytes:
    """Returns the access line of a request that has ended, without its line end. `ms` is the duration of the request,
    and `fields` are its bound fields, to which the line's own are added.

    It is a warning if the request failed because of the server or an upstream. If the level hides access lines, only a
    warning is written, and the line is empty.
    """
    level = "warning" if status >= _SERVER_ERROR or ("error_status" in fields and has_failed(fields)) else "info"
    fields["method"], fields["path"] = method, path[:MAX_LOGGED_CHARS]
    fields["status"], fields["ms"] = status, ms
    if _access_stream is None:
        getattr(_access_log, level)("request", **fields)
        return b""
    fields["level"], fields["timestamp"], fields["message"] = level, now, "request"
    return _encode_fields(fields)


def write_request_lines(lines: Sequence[bytes]) -> None:
    """Writes the access lines of `render_request`."""
    if _access_stream is not None:
        _access_stream.write_lines(lines)


def _render_line(_logger: object, method: str, fields: structlog.typing.EventDict) -> bytes:
    """Renders one line. structlog's own processors cost three times as much."""
    if fields.get("exc_info"):
        fields = dict(structlog.processors.format_exc_info(None, method, fields))
    message = fields.pop("event")
    level = "error" if method == "exception" else method
    return _encode_fields(
        {**_BOUND_FIELDS.get(), **fields, "level": level, "timestamp": datetime.now(UTC), "message": message}
    )


def _encode_line(line: dict[str, Any]) -> bytes:
    try:
        return orjson.dumps(line, default=repr, option=orjson.OPT_UTC_Z)
    except TypeError:  # orjson rejects lone surrogates, large integers and non-string keys; a request must not fail
        line["timestamp"] = line["timestamp"].isoformat().replace("+00:00", "Z")
        return json.dumps(line, default=repr, skipkeys=True).encode()


_encode_fields = _encode_line


def _encode_text(line: dict[str, Any]) -> bytes:
    return render_text_line(line).encode(errors="backslashreplace")


def _render_text(_logger: object, _method: str, fields: structlog.typing.EventDict) -> str:
    return render_text_line(fields)


def _add_bound_fields(_logger: object, _method: str, fields: structlog.typing.EventDict) -> structlog.typing.EventDict:
    return {**_BOUND_FIELDS.get(), **fields}


def read_bound_fields() -> dict[str, object]:
    """Returns the fields that every log line of this context has in addition to its own. The caller may add some."""
    fields = _BOUND_FIELDS.get()
    if fields is _NO_FIELDS:
        fields = {}
        _BOUND_FIELDS.set(fields)
    return fields


def bind_fields(**fields: object) -> None:
    """Adds fields to every further log line of the request that this context serves."""
    read_bound_fields().update(fields)


def add_fields(fields: Mapping[str, object]) -> None:
    """Does the same as `bind_fields` with fields that are in a mapping already."""
    read_bound_fields().update(fields)


def bind_client(key_name: str) -> None:
    """Adds the name of the client's key to every further log line of the request."""
    read_bound_fields()["client"] = key_name


def bind_attempt(provider: str, number: int) -> None:
    """Adds the upstream that is asked next, and the number of the attempt, to every further log line of the request."""
    fields = read_bound_fields()
    fields["provider"], fields["attempts"] = provider, number


def begin_fields(**fields: object) -> None:
    """Gives this context bound fields of its own, which are these."""
    _BOUND_FIELDS.set(fields)


def copy_fields() -> None:
    """Gives this context bound fields of its own, which begin as a copy of those that it shares so far."""
    _BOUND_FIELDS.set({**_BOUND_FIELDS.get()})


def clear_fields() -> None:
    """Leaves this context without bound fields. The other contexts of its request keep theirs."""
    _BOUND_FIELDS.set(_NO_FIELDS)


def read_bound_request_id() -> str | None:
    """Returns the id of the request that this context serves; None outside of a request."""
    request_id = _BOUND_FIELDS.get().get("request_id")
    return request_id if isinstance(request_id, str) else None


def read_bound_upstream() -> tuple[str | None, int] | None:
    """Returns the upstream that was asked last for the request of this context, and the number of attempts.

    None if the request is not for a model. Without an attempt there is no upstream.
    """
    fields = _BOUND_FIELDS.get()
    if "model" not in fields:
        return None
    attempts, provider = fields.get("attempts"), fields.get("provider")
    if not isinstance(attempts, int) or not attempts:
        return None, 0
    return provider if isinstance(provider, str) else None, attempts


def bind_tool_warnings(warnings: Sequence[Json]) -> None:
    """Adds the number of tool calls with a warning to the request's log line, if there are any."""
    if warnings:
        bind_fields(tool_warnings=len(warnings))


def bind_unreported(params: Sequence[str]) -> None:
    """Adds the requested parameters that the upstream's reply has no result for to the request's log line, if any."""
    if params:
        bind_fields(unreported=", ".join(params))


def bind_losses(losses: Iterable[Loss]) -> None:
    """Adds the names of what a request loses to its log line, without their effects, which may quote it."""
    names = dict.fromkeys(loss.param[:MAX_LOGGED_CHARS] for loss in islice(losses, _MAX_LOGGED_LOSSES))
    bind_fields(losses=list(names))


def bind_usage(usage: Usage | None) -> None:
    """Adds the token counts of a reply to the request's log line, as `add_usage_fields` does."""
    if usage is not None:
        add_usage_fields(read_bound_fields(), usage)


def add_usage_fields(fields: dict[str, object], usage: Usage) -> None:
    """Adds the token counts of a reply to the fields of a log line, as far as the upstream reports them.

    If it reports how many input tokens were in its prefix cache, the line also has this number and its share.
    """
    read, written, cached = usage.input, usage.output, usage.cache_read
    if (read is None or written is None) and usage.raw and (counts := list_impossible_counts(usage.raw)):
        fields["impossible_tokens"] = counts
    if read is not None:
        fields["input_tokens"] = read
    if written is not None:
        fields["output_tokens"] = written
    if cached is not None and read is not None:
        fields["cached_tokens"] = cached
        fields["cached_share"] = round(cached / read, 3) if read else 0.0
    if usage.reasoning is not None:
        fields["reasoning_tokens"] = usage.reasoning


def has_failed(fields: Mapping[str, object]) -> bool:
    """Returns whether these bound fields belong to a request that failed because of the server or at an upstream.

    Its status may be 200 all the same, if a stream had begun, and that of an upstream's failure may be any.
    """
    if FAILED_UPSTREAM in fields:
        return True
    return "error_status" in fields and isinstance(status := fields["error_status"], int) and status >= _SERVER_ERROR


@contextmanager
def log_round_faults(log: structlog.typing.FilteringBoundLogger, event: str) -> Iterator[None]:
    """Ends one round of a loop that must go on: an exception in the block is logged as `event`, and not raised.

    Outages of the store are not logged here, because the store itself has logged them.
    """
    try:
        yield
    except StoreUnavailable:
        return
    except Exception:  # the next round may succeed, and no request depends on this one
        log.exception(event)
