"""Measures one server under one load: its answers, and the CPU or memory that it used."""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from subprocess import Popen

from bench.load.generator import Result
from bench.load.requests import LoadSpec
from bench.scenarios.scenario_list import Scenario
from bench.servers.processes import Server, start_process

_SETTLE_CONNECTIONS = 8


class WrongAnswers(Exception):
    """A server sent another answer than its upstream. The figures of such a run are worthless."""


@dataclass(frozen=True)
class BenchEnvironment:
    """The environment of all measurements. `core` is for the gateway, `load_core` for the load and the upstream."""

    upstream: Server
    core: int | None
    load_core: int | None
    home: Path
    rounds: int
    seconds: float


@dataclass(frozen=True)
class Figure:
    """The result of one load. `value` is in the scenario's unit; None if a direct run has no such figure."""

    value: float | None
    requests_per_s: float
    deltas_per_s: float


def measure_scenario(
    server: Server, scenario: Scenario, seconds: float, core: int | None, log: Path, *, direct: bool
) -> Figure:
    """Runs the load of a scenario and returns its figure.

    `direct`: the server is the upstream itself. Raises WrongAnswers, and RuntimeError if the load generator fails.
    """
    if scenario.measure == "stream":
        return Figure(None if direct else _measure_memory(server, scenario, core, log), 0.0, 0.0)
    result, cpu_s = run_load(server, scenario.spec(server.port, seconds), core, log)
    if scenario.measure == "first delta":
        value: float | None = median(result.first_deltas) * 1e3
    elif scenario.measure == "delay":
        value = result.delays[0] * 1e3
    elif direct:
        value = None
    else:
        value = cpu_s * 1e6 / _measure_delivery(result, scenario)
    return Figure(value, result.requests / result.elapsed, result.deltas / result.elapsed)


def _measure_delivery(result: Result, scenario: Scenario) -> int:
    if scenario.measure == "delta":
        return result.deltas
    return result.requests * (scenario.history.items if scenario.measure == "item" else 1)


def run_load(server: Server, spec: LoadSpec, core: int | None, log: Path) -> tuple[Result, float]:
    """Runs a load. Returns its result and the CPU seconds of the server. Raises WrongAnswers."""
    with _start_generator(json.dumps(asdict(spec)), core, log) as generator:
        before = server.cpu_s()
        _send_line(generator)
        result = _read_result(generator, server, log)
        return result, server.cpu_s() - before


def _measure_memory(server: Server, scenario: Scenario, core: int | None, log: Path) -> float:
    """Returns the KiB of resident memory per open stream. The server has answered a few requests before."""
    settle = Scenario("settle", "request", scenario.path, "bench-4", _SETTLE_CONNECTIONS, 0.0)
    with _start_generator(json.dumps(asdict(settle.spec(server.port, 0.2))), core, log) as generator:
        _send_line(generator)
        _read_result(generator, server, log)
    with _start_generator(json.dumps(asdict(scenario.spec(server.port, 0))), core, log) as generator:
        before = server.resident_bytes()
        _send_line(generator)
        _expect_word(generator, "holding", log)
        added_bytes = server.resident_bytes() - before
        _send_line(generator)
        _read_result(generator, server, log)
    return added_bytes / 1024 / scenario.connections


@contextmanager
def _start_generator(spec: str, core: int | None, log: Path) -> Iterator[Popen[str]]:
    """Starts the process of a load. It communicates over stdin and stdout, see `bench.load.generator`."""
    with start_process([sys.executable, "-m", "bench.load.generator", spec], core, log) as process:
        _expect_word(process, "ready", log)
        yield process


def _expect_word(generator: Popen[str], word: str, log: Path) -> None:
    assert generator.stdout is not None
    line = generator.stdout.readline().strip()
    if line != word:
        raise RuntimeError(f"the load generator printed {line!r}, not {word!r}; its log is\n{log.read_text()[-2000:]}")


def _send_line(generator: Popen[str]) -> None:
    assert generator.stdin is not None
    generator.stdin.write("go\n")
    generator.stdin.flush()


def _read_result(generator: Popen[str], server: Server, log: Path) -> Result:
    assert generator.stdout is not None
    line = generator.stdout.readline()
    if not line:
        generator.wait()
        raise RuntimeError(f"{server.name}: the load generator failed; its log is\n{log.read_text()[-2000:]}")
    result = Result(**json.loads(line))
    if result.wrong:
        raise WrongAnswers(f"{server.name}: " + "; ".join(result.wrong))
    return result
