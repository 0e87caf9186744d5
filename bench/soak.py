"""`make soak`: a steady mixed load, and whether memory, files, sockets, threads, tasks or rows grow under it."""

import argparse
import asyncio
import json
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from time import monotonic

import httpx
from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from bench.counted import tasks_in
from bench.gateway import Setup, gateway
from bench.measure import WrongAnswers
from bench.processes import Server, cores, start_announcing_server
from bench.soak_load import users
from bench.table import number, render_table
from bench.trend import Trend, trend
from gateway.state.database.tables import metadata, sealing_keys, workers

_RESULTS = Path(__file__).parent / "results" / "soak.json"
_EVERY_S = 0.5
_WARM_UP = 0.2
"""So much of the time pools and caches fill: it is no part of the trend."""
_CROWD = 2
"""So many times more users are there for half of the warm-up, so that pools are as large then as they get. Otherwise a
connection to the database that a rare moment opens, and keeps, would look like growth."""
_DEADLINE_S = 60
_OF_SERVERS = (sealing_keys, workers)
"""Tables that no client's request adds to."""

_FIGURES = ("memory, MiB", "open files", "sockets", "threads", "tasks", "rows")


async def soak(server: Server, url: str, tasks: Path, *, minutes: float, count: int) -> tuple[list[list[float]], int]:
    """Samples (seconds since the start, then `_FIGURES`), and how often users did something. In the file `tasks` the
    server counts its own. Raises an exception group with what went wrong."""
    began = monotonic()
    end = began + minutes * 60
    samples: list[list[float]] = []
    engine = create_async_engine(url)
    limits = httpx.Limits(max_connections=count * (1 + _CROWD), max_keepalive_connections=count)
    address = f"http://127.0.0.1:{server.port}"
    try:
        async with httpx.AsyncClient(base_url=address, timeout=_DEADLINE_S, limits=limits) as client:
            async with asyncio.TaskGroup() as group:
                crowd_leaves = began + minutes * 60 * _WARM_UP / 2
                crowd = group.create_task(users(client, count * _CROWD, lambda: monotonic() >= crowd_leaves))
                working = group.create_task(users(client, count, lambda: monotonic() >= end))
                while monotonic() < end:
                    samples.append([monotonic() - began, *await _sample(server, engine, tasks)])
                    await asyncio.sleep(_EVERY_S)
            return samples, crowd.result() + working.result()
    finally:
        await engine.dispose()


async def _sample(server: Server, engine: AsyncEngine, tasks: Path) -> tuple[float, ...]:
    used = server.usage()
    counts = (used.files, used.sockets, used.threads, tasks_in(tasks), await _rows(engine))
    return used.resident_bytes / 2**20, *counts


async def _rows(engine: AsyncEngine) -> int:
    """Of all that clients have kept."""
    tables = [table for table in metadata.sorted_tables if table not in _OF_SERVERS]
    counts = [select(func.count()).select_from(table).scalar_subquery() for table in tables]
    async with engine.connect() as connection:
        return sum((await connection.execute(select(*counts))).one())


def trends(samples: list[list[float]]) -> dict[str, Trend]:
    """Of each figure, but for the warm-up. Raises ValueError for too few samples."""
    counted = samples[int(len(samples) * _WARM_UP) :]
    times, *figures = zip(*counted, strict=True)
    return {name: trend(times, values) for name, values in zip(_FIGURES, figures, strict=True)}


def table(found: dict[str, Trend]) -> str:
    """One line a figure."""
    return render_table(
        ("soak", "level", "per hour", "± (95 %)", ""),
        [
            (name, number(of.level), number(of.slope * 3600), number(of.margin * 3600), of.verdict)
            for name, of in found.items()
        ],
    )


def _leaves(group: BaseExceptionGroup[WrongAnswers]) -> Iterator[WrongAnswers]:
    for one in group.exceptions:
        if isinstance(one, BaseExceptionGroup):
            yield from _leaves(one)
        else:
            yield one


def main() -> int:
    """Print what grows; 1 when something does, or an answer was wrong."""
    parser = argparse.ArgumentParser(prog="python -m bench.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--users", type=int, default=16, help="how many do something at once (16)")
    given = parser.parse_args()
    measured, loaded = cores()
    with tempfile.TemporaryDirectory(prefix="soak-") as folder:
        home = Path(folder)
        url = f"sqlite+aiosqlite:///{home / 'soak.db'}"
        tasks = home / "tasks"
        counted = (sys.executable, "-m", "bench.counted", str(tasks))
        with (
            start_announcing_server(
                "direct", [sys.executable, "-m", "bench.upstream"], loaded, home / "upstream.log"
            ) as upstream,
            gateway(upstream, measured, home, Setup(store_url=url), program=counted) as server,
        ):
            try:
                samples, done = asyncio.run(soak(server, url, tasks, minutes=given.minutes, count=given.users))
            except* WrongAnswers as wrong:
                print("\n".join(map(str, _leaves(wrong))), file=sys.stderr)
                print((home / "gateway.log").read_text()[-2000:], file=sys.stderr)
                samples = []
    if not samples:
        return 1
    found = trends(samples)
    print(table(found))
    print(f"{done:,} times something was done in {given.minutes:g} minutes; every answer was whole")
    _RESULTS.parent.mkdir(exist_ok=True)
    written = {"figures": ["seconds", *_FIGURES], "samples": samples}
    written["trends"] = {name: asdict(of) | {"verdict": of.verdict} for name, of in found.items()}
    _RESULTS.write_text(json.dumps(written) + "\n")
    return 1 if any(of.verdict == "grows" for of in found.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
