"""Reads the number of waiting requests that model servers report: in a header of their replies, or at `/metrics`."""

import re
from collections.abc import Mapping
from typing import Final

import orjson

LOAD_REQUEST: Final = {"endpoint-load-metrics-format": "json"}
"""The header by which a request asks for a report with its reply (ORCA)."""

LOAD_HEADER: Final = b"endpoint-load-metrics"

_WAITING: Final = "num_requests_waiting"
_MAX_CHARS: Final = 4096
_MAX_COUNT: Final = 1_000_000

_METRICS: Final = ("vllm:num_requests_waiting", "sglang:num_queue_reqs", "trtllm_num_requests_waiting")
"""The names that servers have for it. The first that is present counts."""

_SAMPLE: Final = re.compile(rb"^([a-zA-Z_:][\w:]*)(?:\{[^\n]*\})?[ \t]+(\S+)", re.MULTILINE)

_TEXT_ENTRY: Final = re.compile(r"(?:named_metrics\.)?num_requests_waiting=([^,\s]+)")


def read_load_header(headers: Mapping[bytes, bytes]) -> int | None:
    """Returns the number of waiting requests that a reply reports; None if it reports none that can be read."""
    value = headers.get(LOAD_HEADER)
    if value is None or len(value) > _MAX_CHARS:
        return None
    form, _, text = value.decode("latin-1").strip().partition(" ")
    if form == "JSON":
        try:
            report = orjson.loads(text)
        except orjson.JSONDecodeError:
            return None
        metrics = report.get("named_metrics") if isinstance(report, dict) else None
        return _read_count(metrics.get(_WAITING)) if isinstance(metrics, dict) else None
    if form == "TEXT" and (match := _TEXT_ENTRY.search(text)) is not None:
        return _read_number(match[1])
    return None


def read_waiting_metric(text: bytes) -> int | None:
    """Returns the number of waiting requests in a text of Prometheus; None if no known name is in it.

    A server with several engines has one sample for each.
    """
    sums: dict[str, int] = {}
    for match in _SAMPLE.finditer(text):
        name = match[1].decode()
        if name in _METRICS and (count := _read_number(match[2].decode("latin-1"))) is not None:
            sums[name] = sums.get(name, 0) + count
    return next((sums[name] for name in _METRICS if name in sums), None)


def _read_number(text: str) -> int | None:
    try:
        return _read_count(float(text))
    except ValueError:
        return None


def _read_count(value: object) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= _MAX_COUNT:
        return None
    return round(value)
