"""Stores replies in the foreground: the beginning while the upstream works, the end before it is sent.

Jobs are stored by `gateway/jobs/`.
"""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Final, Protocol, TypeAlias

import structlog

from gateway.errors import StoreUnavailable
from gateway.state.row_values import read_clock_us
from gateway.state.store import Lease, Store, start_detached_task
from gateway.state.values import LeaseLost, NewResponse, StoredHeaders
from translation.errors import InvalidRequest
from translation.hosted.approvals import NO_ANSWERS
from translation.representation.json_types import Json

FindHeaders: TypeAlias = Callable[[], StoredHeaders]
"""Returns the headers of a reply that are stored with it, as far as they are known. Some are known only at its end."""

_LOST: Final = "deleted, erased or cancelled while it ran"

_log = structlog.get_logger(__name__)


class ReplyRecorder(Protocol):
    """Stores one reply."""

    def begin(self) -> None:
        """Called when the request is accepted. It does not wait for the store."""
        ...

    def begin_unsent(self) -> None:
        """Called instead of `begin` if no part of the reply, including its id, is sent before its end."""
        ...

    async def finish(self, result: Json | None) -> None:
        """Stores the end of a reply, successful or failed, and returns when it is committed.

        It raises StoreUnavailable. A response that was deleted or cancelled meanwhile is not stored.
        """
        ...

    async def abandon(self, unfinished: Json | None) -> None:
        """Called last. It stores a reply that was not finished, because its client disconnected, as cancelled.

        `unfinished` is the part of the reply that was sent. None means that the client does not know its id: the reply
        is then deleted.
        """
        ...


class CallTracker(Protocol):
    """The part of a journal of tool calls that a recorder needs."""

    @property
    def has_calls(self) -> bool:
        """Whether the journal may have calls of this response."""
        ...


class ForegroundRecorder:
    """Stores a response in the foreground. Its row is created while the upstream works; its end is one transaction.

    If nothing is sent before the end of the reply, the row is created after `begin_delay_s`. A reply that ends earlier
    is stored in one transaction as a whole.
    """

    def __init__(
        self, store: Store, lease: Lease, new: NewResponse, find_headers: FindHeaders, *, begin_delay_s: float
    ) -> None:
        self._store = store
        self._lease = lease
        self._new_response = new
        self._find_headers = find_headers
        self._begin_delay_s = begin_delay_s
        self._begun_us = read_clock_us()
        self.call_records: CallTracker | None = None
        """The calls of a response that runs hosted tools; None for any other."""
        self.find_beginning: Callable[[], Json] | None = None
        """Returns the response as its upstream began it, if that is known only with its first content; None if the
        upstream changes nothing in it."""
        self._answer_timer: asyncio.TimerHandle | None = None
        self._begin_timer: asyncio.TimerHandle | None = None
        self._begin_task: asyncio.Task[None] | None = None
        self._end_task: asyncio.Task[None] | None = None

    def begin_unsent(self) -> None:
        if not self._new_response.answers.is_empty:
            self.begin()  # The run waits until the beginning is stored.
            return
        self._begin_timer = asyncio.get_running_loop().call_later(self._begin_delay_s, self.begin)

    def begin(self) -> None:
        self._ensure_begun()

    def note_content(self) -> None:
        """Stores which upstream answers, because its content has begun. A reply that ends soon is stored at its end."""
        if self._answer_timer is None:
            loop = asyncio.get_running_loop()
            self._answer_timer = loop.call_later(self._begin_delay_s, self._store_answer)

    def _store_answer(self) -> None:
        self._answer_timer = None
        if self._begin_task is not None and self._end_task is None:
            start_detached_task(self._replace_beginning(self._begin_task))

    async def _replace_beginning(self, begin: asyncio.Task[None]) -> None:
        """Replaces what was stored for the upstream that was to be asked first."""
        new = self._new_response
        try:
            await begin
            response = new.response if self.find_beginning is None else self.find_beginning()
            await self._store.responses.replace_beginning(
                new.owner, response, worker=self._lease.worker, headers=self._find_headers()
            )
        except (StoreUnavailable, LeaseLost, InvalidRequest):
            _log.debug(
                "response_beginning_kept", why="it has ended meanwhile, or its end will be stored with all of it"
            )

    def _ensure_begun(self) -> asyncio.Task[None]:
        if self._begin_task is None:
            self._lease.track_response(self._new_response.owner, self._new_response.response["id"])
            self._begin_task = start_detached_task(self._create_response())
        return self._begin_task

    async def _create_response(self) -> None:
        self._require_not_erased()
        await self._store.responses.create_response(self._new_response)

    def _require_not_erased(self) -> None:
        """Raises LeaseLost if the data of the owner was erased since the run began: nothing of it may be stored."""
        new = self._new_response
        if self._store.owner_data.was_erased_since(new.owner, self._begun_us):
            raise LeaseLost(new.response["id"])

    async def wait_until_begun(self) -> None:
        """Returns when the beginning is committed. Raises what `Store.create_response` raises."""
        self._stop_begin_timer()
        await asyncio.shield(self._ensure_begun())

    def leave_approvals_open(self) -> None:
        """Stores the response without the approvals that its request gives: a later response may use them."""
        self._new_response = replace(self._new_response, answers=NO_ANSWERS)

    async def begin_now(self) -> None:
        """Stores the beginning of a reply before it is produced. A failure ends the recording.

        Raises what `wait_until_begun` raises.
        """
        try:
            await self.wait_until_begun()
        except asyncio.CancelledError:
            await self.abandon(None)
            raise
        except Exception:
            self._lease.untrack_response(self._new_response.owner, self._new_response.response["id"])
            raise

    async def finish(self, result: Json | None) -> None:
        if result is None:
            raise ValueError("a response has a result, however it ended")
        self._stop_timers()
        self._end_task = start_detached_task(
            self._commit_whole(result) if self._begin_task is None else self._commit_end(self._begin_task, result)
        )
        # If the client disconnects now, the complete response is stored nevertheless.
        await asyncio.shield(self._end_task)

    async def abandon(self, unfinished: Json | None) -> None:
        self._stop_timers()
        if self._end_task is None and self._begin_task is not None:
            self._end_task = start_detached_task(self._commit_abandonment(self._begin_task, unfinished))
            await asyncio.shield(self._end_task)

    @property
    def _has_calls(self) -> bool:
        return self.call_records is not None and self.call_records.has_calls

    def _stop_begin_timer(self) -> None:
        if self._begin_timer is not None:
            self._begin_timer.cancel()

    def _stop_timers(self) -> None:
        self._stop_begin_timer()
        if self._answer_timer is not None:
            self._answer_timer.cancel()

    async def _commit_whole(self, result: Json) -> None:
        try:
            self._require_not_erased()
        except LeaseLost:
            _log.info("response_end_not_stored", why=_LOST)
            return
        await self._store.responses.store_ended_response(self._new_response, result, headers=self._find_headers())

    async def _commit_end(self, begin: asyncio.Task[None], result: Json) -> None:
        try:
            await begin
            owner, headers = self._new_response.owner, self._find_headers()
            await self._store.responses.finish_response(
                owner, result, worker=self._lease.worker, headers=headers, has_calls=self._has_calls
            )
        except LeaseLost:
            _log.info("response_end_not_stored", why=_LOST)
        finally:
            self._lease.untrack_response(self._new_response.owner, self._new_response.response["id"])

    async def _commit_abandonment(self, begin: asyncio.Task[None], unfinished: Json | None) -> None:
        try:
            await begin
            if unfinished is None and self._has_calls:
                # Deleting the response would not undo the effects of its calls.
                await self._store.responses.cancel_response(self._new_response.owner, self._new_response.response["id"])
            elif unfinished is None:
                await self._store.responses.delete_response(self._new_response.owner, self._new_response.response["id"])
            else:
                await self._store.responses.finish_response(
                    self._new_response.owner,
                    _cancelled_response(unfinished),
                    worker=self._lease.worker,
                    headers=self._find_headers(),
                    has_calls=self._has_calls,
                )
        except (StoreUnavailable, LeaseLost):
            _log.info(
                "response_abandoned", why="the store did not accept its end; an active row will end as interrupted"
            )
        except InvalidRequest:
            _log.info("response_abandoned", why="it was never stored: the response it continues was deleted meanwhile")
        finally:
            self._lease.untrack_response(self._new_response.owner, self._new_response.response["id"])


class LenientRecorder:
    """Stores a reply by another recorder. A reply whose database has failed is sent all the same.

    `store` of a response is false then, and `report_unstored` is called before the reply ends.
    """

    def __init__(self, recorder: ReplyRecorder, report_unstored: Callable[[], None]) -> None:
        self._recorder = recorder
        self._report_unstored = report_unstored

    def begin(self) -> None:
        self._recorder.begin()

    def begin_unsent(self) -> None:
        self._recorder.begin_unsent()

    async def finish(self, result: Json | None) -> None:
        try:
            await self._recorder.finish(result)
        except StoreUnavailable:
            if result is not None and "store" in result:
                result["store"] = False
            self._report_unstored()

    async def abandon(self, unfinished: Json | None) -> None:
        await self._recorder.abandon(unfinished)


def _cancelled_response(unfinished: Json) -> Json:
    """Returns the response with the status `cancelled`, which a disconnect gives to a response in the foreground."""
    return {**unfinished, "status": "cancelled", "error": None, "incomplete_details": None, "completed_at": None}
