"""A database seen from beside its servers: whether all in it is whole, and a hold on it."""

import sqlite3
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, closing, contextmanager
from typing import Any, Literal

import orjson
from sqlalchemy import Executable, create_engine, func, select, text
from sqlalchemy.engine import make_url
from sqlalchemy.ext.asyncio import AsyncConnection, create_async_engine
from sqlalchemy.pool import NullPool

from gateway.state.database.tables import INPUT_PLACE, OUTPUT_PLACE, events, items, jobs, owner_usage, responses
from gateway.state.values import ACTIVE_STATUSES

Hold = Literal["SHARE", "ACCESS EXCLUSIVE"]

_ENDS = (b"event: response.completed\n", b"event: response.incomplete\n", b"event: response.failed\n")


@asynccontextmanager
async def connected(url: str) -> AsyncIterator[AsyncConnection]:
    """A connection of our own to PostgreSQL."""
    engine = create_async_engine(url, poolclass=NullPool)
    async with engine.connect() as connection:
        yield connection
    await engine.dispose()


async def rows(url: str, query: Executable) -> Sequence[Any]:
    if url.startswith("sqlite"):
        return _read_file(url, query)
    async with connected(url) as connection:
        return (await connection.execute(query)).all()


def _read_file(url: str, query: Executable) -> Sequence[Any]:
    """Reads a file without a thread: one whose caller was cancelled would report to a loop that has ended."""
    engine = create_engine(make_url(url).set(drivername="sqlite"), poolclass=NullPool)
    with engine.connect() as connection:
        return connection.execute(query).all()


async def check_whole(url: str) -> None:
    """Checks that the file is intact and has no partial writes. Every response must have an input and an output.

    The kept sums of event logs must be those of the entries.
    """
    if url.startswith("sqlite"):
        assert _read_file(url, text("PRAGMA integrity_check")) == [("ok",)]
    summed = select(events.c.owner, func.sum(func.length(events.c.frames))).group_by(events.c.owner)
    kept = select(owner_usage.c.owner, owner_usage.c.log_bytes).where(owner_usage.c.log_bytes != 0)
    assert sorted(await rows(url, kept)) == sorted(await rows(url, summed))
    known = {row.id: row for row in await rows(url, select(responses))}
    said = await rows(url, select(items).order_by(items.c.response_id, items.c.place, items.c.position))
    places = Counter((item.response_id, item.place) for item in said)
    seen: Counter[tuple[str, int]] = Counter()
    for item in said:
        assert item.response_id in known
        assert item.position == seen[item.response_id, item.place]
        seen[item.response_id, item.place] += 1
        assert orjson.loads(item.body)
    working = {job.response_id for job in await rows(url, select(jobs))}
    for row in known.values():
        body = orjson.loads(row.body)
        assert (body["id"], body["status"], body["output"]) == (row.id, row.status, [])
        assert row.parent_id is None or row.parent_id in known
        assert places[row.id, INPUT_PLACE] > 0
        if row.status in ACTIVE_STATUSES:
            assert places[row.id, OUTPUT_PLACE] == 0
        else:
            assert row.worker is None
            assert row.id not in working
        if row.status == "completed":
            assert places[row.id, OUTPUT_PLACE] > 0
    assert working <= known.keys()
    await _check_logs(url, known)


async def _check_logs(url: str, known: dict[str, Any]) -> None:
    logs: dict[str, list[Any]] = {row.id: [] for row in known.values() if row.logged}
    for entry in await rows(url, select(events).order_by(events.c.response_id, events.c.first)):
        logs[entry.response_id].append(entry)
    for response_id, log in logs.items():
        frames = [frame for entry in log for frame in entry.frames.split(b"\n\n")[:-1]]
        assert [orjson.loads(frame.partition(b"\ndata: ")[2])["sequence_number"] for frame in frames] == list(
            range(log[-1].last + 1)
        )
        ends = [frame for frame in frames if frame.startswith(_ENDS)]
        assert ends == ([] if known[response_id].status in ACTIVE_STATUSES else frames[-1:])


@asynccontextmanager
async def held(url: str, hold: Hold = "SHARE") -> AsyncIterator[None]:
    """Locks the responses against writes during the block; with ACCESS EXCLUSIVE also against reads, which SQLite
    has no way to forbid."""
    if url.startswith("sqlite"):
        with _file_held(url):
            yield
        return
    async with connected(url) as connection:
        lock = {
            "SHARE": text("LOCK TABLE responses, tool_calls IN SHARE MODE"),
            "ACCESS EXCLUSIVE": text("LOCK TABLE responses, tool_calls IN ACCESS EXCLUSIVE MODE"),
        }[hold]
        await connection.execute(lock)
        yield
        await connection.rollback()


@contextmanager
def _file_held(url: str) -> Iterator[None]:
    file = make_url(url).database
    assert file is not None
    with closing(sqlite3.connect(file, isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        yield
        connection.rollback()


async def count_waiting(url: str, event: str) -> int:
    """Returns how many of the gateway's connections to this PostgreSQL database wait for this kind of event."""
    waiting = text(
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
        " AND application_name = 'responses-gateway' AND :event IN (wait_event_type, wait_event)"
    )
    async with connected(url) as connection:
        count: int = (await connection.execute(waiting, {"event": event})).scalar_one()
        return count
