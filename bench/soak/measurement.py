"""`make soak`: checks whether memory, files, sockets, threads, tasks or rows grow under a steady mixed load."""

import argparse
import asyncio
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from time import monotonic

import httpx
from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from bench.reports.result_files import RESULTS_FOLDER, Results, write_results
from bench.reports.text_table import format_number, render_table
from bench.scenarios.measurement import WrongAnswers
from bench.servers.gateway import GatewaySetup, start_gateway
from bench.servers.processes import Server, choose_cores
from bench.servers.upstream import start_upstream
from bench.soak.actions import run_users
from bench.soak.counting_gateway import read_task_count
from bench.soak.trend import Trend, fit_trend
from gateway.state.database.tables import metadata, sealing_keys, workers

_RESULTS = RESULTS_FOLDER / "soak.json"
_INTERVAL_S = 0.5
_WARM_UP = 0.2
"""The share of the time in which pools and caches fill. It is not part of the trend."""
_EXTRA_USERS = 2
"""The factor of additional users in the first half of the warm-up, so that pools reach their full size. Otherwise a
database connection that is opened by a rare coincidence later, and stays open, would look like growth."""
_DEADLINE_S = 60
_SERVER_TABLES = (sealing_keys, workers)
"""Tables whose rows do not come from requests."""

_FIGURES = ("memory, MiB", "open files", "sockets", "threads", "tasks", "rows")


async def run_soak(
    server: Server, url: str, tasks: Path, *, minutes: float, count: int
) -> tuple[list[list[float]], int]:
    """Runs the load. Returns the samples (seconds since the start, then `_FIGURES`) and the number of finished actions.

    `tasks` is the file in which the server counts its tasks. Raises an exception group if an answer was wrong.
    """
    began = monotonic()
    end = began + minutes * 60
    samples: list[list[float]] = []
    engine = create_async_engine(url)
    limits = httpx.Limits(max_connections=count * (1 + _EXTRA_USERS), max_keepalive_connections=count)
    address = f"http://127.0.0.1:{server.port}"
    try:
        async with httpx.AsyncClient(base_url=address, timeout=_DEADLINE_S, limits=limits) as client:
            async with asyncio.TaskGroup() as group:
                crowd_leaves = began + minutes * 60 * _WARM_UP / 2
                crowd = group.create_task(run_users(client, count * _EXTRA_USERS, lambda: monotonic() >= crowd_leaves))
                working = group.create_task(run_users(client, count, lambda: monotonic() >= end))
                while monotonic() < end:
                    samples.append([monotonic() - began, *await _take_sample(server, engine, tasks)])
                    await asyncio.sleep(_INTERVAL_S)
            return samples, crowd.result() + working.result()
    finally:
        await engine.dispose()


async def _take_sample(server: Server, engine: AsyncEngine, tasks: Path) -> tuple[float, ...]:
    usage = server.usage()
    counts = (usage.files, usage.sockets, usage.threads, read_task_count(tasks), await _count_rows(engine))
    return usage.resident_bytes / 2**20, *counts


async def _count_rows(engine: AsyncEngine) -> int:
    """Returns the number of rows that clients have stored."""
    tables = [table for table in metadata.sorted_tables if table not in _SERVER_TABLES]
    counts = [select(func.count()).select_from(table).scalar_subquery() for table in tables]
    async with engine.connect() as connection:
        return sum((await connection.execute(select(*counts))).one())


def fit_trends(samples: list[list[float]]) -> dict[str, Trend]:
    """Returns the trend of each figure after the warm-up. Raises ValueError for too few samples."""
    steady = samples[int(len(samples) * _WARM_UP) :]
    times, *figures = zip(*steady, strict=True)
    return {name: fit_trend(times, values) for name, values in zip(_FIGURES, figures, strict=True)}


def render_trends(trends: dict[str, Trend]) -> str:
    """Returns the table of the trends, with one line per figure."""
    return render_table(
        ("soak", "level", "per hour", "± (95 %)", ""),
        [
            (
                name,
                format_number(trend.level),
                format_number(trend.slope * 3600),
                format_number(trend.margin * 3600),
                trend.verdict,
            )
            for name, trend in trends.items()
        ],
    )


def _iter_leaves(group: BaseExceptionGroup[WrongAnswers]) -> Iterator[WrongAnswers]:
    for error in group.exceptions:
        if isinstance(error, BaseExceptionGroup):
            yield from _iter_leaves(error)
        else:
            yield error


def main() -> int:
    """Prints the trends. Returns 1 if a figure grows or an answer was wrong."""
    parser = argparse.ArgumentParser(prog="python -m bench.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--users", type=int, default=16, help="number of concurrent users (16)")
    options = parser.parse_args()
    server_core, load_core = choose_cores()
    with tempfile.TemporaryDirectory(prefix="soak-") as folder:
        home = Path(folder)
        url = f"sqlite+aiosqlite:///{home / 'soak.db'}"
        tasks = home / "tasks"
        program = (sys.executable, "-m", "bench.soak.counting_gateway", str(tasks))
        with (
            start_upstream(load_core, home) as upstream,
            start_gateway(upstream, server_core, home, GatewaySetup(store_url=url), program=program) as server,
        ):
            try:
                samples, action_count = asyncio.run(
                    run_soak(server, url, tasks, minutes=options.minutes, count=options.users)
                )
            except* WrongAnswers as errors:
                print("\n".join(map(str, _iter_leaves(errors))), file=sys.stderr)
                print((home / "gateway.log").read_text()[-2000:], file=sys.stderr)
                samples = []
    if not samples:
        return 1
    trend_by_name = fit_trends(samples)
    print(render_trends(trend_by_name))
    print(f"{action_count:,} actions in {options.minutes:g} minutes; every answer was whole")
    results: Results = {"figures": ["seconds", *_FIGURES], "samples": samples}
    results["trends"] = {name: asdict(trend) | {"verdict": trend.verdict} for name, trend in trend_by_name.items()}
    write_results(results, _RESULTS, indent=None)
    return 1 if any(trend.verdict == "grows" for trend in trend_by_name.values()) else 0
