"""A chain of turns in the store itself: what it takes on disk, and what reading it back takes."""

import asyncio
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from statistics import median
from time import perf_counter

from sqlalchemy import Engine, event, func, select
from sqlalchemy.engine import make_url
from sqlalchemy.ext.asyncio import create_async_engine

from bench.databases import Databases
from bench.measure import WrongAnswers
from bench.state_report import StateRow
from gateway.config.settings import BackgroundSettings, StoreSettings
from gateway.planning.continuation import Continuation, resolve_continuation
from gateway.state.sql.store import SqlStore
from gateway.state.store import NewResponse
from providers.new_id import new_id
from translation.representation.json_types import Item, Json
from translation.responses.initial_response import new_response

CHAIN = "state: chain of 1,000 turns"
_MARKS = (100, 500, 1000)
"""After so many turns the database is measured."""

_READS = 15
_OWNER, _WORKER = "bench", "bench"


def chain_rows(databases: Databases) -> list[StateRow]:
    """The figures of each database. Raises WrongAnswers."""
    by_figure = zip(*(asyncio.run(_figures(name, new_url())) for name, new_url in databases.items()), strict=True)
    return [row for rows in by_figure for row in rows]


async def _figures(database: str, url: str) -> list[StateRow]:
    store = SqlStore(StoreSettings(url=url, deadline_s=30), BackgroundSettings())
    await store.open()
    try:
        empty = await _bytes(url)
        sizes, times, last = [], [], ""
        for turn in range(1, _MARKS[-1] + 1):
            last = await _turn(store, turn, last or None)
            if turn in _MARKS:
                sizes.append(await _bytes(url) - empty)
                times.append(await _reading_ms(store, last, turn))
        with _statements() as statements:
            await _continue(store, last)
    finally:
        await store.aclose()
    early = (sizes[1] - sizes[0]) / (_MARKS[1] - _MARKS[0])
    late = (sizes[2] - sizes[1]) / (_MARKS[2] - _MARKS[1])
    slower = (times[2] / _MARKS[2]) / (times[0] / _MARKS[0])
    return [
        *(
            _row(f"database after {mark:,}", database, "KiB", size / 1024)
            for mark, size in zip(_MARKS, sizes, strict=True)
        ),
        _row("bytes per turn", database, "B", sizes[-1] / _MARKS[-1]),
        _row("a late turn's bytes to an early one's", database, "ratio", late / early, target=1.25),
        _row("queries for the history of the last", database, "queries", len(statements), target=1),
        StateRow(f"{CHAIN}, the history of the last", database, "ms", None, times[-1]),
        StateRow(f"{CHAIN}, a turn of that to one of the first 100", database, "ratio", None, slower, target=2.0),
    ]


def _row(figure: str, database: str, unit: str, value: float, target: float | None = None) -> StateRow:
    """One that is the same on every machine, unlike times."""
    return StateRow(f"{CHAIN}, {figure}", database, unit, None, value, target, ratios=(value,))


def said(turn: int, *, answer: bool) -> str:
    """What is said in a turn: as much in every one."""
    return f"{'answer' if answer else 'question'} {turn:04}: " + "some words of a conversation, " * (
        20 if answer else 5
    )


async def _turn(store: SqlStore, turn: int, parent_id: str | None) -> str:
    begun = new_response(
        {"store": True, "previous_response_id": parent_id, "instructions": "Answer in a few words."},
        response_id=new_id("resp_"),
        created_at=1_700_000_000 + turn,
        model="bench",
    )
    question: Item = {"id": new_id("msg_"), "type": "message", "role": "user", "content": said(turn, answer=False)}
    text = {"type": "output_text", "text": said(turn, answer=True), "annotations": [], "logprobs": []}
    answer: Item = {
        "id": new_id("msg_"),
        "type": "message",
        "role": "assistant",
        "status": "completed",
        "content": [text],
    }
    usage = {"input_tokens": turn * 200, "output_tokens": 120, "total_tokens": turn * 200 + 120}
    ended: Json = begun | {"status": "completed", "output": [answer], "usage": usage}
    await store.create_response(
        NewResponse(owner=_OWNER, response=begun, input_items=[question], parent_id=parent_id, worker=_WORKER)
    )
    await store.finish_response(_OWNER, ended, worker=_WORKER)
    return str(begun["id"])


async def _reading_ms(store: SqlStore, last: str, turns: int) -> float:
    times = []
    for _ in range(_READS):
        began = perf_counter()
        read = await _continue(store, last)
        times.append((perf_counter() - began) * 1e3)
    _check(read, turns)
    return median(times)


async def _continue(store: SqlStore, response_id: str) -> Continuation:
    return await resolve_continuation(store, _OWNER, {"input": "And now?", "previous_response_id": response_id})


def _check(read: Continuation, turns: int) -> None:
    texts = [item["content"] if item["role"] == "user" else item["content"][0]["text"] for item in read.history]
    if texts != [said(turn, answer=answer) for turn in range(1, turns + 1) for answer in (False, True)]:
        raise WrongAnswers(f"the chain's history has {len(texts)} items, and they are not what was said")


@contextmanager
def _statements() -> Iterator[list[str]]:
    """The SQL that is sent meanwhile, but for the opening of transactions."""
    sent: list[str] = []

    def note(*given: object) -> None:
        statement = str(given[2])
        if not statement.startswith("BEGIN"):
            sent.append(statement)

    event.listen(Engine, "before_cursor_execute", note)
    try:
        yield sent
    finally:
        event.remove(Engine, "before_cursor_execute", note)


async def _bytes(url: str) -> int:
    """What a database takes on disk, space that it has freed and keeps included."""
    place = make_url(url)
    if place.get_backend_name() == "sqlite":
        connection = sqlite3.connect(str(place.database))
        try:
            # Pages of the write-ahead log that are not in the file yet count too.
            pages, size = (connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "page_size"))
        finally:
            connection.close()
        return int(pages * size)
    engine = create_async_engine(url)
    try:
        async with engine.connect() as asked:
            return int((await asked.execute(select(func.pg_database_size(func.current_database())))).scalar_one())
    finally:
        await engine.dispose()
