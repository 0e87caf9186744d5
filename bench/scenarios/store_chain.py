"""Measures a chain of turns in the store itself: its size on disk, and the time to read its history."""

import asyncio
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from statistics import median
from time import perf_counter

from sqlalchemy import Engine, event, func, select
from sqlalchemy.engine import make_url
from sqlalchemy.ext.asyncio import create_async_engine

from bench.load.texts import write_phrases
from bench.scenarios.cost_row import CostRow
from bench.scenarios.measurement import WrongAnswers
from bench.servers.databases import Databases
from gateway.config.settings import BackgroundSettings, StoreSettings
from gateway.planning.continuation import Continuation, resolve_continuation
from gateway.state.sql.store import SqlStore
from gateway.state.values import NewResponse
from providers.new_id import new_id
from translation.representation.json_types import Item, Json
from translation.responses.client.facts import read_facts
from translation.responses.client.initial_response import new_response

CHAIN = "state: chain of 1,000 turns"
_MEASURED_TURNS = (100, 500, 1000)
"""The numbers of turns after which the database is measured."""

_HISTORY_READS = 15
_OWNER, _WORKER = "bench", "bench"


def measure_store_chain(databases: Databases) -> list[CostRow]:
    """Returns the rows of each database. Raises WrongAnswers."""
    by_figure = zip(
        *(asyncio.run(_measure_figures(name, new_url())) for name, new_url in databases.items()), strict=True
    )
    return [row for rows in by_figure for row in rows]


async def _measure_figures(database: str, url: str) -> list[CostRow]:
    store = SqlStore(StoreSettings(url=url, deadline_s=30), BackgroundSettings())
    await store.open()
    try:
        empty = await _measure_size(url)
        sizes, times, last = [], [], ""
        for turn in range(1, _MEASURED_TURNS[-1] + 1):
            last = await _store_turn(store, turn, last or None)
            if turn in _MEASURED_TURNS:
                sizes.append(await _measure_size(url) - empty)
                times.append(await _read_history_ms(store, last, turn))
        with _collect_statements() as statements:
            await _continue_chain(store, last)
    finally:
        await store.aclose()
    early = (sizes[1] - sizes[0]) / (_MEASURED_TURNS[1] - _MEASURED_TURNS[0])
    late = (sizes[2] - sizes[1]) / (_MEASURED_TURNS[2] - _MEASURED_TURNS[1])
    slower = (times[2] / _MEASURED_TURNS[2]) / (times[0] / _MEASURED_TURNS[0])
    return [
        *(
            _row(f"database after {mark:,}", database, "KiB", size / 1024)
            for mark, size in zip(_MEASURED_TURNS, sizes, strict=True)
        ),
        _row("bytes per turn", database, "B", sizes[-1] / _MEASURED_TURNS[-1]),
        _row("a late turn's bytes to an early one's", database, "ratio", late / early, target=1.25),
        _row("queries for the history of the last", database, "queries", len(statements), target=1),
        CostRow(f"{CHAIN}, the history of the last", database, "ms", None, times[-1]),
        CostRow(f"{CHAIN}, a turn of that to one of the first 100", database, "ratio", None, slower, target=2.0),
    ]


def _row(figure: str, database: str, unit: str, value: float, target: float | None = None) -> CostRow:
    """Returns the row of a figure that is the same on every machine, unlike times."""
    return CostRow(f"{CHAIN}, {figure}", database, unit, None, value, target, ratios=(value,))


def build_turn_text(turn: int, *, answer: bool) -> str:
    """Returns the question or the answer of a turn. It is equally long in every turn."""
    return f"{'answer' if answer else 'question'} {turn:04}: {write_phrases(10 if answer else 3)}"


async def _store_turn(store: SqlStore, turn: int, parent_id: str | None) -> str:
    started = new_response(
        {"store": True, "previous_response_id": parent_id, "instructions": "Answer in a few words."},
        response_id=new_id("resp_"),
        created_at=1_700_000_000 + turn,
        model="bench",
    )
    question: Item = {
        "id": new_id("msg_"),
        "type": "message",
        "role": "user",
        "content": build_turn_text(turn, answer=False),
    }
    text = {"type": "output_text", "text": build_turn_text(turn, answer=True), "annotations": [], "logprobs": []}
    answer: Item = {
        "id": new_id("msg_"),
        "type": "message",
        "role": "assistant",
        "status": "completed",
        "content": [text],
    }
    usage = {"input_tokens": turn * 200, "output_tokens": 120, "total_tokens": turn * 200 + 120}
    ended: Json = started | {"status": "completed", "output": [answer], "usage": usage}
    await store.responses.create_response(
        NewResponse(owner=_OWNER, response=started, input_items=[question], parent_id=parent_id, worker=_WORKER)
    )
    await store.responses.finish_response(_OWNER, ended, worker=_WORKER)
    return str(started["id"])


async def _read_history_ms(store: SqlStore, last: str, turns: int) -> float:
    times = []
    for _ in range(_HISTORY_READS):
        began = perf_counter()
        continuation = await _continue_chain(store, last)
        times.append((perf_counter() - began) * 1e3)
    _check(continuation, turns)
    return median(times)


async def _continue_chain(store: SqlStore, response_id: str) -> Continuation:
    facts = read_facts({"input": "And now?", "previous_response_id": response_id})
    return await resolve_continuation(store.history, _OWNER, facts)


def _check(continuation: Continuation, turns: int) -> None:
    texts = [item["content"] if item["role"] == "user" else item["content"][0]["text"] for item in continuation.history]
    if texts != [build_turn_text(turn, answer=answer) for turn in range(1, turns + 1) for answer in (False, True)]:
        raise WrongAnswers(f"the chain's history has {len(texts)} items, and they differ from the items of the turns")


@contextmanager
def _collect_statements() -> Iterator[list[str]]:
    """Collects the SQL statements sent within the block, except statements that open transactions."""
    sent: list[str] = []

    def record(*arguments: object) -> None:
        statement = str(arguments[2])
        if not statement.startswith("BEGIN"):
            sent.append(statement)

    event.listen(Engine, "before_cursor_execute", record)
    try:
        yield sent
    finally:
        event.remove(Engine, "before_cursor_execute", record)


async def _measure_size(url: str) -> int:
    """Returns the size of a database on disk, including free space inside the file."""
    parsed_url = make_url(url)
    if parsed_url.get_backend_name() == "sqlite":
        connection = sqlite3.connect(str(parsed_url.database))
        try:
            # Pages of the write-ahead log that are not in the file yet count too.
            pages, size = (connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "page_size"))
        finally:
            connection.close()
        return int(pages * size)
    engine = create_async_engine(url)
    try:
        async with engine.connect() as postgres:
            return int((await postgres.execute(select(func.pg_database_size(func.current_database())))).scalar_one())
    finally:
        await engine.dispose()
