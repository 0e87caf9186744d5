"""The order of a reply's events around calls that have not ended."""

from tests.tool_rounds import hosted_tool
from translation.hosted.calls import HostedCall
from translation.hosted.loop.output_queue import OutputQueue
from translation.hosted.outcomes import ToolOutcome
from translation.representation.events import ItemEnded, Noted, Progressed


def new_call(index: int) -> HostedCall:
    tool = hosted_tool()
    return HostedCall(item_id="mcp_1", call_id="c", key=tool.key, model_name="calc_add", tool=tool, index=index)


def test_indexes_have_no_gaps() -> None:
    queue = OutputQueue()
    assert [queue.take_index() for _ in range(3)] == [0, 1, 2]
    assert queue.item_count == 3


def test_events_are_ready_at_once_and_returned_once() -> None:
    queue = OutputQueue()
    queue.put(Progressed(0, "a"), Progressed(0, "b"))
    assert queue.take() == [Progressed(0, "a"), Progressed(0, "b")]
    assert queue.take() == []


def test_events_wait_behind_an_unsettled_call_and_calls_end_in_their_order() -> None:
    queue = OutputQueue()
    first, second = new_call(0), new_call(1)
    queue.put_call(first)
    queue.put(Progressed(5, "between"))
    queue.put_call(second)
    queue.put(Progressed(5, "after"))
    queue.send_now(Noted(facts={"service_tier": "flex"}))
    assert queue.take() == [Noted(facts={"service_tier": "flex"})]
    assert queue.unsettled_calls == [first, second]
    second.outcome = ToolOutcome("2")
    queue.release()
    assert queue.take() == []
    assert queue.unsettled_calls == [first]
    first.outcome = ToolOutcome("1")
    queue.release()
    events = queue.take()
    assert [event.index for event in events if isinstance(event, ItemEnded)] == [0, 1]
    assert [event.phase for event in events if isinstance(event, Progressed)] == [
        "completed",
        "between",
        "completed",
        "after",
    ]


def test_a_call_that_is_settled_already_ends_at_once() -> None:
    queue = OutputQueue()
    call = new_call(0)
    call.is_incomplete = True
    queue.put_call(call)
    (ended,) = queue.take()
    assert isinstance(ended, ItemEnded)
    assert ended.status == "incomplete"
