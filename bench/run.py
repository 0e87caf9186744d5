"""Runs the benchmark: starts the servers, measures them in turn so that other load affects all alike, and reports."""

import os
import platform
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path

from bench.options import Options, parse_options
from bench.reports import baseline, cost_table, scenario_table
from bench.reports.cost_table import StateRow
from bench.reports.plot import draw
from bench.scenarios.catalog import SCENARIOS, Scenario
from bench.scenarios.hosted_tools import TOOLS, tool_rows
from bench.scenarios.measurement import Figure, WrongAnswers, measure
from bench.scenarios.startup import START, UnwantedModules, heaviest_modules, start_rows
from bench.scenarios.store import STATE, Bench, StateScenario, state_rows
from bench.scenarios.store_chain import CHAIN, chain_rows
from bench.servers.databases import databases
from bench.servers.gateway import gateway
from bench.servers.peers import peers
from bench.servers.processes import Server, cores, nginx, start_announcing_server
from dataplane.core import CORE

NAMES = (*(scenario.name for scenario in SCENARIOS), *(scenario.name for scenario in STATE), CHAIN, START, TOOLS)


def main() -> int:
    """Prints the tables. Returns 1 if an answer was wrong, a load failed, or the gateway imports an unwanted module."""
    options = parse_options(NAMES)
    if options.list:
        print("\n".join(NAMES))
        return 0
    try:
        with tempfile.TemporaryDirectory(prefix="bench-") as home:
            scenarios = [scenario for scenario in SCENARIOS if options.wants(scenario.name, default=scenario.default)]
            rows = run(scenarios, options, Path(home))
            stateful = [scenario for scenario in STATE if options.wants(scenario.name, default=scenario.default)]
            state, failed = _try_measure(
                lambda: run_stateful(stateful, options, Path(home), chain=options.wants(CHAIN))
            )
            state += run_tools(options, Path(home)) if options.wants(TOOLS) else []
            start = run_start(options, Path(home)) if options.wants(START) else []
    except WrongAnswers as error:
        print(f"no figures, because answers were wrong: {error}", file=sys.stderr)
        return 1
    except UnwantedModules as error:
        print(f"the gateway imports modules that its configuration does not need: {error}", file=sys.stderr)
        return 1
    if not (rows or state or start):
        print("no scenario has this name; --list prints all names", file=sys.stderr)
        return 1
    _print_tables(rows, state, start)
    _compare_and_save(scenario_table.build_results(rows, state, start, _machine()), keep=options.keep)
    return 1 if failed else 0


def _try_measure(measure_rows: Callable[[], list[StateRow]]) -> tuple[list[StateRow], bool]:
    """Returns the rows, and whether the measurement failed. A failure does not discard the rows of other scenarios."""
    try:
        return measure_rows(), False
    except RuntimeError as failure:
        print(f"no figures for the store: {failure}", file=sys.stderr)
        return [], True


def _print_tables(rows: Sequence[scenario_table.Row], state: Sequence[StateRow], start: Sequence[StateRow]) -> None:
    if rows:
        print(scenario_table.table(rows))
        print("req/s and deltas/s: direct / nginx / gateway. CPU is user + system time of the whole process tree.")
    if peers_table := scenario_table.peers_table(rows):
        print(f"\n{peers_table}")
    if state:
        print(f"\n{cost_table.table(state)}")
        print("without / with: the same load, without and with the store. A database server's CPU is not in it.")
    if start:
        print(f"\n{cost_table.start_table(start)}")


def _compare_and_save(results: baseline.Results, *, keep: bool) -> None:
    before = baseline.read(scenario_table.BASELINE)
    if changes := baseline.compare(before, results):
        print(f"\n{baseline.table(changes)}")
        print("Ratios within each run: to nginx, to the same load without the store, to a bare server.")
    scenario_table.save(results, scenario_table.LATEST)
    draw(scenario_table.LATEST, scenario_table.BASELINE)
    if keep:
        scenario_table.save(baseline.merge(before, results), scenario_table.BASELINE)
        draw(scenario_table.BASELINE, None)


def run(scenarios: Sequence[Scenario], options: Options, home: Path) -> list[scenario_table.Row]:
    """Measures the scenarios. Returns their rows. Raises WrongAnswers."""
    if not scenarios:
        return []
    server_core, load_core = cores()
    if server_core is None:
        print("only one core: the gateway, the load and the upstream share it", file=sys.stderr)
    with ExitStack() as stack:
        upstream = stack.enter_context(_upstream(load_core, home))
        started_peers = stack.enter_context(peers(upstream, server_core, home)) if options.peers else []
        return [
            _row(scenario, upstream, started_peers if scenario.peers else [], options, home) for scenario in scenarios
        ]


def _row(
    scenario: Scenario, upstream: Server, peers: Sequence[Server], options: Options, home: Path
) -> scenario_table.Row:
    server_core, load_core = cores()
    rounds: list[dict[str, Figure]] = []
    for turn in range(options.rounds):
        print(f"{scenario.name}: {turn + 1} of {options.rounds}", file=sys.stderr)
        figures: dict[str, Figure] = {}
        # A new gateway for each round: memory that an earlier load left behind would hide what the next one needs.
        with _servers(scenario, upstream, server_core, home) as servers:
            for server in _rotated([*servers, *peers], turn):
                try:
                    figures[server.name] = measure(
                        server, scenario, options.seconds, load_core, home / "load.log", direct=server is upstream
                    )
                except (WrongAnswers, RuntimeError) as failure:
                    if server not in peers:
                        raise
                    print(f"no figure for {server.name}: {failure}", file=sys.stderr)
        rounds.append(figures)
    return scenario_table.build_row(scenario, rounds)


def _rotated(servers: list[Server], turn: int) -> list[Server]:
    """Returns the servers in another order for each round, because the state of the machine may favor the first."""
    first = turn % len(servers)
    return servers[first:] + servers[:first]


def run_stateful(scenarios: Sequence[StateScenario], options: Options, home: Path, *, chain: bool) -> list[StateRow]:
    """Measures what the store adds. Returns the rows. Raises WrongAnswers."""
    if not scenarios and not chain:
        return []
    server_core, load_core = cores()
    with databases(home, load_core) as available:
        rows: list[StateRow] = []
        if scenarios:
            with _upstream(load_core, home) as upstream:
                bench = Bench(upstream, server_core, load_core, home, options.state_rounds, options.seconds)
                rows += state_rows(scenarios, available, bench)
        return rows + (chain_rows(available) if chain else [])


def run_tools(options: Options, home: Path) -> list[StateRow]:
    """Measures tools that the gateway runs. Returns the rows. Raises WrongAnswers."""
    server_core, load_core = cores()
    with _upstream(load_core, home) as upstream:
        return tool_rows(Bench(upstream, server_core, load_core, home, options.rounds, options.seconds))


def run_start(options: Options, home: Path) -> list[StateRow]:
    """Measures the start of the gateway. Returns the rows. Raises UnwantedModules."""
    server_core, load_core = cores()
    print(START, file=sys.stderr)
    with _upstream(load_core, home) as upstream:
        print(heaviest_modules(upstream, server_core, home))
        return start_rows(upstream, server_core, home, options.rounds)


def _upstream(core: int | None, home: Path) -> AbstractContextManager[Server]:
    return start_announcing_server(
        "direct", [sys.executable, "-m", "bench.servers.upstream"], core, home / "upstream.log"
    )


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
