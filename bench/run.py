"""Runs the benchmark: starts the servers, measures them in turn so that other load affects all alike, and reports."""

import os
import platform
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from bench.options import RunOptions, parse_options
from bench.reports import baseline, cost_table, scenario_table
from bench.reports.plot import draw_picture
from bench.reports.result_files import BASELINE, LATEST, Results, read_results, write_results
from bench.scenarios.cost_row import CostRow
from bench.scenarios.hosted_tools import TOOLS, measure_hosted_tools
from bench.scenarios.measurement import BenchEnvironment, Figure, WrongAnswers, measure_scenario
from bench.scenarios.scenario_list import SCENARIOS, Scenario
from bench.scenarios.startup import START, UnwantedModules, measure_start, report_heaviest_modules
from bench.scenarios.store import STORE_SCENARIOS, StoreScenario, measure_store
from bench.scenarios.store_chain import CHAIN, measure_store_chain
from bench.servers.databases import provide_databases
from bench.servers.gateway import start_gateway
from bench.servers.nginx import start_nginx
from bench.servers.peers import start_peers
from bench.servers.processes import Server, choose_cores
from bench.servers.upstream import start_upstream
from dataplane.core import CORE

SCENARIO_NAMES = (
    *(scenario.name for scenario in SCENARIOS),
    *(scenario.name for scenario in STORE_SCENARIOS),
    CHAIN,
    START,
    TOOLS,
)


def main() -> int:
    """Prints the tables. Returns 1 if an answer was wrong, a load failed, or the gateway imports an unwanted module."""
    options = parse_options(SCENARIO_NAMES)
    if options.list:
        print("\n".join(SCENARIO_NAMES))
        return 0
    try:
        with tempfile.TemporaryDirectory(prefix="bench-") as home:
            scenarios = [scenario for scenario in SCENARIOS if options.wants(scenario.name, default=scenario.default)]
            rows = measure_scenarios(scenarios, options, Path(home))
            state, start, failed = ([], [], False) if options.base else _measure_beyond_load(options, Path(home))
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
    _compare_and_save(scenario_table.build_run_results(rows, state, start, _describe_machine()), keep=options.keep)
    return 1 if failed else 0


def _measure_beyond_load(options: RunOptions, home: Path) -> tuple[list[CostRow], list[CostRow], bool]:
    """Measures the store, hosted tools and the start. Returns the rows of state and of the start, and whether the store
    failed."""
    stateful = [scenario for scenario in STORE_SCENARIOS if options.wants(scenario.name, default=scenario.default)]
    state, failed = _try_measure(lambda: _measure_store(stateful, options, home, chain=options.wants(CHAIN)))
    state += _measure_tools(options, home) if options.wants(TOOLS) else []
    return state, _measure_start(options, home) if options.wants(START) else [], failed


def _try_measure(measure_rows: Callable[[], list[CostRow]]) -> tuple[list[CostRow], bool]:
    """Returns the rows, and whether the measurement failed. A failure does not discard the rows of other scenarios."""
    try:
        return measure_rows(), False
    except RuntimeError as failure:
        print(f"no figures for the store: {failure}", file=sys.stderr)
        return [], True


def _print_tables(
    rows: Sequence[scenario_table.ScenarioRow], state: Sequence[CostRow], start: Sequence[CostRow]
) -> None:
    if rows:
        print(scenario_table.render_scenarios(rows))
        print("req/s and deltas/s: direct / nginx / gateway. CPU is user + system time of the whole process tree.")
    if base_table := scenario_table.render_base(rows):
        print(f"\n{base_table}")
        print("gateway / base: the median of the rounds' ratios. Below 1, the working tree needs less than the base.")
    if peers_table := scenario_table.render_peers(rows):
        print(f"\n{peers_table}")
    if state:
        print(f"\n{cost_table.render_store_costs(state)}")
        print("without / with: the same load, without and with the store. A database server's CPU is not in it.")
    if start:
        print(f"\n{cost_table.render_start_costs(start)}")


def _compare_and_save(results: Results, *, keep: bool) -> None:
    before = read_results(BASELINE)
    if changes := baseline.compare_runs(before, results):
        print(f"\n{baseline.render_changes(changes)}")
        print("Ratios within each run: to nginx, to the same load without the store, to a bare server.")
    write_results(results, LATEST)
    draw_picture(LATEST, BASELINE)
    if keep:
        write_results(baseline.merge_runs(before, results), BASELINE)
        draw_picture(BASELINE, None)


def measure_scenarios(
    scenarios: Sequence[Scenario], options: RunOptions, home: Path
) -> list[scenario_table.ScenarioRow]:
    """Measures the scenarios. Returns their rows. Raises WrongAnswers."""
    if not scenarios:
        return []
    server_core, load_core = choose_cores()
    if server_core is None:
        print("only one core: the gateway, the load and the upstream share it", file=sys.stderr)
    with ExitStack() as stack:
        upstream = stack.enter_context(start_upstream(load_core, home))
        started_peers = stack.enter_context(start_peers(upstream, server_core, home)) if options.peers else []
        return [
            _measure_row(scenario, upstream, started_peers if scenario.peers else [], options, home)
            for scenario in scenarios
        ]


def _measure_row(
    scenario: Scenario, upstream: Server, peers: Sequence[Server], options: RunOptions, home: Path
) -> scenario_table.ScenarioRow:
    server_core, load_core = choose_cores()
    rounds: list[dict[str, Figure]] = []
    for turn in range(options.rounds):
        print(f"{scenario.name}: {turn + 1} of {options.rounds}", file=sys.stderr)
        figures: dict[str, Figure] = {}
        # A new gateway for each round: memory that an earlier load left behind would hide what the next one needs.
        with _start_servers(scenario, upstream, server_core, home, options.base) as servers:
            for server in _rotate([*servers, *peers], turn):
                try:
                    figures[server.name] = measure_scenario(
                        server, scenario, options.seconds, load_core, home / "load.log", direct=server is upstream
                    )
                except (WrongAnswers, RuntimeError) as failure:
                    if server not in peers:
                        raise
                    print(f"no figure for {server.name}: {failure}", file=sys.stderr)
        rounds.append(figures)
    return scenario_table.build_row(scenario, rounds)


def _rotate(servers: list[Server], turn: int) -> list[Server]:
    """Returns the servers in another order for each round, because the state of the machine may favor the first."""
    first = turn % len(servers)
    return servers[first:] + servers[:first]


def _measure_store(
    scenarios: Sequence[StoreScenario], options: RunOptions, home: Path, *, chain: bool
) -> list[CostRow]:
    """Measures what the store adds. Returns the rows. Raises WrongAnswers."""
    if not scenarios and not chain:
        return []
    server_core, load_core = choose_cores()
    with provide_databases(home, load_core) as available:
        rows: list[CostRow] = []
        if scenarios:
            with start_upstream(load_core, home) as upstream:
                bench = BenchEnvironment(upstream, server_core, load_core, home, options.state_rounds, options.seconds)
                rows += measure_store(scenarios, available, bench)
        return rows + (measure_store_chain(available) if chain else [])


def _measure_tools(options: RunOptions, home: Path) -> list[CostRow]:
    """Measures tools that the gateway runs. Returns the rows. Raises WrongAnswers."""
    server_core, load_core = choose_cores()
    with start_upstream(load_core, home) as upstream:
        return measure_hosted_tools(
            BenchEnvironment(upstream, server_core, load_core, home, options.rounds, options.seconds)
        )


def _measure_start(options: RunOptions, home: Path) -> list[CostRow]:
    """Measures the start of the gateway. Returns the rows. Raises UnwantedModules."""
    server_core, load_core = choose_cores()
    print(START, file=sys.stderr)
    with start_upstream(load_core, home) as upstream:
        print(report_heaviest_modules(upstream, server_core, home))
        return measure_start(upstream, server_core, home, options.rounds)


@contextmanager
def _start_servers(
    scenario: Scenario, upstream: Server, core: int | None, home: Path, base: Path | None
) -> Iterator[list[Server]]:
    with ExitStack() as stack:
        measured = [stack.enter_context(start_gateway(upstream, core, home, scenario.setup))]
        if base is not None:
            program, name = (str(base.absolute()),), scenario_table.BASE
            measured.append(
                stack.enter_context(start_gateway(upstream, core, home, scenario.setup, program=program, name=name))
            )
        forwarder = stack.enter_context(start_nginx(upstream.port, core, home))
        if forwarder is None:
            print(
                "nginx is not installed, so there are no ratios to it (Debian: apt install nginx-light)",
                file=sys.stderr,
            )
        yield [upstream, *([forwarder] if forwarder else []), *measured]


def _describe_machine() -> str:
    cpu = next((line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")), "")
    core = "with the compiled core" if CORE else "without the compiled core"
    return f"{cpu.partition(': ')[2]}, {os.cpu_count()} cores, Python {platform.python_version()}, {core}"
