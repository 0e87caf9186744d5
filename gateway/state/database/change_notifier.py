"""Signals changes of stored objects to watches: in this process directly, in others through PostgreSQL's NOTIFY.

A signal is a hint and may be lost. A watch therefore also returns after a polling interval.
"""

import asyncio
from collections import defaultdict
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from secrets import token_hex
from typing import Any, Final

import structlog
from sqlalchemy import URL
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.pool import NullPool

from gateway.state.database.database import Database
from gateway.state.database.postgresql_statements import list_driver_errors

_log = structlog.get_logger(__name__)

JOBS_KEY: Final = "jobs"
"""The key of changes to the job queue. Other keys are the ids of responses, or name owners whose data was erased."""

_ERASED_PREFIX: Final = "erased:"

_NOTIFY_CHANNEL: Final = "responses_gateway"
_MAX_PAYLOAD_BYTES: Final = 7_000
"""PostgreSQL accepts payloads of less than 8,000 bytes."""

_LISTENING_POLL_FACTOR: Final = 10
"""The polling interval is this many times longer while signals are received: polling then only covers lost signals."""

_PING_INTERVAL_S: Final = 5.0
_SERVER_TIMEOUT_S: Final = 5.0
_RETRY_DELAYS_S: Final = (0.2, 5.0)


class ChangeNotifier:
    """Sends signals to watches and to other replicas. Holds the one connection that listens for their signals.

    `poll_s` is the polling interval of watches in seconds. On SQLite there are no other replicas and no connection.
    """

    def __init__(self, database: Database, *, poll_s: float) -> None:
        self._url = None if database.is_sqlite else database.url
        self._poll_s = poll_s
        self._watches: defaultdict[str, set[KeyWatch]] = defaultdict(set)
        self._sender_id = token_hex(8)
        self._outgoing_keys: dict[str, None] = {}
        self._has_outgoing = asyncio.Event()
        self._listener: asyncio.Task[None] | None = None
        self._is_listening = False
        self.on_erased: Callable[[str], None] = lambda _: None
        """Is called with each owner whose data is erased, in this process or another, percent-encoded."""

    @property
    def wait_timeout_s(self) -> float:
        """How long a watch waits for a signal before it returns without one."""
        return self._poll_s * _LISTENING_POLL_FACTOR if self._is_listening else self._poll_s

    def notify_changed(self, *keys: str, is_cached: bool = False) -> None:
        """Signals that these keys changed. Never waits. The changes must be committed before.

        `is_cached` says that watches in this process can read the change from memory.
        """
        self._wake_watches(keys, is_cached=is_cached)
        if self._url is not None:
            self._outgoing_keys.update(dict.fromkeys(keys))
            self._has_outgoing.set()
            self._start_listener()

    def notify_erased(self, encoded_owner: str) -> None:
        """Signals that the data of an owner is erased. The name is percent-encoded, so that it has no spaces."""
        self.notify_changed(_ERASED_PREFIX + encoded_owner)

    @asynccontextmanager
    async def watch(self, key: str) -> AsyncGenerator["KeyWatch", None]:
        """Yields a watch that receives the signals of `key` until the block ends."""
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
        """Stops listening. Later signals reach only watches in this process."""
        listener, self._listener, self._url = self._listener, None, None
        if listener is not None:
            listener.cancel()
            with suppress(asyncio.CancelledError):
                await listener

    def _start_listener(self) -> None:
        if self._url is not None and self._listener is None:
            self._listener = asyncio.get_running_loop().create_task(self._run_listener(self._url))

    def _wake_watches(self, keys: tuple[str, ...] | list[str], *, is_cached: bool = False) -> None:
        for key in keys:
            if key.startswith(_ERASED_PREFIX):
                self.on_erased(key.removeprefix(_ERASED_PREFIX))
            for watch in self._watches.get(key, ()):
                watch.wake(is_cached=is_cached)

    async def _run_listener(self, url: URL) -> None:
        shortest, longest = _RETRY_DELAYS_S
        delay_s = shortest
        while True:
            try:
                async with self._connect_listener(url) as connection:
                    self._is_listening, delay_s = True, shortest
                    self._wake_watches(list(self._watches))  # signals sent while disconnected were not received
                    await self._send_notifications(connection)
            except _connection_errors() as error:
                _log.warning("signals_interrupted", why=type(error).__name__)
            finally:
                self._is_listening = False
            await asyncio.sleep(delay_s)
            delay_s = min(delay_s * 2, longest)

    @asynccontextmanager
    async def _connect_listener(self, url: URL) -> AsyncGenerator[Any, None]:
        """Yields the driver's own connection, because SQLAlchemy has no API for notifications."""
        # The driver's own timeout: a driver that is cancelled while it connects leaves a socket behind.
        engine = create_async_engine(url, poolclass=NullPool, connect_args={"timeout": _SERVER_TIMEOUT_S})
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
        """Sends this process's signals to the other replicas, until the connection is lost."""
        while not connection.is_closed():
            with suppress(TimeoutError):
                async with asyncio.timeout(_PING_INTERVAL_S):
                    await self._has_outgoing.wait()
            self._has_outgoing.clear()
            payload = self._next_payload()
            async with asyncio.timeout(_SERVER_TIMEOUT_S):
                # Without anything to send, this pings the server.
                await (
                    connection.fetchval("SELECT pg_notify($1, $2)", _NOTIFY_CHANNEL, payload)
                    if payload
                    else connection.fetchval("SELECT 1")
                )

    def _next_payload(self) -> str:
        keys: list[str] = []
        size = len(self._sender_id)
        while self._outgoing_keys and size < _MAX_PAYLOAD_BYTES - 256:
            key = next(iter(self._outgoing_keys))
            del self._outgoing_keys[key]
            keys.append(key)
            size += len(key.encode()) + 1
        if self._outgoing_keys:
            self._has_outgoing.set()
        return " ".join([self._sender_id, *keys]) if keys else ""

    def _on_notification(self, _connection: Any, _pid: int, _channel: str, payload: str) -> None:
        sender, *keys = payload.split(" ")
        if sender != self._sender_id:
            self._wake_watches(keys)


def _connection_errors() -> tuple[type[Exception], ...]:
    return *list_driver_errors(), SQLAlchemyError, OSError, TimeoutError


class KeyWatch:
    """A watch of one key. A signal that arrives between two waits makes the next `wait_for_change` return at once."""

    def __init__(self, notifier: ChangeNotifier) -> None:
        self._notifier = notifier
        self._woken = asyncio.Event()
        self.has_uncached_change = False
        """Whether a change happened that this process cannot read from memory. It stays True, because one wake-up may
        stand for several changes."""

    def wake(self, *, is_cached: bool = False) -> None:
        self.has_uncached_change = self.has_uncached_change or not is_cached
        self._woken.set()

    async def wait_for_change(self) -> None:
        """Waits until something may have changed since the last call, or until `wait_timeout_s` has passed."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self._notifier.wait_timeout_s):
                await self._woken.wait()
        self._woken.clear()
