"""The order of a run: start everything, measure in turns so that foreign load falls on all alike, report.

The gateway is started the way a user starts it, with a config file and no special switches.
"""

import argparse
import os
import platform
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench import report
from bench.measure import Figure, WrongAnswers, measure
from bench.processes import Server, cores, listening, nginx
from bench.scenarios import SCENARIOS, Scenario

_CONFIG = """\
server: {{port: 0}}
providers:
  upstream: {{type: openai_compatible, base_url: "http://127.0.0.1:{port}/v1"}}
models:
  "*": {{provider: upstream}}
"""


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
    try:
        with tempfile.TemporaryDirectory(prefix="bench-") as home:
            rows = run(scenarios, options, Path(home))
    except WrongAnswers as wrong:
        print(f"wrong answers, so there are no figures: {wrong}", file=sys.stderr)
        return 1
    print(report.table(scenarios, rows, report.baseline_scores()))
    print("req/s and deltas/s: direct / nginx / gateway. CPU is user + system time of the whole process tree.")
    report.write(rows, _machine(), report.LATEST)
    if options.keep:
        report.write(rows, _machine(), report.BASELINE)
    return 0


def run(scenarios: list[Scenario], options: Options, home: Path) -> list[report.Row]:
    """The rows of all scenarios. Raises WrongAnswers."""
    measured, loaded = cores()
    if measured is None:
        print("only one core: the gateway, the load and the upstream share it", file=sys.stderr)
    rows: list[report.Row] = []
    with listening("direct", [sys.executable, "-m", "bench.upstream"], loaded, home / "upstream.log") as upstream:
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


@contextmanager
def _servers(upstream: Server, core: int | None, home: Path) -> Iterator[list[Server]]:
    config = home / "config.yaml"
    config.write_text(_CONFIG.format(port=upstream.port))
    with ExitStack() as stack:
        gateway = stack.enter_context(listening("gateway", _gateway_command(config), core, home / "gateway.log"))
        forwarder = stack.enter_context(nginx(upstream.port, core, home))
        if forwarder is None:
            print(
                "nginx is not installed, so there are no ratios to it (Debian: apt install nginx-light)",
                file=sys.stderr,
            )
        yield [upstream, *([forwarder] if forwarder else []), gateway]


def _gateway_command(config: Path) -> list[str]:
    return [str(Path(sys.executable).parent / "responses-gateway"), "serve", "--config", str(config)]


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
