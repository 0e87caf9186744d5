"""Writes the calls of one response to the journal, and waits while the store is unavailable."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Final

import structlog

from gateway.errors import NotFound, StoreUnavailable
from gateway.replies.recorder import Lease
from gateway.state.call_records import CallJournal, CallRecord
from gateway.state.store import LeaseLost
from translation.hosted.calls import HostedCall
from translation.hosted.outcomes import ToolOutcome
from translation.representation.json_types import Json

_log = structlog.get_logger(__name__)

_RETRY_DELAYS_S: Final = (0.05, 1.0)


class ResponseJournal:
    """The journal of one response, which `worker` holds.

    The methods raise StoreUnavailable once the store has failed for `max_outage_s`. If the worker no longer holds the
    response, a job gets LeaseLost, and any other response NotFound: it was deleted. `ensure_stored` is awaited before
    the first write: it stores the beginning of a response that may not be stored yet.
    """

    def __init__(
        self,
        store: CallJournal,
        owner: str,
        response_id: str,
        *,
        worker: str,
        max_outage_s: float,
        is_job: bool,
        ensure_stored: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self.is_job: Final = is_job
        """Whether another replica can go on with the response, so that its progress has to be saved."""
        self.has_calls = False
        """Whether calls may have been written."""
        self._store = store
        self._owner = owner
        self._response_id = response_id
        self._worker = worker
        self._max_outage_s = max_outage_s
        self._ensure_stored = ensure_stored

    async def record_calls(
        self, calls: Sequence[HostedCall], started: Collection[HostedCall], progress: Json | None
    ) -> None:
        """Writes new calls, and the progress of their loop. Those of `started` are sent as soon as this returns."""
        records = [
            CallRecord(
                item=call.item("in_progress"),
                position=call.index,
                state="started" if call in started else "intended",
                is_repeatable=call.tool is not None and call.tool.is_repeatable,
            )
            for call in calls
        ]
        self.has_calls = True
        if self._ensure_stored is not None:
            await self._ensure_stored()
            self._ensure_stored = None
        await self._write(
            lambda: self._store.record_calls(
                self._owner, self._response_id, records, worker=self._worker, progress=progress
            )
        )

    async def start_call(self, call: HostedCall) -> None:
        """Writes that a call is sent. It must not be sent before this returns."""
        self.has_calls = True
        await self._write(
            lambda: self._store.start_call(self._owner, self._response_id, call.item_id, worker=self._worker)
        )

    async def finish_call(self, call: HostedCall, outcome: ToolOutcome) -> None:
        """Writes the result of a call."""
        item = call.item_with(outcome)
        try:
            await self._write(
                lambda: self._store.finish_call(
                    self._owner, self._response_id, item, worker=self._worker, media=outcome.media
                )
            )
        except (LeaseLost, NotFound):
            # The response was cancelled, deleted, or has a new owner, for whom the outcome is unknown.
            _log.warning("tool_result_refused", call=call.item_id, call_id=call.call_id, failed=outcome.failed)
            raise

    async def _write(self, write: Callable[[], Awaitable[None]]) -> None:
        deadline = time.monotonic() + self._max_outage_s
        delay_s, longest_s = _RETRY_DELAYS_S
        while True:
            try:
                return await write()
            except LeaseLost:
                if self.is_job:
                    raise
                raise NotFound(f"Response with id '{self._response_id:.80}' was deleted.") from None
            except StoreUnavailable:
                if time.monotonic() + delay_s > deadline:
                    raise
            await asyncio.sleep(delay_s)
            delay_s = min(delay_s * 2, longest_s)


class JournalFactory:
    """Makes the journals of responses that this process runs. `store` and `lease` are None if nothing is stored."""

    def __init__(self, store: CallJournal | None, lease: Lease | None, *, max_outage_s: float) -> None:
        self._store = store
        self._lease = lease
        self._max_outage_s = max_outage_s

    def make_journal(
        self, owner: str, response_id: str, *, ensure_stored: Callable[[], Awaitable[None]] | None = None
    ) -> ResponseJournal:
        """Returns the journal of a stored response: of a job without `ensure_stored`."""
        assert self._store is not None
        assert self._lease is not None
        return ResponseJournal(
            self._store,
            owner,
            response_id,
            worker=self._lease.worker,
            max_outage_s=self._max_outage_s,
            is_job=ensure_stored is None,
            ensure_stored=ensure_stored,
        )
