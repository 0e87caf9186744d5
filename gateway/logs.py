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

_NOTHING: Mapping[str, object] = MappingProxyType({})

_NOTED: ContextVar[Mapping[str, object]] = ContextVar("noted", default=_NOTHING)
"""One variable for all that is noted: structlog has one for each name, and looks through all of a context's for them
with every line and at both ends of a request."""


_requests = structlog.get_logger("gateway.access")

_written_to: BinaryIO | None = None
"""By `log_request` itself, which halves what a line costs: one is written with each request."""


def configure_logs(level: int = logging.INFO) -> None:
    """Once per process, before the first request."""
    global _written_to
    _written_to = sys.stderr.buffer if level <= logging.INFO else None
    shared: list[structlog.typing.Processor] = [
        _add_noted,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
    ]
    structlog.configure(
        processors=[_line],
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
    if _written_to is None:
        _requests.info("request", method=method, path=path, status=status, ms=ms)
    else:
        line = {
            **_NOTED.get(),
            "method": method,
            "path": path,
            "status": status,
            "ms": ms,
            "level": "info",
            "timestamp": datetime.now(UTC),
            "message": "request",
        }
        _written_to.write(_written(line) + b"\n")
        _written_to.flush()
    _NOTED.set(_NOTHING)


def _line(_logger: object, method: str, fields: structlog.typing.EventDict) -> bytes:
    """One line of JSON; structlog's own processors for it cost three times as much, once per request."""
    if fields.get("exc_info"):
        fields = dict(structlog.processors.format_exc_info(None, method, fields))
    message = fields.pop("event")
    level = "error" if method == "exception" else method
    return _written({**_NOTED.get(), **fields, "level": level, "timestamp": datetime.now(UTC), "message": message})


def _written(line: dict[str, Any]) -> bytes:
    try:
        return orjson.dumps(line, default=repr, option=orjson.OPT_UTC_Z)
    except TypeError:  # half a surrogate, or a number or a key that it does not write: no reason to fail a request
        line["timestamp"] = line["timestamp"].isoformat().replace("+00:00", "Z")
        return json.dumps(line, default=repr, skipkeys=True).encode()


def _add_noted(_logger: object, _method: str, fields: structlog.typing.EventDict) -> structlog.typing.EventDict:
    return {**_NOTED.get(), **fields}


def noted() -> Mapping[str, object]:
    """What every line of this context says besides its own."""
    return _NOTED.get()


def note(**fields: object) -> None:
    """Say these in every further line of this context and of those that are copied from it: a request's, as it is."""
    _NOTED.set({**_NOTED.get(), **fields})


def note_only(**fields: object) -> None:
    """The same, and nothing that was noted before."""
    _NOTED.set(fields)


def note_warnings(warnings: Sequence[Json]) -> None:
    """Put on a request's log line how many of the model's calls have a warning, where some have."""
    if warnings:
        note(tool_warnings=len(warnings))


def note_unreported(param: str | None) -> None:
    """Put on a request's log line the parameter that its reply has nothing for, where there is one."""
    if param is not None:
        note(unreported=param)


def note_failure(error: Exception) -> None:
    """Put why a request failed on its log line: the code its client reads, and what the network said of the upstream.

    The message stays out of the log, since it may quote the request.
    """
    row = errors.answer(error)
    cause = error.__cause__
    is_told = isinstance(error, UpstreamUnreachable | UpstreamTimeout | UpstreamBroken)
    note(error=row.code or row.type)
    if cause is not None and (is_told or isinstance(cause, httpx.TransportError)):
        note(cause=f"{type(cause).__name__}: {cause}"[:_MAX_CAUSE_CHARS])
