"""Measures the cost of storing responses: the same load on one gateway with `store: false`, then stored,
alternately."""

import itertools
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from time import perf_counter, sleep
from typing import Any, NamedTuple, TypeAlias
from urllib.request import urlopen

import orjson

from bench.load.generator import Result
from bench.load.replies import Model, find_stored_fault
from bench.load.requests import LoadSpec
from bench.scenarios.cost_row import CostRow
from bench.scenarios.measurement import BenchEnvironment, WrongAnswers, run_load
from bench.servers.databases import Databases
from bench.servers.gateway import GatewaySetup, start_gateway
from bench.servers.processes import Server
from translation.representation.json_types import Json

_NOT_STORED: dict[str, Any] = {"store": False}
_STORED: dict[str, Any] = {"store": True}
_LOGGED: dict[str, Any] = {"store": True, "background": True}

_COMMITS = 200
_PAUSE_S = 0.01
_WRITTEN_PAGES = bytes(8192)

_MAX_LISTED = 100
"""The number of responses that are read back and compared: the limit of one list."""


class MeasuredLoad(NamedTuple):
    """The result of one load, with its model and the CPU seconds of the gateway."""

    model: Model
    result: Result
    cpu_s: float


class Reading(NamedTuple):
    """One figure of the runs of a scenario. `target` is the most that the store may add to it, in its unit."""

    name: str
    unit: str
    of: Callable[[Sequence[MeasuredLoad]], float]
    target: float | None = None
    less_is_better: bool = True


@dataclass(frozen=True)
class StoreScenario:
    """One load for each of `models`, and the figures of these loads.

    `stored_fields` are the request fields with which responses are stored.
    """

    name: str
    models: tuple[str, ...]
    connections: int
    readings: tuple[Reading, ...]
    stored_fields: dict[str, Any]
    stream: bool = True
    """Whether answers are streamed. Otherwise each is one JSON object."""
    together: bool = False
    """Whether streams begin at the same time, and so end at the same time."""
    resume: bool = False
    """Whether the load with the store replays stored streams."""
    default: bool = True
    """Whether a run without names includes it."""


def compute_delta_us(runs: Sequence[MeasuredLoad]) -> float:
    """Returns the CPU of one more delta: the slope between a short answer and a long one."""
    short, long = runs
    return (_compute_stream_us(long) - _compute_stream_us(short)) / (long.model.deltas - short.model.deltas)


def compute_stream_us(runs: Sequence[MeasuredLoad]) -> float:
    """Returns the CPU of one stream without the CPU of its deltas."""
    return _compute_stream_us(runs[0]) - runs[0].model.deltas * compute_delta_us(runs)


def _compute_stream_us(run: MeasuredLoad) -> float:
    return run.cpu_s * 1e6 / run.result.requests


_END_READINGS = (
    Reading("p50", "ms", lambda runs: runs[0].result.ends[0] * 1e3, target=3.0),
    Reading("p95", "ms", lambda runs: runs[0].result.ends[1] * 1e3),
)
_JOINT_END_READINGS = tuple(reading._replace(target=None) for reading in _END_READINGS)
_SHORT_READINGS = (
    Reading("first delta", "ms", lambda runs: runs[0].result.first_deltas[0] * 1e3),
    Reading("whole answer", "ms", lambda runs: runs[0].result.wholes[0] * 1e3),
)
# Storing does nothing per delta. The target only allows for the difference of two equal loads.
_CPU_READINGS = (
    Reading("CPU per delta", "µs", compute_delta_us, target=0.3),
    Reading("CPU per stream", "µs", compute_stream_us),
)
_RATE_READING = Reading(
    "rate", "answers/s", lambda runs: runs[0].result.requests / runs[0].result.elapsed, less_is_better=False
)
_ANSWER_READINGS = (
    Reading("CPU per answer", "µs", lambda runs: _compute_stream_us(runs[0]), target=280.0),
    _RATE_READING,
    Reading("whole answer", "ms", lambda runs: runs[0].result.wholes[0] * 1e3),
)
_STREAM_READINGS = (
    Reading("CPU per stream", "µs", lambda runs: _compute_stream_us(runs[0]), target=260.0),
    _RATE_READING,
)
_LOG_READINGS = (
    Reading("CPU per delta", "µs", lambda runs: runs[0].cpu_s * 1e6 / runs[0].result.deltas),
    Reading("rate", "deltas/s", lambda runs: runs[0].result.deltas / runs[0].result.elapsed, less_is_better=False),
)

STORE_SCENARIOS = (
    # Paced, so that the last delta and the end are not one write: the time between them is the wait for the store.
    StoreScenario("state: end of a stream, 1 connection", ("bench-16-200ps",), 1, _END_READINGS, _STORED),
    # Longer, so that the machine is not at its limit: waiting for a core is no cost of storing.
    StoreScenario(
        "state: end of a stream, 16 connections", ("bench-64-200ps",), 16, _END_READINGS, _STORED, default=False
    ),
    StoreScenario(
        "state: 16 streams that end together",
        ("bench-64-200ps",),
        16,
        _JOINT_END_READINGS,
        _STORED,
        together=True,
        default=False,
    ),
    StoreScenario("state: short answer, 1 connection", ("bench-4",), 1, _SHORT_READINGS, _STORED, default=False),
    StoreScenario("state: 16 connections", ("bench-16", "bench-8000"), 16, _CPU_READINGS, _STORED),
    StoreScenario("state: JSON answers, 16 connections", ("bench-128",), 16, _ANSWER_READINGS, _STORED, stream=False),
    StoreScenario(
        "state: JSON answers, 1 connection",
        ("bench-128",),
        1,
        _ANSWER_READINGS[-1:],
        _STORED,
        stream=False,
        default=False,
    ),
    StoreScenario("state: streams, 64 connections", ("bench-128",), 64, _STREAM_READINGS, _STORED),
    StoreScenario("state: event log, full speed", ("bench-128",), 16, _LOG_READINGS, _LOGGED),
    StoreScenario("state: event log, 50 deltas/s", ("bench-128-50ps",), 64, _LOG_READINGS, _LOGGED, default=False),
    StoreScenario("state: resumed, 16 connections", ("bench-128",), 16, _LOG_READINGS, _LOGGED, resume=True),
)

_Figures: TypeAlias = dict[str, list[tuple[float, float]]]
"""Reading -> (without, with the store), for each round."""


def measure_store(scenarios: Sequence[StoreScenario], databases: Databases, bench: BenchEnvironment) -> list[CostRow]:
    """Measures the scenarios on each database. Returns rows with the medians of all rounds. Raises WrongAnswers."""
    rows = [_measure_commit(bench.home)]
    for scenario in scenarios:
        figures: dict[str, _Figures] = {database: {} for database in databases}
        for turn, (database, new_url) in itertools.product(range(bench.rounds), databases.items()):
            print(f"{scenario.name}, {database}: {turn + 1} of {bench.rounds}", file=sys.stderr)
            with start_gateway(bench.upstream, bench.core, bench.home, GatewaySetup(store_url=new_url())) as server:
                without = _run_loads(server, scenario, _NOT_STORED, bench)
                stored = _run_loads(server, scenario, scenario.stored_fields, bench)
            for reading in scenario.readings:
                figures[database].setdefault(reading.name, []).append((reading.of(without), reading.of(stored)))
        for reading, database in itertools.product(scenario.readings, databases):
            rows.append(_row(scenario, reading, database, figures[database][reading.name]))
    return rows


def _measure_commit(home: Path) -> CostRow:
    """Measures the least time of a commit: to write a few pages and sync them to the disk."""
    times = []
    with (home / "disk").open("wb", buffering=0) as file:
        for _ in range(_COMMITS):
            file.write(_WRITTEN_PAGES)
            sleep(_PAUSE_S)  # as between two streams, because an idle disk takes longer
            began = perf_counter()
            os.fdatasync(file.fileno())
            times.append(perf_counter() - began)
    return CostRow("state: the disk alone, p50 of one commit's pages", "-", "ms", None, median(times) * 1e3)


def _row(scenario: StoreScenario, reading: Reading, database: str, pairs: Sequence[tuple[float, float]]) -> CostRow:
    without, stored = (median(values) for values in zip(*pairs, strict=True))
    # The target is for SQLite on the same machine. The latency of a PostgreSQL server depends on its operator.
    target = reading.target if database == "SQLite" else None
    return CostRow(
        f"{scenario.name}, {reading.name}",
        database,
        reading.unit,
        without,
        stored,
        target,
        compute_ratios(reading, pairs),
    )


def compute_ratios(reading: Reading, pairs: Sequence[tuple[float, float]]) -> tuple[float, ...]:
    """Returns the ratios of with to without the store, one per round. They are inverted where more is better."""
    ordered = pairs if reading.less_is_better else [(after, before) for before, after in pairs]
    return tuple(after / before for before, after in ordered if before)


def _run_loads(
    server: Server, scenario: StoreScenario, fields: dict[str, Any], bench: BenchEnvironment
) -> list[MeasuredLoad]:
    runs = []
    for name in scenario.models:
        spec = LoadSpec(
            port=server.port,
            path="/v1/responses",
            model=name,
            stream=scenario.stream,
            connections=scenario.connections,
            seconds=bench.seconds,
            fields=fields,
            apart=not scenario.together,
            resume=scenario.resume and fields["store"],
        )
        before = _fetch_newest(server, 1)
        result, cpu_s = run_load(server, spec, bench.load_core, bench.home / "load.log")
        model = Model.named(name)
        if fault := _find_fault(server, model, result, spec, before):
            raise WrongAnswers(fault)
        runs.append(MeasuredLoad(model, result, cpu_s))
    return runs


def _find_fault(server: Server, model: Model, result: Result, spec: LoadSpec, before: Json) -> str | None:
    if not spec.fields["store"]:
        return (
            None
            if _fetch_newest(server, 1) == before
            else "a response was stored although the requests had `store: false`"
        )
    answers = spec.connections if spec.resume else result.requests
    return find_stored_fault(_fetch_newest(server, _MAX_LISTED), model, min(answers, _MAX_LISTED))


def _fetch_newest(server: Server, limit: int) -> Json:
    with urlopen(f"http://127.0.0.1:{server.port}/v1/responses?limit={limit}") as answer:
        listing: Json = orjson.loads(answer.read())
    return listing
