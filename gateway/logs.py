"""JSON lines on stderr, the server's own and its libraries' alike, and what they say of a failure."""

import json
import logging
import sys
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any, BinaryIO

import httpx
import orjson
import structlog

from gateway import errors
from providers.errors import UpstreamBroken, UpstreamTimeout, UpstreamUnreachable
from translation.representation.json_types import Json

_MAX_CAUSE_CHARS = 200

_NO_FIELDS: Mapping[str, object] = MappingProxyType({})

_BOUND_FIELDS: ContextVar[Mapping[str, object]] = ContextVar("noted", default=_NO_FIELDS)
"""One variable for all that is noted: structlog has one for each name, and looks through all of a context's for them
with every line and at both ends of a request."""


_access_log = structlog.get_logger("gateway.access")

_access_stream: BinaryIO | None = None
"""By `log_request` itself, which halves what a line costs: one is written with each request."""


def configure_logs(level: int = logging.INFO) -> None:
    """Once per process, before the first request."""
    global _access_stream
    _access_stream = sys.stderr.buffer if level <= logging.INFO else None
    shared: list[structlog.typing.Processor] = [
        _add_bound_fields,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
    ]
    structlog.configure(
        processors=[_render_line],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.BytesLoggerFactory(sys.stderr.buffer),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stderr)
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


def log_request(method: str, path: str, status: int, ms: float) -> None:
    """The line of a request that is over: nothing is noted any more."""
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
    """One line of JSON; structlog's own processors for it cost three times as much, once per request."""
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
    except TypeError:  # half a surrogate, or a number or a key that it does not write: no reason to fail a request
        line["timestamp"] = line["timestamp"].isoformat().replace("+00:00", "Z")
        return json.dumps(line, default=repr, skipkeys=True).encode()


def _add_bound_fields(_logger: object, _method: str, fields: structlog.typing.EventDict) -> structlog.typing.EventDict:
    return {**_BOUND_FIELDS.get(), **fields}


def bound_fields() -> Mapping[str, object]:
    """What every line of this context says besides its own."""
    return _BOUND_FIELDS.get()


def bind_fields(**fields: object) -> None:
    """Say these in every further line of this context and of those that are copied from it: a request's, as it is."""
    _BOUND_FIELDS.set({**_BOUND_FIELDS.get(), **fields})


def reset_fields(**fields: object) -> None:
    """The same, and nothing that was noted before."""
    _BOUND_FIELDS.set(fields)


def bind_tool_warnings(warnings: Sequence[Json]) -> None:
    """Put on a request's log line how many of the model's calls have a warning, where some have."""
    if warnings:
        bind_fields(tool_warnings=len(warnings))


def bind_unreported(param: str | None) -> None:
    """Put on a request's log line the parameter that its reply has nothing for, where there is one."""
    if param is not None:
        bind_fields(unreported=param)


def bind_failure(error: Exception) -> None:
    """Put why a request failed on its log line: the code its client reads, and what the network said of the upstream.

    The message stays out of the log, since it may quote the request.
    """
    row = errors.resolve_error_reply(error)
    cause = error.__cause__
    is_network_failure = isinstance(error, UpstreamUnreachable | UpstreamTimeout | UpstreamBroken)
    bind_fields(error=row.code or row.type)
    if cause is not None and (is_network_failure or isinstance(cause, httpx.TransportError)):
        bind_fields(cause=f"{type(cause).__name__}: {cause}"[:_MAX_CAUSE_CHARS])
