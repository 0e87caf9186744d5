"""The order of a run: start everything, measure in turns so that foreign load falls on all alike, report."""

import argparse
import os
import platform
import sys
import tempfile
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench import report, state_report
from bench.chain import CHAIN, chain_rows
from bench.databases import databases
from bench.gateway import gateway
from bench.measure import Figure, WrongAnswers, measure
from bench.processes import Server, cores, listening, nginx
from bench.scenarios import SCENARIOS, Scenario
from bench.state import STATE, Bench, StateScenario, state_rows
from bench.state_report import StateRow


@dataclass(frozen=True)
class Options:
    rounds: int
    seconds: float
    only: str
    keep: bool


def main() -> int:
    """Print the table; 1 when an answer was wrong."""
    options = _options()
    scenarios = [scenario for scenario in SCENARIOS if options.only in scenario.name]
    stateful = [scenario for scenario in STATE if options.only in scenario.name]
    try:
        with tempfile.TemporaryDirectory(prefix="bench-") as home:
            rows = run(scenarios, options, Path(home))
            kept = run_stateful(stateful, options, Path(home), chain=options.only in CHAIN)
    except WrongAnswers as wrong:
        print(f"wrong answers, so there are no figures: {wrong}", file=sys.stderr)
        return 1
    if rows:
        print(report.table(scenarios, rows, report.baseline_scores()))
        print("req/s and deltas/s: direct / nginx / gateway. CPU is user + system time of the whole process tree.")
    if kept:
        print(state_report.table(kept))
        print(
            "without / with: the same load, answered without and with the store. A database server's CPU is not in it."
        )
    report.write(rows, kept, _machine(), report.LATEST)
    if options.keep:
        report.write(rows, kept, _machine(), report.BASELINE)
    return 0


def run(scenarios: list[Scenario], options: Options, home: Path) -> list[report.Row]:
    """The rows of all scenarios. Raises WrongAnswers."""
    measured, loaded = cores()
    if measured is None:
        print("only one core: the gateway, the load and the upstream share it", file=sys.stderr)
    rows: list[report.Row] = []
    with _upstream(loaded, home) as upstream:
        for scenario in scenarios:
            runs: dict[str, list[Figure]] = {}
            for turn in range(options.rounds):
                print(f"{scenario.name}: {turn + 1} of {options.rounds}", file=sys.stderr)
                # Fresh servers each time: memory that one load left behind would hide what the next one takes.
                with _servers(upstream, measured, home) as servers:
                    for server in servers:
                        figure = measure(
                            server, scenario, options.seconds, loaded, home / "load.log", direct=server is upstream
                        )
                        runs.setdefault(server.name, []).append(figure)
            rows.append(report.row(scenario, runs))
    return rows


def run_stateful(scenarios: list[StateScenario], options: Options, home: Path, *, chain: bool) -> list[StateRow]:
    """What the store costs. Raises WrongAnswers."""
    if not scenarios and not chain:
        return []
    measured, loaded = cores()
    with databases(home, loaded) as made:
        rows: list[StateRow] = []
        if scenarios:
            with _upstream(loaded, home) as upstream:
                bench = Bench(upstream, measured, loaded, home, options.rounds, options.seconds)
                rows += state_rows(scenarios, made, bench)
        return rows + (chain_rows(made) if chain else [])


def _upstream(core: int | None, home: Path) -> AbstractContextManager[Server]:
    return listening("direct", [sys.executable, "-m", "bench.upstream"], core, home / "upstream.log")


@contextmanager
def _servers(upstream: Server, core: int | None, home: Path) -> Iterator[list[Server]]:
    with ExitStack() as stack:
        measured = stack.enter_context(gateway(upstream, core, home))
        forwarder = stack.enter_context(nginx(upstream.port, core, home))
        if forwarder is None:
            print(
                "nginx is not installed, so there are no ratios to it (Debian: apt install nginx-light)",
                file=sys.stderr,
            )
        yield [upstream, *([forwarder] if forwarder else []), measured]


def _options() -> Options:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one short round of each scenario")
    parser.add_argument("--rounds", type=int, help="how often each is measured; the median counts (3)")
    parser.add_argument("--seconds", type=float, help="length of one measurement (4)")
    parser.add_argument("--only", default="", metavar="TEXT", help="only scenarios whose name holds this")
    parser.add_argument("--keep", action="store_true", help="write the result to the baseline file")
    given = parser.parse_args()
    rounds, seconds = (1, 1.0) if given.quick else (3, 4.0)
    return Options(rounds=given.rounds or rounds, seconds=given.seconds or seconds, only=given.only, keep=given.keep)


def _machine() -> str:
    cpu = next((line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")), "")
    return f"{cpu.partition(': ')[2]}, {os.cpu_count()} cores, Python {platform.python_version()}"
