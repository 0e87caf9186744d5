"""Who waits for a change, and who hears of one: in this process at once, elsewhere through PostgreSQL's NOTIFY.

A signal is a hint and may be lost; everyone who waits looks again after a while anyway.
"""

import asyncio
from collections import defaultdict
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from secrets import token_hex
from typing import Any, Final

import structlog
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.pool import NullPool

from gateway.state.database.database import Database

_log = structlog.get_logger(__name__)

JOBS: Final = "jobs"
"""The key of whoever looks for work. Every other key is a response's id."""

_CHANNEL: Final = "responses_gateway"
_MAX_PAYLOAD: Final = 7_000
"""PostgreSQL takes less than 8,000 bytes."""

_HEARING_POLLS: Final = 10
"""While signals arrive, looking without one only guards against those that got lost: every so many intervals."""

_PROBE_S: Final = 5.0
_ANSWER_S: Final = 5.0
_RETRY_S: Final = (0.2, 5.0)


class Signals:
    """`tell` never waits. What changed must be committed before it is told."""

    def __init__(self, database: Database, *, poll_s: float) -> None:
        self._url = None if database.is_sqlite else database.url
        self._poll_s = poll_s
        self._watches: defaultdict[str, set[SignalWatch]] = defaultdict(set)
        self._sender = token_hex(8)
        self._outgoing: dict[str, None] = {}
        self._to_do = asyncio.Event()
        self._listener: asyncio.Task[None] | None = None
        self._hearing = False

    @property
    def patience_s(self) -> float:
        """How long to wait for a signal before looking without one."""
        return self._poll_s * _HEARING_POLLS if self._hearing else self._poll_s

    def tell(self, *keys: str, at_hand: bool = False) -> None:
        """These changed. `at_hand`: whoever waits in this process has all there is to read."""
        self._wake(keys, at_hand=at_hand)
        if self._url is not None:
            self._outgoing.update(dict.fromkeys(keys))
            self._to_do.set()
            self._listen()

    @asynccontextmanager
    async def watch(self, key: str) -> AsyncGenerator["SignalWatch", None]:
        """Hear of this one from here on."""
        self._listen()
        watch = SignalWatch(self)
        self._watches[key].add(watch)
        try:
            yield watch
        finally:
            self._watches[key].discard(watch)
            if not self._watches[key]:
                del self._watches[key]

    async def aclose(self) -> None:
        """Stop listening. What is told later is heard in this process only."""
        listener, self._listener, self._url = self._listener, None, None
        if listener is not None:
            listener.cancel()
            with suppress(asyncio.CancelledError):
                await listener

    def _listen(self) -> None:
        if self._url is not None and self._listener is None:
            self._listener = asyncio.get_running_loop().create_task(self._stay_connected())

    def _wake(self, keys: tuple[str, ...] | list[str], *, at_hand: bool = False) -> None:
        for key in keys:
            for watch in self._watches.get(key, ()):
                watch.wake(at_hand=at_hand)

    async def _stay_connected(self) -> None:
        shortest, longest = _RETRY_S
        delay_s = shortest
        while True:
            try:
                async with self._connected() as connection:
                    self._hearing, delay_s = True, shortest
                    self._wake(list(self._watches))  # what was told in between was not heard
                    await self._pass_on(connection)
            except _interruptions() as error:
                _log.warning("signals_interrupted", why=type(error).__name__)
            finally:
                self._hearing = False
            await asyncio.sleep(delay_s)
            delay_s = min(delay_s * 2, longest)

    @asynccontextmanager
    async def _connected(self) -> AsyncGenerator[Any, None]:
        """The driver's own connection: SQLAlchemy knows nothing of notifications."""
        assert self._url is not None
        # The driver's own deadline: interrupted from outside while it connects, it would leave a socket behind.
        engine = create_async_engine(self._url, poolclass=NullPool, connect_args={"timeout": _ANSWER_S})
        try:
            pooled = await engine.connect()
            try:
                connection: Any = (await pooled.get_raw_connection()).driver_connection
                async with asyncio.timeout(_ANSWER_S):
                    await connection.add_listener(_CHANNEL, self._hear)
                connection.add_termination_listener(lambda _: self._to_do.set())
                yield connection
            finally:
                with suppress(*_interruptions()):
                    async with asyncio.timeout(_ANSWER_S):
                        await pooled.invalidate()
                        await pooled.close()
        finally:
            await engine.dispose()

    async def _pass_on(self, connection: Any) -> None:
        """Send what is told here, until the connection is lost."""
        while not connection.is_closed():
            with suppress(TimeoutError):
                async with asyncio.timeout(_PROBE_S):
                    await self._to_do.wait()
            self._to_do.clear()
            payload = self._take_payload()
            async with asyncio.timeout(_ANSWER_S):
                # With nothing to say this asks whether the server is still there.
                await (
                    connection.fetchval("SELECT pg_notify($1, $2)", _CHANNEL, payload)
                    if payload
                    else connection.fetchval("SELECT 1")
                )

    def _take_payload(self) -> str:
        words: list[str] = []
        size = len(self._sender)
        while self._outgoing and size < _MAX_PAYLOAD - 256:
            key = next(iter(self._outgoing))
            del self._outgoing[key]
            words.append(key)
            size += len(key.encode()) + 1
        if self._outgoing:
            self._to_do.set()
        return " ".join([self._sender, *words]) if words else ""

    def _hear(self, _connection: Any, _pid: int, _channel: str, payload: str) -> None:
        sender, *keys = payload.split(" ")
        if sender != self._sender:
            self._wake(keys)


def _interruptions() -> tuple[type[Exception], ...]:
    """What a lost connection raises, the driver's own among it, which SQLite needs not be loaded for."""
    from asyncpg.exceptions import InterfaceError, PostgresError  # type: ignore[import-untyped]

    return SQLAlchemyError, PostgresError, InterfaceError, OSError, TimeoutError


class SignalWatch:
    """One who waits. Signals that come while nobody waits are kept: `changed` then returns at once."""

    def __init__(self, signals: Signals) -> None:
        self._signals = signals
        self._woken = asyncio.Event()
        self.behind = False
        """Something changed that is not at hand: one waking may tell of several changes, and this must not get lost."""

    def wake(self, *, at_hand: bool = False) -> None:
        self.behind = self.behind or not at_hand
        self._woken.set()

    async def changed(self) -> None:
        """Returns when something may have happened since the last time, or after the polling interval."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self._signals.patience_s):
                await self._woken.wait()
        self._woken.clear()
