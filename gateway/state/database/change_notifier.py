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

JOBS_KEY: Final = "jobs"
"""The key of whoever looks for work. Every other key is a response's id."""

_NOTIFY_CHANNEL: Final = "responses_gateway"
_MAX_PAYLOAD_BYTES: Final = 7_000
"""PostgreSQL takes less than 8,000 bytes."""

_LISTENING_POLL_FACTOR: Final = 10
"""While signals arrive, looking without one only guards against those that got lost: every so many intervals."""

_PING_INTERVAL_S: Final = 5.0
_SERVER_TIMEOUT_S: Final = 5.0
_RETRY_DELAYS_S: Final = (0.2, 5.0)


class ChangeNotifier:
    """`tell` never waits. What changed must be committed before it is told."""

    def __init__(self, database: Database, *, poll_s: float) -> None:
        self._url = None if database.is_sqlite else database.url
        self._poll_s = poll_s
        self._watches: defaultdict[str, set[KeyWatch]] = defaultdict(set)
        self._sender_id = token_hex(8)
        self._outgoing_keys: dict[str, None] = {}
        self._has_outgoing = asyncio.Event()
        self._listener: asyncio.Task[None] | None = None
        self._is_listening = False

    @property
    def wait_timeout_s(self) -> float:
        """How long to wait for a signal before looking without one."""
        return self._poll_s * _LISTENING_POLL_FACTOR if self._is_listening else self._poll_s

    def notify_changed(self, *keys: str, is_cached: bool = False) -> None:
        """These changed. `at_hand`: whoever waits in this process has all there is to read."""
        self._wake_watches(keys, is_cached=is_cached)
        if self._url is not None:
            self._outgoing_keys.update(dict.fromkeys(keys))
            self._has_outgoing.set()
            self._start_listener()

    @asynccontextmanager
    async def watch(self, key: str) -> AsyncGenerator["KeyWatch", None]:
        """Hear of this one from here on."""
        self._start_listener()
        watch = KeyWatch(self)
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

    def _start_listener(self) -> None:
        if self._url is not None and self._listener is None:
            self._listener = asyncio.get_running_loop().create_task(self._run_listener())

    def _wake_watches(self, keys: tuple[str, ...] | list[str], *, is_cached: bool = False) -> None:
        for key in keys:
            for watch in self._watches.get(key, ()):
                watch.wake(is_cached=is_cached)

    async def _run_listener(self) -> None:
        shortest, longest = _RETRY_DELAYS_S
        delay_s = shortest
        while True:
            try:
                async with self._connect_listener() as connection:
                    self._is_listening, delay_s = True, shortest
                    self._wake_watches(list(self._watches))  # what was told in between was not heard
                    await self._send_notifications(connection)
            except _connection_errors() as error:
                _log.warning("signals_interrupted", why=type(error).__name__)
            finally:
                self._is_listening = False
            await asyncio.sleep(delay_s)
            delay_s = min(delay_s * 2, longest)

    @asynccontextmanager
    async def _connect_listener(self) -> AsyncGenerator[Any, None]:
        """The driver's own connection: SQLAlchemy knows nothing of notifications."""
        assert self._url is not None
        # The driver's own deadline: interrupted from outside while it connects, it would leave a socket behind.
        engine = create_async_engine(self._url, poolclass=NullPool, connect_args={"timeout": _SERVER_TIMEOUT_S})
        try:
            pooled = await engine.connect()
            try:
                connection: Any = (await pooled.get_raw_connection()).driver_connection
                async with asyncio.timeout(_SERVER_TIMEOUT_S):
                    await connection.add_listener(_NOTIFY_CHANNEL, self._on_notification)
                connection.add_termination_listener(lambda _: self._has_outgoing.set())
                yield connection
            finally:
                with suppress(*_connection_errors()):
                    async with asyncio.timeout(_SERVER_TIMEOUT_S):
                        await pooled.invalidate()
                        await pooled.close()
        finally:
            await engine.dispose()

    async def _send_notifications(self, connection: Any) -> None:
        """Send what is told here, until the connection is lost."""
        while not connection.is_closed():
            with suppress(TimeoutError):
                async with asyncio.timeout(_PING_INTERVAL_S):
                    await self._has_outgoing.wait()
            self._has_outgoing.clear()
            payload = self._next_payload()
            async with asyncio.timeout(_SERVER_TIMEOUT_S):
                # With nothing to say this asks whether the server is still there.
                await (
                    connection.fetchval("SELECT pg_notify($1, $2)", _NOTIFY_CHANNEL, payload)
                    if payload
                    else connection.fetchval("SELECT 1")
                )

    def _next_payload(self) -> str:
        words: list[str] = []
        size = len(self._sender_id)
        while self._outgoing_keys and size < _MAX_PAYLOAD_BYTES - 256:
            key = next(iter(self._outgoing_keys))
            del self._outgoing_keys[key]
            words.append(key)
            size += len(key.encode()) + 1
        if self._outgoing_keys:
            self._has_outgoing.set()
        return " ".join([self._sender_id, *words]) if words else ""

    def _on_notification(self, _connection: Any, _pid: int, _channel: str, payload: str) -> None:
        sender, *keys = payload.split(" ")
        if sender != self._sender_id:
            self._wake_watches(keys)


def _connection_errors() -> tuple[type[Exception], ...]:
    """What a lost connection raises, the driver's own among it, which SQLite needs not be loaded for."""
    from asyncpg.exceptions import InterfaceError, PostgresError  # type: ignore[import-untyped]

    return SQLAlchemyError, PostgresError, InterfaceError, OSError, TimeoutError


class KeyWatch:
    """One who waits. Signals that come while nobody waits are kept: `changed` then returns at once."""

    def __init__(self, notifier: ChangeNotifier) -> None:
        self._notifier = notifier
        self._woken = asyncio.Event()
        self.has_uncached_change = False
        """Something changed that is not at hand: one waking may tell of several changes, and this must not get lost."""

    def wake(self, *, is_cached: bool = False) -> None:
        self.has_uncached_change = self.has_uncached_change or not is_cached
        self._woken.set()

    async def wait_for_change(self) -> None:
        """Returns when something may have happened since the last time, or after the polling interval."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self._notifier.wait_timeout_s):
                await self._woken.wait()
        self._woken.clear()
