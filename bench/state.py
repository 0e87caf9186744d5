"""What keeping answers costs: the same load on one gateway, with `store: false` and then kept, in turns."""

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

from bench.answers import Model, find_stored_fault
from bench.databases import Databases
from bench.gateway import Setup, gateway
from bench.load import Result
from bench.measure import WrongAnswers, under_load
from bench.processes import Server
from bench.requests import Spec
from bench.state_report import StateRow
from translation.representation.json_types import Json

_NOT_KEPT: dict[str, Any] = {"store": False}
_KEPT: dict[str, Any] = {"store": True}
_LOGGED: dict[str, Any] = {"store": True, "background": True}

_SYNCS = 200
_BETWEEN_S = 0.01
_PAGES = bytes(8192)

_LISTED = 100
"""As many answers as one list has are read back and compared."""


class Run(NamedTuple):
    """One load: what its model says, what was delivered, and the CPU seconds that took."""

    model: Model
    result: Result
    cpu_s: float


class Reading(NamedTuple):
    """One figure of the runs of a scenario. `target`: by how much it may be more than without the store."""

    name: str
    unit: str
    of: Callable[[Sequence[Run]], float]
    target: float | None = None
    less_is_better: bool = True


@dataclass(frozen=True)
class StateScenario:
    """One load for each of `models`, and what is read off them. `kept`: what requests say so that they are kept."""

    name: str
    models: tuple[str, ...]
    connections: int
    readings: tuple[Reading, ...]
    kept: dict[str, Any]
    together: bool = False
    """Streams begin at once, and so end at once."""
    resume: bool = False
    """What is kept is replayed."""
    default: bool = True
    """It is part of a run that names none."""


@dataclass(frozen=True)
class Bench:
    """Where and how long everything is measured. `core` is the gateway's, `load_core` the load's and the upstream's."""

    upstream: Server
    core: int | None
    load_core: int | None
    home: Path
    rounds: int
    seconds: float


def per_delta_us(runs: Sequence[Run]) -> float:
    """CPU of one more delta: the slope between a short answer and a long one."""
    short, long = runs
    return (_per_stream_us(long) - _per_stream_us(short)) / (long.model.deltas - short.model.deltas)


def per_stream_us(runs: Sequence[Run]) -> float:
    """CPU of one stream but for its deltas."""
    return _per_stream_us(runs[0]) - runs[0].model.deltas * per_delta_us(runs)


def _per_stream_us(run: Run) -> float:
    return run.cpu_s * 1e6 / run.result.requests


_END = (
    Reading("p50", "ms", lambda runs: runs[0].result.ends[0] * 1e3, target=3.0),
    Reading("p95", "ms", lambda runs: runs[0].result.ends[1] * 1e3),
)
_ENDS_TOGETHER = tuple(reading._replace(target=None) for reading in _END)
_SHORT = (
    Reading("first delta", "ms", lambda runs: runs[0].result.first_deltas[0] * 1e3),
    Reading("whole answer", "ms", lambda runs: runs[0].result.wholes[0] * 1e3),
)
# Nothing happens to a delta because it is kept: what is left of the target is what two equal loads differ by.
_CPU = (
    Reading("CPU per delta", "µs", per_delta_us, target=0.3),
    Reading("CPU per stream", "µs", per_stream_us),
)
_LOG = (
    Reading("CPU per delta", "µs", lambda runs: runs[0].cpu_s * 1e6 / runs[0].result.deltas),
    Reading("rate", "deltas/s", lambda runs: runs[0].result.deltas / runs[0].result.elapsed, less_is_better=False),
)

STATE = (
    # Paced, so that the last delta and the end are not one write: what is between them is what is waited for.
    StateScenario("state: end of a stream, 1 connection", ("bench-16-200ps",), 1, _END, _KEPT),
    # Longer, so that the machine is not full: what waits for a core is not what keeping costs.
    StateScenario("state: end of a stream, 16 connections", ("bench-64-200ps",), 16, _END, _KEPT, default=False),
    StateScenario(
        "state: 16 streams that end together",
        ("bench-64-200ps",),
        16,
        _ENDS_TOGETHER,
        _KEPT,
        together=True,
        default=False,
    ),
    StateScenario("state: short answer, 1 connection", ("bench-4",), 1, _SHORT, _KEPT, default=False),
    StateScenario("state: 16 connections", ("bench-16", "bench-8000"), 16, _CPU, _KEPT),
    StateScenario("state: event log, full speed", ("bench-128",), 16, _LOG, _LOGGED),
    StateScenario("state: event log, 50 deltas/s", ("bench-128-50ps",), 64, _LOG, _LOGGED, default=False),
    StateScenario("state: resumed, 16 connections", ("bench-128",), 16, _LOG, _LOGGED, resume=True),
)

_Figures: TypeAlias = dict[str, list[tuple[float, float]]]
"""Reading -> without and with the store, of each round."""


def state_rows(scenarios: Sequence[StateScenario], databases: Databases, bench: Bench) -> list[StateRow]:
    """The medians of all rounds. Raises WrongAnswers."""
    rows = [_disk(bench.home)]
    for scenario in scenarios:
        figures: dict[str, _Figures] = {database: {} for database in databases}
        for turn, (database, new_url) in itertools.product(range(bench.rounds), databases.items()):
            print(f"{scenario.name}, {database}: {turn + 1} of {bench.rounds}", file=sys.stderr)
            with gateway(bench.upstream, bench.core, bench.home, Setup(store_url=new_url())) as server:
                without = _runs(server, scenario, _NOT_KEPT, bench)
                kept = _runs(server, scenario, scenario.kept, bench)
            for reading in scenario.readings:
                figures[database].setdefault(reading.name, []).append((reading.of(without), reading.of(kept)))
        for reading, database in itertools.product(scenario.readings, databases):
            rows.append(_row(scenario, reading, database, figures[database][reading.name]))
    return rows


def _disk(home: Path) -> StateRow:
    """What a commit waits for at least: a few pages, written and safe."""
    times = []
    with (home / "disk").open("wb", buffering=0) as file:
        for _ in range(_SYNCS):
            file.write(_PAGES)
            sleep(_BETWEEN_S)  # as between two streams: a disk that rests takes longer
            began = perf_counter()
            os.fdatasync(file.fileno())
            times.append(perf_counter() - began)
    return StateRow("state: the disk alone, p50 of one commit's pages", "-", "ms", None, median(times) * 1e3)


def _row(scenario: StateScenario, reading: Reading, database: str, pairs: Sequence[tuple[float, float]]) -> StateRow:
    without, kept = (median(values) for values in zip(*pairs, strict=True))
    # The target is SQLite's, on the machine that is measured; how far away a PostgreSQL is, its operator decides.
    target = reading.target if database == "SQLite" else None
    return StateRow(
        f"{scenario.name}, {reading.name}", database, reading.unit, without, kept, target, ratios(reading, pairs)
    )


def ratios(reading: Reading, pairs: Sequence[tuple[float, float]]) -> tuple[float, ...]:
    """With the store to without it, in each round; the other way where more is better, so that less always is."""
    ordered = pairs if reading.less_is_better else [(after, before) for before, after in pairs]
    return tuple(after / before for before, after in ordered if before)


def _runs(server: Server, scenario: StateScenario, fields: dict[str, Any], bench: Bench) -> list[Run]:
    runs = []
    for name in scenario.models:
        spec = Spec(
            port=server.port,
            path="/v1/responses",
            model=name,
            stream=True,
            connections=scenario.connections,
            seconds=bench.seconds,
            fields=fields,
            apart=not scenario.together,
            resume=scenario.resume and fields["store"],
        )
        before = _newest(server, 1)
        result, cpu_s = under_load(server, spec, bench.load_core, bench.home / "load.log")
        model = Model.named(name)
        if fault := _wrong_kept(server, model, result, spec, before):
            raise WrongAnswers(fault)
        runs.append(Run(model, result, cpu_s))
    return runs


def _wrong_kept(server: Server, model: Model, result: Result, spec: Spec, before: Json) -> str | None:
    if not spec.fields["store"]:
        return None if _newest(server, 1) == before else "something was kept of what was not to be"
    answers = spec.connections if spec.resume else result.requests
    return find_stored_fault(_newest(server, _LISTED), model, min(answers, _LISTED))


def _newest(server: Server, limit: int) -> Json:
    with urlopen(f"http://127.0.0.1:{server.port}/v1/responses?limit={limit}") as answer:
        listing: Json = orjson.loads(answer.read())
    return listing
