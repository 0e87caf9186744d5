"""Whether a database works, as its uses and probes of it show."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

import structlog

from gateway.errors import StoreUnavailable
from gateway.state.database.engines import TransactionMode
from gateway.state.database.failures import DatabasePlace, describe_error, may_be_own_fault, suggest_remedy

_log = structlog.get_logger(__name__)

_PROBE_INTERVAL_S: Final = 1.0
"""Seconds between two probes of a database that has failed."""

_EXAMINATION_S: Final = 1.0
"""The longest time that a working database takes for a probe."""


class DatabaseHealth:
    """Records failures, and probes a failed database until it works: if requests avoid a degraded gateway, nothing else
    would notice that it has recovered.

    `probe` writes and reads a little. It raises StoreUnavailable, and reports its own failures and successes here.
    """

    def __init__(self, probe: Callable[[], Awaitable[None]], place: DatabasePlace) -> None:
        self._probe = probe
        self._place = place
        self._failures: dict[TransactionMode, str] = {}
        self._examination: asyncio.Task[bool] | None = None
        self._recovery: asyncio.Task[None] | None = None
        self._closed = False

    @property
    def failure(self) -> str | None:
        """The problem of the database, as text. None if it works."""
        return self._failures.get("write") or self._failures.get("read")

    def record_success(self, mode: TransactionMode) -> None:
        if self._failures.pop(mode, None) is not None:
            _log.info("store_available", use=mode)

    def record_failure(self, mode: TransactionMode, reason: str) -> None:
        if self._failures.get(mode) != reason:
            remedy = suggest_remedy(reason, self._place)
            _log.warning("store_unavailable", use=mode, why=reason, database=self._place.text, remedy=remedy)
        self._failures[mode] = reason
        if not self._closed and (self._recovery is None or self._recovery.done()):
            self._recovery = asyncio.get_running_loop().create_task(self._probe_until_healthy())

    async def judge_failure(self, mode: TransactionMode, error: BaseException) -> None:
        """Records the failure of one owner's use, unless the use itself may be at fault and the database works for
        others: one slow query must not close the store to everybody."""
        if not self._failures and not self._closed and may_be_own_fault(error) and await self._examine():
            _log.warning("store_use_failed", use=mode, why=describe_error(error))
        else:
            self.record_failure(mode, describe_error(error))

    async def aclose(self) -> None:
        self._closed = True
        tasks = [task for task in (self._examination, self._recovery) if task is not None and not task.done()]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def _examine(self) -> bool:
        """Returns whether the database works now. Those who ask at the same time share a probe."""
        examination = self._examination
        if examination is None or examination.done():
            self._examination = examination = asyncio.get_running_loop().create_task(self._try_probe())
        await asyncio.wait({examination})  # somebody may begin the next one before this goes on
        return not examination.cancelled() and examination.result()

    async def _try_probe(self) -> bool:
        try:
            async with asyncio.timeout(_EXAMINATION_S):
                return await self._run_probe()
        except TimeoutError:
            return False

    async def _probe_until_healthy(self) -> None:
        while self._failures:
            await asyncio.sleep(_PROBE_INTERVAL_S)
            await self._run_probe()

    async def _run_probe(self) -> bool:
        """Returns whether a probe succeeds. It has reported so itself."""
        try:
            await self._probe()
        except StoreUnavailable:
            return False
        except Exception:  # the next probe may succeed, and nothing else notices that the database works again
            _log.exception("store_probe_failed")
            return False
        return True
