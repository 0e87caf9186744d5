"""`make soak`: checks whether memory, files, sockets, threads, tasks or rows grow under a steady mixed load."""

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

from bench.reports.text_table import number, render_table
from bench.scenarios.measurement import WrongAnswers
from bench.servers.gateway import Setup, gateway
from bench.servers.processes import Server, cores, start_announcing_server
from bench.soak.actions import users
from bench.soak.counting_gateway import tasks_in
from bench.soak.trend import Trend, trend
from gateway.state.database.tables import metadata, sealing_keys, workers

_RESULTS = Path(__file__).parents[1] / "results" / "soak.json"
_EVERY_S = 0.5
_WARM_UP = 0.2
"""The share of the time in which pools and caches fill. It is not part of the trend."""
_CROWD = 2
"""The factor of additional users in the first half of the warm-up, so that pools reach their full size. Otherwise a
database connection that is opened by a rare coincidence later, and stays open, would look like growth."""
_DEADLINE_S = 60
_SERVER_TABLES = (sealing_keys, workers)
"""Tables whose rows do not come from requests."""

_FIGURES = ("memory, MiB", "open files", "sockets", "threads", "tasks", "rows")


async def soak(server: Server, url: str, tasks: Path, *, minutes: float, count: int) -> tuple[list[list[float]], int]:
    """Runs the load. Returns the samples (seconds since the start, then `_FIGURES`) and the number of finished actions.

    `tasks` is the file in which the server counts its tasks. Raises an exception group if an answer was wrong.
    """
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
    usage = server.usage()
    counts = (usage.files, usage.sockets, usage.threads, tasks_in(tasks), await _rows(engine))
    return usage.resident_bytes / 2**20, *counts


async def _rows(engine: AsyncEngine) -> int:
    """Returns the number of rows that clients have stored."""
    tables = [table for table in metadata.sorted_tables if table not in _SERVER_TABLES]
    counts = [select(func.count()).select_from(table).scalar_subquery() for table in tables]
    async with engine.connect() as connection:
        return sum((await connection.execute(select(*counts))).one())


def trends(samples: list[list[float]]) -> dict[str, Trend]:
    """Returns the trend of each figure after the warm-up. Raises ValueError for too few samples."""
    steady = samples[int(len(samples) * _WARM_UP) :]
    times, *figures = zip(*steady, strict=True)
    return {name: trend(times, values) for name, values in zip(_FIGURES, figures, strict=True)}


def table(trends: dict[str, Trend]) -> str:
    """Returns the table of the trends, with one line per figure."""
    return render_table(
        ("soak", "level", "per hour", "± (95 %)", ""),
        [
            (name, number(trend.level), number(trend.slope * 3600), number(trend.margin * 3600), trend.verdict)
            for name, trend in trends.items()
        ],
    )


def _leaves(group: BaseExceptionGroup[WrongAnswers]) -> Iterator[WrongAnswers]:
    for error in group.exceptions:
        if isinstance(error, BaseExceptionGroup):
            yield from _leaves(error)
        else:
            yield error


def main() -> int:
    """Prints the trends. Returns 1 if a figure grows or an answer was wrong."""
    parser = argparse.ArgumentParser(prog="python -m bench.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--users", type=int, default=16, help="number of concurrent users (16)")
    options = parser.parse_args()
    server_core, load_core = cores()
    with tempfile.TemporaryDirectory(prefix="soak-") as folder:
        home = Path(folder)
        url = f"sqlite+aiosqlite:///{home / 'soak.db'}"
        tasks = home / "tasks"
        program = (sys.executable, "-m", "bench.soak.counting_gateway", str(tasks))
        with (
            start_announcing_server(
                "direct", [sys.executable, "-m", "bench.servers.upstream"], load_core, home / "upstream.log"
            ) as upstream,
            gateway(upstream, server_core, home, Setup(store_url=url), program=program) as server,
        ):
            try:
                samples, action_count = asyncio.run(
                    soak(server, url, tasks, minutes=options.minutes, count=options.users)
                )
            except* WrongAnswers as errors:
                print("\n".join(map(str, _leaves(errors))), file=sys.stderr)
                print((home / "gateway.log").read_text()[-2000:], file=sys.stderr)
                samples = []
    if not samples:
        return 1
    trend_by_name = trends(samples)
    print(table(trend_by_name))
    print(f"{action_count:,} actions in {options.minutes:g} minutes; every answer was whole")
    _RESULTS.parent.mkdir(exist_ok=True)
    results = {"figures": ["seconds", *_FIGURES], "samples": samples}
    results["trends"] = {name: asdict(trend) | {"verdict": trend.verdict} for name, trend in trend_by_name.items()}
    _RESULTS.write_text(json.dumps(results) + "\n")
    return 1 if any(trend.verdict == "grows" for trend in trend_by_name.values()) else 0
