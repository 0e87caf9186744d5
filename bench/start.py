"""What the gateway takes before anybody asks it anything: time, memory, and modules that nobody needs yet."""

import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from statistics import median
from time import perf_counter
from urllib.request import urlopen

from bench.gateway import Setup, gateway
from bench.processes import Server, start_announcing_server
from bench.state_report import StateRow

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
"""Engines, SDKs, exporters and databases: nothing that is configured here needs any of them."""

_HEAVIEST = 8


class UnwantedModules(Exception):
    """The gateway imports what nothing in its configuration asks for."""


def start_rows(upstream: Server, core: int | None, home: Path, rounds: int) -> list[StateRow]:
    """The gateway with and without a store, each beside a server that only imports FastAPI and uvicorn."""
    compiled = _compiled(home)
    stores = {"": None, ", SQLite": f"sqlite+aiosqlite:///{home / 'start.db'}"}
    seen: dict[str, list[tuple[float, float, float]]] = {}
    for turn in range(rounds + 1):
        bare = start_announcing_server(
            "bare", [sys.executable, "-m", "bench.bare_server"], core, home / "bare.log", compiled
        )
        found = {"bare": _started(bare)}
        for name, url in stores.items():
            found[name] = _started(gateway(upstream, core, home, Setup(store_url=url), compiled))
        if turn == 0:
            continue  # it compiled, as installing does, and made the database
        for name, figures in found.items():
            seen.setdefault(name, []).append(figures)
    readings = (("until it listens", "ms"), ("CPU", "ms"), ("memory at rest", "MiB"))
    return [
        _row(f"{START}, {reading}{name}", unit, [(bare[at], ours[at]) for bare, ours in zip(*both, strict=True)])
        for name in stores
        for both in [(seen["bare"], seen[name])]
        for at, (reading, unit) in enumerate(readings)
    ]


def heaviest_modules(upstream: Server, core: int | None, home: Path) -> str:
    """The packages that take the most of importing, in one line. Raises UnwantedModules."""
    for telling in ({}, {"PYTHONPROFILEIMPORTTIME": "1"}):
        with gateway(upstream, core, home, environment=_compiled(home) | telling):
            pass
    times = import_times((home / "gateway.log").read_text().splitlines())
    if found := unwanted(times):
        raise UnwantedModules(", ".join(found))
    packages: Counter[str] = Counter()
    for module, spent in times.items():
        packages[module.partition(".")[0]] += spent
    of = [f"{package} {spent / 1e3:.0f} ms" for package, spent in packages.most_common(_HEAVIEST)]
    return f"{len(times)} modules; the most by package: {', '.join(of)}"


def import_times(log: Iterable[str]) -> dict[str, int]:
    """Module -> µs that importing it took by itself, of what `python -X importtime` says."""
    return dict(_import_times(log))


def unwanted(modules: Iterable[str]) -> list[str]:
    """What of `UNWANTED` is among them, or is a package that one of them is in."""
    packages = {module[:at] for module in modules for at in _ends(module)}
    return [name for name in UNWANTED if name in packages]


def _ends(module: str) -> Iterator[int]:
    """Where the name of the module and of each package around it ends."""
    yield from (at for at, letter in enumerate(module) if letter == ".")
    yield len(module)


def _import_times(log: Iterable[str]) -> Iterator[tuple[str, int]]:
    for line in log:
        head, found, rest = line.partition("import time:")
        spent, _, named = rest.partition("|")
        if found and not head and spent.strip().isdigit():
            yield named.rpartition("|")[2].strip(), int(spent)


def _compiled(home: Path) -> dict[str, str]:
    """The environment in which a second start finds what the first one compiled."""
    return {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": str(home / "bytecode")}


def _started(starting: AbstractContextManager[Server]) -> tuple[float, float, float]:
    """ms until it listens, ms of CPU until then, MiB of memory once it has answered."""
    began = perf_counter()
    with starting as server:
        took, spent = perf_counter() - began, server.cpu_s()
        with urlopen(f"http://127.0.0.1:{server.port}/healthz", timeout=10) as answer:
            answer.read()
        return took * 1e3, spent * 1e3, server.resident_bytes() / 2**20


def _row(name: str, unit: str, pairs: list[tuple[float, float]]) -> StateRow:
    bare, ours = (median(values) for values in zip(*pairs, strict=True))
    return StateRow(name, "", unit, bare, ours, ratios=tuple(after / before for before, after in pairs))
