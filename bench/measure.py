"""One server under one load: what it delivered and what that cost."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from subprocess import Popen

from bench.load import Result
from bench.processes import Server, load
from bench.requests import Spec
from bench.scenarios import Scenario

_SETTLE_CONNECTIONS = 8


class WrongAnswers(Exception):
    """A server answered something else than its upstream said; no figure of such a run means anything."""


@dataclass(frozen=True)
class Figure:
    """What one run gave. `value` is in the scenario's unit, None where there is nothing to measure (a direct run)."""

    value: float | None
    requests_per_s: float
    deltas_per_s: float


def measure(server: Server, scenario: Scenario, seconds: float, core: int | None, log: Path, *, direct: bool) -> Figure:
    """Run the load. Raises WrongAnswers."""
    if scenario.measure == "stream":
        return Figure(None if direct else _memory(server, scenario, core, log), 0.0, 0.0)
    result, spent = under_load(server, scenario.spec(server.port, seconds), core, log)
    if scenario.measure == "first delta":
        value: float | None = median(result.first_deltas) * 1e3
    elif scenario.measure == "delay":
        value = result.delays[0] * 1e3
    elif direct:
        value = None
    else:
        value = spent * 1e6 / _delivered(result, scenario)
    return Figure(value, result.requests / result.elapsed, result.deltas / result.elapsed)


def _delivered(result: Result, scenario: Scenario) -> int:
    if scenario.measure == "delta":
        return result.deltas
    return result.requests * (scenario.history.items if scenario.measure == "item" else 1)


def under_load(server: Server, spec: Spec, core: int | None, log: Path) -> tuple[Result, float]:
    """What was delivered, and the CPU seconds it took the server. Raises WrongAnswers."""
    with _generator(json.dumps(asdict(spec)), core, log) as generator:
        before = server.cpu_s()
        _say_go(generator)
        result = _result(generator, server, log)
        return result, server.cpu_s() - before


def _memory(server: Server, scenario: Scenario, core: int | None, log: Path) -> float:
    """KiB of resident memory that each held stream adds to a server that has answered a few requests before."""
    settle = Scenario("settle", "request", scenario.path, "bench-4", _SETTLE_CONNECTIONS, 0.0)
    with _generator(json.dumps(asdict(settle.spec(server.port, 0.2))), core, log) as generator:
        _say_go(generator)
        _result(generator, server, log)
    with _generator(json.dumps(asdict(scenario.spec(server.port, 0))), core, log) as generator:
        before = server.resident_bytes()
        _say_go(generator)
        _expect(generator, "holding", log)
        held = server.resident_bytes() - before
        _say_go(generator)
        _result(generator, server, log)
    return held / 1024 / scenario.connections


@contextmanager
def _generator(spec: str, core: int | None, log: Path) -> Iterator[Popen[str]]:
    with load(spec, core, log) as process:
        _expect(process, "ready", log)
        yield process


def _expect(generator: Popen[str], word: str, log: Path) -> None:
    assert generator.stdout is not None
    line = generator.stdout.readline().strip()
    if line != word:
        raise RuntimeError(f"the load generator said {line!r}; its log is\n{log.read_text()[-2000:]}")


def _say_go(generator: Popen[str]) -> None:
    assert generator.stdin is not None
    generator.stdin.write("go\n")
    generator.stdin.flush()


def _result(generator: Popen[str], server: Server, log: Path) -> Result:
    assert generator.stdout is not None
    line = generator.stdout.readline()
    if not line:
        generator.wait()
        raise RuntimeError(f"{server.name}: the load generator failed; its log is\n{log.read_text()[-2000:]}")
    result = Result(**json.loads(line))
    if result.wrong:
        raise WrongAnswers(f"{server.name}: " + "; ".join(result.wrong))
    return result
