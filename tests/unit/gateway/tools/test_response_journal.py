"""Journals of calls when their store does not accept a write."""

from typing import Any

import pytest
from structlog.testing import capture_logs

from gateway.errors import NotFound, StoreUnavailable
from gateway.state.call_records import OpenCall
from gateway.state.values import LeaseLost
from gateway.tools.loop_io import LoopIO
from gateway.tools.response_journal import JournalFactory, OpenCallJournal, ResponseJournal
from translation.hosted.calls import HostedCall
from translation.hosted.outcomes import ToolOutcome
from translation.hosted.tools import ToolKey


def hosted_call(item_id: str = "mcp_1") -> HostedCall:
    return HostedCall(item_id=item_id, call_id="c1", key=ToolKey("calc", "add"), model_name="x", tool=None, index=0)


class FailingStore:
    """Raises `error` in every write, after `successes` of them, whose arguments are in `writes`."""

    def __init__(self, error: Exception, successes: int = 0) -> None:
        self.writes: list[Any] = []
        self._error = error
        self._successes = successes

    async def _write(self, *what: Any, **_: Any) -> None:
        if len(self.writes) == self._successes:
            raise self._error
        self.writes.append(what)

    record_calls = start_call = finish_call = open_calls = close_call = abandon_calls = _write


@pytest.mark.parametrize(("is_job", "raised"), [(True, LeaseLost), (False, NotFound)])
async def test_a_late_result_is_refused_and_in_the_log(is_job: bool, raised: type[Exception]) -> None:
    store: Any = FailingStore(LeaseLost("resp_1"))
    journal = ResponseJournal(store, "ann", "resp_1", worker="w", max_outage_s=0, is_job=is_job)
    with capture_logs() as lines, pytest.raises(raised):
        await journal.finish_call(hosted_call(), ToolOutcome("3"))
    assert [(line["event"], line["call"], line["call_id"]) for line in lines] == [
        ("tool_result_refused", "mcp_1", "c1")
    ]


async def test_a_call_of_a_reply_without_a_response_is_not_sent_unless_it_is_written_down() -> None:
    store: Any = FailingStore(StoreUnavailable())
    journal = OpenCallJournal(store, "ann", "chatcmpl_1", max_outage_s=0)
    for write in (journal.record_calls([hosted_call()], [], None), journal.start_call(hosted_call())):
        with pytest.raises(StoreUnavailable):
            await write


async def test_an_unstored_reply_continues_with_a_result_that_cannot_be_recorded() -> None:
    store: Any = FailingStore(StoreUnavailable(), successes=1)
    journal = OpenCallJournal(store, "ann", "chatcmpl_1", max_outage_s=0)
    await journal.record_calls([hosted_call()], [], None)
    assert store.writes == [("ann", "chatcmpl_1", [OpenCall("mcp_1", "calc", "add", is_started=False)])]
    with capture_logs() as lines:
        await journal.finish_call(hosted_call(), ToolOutcome("3"))
        await journal.close()
    assert [line["event"] for line in lines] == ["tool_call_not_closed", "tool_calls_not_settled"]


def test_an_unstored_reply_has_a_journal_of_its_own_if_a_store_exists() -> None:
    store: Any = FailingStore(StoreUnavailable())
    loop_io = LoopIO()
    JournalFactory(store, None, max_outage_s=0).add_open_call_journal(loop_io, "ann", "id_1")
    assert isinstance(loop_io.journal, OpenCallJournal)
    JournalFactory(None, None, max_outage_s=0).add_open_call_journal(without := LoopIO(), "ann", "id_1")
    assert without.journal is None


class InterruptedStore:
    """A store that is unavailable while `is_down`. It has the open calls of one reply."""

    def __init__(self) -> None:
        self.is_down = False
        self.open: set[str] = set()
        self.unknown: set[str] = set()

    async def record_calls(self, _: str, __: str, calls: Any) -> None:
        self.open |= {call.item_id for call in calls}

    async def close_call(self, _: str, __: str, item_id: str) -> None:
        if self.is_down:
            raise StoreUnavailable
        self.open.remove(item_id)

    async def abandon_calls(self, *_: str) -> None:
        self.unknown, self.open = self.open, set()


@pytest.mark.parametrize("has_cancelled", [False, True], ids=["alone", "beside a cancelled call"])
async def test_a_call_that_has_ended_in_an_outage_is_not_reported_as_unknown(has_cancelled: bool) -> None:
    store: Any = InterruptedStore()
    journal = OpenCallJournal(store, "ann", "chatcmpl_1", max_outage_s=0)
    calls = [hosted_call(item_id) for item_id in ("mcp_1", "mcp_2")[: 1 + has_cancelled]]
    await journal.record_calls(calls, calls, None)
    store.is_down = True
    await journal.finish_call(calls[0], ToolOutcome("3"))
    store.is_down = False
    await journal.close()
    assert store.open == set()
    assert store.unknown == ({"mcp_2"} if has_cancelled else set())


async def test_a_reply_whose_calls_have_ended_leaves_nothing_to_settle() -> None:
    store: Any = FailingStore(StoreUnavailable(), successes=2)
    journal = OpenCallJournal(store, "ann", "chatcmpl_1", max_outage_s=0)
    await journal.start_call(hosted_call())
    await journal.finish_call(hosted_call(), ToolOutcome("3"))
    await journal.close()
    assert len(store.writes) == 2
