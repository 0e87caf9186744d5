"""Journals of calls when their store does not accept a write."""

from typing import Any

import pytest
from structlog.testing import capture_logs

from gateway.errors import NotFound, StoreUnavailable
from gateway.replies.endpoints import CHAT, RESPONSES, Endpoint
from gateway.replies.messages_endpoint import MESSAGES
from gateway.state.call_records import OpenCall
from gateway.state.store import LeaseLost
from gateway.tools.response_journal import JournalFactory, OpenCallJournal, ResponseJournal
from gateway.tools.tool_run import ToolRun
from translation.hosted.calls import HostedCall
from translation.hosted.outcomes import ToolOutcome
from translation.hosted.tools import ToolKey


def hosted_call() -> HostedCall:
    return HostedCall(item_id="mcp_1", call_id="c1", key=ToolKey("calc", "add"), model_name="x", tool=None, index=0)


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

    record_calls = start_call = finish_call = open_calls = close_call = leave_calls = _write


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


async def test_a_reply_without_a_response_goes_on_with_a_result_that_cannot_be_written_down() -> None:
    store: Any = FailingStore(StoreUnavailable(), successes=1)
    journal = OpenCallJournal(store, "ann", "chatcmpl_1", max_outage_s=0)
    await journal.record_calls([hosted_call()], [], None)
    assert store.writes == [("ann", "chatcmpl_1", [OpenCall("mcp_1", "calc", "add", is_started=False)])]
    with capture_logs() as lines:
        await journal.finish_call(hosted_call(), ToolOutcome("3"))
        await journal.close()
    assert [line["event"] for line in lines] == ["tool_call_not_closed", "tool_calls_not_settled"]


@pytest.mark.parametrize(
    ("endpoint", "has_journal"),
    [(CHAT, True), (MESSAGES, True), (RESPONSES, False)],
    ids=["chat", "messages", "responses"],
)
def test_replies_without_a_response_have_a_journal_of_their_own(endpoint: Endpoint, has_journal: bool) -> None:
    store: Any = FailingStore(StoreUnavailable())
    tool_run = ToolRun()
    JournalFactory(store, None, max_outage_s=0).add_open_call_journal(tool_run, endpoint, "ann", "id_1")
    assert isinstance(tool_run.journal, OpenCallJournal) == has_journal
    JournalFactory(None, None, max_outage_s=0).add_open_call_journal(without := ToolRun(), endpoint, "ann", "id_1")
    assert without.journal is None


async def test_a_reply_whose_calls_have_ended_leaves_nothing_to_settle() -> None:
    store: Any = FailingStore(StoreUnavailable(), successes=2)
    journal = OpenCallJournal(store, "ann", "chatcmpl_1", max_outage_s=0)
    await journal.start_call(hosted_call())
    await journal.finish_call(hosted_call(), ToolOutcome("3"))
    await journal.close()
    assert len(store.writes) == 2
