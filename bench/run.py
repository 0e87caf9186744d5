"""The order of a run: start everything, measure in turns so that foreign load falls on all alike, report."""

import os
import platform
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path

from bench import baseline, report, state_report
from bench.chain import CHAIN, chain_rows
from bench.databases import databases
from bench.gateway import gateway
from bench.measure import Figure, WrongAnswers, measure
from bench.options import Options, options
from bench.peers import peers
from bench.plot import draw
from bench.processes import Server, cores, nginx, start_announcing_server
from bench.scenarios import SCENARIOS, Scenario
from bench.start import START, UnwantedModules, heaviest_modules, start_rows
from bench.state import STATE, Bench, StateScenario, state_rows
from bench.state_report import StateRow
from dataplane.core import CORE

NAMES = (*(scenario.name for scenario in SCENARIOS), *(scenario.name for scenario in STATE), CHAIN, START)


def main() -> int:
    """Print the tables; 1 when an answer was wrong, a load failed, or the gateway imports what it should not."""
    chosen = options(NAMES)
    if chosen.list:
        print("\n".join(NAMES))
        return 0
    try:
        with tempfile.TemporaryDirectory(prefix="bench-") as home:
            scenarios = [one for one in SCENARIOS if chosen.wants(one.name, default=one.default)]
            rows = run(scenarios, chosen, Path(home))
            stateful = [one for one in STATE if chosen.wants(one.name, default=one.default)]
            kept, failed = _survived(lambda: run_stateful(stateful, chosen, Path(home), chain=chosen.wants(CHAIN)))
            start = run_start(chosen, Path(home)) if chosen.wants(START) else []
    except WrongAnswers as wrong:
        print(f"wrong answers, so there are no figures: {wrong}", file=sys.stderr)
        return 1
    except UnwantedModules as found:
        print(f"the gateway imports what nobody has configured: {found}", file=sys.stderr)
        return 1
    if not (rows or kept or start):
        print("there is no such scenario; --list names all", file=sys.stderr)
        return 1
    _tell(rows, kept, start)
    _compare_and_save(report.written(rows, kept, start, _machine()), keep=chosen.keep)
    return 1 if failed else 0


def _survived(measuring: Callable[[], list[StateRow]]) -> tuple[list[StateRow], bool]:
    """The rows, and whether there are none because of a failure: what was measured before is not lost for that."""
    try:
        return measuring(), False
    except RuntimeError as failure:
        print(f"no figures of the store: {failure}", file=sys.stderr)
        return [], True


def _tell(rows: Sequence[report.Row], kept: Sequence[StateRow], start: Sequence[StateRow]) -> None:
    if rows:
        print(report.table(rows))
        print("req/s and deltas/s: direct / nginx / gateway. CPU is user + system time of the whole process tree.")
    if beside := report.peers_table(rows):
        print(f"\n{beside}")
    if kept:
        print(f"\n{state_report.table(kept)}")
        print("without / with: the same load, without and with the store. A database server's CPU is not in it.")
    if start:
        print(f"\n{state_report.start_table(start)}")


def _compare_and_save(results: baseline.Written, *, keep: bool) -> None:
    before = baseline.read(report.BASELINE)
    if changes := baseline.compare(before, results):
        print(f"\n{baseline.table(changes)}")
        print("Ratios within each run: to nginx, to the same load without the store, to a bare server.")
    report.save(results, report.LATEST)
    draw(report.LATEST, report.BASELINE)
    if keep:
        report.save(baseline.merge(before, results), report.BASELINE)
        draw(report.BASELINE, None)


def run(scenarios: Sequence[Scenario], options: Options, home: Path) -> list[report.Row]:
    """The rows of all scenarios. Raises WrongAnswers."""
    if not scenarios:
        return []
    measured, loaded = cores()
    if measured is None:
        print("only one core: the gateway, the load and the upstream share it", file=sys.stderr)
    with ExitStack() as stack:
        upstream = stack.enter_context(_upstream(loaded, home))
        beside = stack.enter_context(peers(upstream, measured, home)) if options.peers else []
        return [_row(scenario, upstream, beside if scenario.peers else [], options, home) for scenario in scenarios]


def _row(scenario: Scenario, upstream: Server, beside: Sequence[Server], options: Options, home: Path) -> report.Row:
    measured, loaded = cores()
    rounds: list[dict[str, Figure]] = []
    for turn in range(options.rounds):
        print(f"{scenario.name}: {turn + 1} of {options.rounds}", file=sys.stderr)
        figures: dict[str, Figure] = {}
        # A fresh gateway each time: memory that one load left behind would hide what the next one takes.
        with _servers(scenario, upstream, measured, home) as servers:
            for server in _turned([*servers, *beside], turn):
                try:
                    figures[server.name] = measure(
                        server, scenario, options.seconds, loaded, home / "load.log", direct=server is upstream
                    )
                except (WrongAnswers, RuntimeError) as failure:
                    if server not in beside:
                        raise
                    print(f"no figure of {server.name}: {failure}", file=sys.stderr)
        rounds.append(figures)
    return report.row(scenario, rounds)


def _turned(servers: list[Server], turn: int) -> list[Server]:
    """In another order each round: what comes first may find the machine in another state."""
    first = turn % len(servers)
    return servers[first:] + servers[:first]


def run_stateful(scenarios: Sequence[StateScenario], options: Options, home: Path, *, chain: bool) -> list[StateRow]:
    """What the store costs. Raises WrongAnswers."""
    if not scenarios and not chain:
        return []
    measured, loaded = cores()
    with databases(home, loaded) as made:
        rows: list[StateRow] = []
        if scenarios:
            with _upstream(loaded, home) as upstream:
                bench = Bench(upstream, measured, loaded, home, options.state_rounds, options.seconds)
                rows += state_rows(scenarios, made, bench)
        return rows + (chain_rows(made) if chain else [])


def run_start(options: Options, home: Path) -> list[StateRow]:
    """What the start costs. Raises UnwantedModules."""
    measured, loaded = cores()
    print(START, file=sys.stderr)
    with _upstream(loaded, home) as upstream:
        print(heaviest_modules(upstream, measured, home))
        return start_rows(upstream, measured, home, options.rounds)


def _upstream(core: int | None, home: Path) -> AbstractContextManager[Server]:
    return start_announcing_server("direct", [sys.executable, "-m", "bench.upstream"], core, home / "upstream.log")


@contextmanager
def _servers(scenario: Scenario, upstream: Server, core: int | None, home: Path) -> Iterator[list[Server]]:
    with ExitStack() as stack:
        measured = stack.enter_context(gateway(upstream, core, home, scenario.setup))
        forwarder = stack.enter_context(nginx(upstream.port, core, home))
        if forwarder is None:
            print(
                "nginx is not installed, so there are no ratios to it (Debian: apt install nginx-light)",
                file=sys.stderr,
            )
        yield [upstream, *([forwarder] if forwarder else []), measured]


def _machine() -> str:
    cpu = next((line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")), "")
    core = "with the compiled core" if CORE else "without the compiled core"
    return f"{cpu.partition(': ')[2]}, {os.cpu_count()} cores, Python {platform.python_version()}, {core}"
