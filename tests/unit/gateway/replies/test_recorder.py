"""What a reply stores, however its request ends."""

import asyncio
from typing import Any

import pytest

from gateway.errors import StoreUnavailable
from gateway.replies.recorder import ForegroundRecorder
from gateway.state.values import LeaseLost, NewResponse, StoredHeaders
from tests.polling import wait_until
from translation.errors import InvalidRequest

Json = dict[str, Any]
HEAD: Json = {"id": "resp_1", "status": "in_progress", "output": []}
DONE: Json = {**HEAD, "status": "completed"}
LATE = StoredHeaders("n=late", "second")


class Lease:
    worker = "worker_1"

    def __init__(self) -> None:
        self.held: set[str] = set()
        self.dropped = asyncio.Event()

    def track_response(self, owner: str, response_id: str) -> None:
        self.held.add(response_id)

    def untrack_response(self, owner: str, response_id: str) -> None:
        self.held.remove(response_id)
        self.dropped.set()


class Log:
    """A store that records its calls. `gate` delays its writes; `failure` is what they raise."""

    def __init__(self) -> None:
        self.said: list[tuple[str, Any]] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self.failure: Exception | None = None
        self.headers: StoredHeaders | None = None
        self.written = asyncio.Event()
        self.erased_us = -1

    @property
    def responses(self) -> "Log":
        """The part of the store that the recorder uses."""
        return self

    @property
    def owner_data(self) -> "Log":
        """Another part."""
        return self

    def was_erased_since(self, owner: str, begun_us: int) -> bool:
        return self.erased_us >= begun_us

    async def create_response(self, new: NewResponse) -> None:
        await self._write("begin", new.response["status"])

    async def finish_response(
        self, owner: str, response: Json, *, worker: str, headers: StoredHeaders | None = None, has_calls: bool = False
    ) -> None:
        await self._write("finish", response["status"])
        self.headers = headers

    async def replace_beginning(self, owner: str, response: Json, *, worker: str, headers: StoredHeaders) -> None:
        await self._write("replace", response.get("temperature"))
        self.headers = headers

    async def store_ended_response(
        self, new: NewResponse, response: Json, *, headers: StoredHeaders | None = None
    ) -> None:
        await self._write("whole", (new.response["id"], response["status"]))
        self.headers = headers

    async def delete_response(self, owner: str, response_id: str) -> bool:
        await self._write("delete", response_id)
        return True

    async def _write(self, what: str, detail: Any) -> None:
        await self.gate.wait()
        if self.failure is not None:
            raise self.failure
        self.said.append((what, detail))
        self.written.set()


@pytest.fixture
async def log() -> Log:
    return Log()


@pytest.fixture
async def lease() -> Lease:
    return Lease()


@pytest.fixture
async def recording(log: Log, lease: Lease) -> ForegroundRecorder:
    store: Any = log
    new = NewResponse(owner="o", response=HEAD, input_items=[])
    return ForegroundRecorder(store, lease, new, lambda: LATE, begin_delay_s=3600.0)


@pytest.fixture
async def hurried(log: Log, lease: Lease) -> ForegroundRecorder:
    """Makes a reply begin at the next turn of the event loop, whether its client knows of it or not."""
    store: Any = log
    new = NewResponse(owner="o", response=HEAD, input_items=[])
    return ForegroundRecorder(store, lease, new, lambda: LATE, begin_delay_s=0.0)


async def test_the_beginning_is_written_before_the_end(recording: ForegroundRecorder, log: Log, lease: Lease) -> None:
    recording.begin()
    assert lease.held == {"resp_1"}
    await recording.finish(DONE)
    await recording.abandon(None)
    assert log.said == [("begin", "in_progress"), ("finish", "completed")]
    assert not lease.held


async def test_a_short_reply_that_its_client_learns_of_at_its_end_is_stored_once(
    recording: ForegroundRecorder, log: Log, lease: Lease
) -> None:
    recording.begin_unsent()
    await recording.finish(DONE)
    await recording.abandon(None)
    assert (log.said, log.headers) == ([("whole", ("resp_1", "completed"))], LATE)
    assert not lease.held


async def test_a_short_reply_that_fails_before_its_client_learns_of_it_leaves_nothing(
    recording: ForegroundRecorder, log: Log, lease: Lease
) -> None:
    recording.begin_unsent()
    await recording.abandon(None)
    assert (log.said, lease.held) == ([], set())


async def test_a_long_reply_is_stored_as_begun_before_its_client_knows_of_it(
    hurried: ForegroundRecorder, log: Log, lease: Lease
) -> None:
    hurried.begin_unsent()
    async with asyncio.timeout(60):
        await log.written.wait()
    assert lease.held == {"resp_1"}
    await hurried.finish(DONE)
    assert log.said == [("begin", "in_progress"), ("finish", "completed")]
    assert not lease.held


@pytest.mark.parametrize(
    ("unfinished", "left"), [(None, ("delete", "resp_1")), ({**HEAD, "status": "failed"}, ("finish", "cancelled"))]
)
async def test_an_abandoned_reply_is_cancelled_or_never_stored(
    recording: ForegroundRecorder, log: Log, lease: Lease, unfinished: Json | None, left: tuple[str, str]
) -> None:
    recording.begin()
    await recording.abandon(unfinished)
    assert log.said == [("begin", "in_progress"), left]
    assert not lease.held


async def test_a_client_that_leaves_at_the_very_end_loses_nothing(
    recording: ForegroundRecorder, log: Log, lease: Lease
) -> None:
    recording.begin()
    log.gate.clear()
    waiting = asyncio.create_task(recording.finish(DONE))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    await recording.abandon({**HEAD, "status": "failed"})
    log.gate.set()
    async with asyncio.timeout(60):
        await lease.dropped.wait()
    assert log.said == [("begin", "in_progress"), ("finish", "completed")]


async def test_an_unavailable_store_is_reported_and_nothing_stays_leased(
    recording: ForegroundRecorder, log: Log, lease: Lease
) -> None:
    log.failure = StoreUnavailable()
    recording.begin()
    with pytest.raises(StoreUnavailable):
        await recording.finish(DONE)
    await recording.abandon({**HEAD, "status": "failed"})
    assert not lease.held


async def test_a_response_that_was_deleted_while_it_ran_is_not_brought_back(
    recording: ForegroundRecorder, log: Log, lease: Lease
) -> None:
    recording.begin()
    await asyncio.sleep(0)
    log.failure = LeaseLost()
    await recording.finish(DONE)
    assert log.said == [("begin", "in_progress")]
    assert not lease.held


async def test_a_failed_beginning_is_not_sent_to_a_client_that_left(
    recording: ForegroundRecorder, log: Log, lease: Lease
) -> None:
    log.failure = InvalidRequest("its parent was deleted", param="previous_response_id")
    recording.begin()
    await recording.abandon({**HEAD, "status": "failed"})
    assert log.said == []
    assert not lease.held


async def test_a_reply_that_never_began_stores_nothing(recording: ForegroundRecorder, log: Log) -> None:
    await recording.abandon(None)
    assert log.said == []


async def test_the_upstream_that_answers_replaces_what_was_stored_for_another(
    hurried: ForegroundRecorder, log: Log
) -> None:
    hurried.find_beginning = lambda: HEAD | {"temperature": 0.5}
    hurried.begin()
    for _ in range(2):  # two attempts may have content, if a filter ends the first
        hurried.note_content()
    await wait_until(lambda: len(log.said) == 2)
    assert (log.said[-1], log.headers) == (("replace", 0.5), LATE)
    await hurried.finish(DONE)
    assert log.said[-1] == ("finish", "completed")


async def test_headers_alone_are_replaced_if_the_upstream_changes_no_parameter(
    hurried: ForegroundRecorder, log: Log
) -> None:
    hurried.begin()
    hurried.note_content()
    await wait_until(lambda: log.headers == LATE)
    assert log.said[-1] == ("replace", None)
    await hurried.abandon(HEAD)


async def test_a_reply_that_ends_soon_after_its_content_is_stored_at_its_end(
    recording: ForegroundRecorder, log: Log
) -> None:
    recording.begin()
    recording.note_content()
    await recording.finish(DONE)
    assert log.said == [("begin", "in_progress"), ("finish", "completed")]


async def test_content_of_a_reply_that_is_not_stored_yet_stores_nothing(hurried: ForegroundRecorder, log: Log) -> None:
    hurried.note_content()
    await asyncio.sleep(0)
    await hurried.finish(DONE)
    assert log.said == [("whole", ("resp_1", "completed"))]


@pytest.mark.parametrize("failure", [LeaseLost("resp_1"), StoreUnavailable()], ids=["ended", "unavailable"])
async def test_a_beginning_that_cannot_be_replaced_does_not_end_the_reply(
    failure: Exception, hurried: ForegroundRecorder, log: Log
) -> None:
    await hurried.wait_until_begun()
    refused = asyncio.Event()

    async def refuse(*_: object, **__: object) -> None:
        refused.set()
        raise failure

    log.replace_beginning = refuse  # type: ignore[method-assign]
    hurried.note_content()
    async with asyncio.timeout(60):
        await refused.wait()
    await hurried.finish(DONE)
    assert log.said[-1] == ("finish", "completed")
