"""Measures the start of the gateway before any request: time, CPU, memory, and the modules that it imports."""

import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from statistics import median
from time import perf_counter
from urllib.request import urlopen

from bench.scenarios.cost_row import CostRow
from bench.servers.gateway import GatewaySetup, start_gateway
from bench.servers.processes import Server, start_announcing_server

START = "start-up"

UNWANTED = (
    "aiosqlite",
    "alembic",
    "anthropic",
    "asyncpg",
    "google.genai",
    "langchain_core",
    "litellm",
    "mcp",
    "numpy",
    "openai",
    "openai_harmony",
    "opentelemetry.exporter",
    "opentelemetry.sdk",
    "prometheus_client",
    "sentry_sdk",
    "sqlalchemy",
    "torch",
    "transformers",
    "vllm",
    "xllamacpp",
)
"""Engines, SDKs, exporters and databases. The configuration of this measurement needs none of them."""

_HEAVIEST = 8


class UnwantedModules(Exception):
    """The gateway imports modules that its configuration does not need."""


def measure_start(upstream: Server, core: int | None, home: Path, rounds: int) -> list[CostRow]:
    """Returns rows for the gateway with and without a store, each beside a server with only FastAPI and uvicorn."""
    environment = _bytecode_environment(home)
    stores = {"": None, ", SQLite": f"sqlite+aiosqlite:///{home / 'start.db'}"}
    rounds_by_name: dict[str, list[tuple[float, float, float]]] = {}
    for turn in range(rounds + 1):
        bare = start_announcing_server(
            "bare", [sys.executable, "-m", "bench.servers.bare_server"], core, home / "bare.log", environment
        )
        figures_by_name = {"bare": _measure_one_start(bare)}
        for name, url in stores.items():
            figures_by_name[name] = _measure_one_start(
                start_gateway(upstream, core, home, GatewaySetup(store_url=url), environment)
            )
        if turn == 0:
            continue  # the first round compiles the bytecode, as installing does, and creates the database
        for name, figures in figures_by_name.items():
            rounds_by_name.setdefault(name, []).append(figures)
    readings = (("until it listens", "ms"), ("CPU", "ms"), ("memory at rest", "MiB"))
    return [
        _row(
            f"{START}, {reading}{name}",
            unit,
            [(bare[index], gateway[index]) for bare, gateway in zip(*both, strict=True)],
        )
        for name in stores
        for both in [(rounds_by_name["bare"], rounds_by_name[name])]
        for index, (reading, unit) in enumerate(readings)
    ]


def report_heaviest_modules(upstream: Server, core: int | None, home: Path) -> str:
    """Returns the packages with the longest import time, in one line. Raises UnwantedModules."""
    for variables in ({}, {"PYTHONPROFILEIMPORTTIME": "1"}):
        with start_gateway(upstream, core, home, environment=_bytecode_environment(home) | variables):
            pass
    times = parse_import_times((home / "gateway.log").read_text().splitlines())
    if names := find_unwanted_packages(times):
        raise UnwantedModules(", ".join(names))
    packages: Counter[str] = Counter()
    for module, time_us in times.items():
        packages[module.partition(".")[0]] += time_us
    parts = [f"{package} {time_us / 1e3:.0f} ms" for package, time_us in packages.most_common(_HEAVIEST)]
    return f"{len(times)} modules; the most by package: {', '.join(parts)}"


def parse_import_times(log: Iterable[str]) -> dict[str, int]:
    """Returns module -> µs of its own import, from the output of `python -X importtime`."""
    return dict(_import_times(log))


def find_unwanted_packages(modules: Iterable[str]) -> list[str]:
    """Returns the entries of `UNWANTED` that are one of the modules or contain one of them."""
    packages = {module[:end] for module in modules for end in _name_ends(module)}
    return [name for name in UNWANTED if name in packages]


def _name_ends(module: str) -> Iterator[int]:
    """Yields the positions where the names of the module and of its packages end."""
    yield from (position for position, letter in enumerate(module) if letter == ".")
    yield len(module)


def _import_times(log: Iterable[str]) -> Iterator[tuple[str, int]]:
    for line in log:
        head, separator, rest = line.partition("import time:")
        time_text, _, columns = rest.partition("|")
        if separator and not head and time_text.strip().isdigit():
            yield columns.rpartition("|")[2].strip(), int(time_text)


def _bytecode_environment(home: Path) -> dict[str, str]:
    """Returns the environment in which a second start finds the bytecode that the first one compiled."""
    return {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": str(home / "bytecode")}


def _measure_one_start(starting: AbstractContextManager[Server]) -> tuple[float, float, float]:
    """Returns (ms until the server listens, ms of CPU until then, MiB of memory after the first answer)."""
    began = perf_counter()
    with starting as server:
        elapsed_s, cpu_s = perf_counter() - began, server.cpu_s()
        with urlopen(f"http://127.0.0.1:{server.port}/healthz", timeout=10) as answer:
            answer.read()
        return elapsed_s * 1e3, cpu_s * 1e3, server.resident_bytes() / 2**20


def _row(name: str, unit: str, pairs: list[tuple[float, float]]) -> CostRow:
    bare, gateway = (median(values) for values in zip(*pairs, strict=True))
    return CostRow(name, "", unit, bare, gateway, ratios=tuple(after / before for before, after in pairs))
