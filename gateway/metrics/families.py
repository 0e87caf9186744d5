"""The metrics as a table: names, types, labels and buckets. `docs/operations.md` has the table too, made from it."""

from collections.abc import Mapping, Sequence
from typing import Final, Literal, NamedTuple, TypeAlias

from gateway.histograms import OVERHEAD_BOUNDS, SECONDS_BOUNDS

Kind: TypeAlias = Literal["counter", "gauge", "histogram"]

Merge: TypeAlias = Literal["sum", "max", "min", "one"]
"""How the values of several workers become one. `one`: all have the same value."""


class Family(NamedTuple):
    """One metric. The names of counters end in `_total`."""

    kind: Kind
    labels: tuple[str, ...]
    help: str
    bounds: Sequence[float] = ()
    """The upper bounds of a histogram's buckets."""
    merge: Merge = "sum"


def _histogram(labels: tuple[str, ...], text: str, bounds: Sequence[float] = SECONDS_BOUNDS) -> Family:
    return Family("histogram", labels, text, bounds)


FAMILIES: Final[Mapping[str, Family]] = {
    "gateway_requests_total": Family(
        "counter", ("route", "model", "upstream", "outcome"), "Requests for models, at their end."
    ),
    "gateway_request_seconds": _histogram(
        ("model", "stream"), "Seconds from the arrival of a request to the last byte of its reply."
    ),
    "gateway_first_content_seconds": _histogram(
        ("model", "upstream"), "Seconds from the arrival of a request to the first content of its stream."
    ),
    "gateway_output_interval_seconds": _histogram(
        ("model", "upstream"), "Mean seconds between two output tokens of a stream, one value for each stream."
    ),
    "gateway_overhead_seconds": _histogram(
        ("route",), "Seconds of a request without those at upstreams and in the queue.", OVERHEAD_BOUNDS
    ),
    "gateway_tokens_total": Family(
        "counter",
        ("model", "upstream", "kind"),
        "Tokens as upstreams report them; cached ones are part of input, reasoning of output.",
    ),
    "gateway_attempts_total": Family(
        "counter", ("model", "upstream", "result"), "Attempts at upstreams, at their end."
    ),
    "gateway_retries_total": Family(
        "counter", ("model", "kind"), "Attempts after the first of a turn, at the same or the next upstream."
    ),
    "gateway_retry_budget_empty_total": Family(
        "counter", ("model",), "Turns that ended because their model had no repetitions left."
    ),
    "gateway_attempt_seconds": _histogram(
        ("upstream", "result"), "Seconds of an attempt, from sending to its end; the result is ok or failed."
    ),
    "gateway_in_flight": Family("gauge", ("upstream",), "Attempts in progress at a provider."),
    "gateway_upstream_state": Family(
        "gauge",
        ("model", "upstream"),
        "0: available. 1: parked. 2: ejected or on trial. Of a pattern the best of its names.",
        merge="max",
    ),
    "gateway_ejections_total": Family("counter", ("model", "upstream", "reason"), "Ejections of an upstream."),
    "gateway_queued": Family("gauge", ("model",), "Turns that wait for a slot now."),
    "gateway_queue_seconds": _histogram(("model",), "Seconds that turns waited for a slot."),
    "gateway_streams_open": Family("gauge", (), "Streams of clients that are open."),
    "gateway_losses_total": Family(
        "counter", ("param",), "Parameters that were not honoured, by their first part; unknown ones are other."
    ),
    "gateway_limit_refusals_total": Family(
        "counter", ("limit",), "Requests that a limit of the gateway refused, by its configuration key."
    ),
    "gateway_store_seconds": _histogram(("op",), "Seconds of a transaction of the store: read or write."),
    "gateway_event_loop_lag_seconds": _histogram(
        (), "Seconds that a worker's event loop was late, sampled each second.", OVERHEAD_BOUNDS
    ),
    "gateway_draining": Family("gauge", (), "1 while the server stops.", merge="max"),
    "gateway_workers": Family("gauge", (), "Workers that answer."),
    "gateway_build_info": Family("gauge", ("version",), "1, with the version.", merge="one"),
    "gateway_config_loaded_timestamp_seconds": Family(
        "gauge", (), "When the present configuration was loaded, in seconds since 1970.", merge="one"
    ),
    "gateway_config_stale": Family("gauge", (), "1 after a reload that was refused.", merge="one"),
    "gateway_series_dropped_total": Family("counter", (), "Label sets that were refused because there were too many."),
}
"""The metrics of the gateway by their names, in the order of the reply."""

PROCESS_FAMILIES: Final[Mapping[str, Family]] = {
    "process_cpu_seconds_total": Family("counter", (), "Seconds of CPU time of all workers."),
    "process_resident_memory_bytes": Family("gauge", (), "Resident memory of all workers."),
    "process_virtual_memory_bytes": Family("gauge", (), "Virtual memory of all workers."),
    "process_open_fds": Family("gauge", (), "Open file descriptors of all workers."),
    "process_max_fds": Family("gauge", (), "The most file descriptors that one worker may open.", merge="min"),
    "process_start_time_seconds": Family("gauge", (), "When the oldest worker started.", merge="min"),
}
"""The figures of the processes, by the names that Prometheus knows."""

ALL_FAMILIES: Final[Mapping[str, Family]] = {**FAMILIES, **PROCESS_FAMILIES}
