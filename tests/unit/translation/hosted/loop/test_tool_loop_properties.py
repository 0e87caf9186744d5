"""Properties of the loop for any rounds, outcomes and orders of both."""

from collections import Counter
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.tool_rounds import ItemEvents, LoopDriver, call, function_tool, hosted_tool, text, whole
from translation.hosted.bounds import LoopBounds
from translation.hosted.outcomes import ToolOutcome, build_execution_error
from translation.representation.events import Event, Failed, Finished, ItemEnded, ItemStarted, Started, Usage
from translation.representation.json_types import Item

_KINDS = ["text", "reasoning", "add", "add", "free", "ask", "unknown", "broken", "cut", "mine"]
_ENDS = ["tool_calls", "stop", "stop", "other", "length", "content_filter", "failed"]

_BOUNDS = LoopBounds(rounds=4, calls=5, identical_calls=3, errors_in_a_row=3, argument_bytes=40)


def make_item(kind: str, number: int) -> ItemEvents:
    call_id = f"call_{number}"
    match kind:
        case "text":
            return text("one", "two")
        case "reasoning":
            return whole({"id": f"rs_{number}", "type": "reasoning", "summary": [], "encrypted_content": "x"})
        case "unknown":
            return call("made_up", "{}", call_id)
        case "broken":
            return call(arguments="{", call_id=call_id)
        case "cut":
            return call(arguments='{"a"', call_id=call_id, is_cut=True)
        case "mine":
            return call("mine", "{}", call_id)
        case _:
            return call(f"calc_{kind}", f'{{"a": {number % 3}}}', call_id)


def draw_round(data: st.DataObject, kinds: list[str], numbers: Any) -> list[Event]:
    """Returns the events of a round, in which several items may be open at once."""
    waiting = [make_item(kind, next(numbers))(index) for index, kind in enumerate(kinds)]
    is_interleaved = data.draw(st.booleans())
    started: list[list[Event]] = []
    events: list[Event] = [Started("m")]
    while waiting or started:
        if waiting and (not started or (is_interleaved and data.draw(st.booleans()))):
            first, *rest = waiting.pop(0)
            events.append(first)  # Items start in the order of their indexes.
            started.append(rest)
            continue
        source = data.draw(st.sampled_from(started)) if is_interleaved else started[0]
        events.append(source.pop(0))
        started = [rest for rest in started if rest]
    return events


def paired(items: list[Item]) -> bool:
    """Whether every call has one output, and every output its call before it."""
    calls: Counter[str] = Counter()
    for item in items:
        if item["type"] == "function_call":
            calls[item["call_id"]] += 1
        elif item["type"] == "function_call_output":
            calls[item["call_id"]] -= 1
            if calls[item["call_id"]] < 0:
                return False
    return not any(calls.values())


@given(st.data())
def test_any_rounds_and_outcomes_are_one_reply(data: st.DataObject) -> None:
    approvals = data.draw(st.integers(0, 2))
    past: list[Item] = []
    for n in range(approvals):
        request = {"id": f"mcpr_{n}", "type": "mcp_approval_request", "server_label": "calc", "name": "ask"}
        past.append({**request, "arguments": data.draw(st.sampled_from(['{"a": 1}', "{"]))})
        past.append({"type": "mcp_approval_response", "approval_request_id": f"mcpr_{n}", "approve": True})
    driver = LoopDriver(
        hosted_tool("add"),
        hosted_tool("free", parameters={}),
        hosted_tool("ask", needs_approval=True),
        own=data.draw(st.sampled_from([[], [function_tool("mine")]])),
        past=past,
        approved_ids=[f"mcpr_{n}" for n in range(approvals)],
        changed_ids=[f"mcpr_{n}" for n in range(data.draw(st.integers(0, approvals)))],
        bounds=_BOUNDS,
        max_output_tokens=data.draw(st.sampled_from([None, 50])),
        tool_choice=data.draw(st.sampled_from([None, "auto", "required", {"type": "mcp", "server_label": "calc"}])),
    )
    settled: set[str] = set()
    outcomes = st.sampled_from([ToolOutcome(output="3"), build_execution_error("broken")])

    def settle_all() -> None:
        while pending := driver.loop.pending_calls:
            ids = {waiting.item_id for waiting in pending}
            assert len(ids) == len(pending)
            assert settled.isdisjoint(ids), "no call is pending again"
            chosen = data.draw(st.sampled_from(pending))
            settled.add(chosen.item_id)
            driver.settle(chosen, data.draw(outcomes))
            if data.draw(st.booleans()):
                assert driver.settle(chosen, "again") == []

    driver.take(driver.loop.start_approved_calls())
    driver.take(driver.loop.send_approval_requests())
    settle_all()
    numbers = iter(range(1000))
    rounds = used = 0
    while (turn := driver.loop.build_next_turn()) is not None:
        assert paired([*turn.items])
        rounds += 1
        assert rounds <= _BOUNDS.rounds + 1
        kinds = data.draw(st.lists(st.sampled_from(_KINDS), max_size=4))
        events = draw_round(data, kinds, numbers)
        end = data.draw(st.sampled_from(_ENDS))
        if end == "failed":
            events = events[: data.draw(st.integers(1, len(events)))]
            events.append(Failed("server_error", "broken", usage=Usage(output=10)))
        else:
            events.append(Finished(end, usage=Usage(output=10)))  # type: ignore[arg-type]
        used += 10
        driver.feed(events)
        if end in ("failed", "length", "content_filter") or "cut" in kinds:
            assert not driver.loop.pending_calls
        if data.draw(st.booleans()):
            settle_all()
        driver.take(driver.loop.send_approval_requests())
        settle_all()
    last = driver.finish()
    assert last.usage is not None
    assert last.usage.output == used
    assert sum(isinstance(event, Started) for event in driver.events) == 1
    ended = Counter(event.index for event in driver.events if isinstance(event, ItemEnded))
    assert set(ended.values()) <= {1}
    for event in driver.events:
        if isinstance(event, ItemStarted) and event.item["type"] == "mcp_call":
            assert ended[event.index] == 1
    for item in driver.output:
        if item["type"] == "mcp_call" and item["status"] == "completed":
            assert item["id"] in settled
