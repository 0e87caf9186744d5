"""Records the calls of one reply in the store, and waits while the store is unavailable."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Final

import structlog

from gateway.errors import NotFound, StoreUnavailable
from gateway.state.call_records import CallJournalStore, CallRecord, OpenCall, OpenCallStore
from gateway.state.store import Lease, Store, retry_write, start_detached_task
from gateway.state.values import LeaseLost
from gateway.tools.loop_io import LoopIO
from translation.hosted.calls import HostedCall
from translation.hosted.outcomes import ToolOutcome
from translation.representation.json_types import Json

_log = structlog.get_logger(__name__)

_NOT_SENT: Final = (
    "the store is unavailable, so the tool call was not sent, because it could not be recorded before: try again later"
)


class ResponseJournal:
    """The journal of one response, which `worker` holds.

    The methods raise StoreUnavailable once the store has failed for `max_outage_s`. If the worker no longer holds the
    response, they raise LeaseLost for a job, and NotFound for any other response, because it was deleted.
    `ensure_stored` is awaited before the first write: it stores the beginning of a response that may be new.
    """

    def __init__(
        self,
        store: CallJournalStore,
        owner: str,
        response_id: str,
        *,
        worker: str,
        max_outage_s: float,
        is_job: bool,
        ensure_stored: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self.is_job: Final = is_job
        """Whether another replica can continue the response, so that its progress has to be saved."""
        self.has_calls = False
        """Whether calls may have been recorded."""
        self._store = store
        self._owner = owner
        self._response_id = response_id
        self._worker = worker
        self._max_outage_s = max_outage_s
        self._ensure_stored = ensure_stored

    async def record_calls(
        self, calls: Sequence[HostedCall], started: Collection[HostedCall], progress: Json | None
    ) -> None:
        """Records new calls and the progress of their loop. The calls of `started` are sent as soon as this returns."""
        records = [
            CallRecord(
                item=call.build_item("in_progress"),
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
        """Records that a call is sent. It must not be sent before this returns."""
        self.has_calls = True
        await self._write(
            lambda: self._store.start_call(self._owner, self._response_id, call.item_id, worker=self._worker)
        )

    async def finish_call(self, call: HostedCall, outcome: ToolOutcome) -> None:
        """Records the result of a call."""
        item = call.build_item_with(outcome)
        try:
            await self._write(
                lambda: self._store.finish_call(
                    self._owner,
                    self._response_id,
                    item,
                    worker=self._worker,
                    media=call.form.build_journal_media(outcome),
                )
            )
        except (LeaseLost, NotFound):
            # The response was cancelled or deleted, or another replica runs it, which does not know the outcome.
            _log.warning("tool_result_refused", call=call.item_id, call_id=call.call_id, failed=outcome.failed)
            raise

    async def close(self) -> None:
        """Does nothing: the end of the response settles its journal."""

    async def _write(self, write: Callable[[], Awaitable[None]]) -> None:
        try:
            await retry_write(write, self._max_outage_s)
        except LeaseLost:
            if self.is_job:
                raise
            raise NotFound(f"Response with id '{self._response_id:.80}' was deleted.") from None


class OpenCallJournal:
    """The journal of a reply that is not stored, such as a chat completion. It has the calls that have not ended.

    `record_calls` and `start_call` raise StoreUnavailable once the store has failed for `max_outage_s`.
    """

    is_job: Final = False

    def __init__(self, store: OpenCallStore, owner: str, reply_id: str, *, max_outage_s: float) -> None:
        self._store = store
        self._owner = owner
        self._reply_id = reply_id
        self._max_outage_s = max_outage_s
        self._open_ids: set[str] = set()
        self._finished_ids: set[str] = set()
        """Calls that ended while the store was unavailable, and are still open in the store."""

    async def record_calls(
        self, calls: Sequence[HostedCall], started: Collection[HostedCall], progress: Json | None
    ) -> None:
        self._open_ids.update(call.item_id for call in calls)
        open_calls = [OpenCall(call.item_id, *call.key, is_started=call in started) for call in calls]
        try:
            await retry_write(
                lambda: self._store.record_calls(self._owner, self._reply_id, open_calls), self._max_outage_s
            )
        except StoreUnavailable:
            raise StoreUnavailable(_NOT_SENT) from None  # the usual text advises `store: false`

    async def start_call(self, call: HostedCall) -> None:
        await self.record_calls([call], [call], None)

    async def finish_call(self, call: HostedCall, outcome: ToolOutcome) -> None:
        """Removes a call. If the store fails, the reply continues: it has the result, which nothing else needs."""
        try:
            await self._store.close_call(self._owner, self._reply_id, call.item_id)
        except StoreUnavailable:
            self._finished_ids.add(call.item_id)
            _log.warning("tool_call_not_closed", call=call.item_id, call_id=call.call_id)
        self._open_ids.discard(call.item_id)

    async def close(self) -> None:
        """Removes ended calls that are still in the store. Records that the outcome of cancelled calls is unknown.

        A cancelled task can await it too.
        """
        if self._open_ids or self._finished_ids:
            await asyncio.shield(start_detached_task(self._settle_calls()))

    async def _settle_calls(self) -> None:
        try:
            for item_id in self._finished_ids:
                await self._store.close_call(self._owner, self._reply_id, item_id)
            if self._open_ids:
                await self._store.abandon_calls(self._owner, self._reply_id)
        except StoreUnavailable:
            open_ids, finished_ids = sorted(self._open_ids), sorted(self._finished_ids)
            _log.warning("tool_calls_not_settled", reply=self._reply_id, calls=open_ids, finished=finished_ids)


class JournalFactory:
    """Makes the journals of responses that this process runs. `store` and `lease` are None without a store."""

    def __init__(self, store: Store | None, lease: Lease | None, *, max_outage_s: float) -> None:
        self._store = store
        self._lease = lease
        self._max_outage_s = max_outage_s

    def add_open_call_journal(self, loop_io: LoopIO | None, owner: str, reply_id: str) -> None:
        """Sets a journal for the hosted calls of a reply that is not stored, if there are calls and a store."""
        if loop_io is not None and self._store is not None:
            loop_io.journal = OpenCallJournal(self._store.open_calls, owner, reply_id, max_outage_s=self._max_outage_s)

    def make_journal(
        self, owner: str, response_id: str, *, ensure_stored: Callable[[], Awaitable[None]] | None = None
    ) -> ResponseJournal:
        """Returns the journal of a stored response. Without `ensure_stored` the response is a job.

        Raises StoreUnavailable without a store.
        """
        if self._store is None or self._lease is None:
            raise StoreUnavailable
        return ResponseJournal(
            self._store.call_journal,
            owner,
            response_id,
            worker=self._lease.worker,
            max_outage_s=self._max_outage_s,
            is_job=ensure_stored is None,
            ensure_stored=ensure_stored,
        )
