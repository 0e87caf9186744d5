"""Loops that another process continues from their saved state and the sent events."""

from collections.abc import Sequence
from itertools import count
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.tool_rounds import ItemEvents, LoopDriver, call, function_tool, hosted_tool, round_of, text, whole
from translation.hosted.calls import HostedCall
from translation.hosted.interruptions.interruption import OUTCOME_UNKNOWN, Interruption, build_unknown_outcome
from translation.hosted.interruptions.saved_queue import restore_queue, save_queue
from translation.hosted.interruptions.sent_output import SentOutput
from translation.hosted.outcomes import ToolOutcome
from translation.hosted.tools import ToolCatalogue
from translation.parsers.text_calls import TOOL_WARNINGS
from translation.representation import items
from translation.representation.events import (
    Annotated,
    Delta,
    Event,
    Finished,
    ItemEnded,
    ItemStarted,
    Noted,
    PartEnded,
    PartStarted,
    Progressed,
    Usage,
)
from translation.representation.json_types import Item

ADD = hosted_tool()
TWO = '{"a": 2}'
REASONING: Item = {"id": "rs_1", "type": "reasoning", "summary": []}


def build_model_items(turn: Any) -> list[tuple[str, str]]:
    """Returns the types of the items that the model reads, and the outputs."""
    return [(item["type"], item.get("output", "")) for item in turn.items]


def test_a_loop_continues_after_the_calls_that_had_ended() -> None:
    driver = LoopDriver(ADD)
    driver.ask()
    driver.feed(
        round_of(text("Let me see."), call(), call(arguments=TWO, call_id="c2"), usage=Usage(input=1, output=2))
    )
    progress = driver.loop.save_progress()
    driver.settle(driver.loop.pending_calls[0], "one")
    resumed = driver.interrupt(progress, driver.events, ADD)
    (waiting,) = resumed.loop.pending_calls
    assert (waiting.arguments, resumed.loop.is_ending) == (TWO, False)
    resumed.settle(waiting, "two")
    turn = resumed.run_round(text("3"), usage=Usage(input=1, output=2))
    assert resumed.loop.round_number == 2
    assert build_model_items(turn) == [
        ("message", ""),
        ("function_call", ""),
        ("function_call_output", "one"),
        ("function_call", ""),
        ("function_call_output", "two"),
    ]
    assert resumed.finish().usage == Usage(input=2, output=4)
    assert [item.get("output") for item in resumed.output] == [None, "one", "two", None]


def test_events_queued_behind_a_call_are_sent_by_the_next_loop() -> None:
    own = [function_tool("mine")]
    driver = LoopDriver(ADD, own=own)
    driver.ask()
    driver.feed(round_of(call(), call("made_up", "{}", "c2"), call("mine", '{"x": 1}', "c3"), reason="tool_calls"))
    progress = driver.loop.save_progress()
    resumed = driver.interrupt(progress, driver.events, ADD, own=own)
    assert resumed.loop.is_ending
    (waiting,) = resumed.loop.pending_calls
    resumed.settle(waiting)
    assert resumed.types == ["mcp_call", "mcp_call", "function_call"]
    assert resumed.output[1]["status"] == "failed"
    assert resumed.output[2]["arguments"] == '{"x": 1}'
    end = resumed.finish()
    assert isinstance(end, Finished)
    assert end.reason == "tool_calls"


def test_items_behind_a_call_are_read_by_the_model_after_it() -> None:
    driver = LoopDriver(ADD)
    driver.ask()
    driver.feed(round_of(call(), text("and"), call(arguments=TWO, call_id="c2"), reason="tool_calls"))
    resumed = driver.interrupt(driver.loop.save_progress(), driver.events, ADD)
    for waiting in resumed.loop.pending_calls:
        resumed.settle(waiting, "x")
    kinds = [kind for kind, _ in build_model_items(resumed.ask())]
    outputs = ["function_call_output"] * 2
    assert kinds == ["function_call", "message", "function_call", *outputs]


def test_the_model_reads_that_the_outcome_of_a_call_is_unknown() -> None:
    driver = LoopDriver(ADD)
    driver.ask()
    driver.feed(round_of(call()))
    (waiting,) = driver.loop.pending_calls
    assert waiting.build_item("in_progress")["error"] is None
    assert waiting.build_item_with(ToolOutcome("3")) == {**waiting.build_item("completed"), "output": "3"}
    assert waiting.build_item_with(build_unknown_outcome())["status"] == "failed"
    driver.settle(waiting, build_unknown_outcome())
    assert build_model_items(driver.ask())[-1] == ("function_call_output", OUTCOME_UNKNOWN)


def test_counts_and_warnings_continue() -> None:
    driver = LoopDriver(ADD)
    driver.ask()
    warning = {"name": "mine", "text": "odd"}
    broken = call("made_up", "{}", "c2")
    driver.feed([*round_of(call(), broken)[:-1], Noted(facts={TOOL_WARNINGS: [warning]}), Finished("stop")])
    driver.settle(driver.loop.pending_calls[0], "3")
    driver.run_round(call(call_id="c3"), outcome="3")
    progress = driver.loop.save_progress()
    resumed = driver.interrupt(progress, driver.events, ADD)
    assert Noted(facts={TOOL_WARNINGS: [warning]}) in resumed.events
    resumed.run_round(call(call_id="c4"))
    assert "was made 2 times already" in str(resumed.output[-1]["error"])


def test_a_round_that_was_interrupted_is_sampled_again_and_its_items_are_incomplete() -> None:
    driver = LoopDriver(ADD)
    driver.run_round(call(), reason="tool_calls")
    driver.ask()
    summary = items.new_summary_text()
    driver.feed([*round_of(whole(REASONING))[:-1]])
    progress = {**driver.loop.save_progress()}
    started = items.new_function_call("fc", call_id="c", name="calc_add")
    driver.feed([ItemStarted(1, {**REASONING, "id": "rs_2"}), PartStarted(1, 0, summary), Delta(1, 0, "hm")])
    driver.feed([ItemStarted(2, started), Delta(2, None, '{"a"')])
    before = LoopDriver(ADD)
    before.run_round(call(), reason="tool_calls")
    assert progress["items"] == 2
    resumed = driver.interrupt(before.loop.save_progress(), driver.events, ADD)
    assert resumed.loop.pending_calls == []
    ends = [event for event in resumed.events if isinstance(event, ItemEnded)][-2:]
    assert [end.status for end in ends] == ["incomplete", "incomplete"]
    assert resumed.output[2]["summary"] == [{"type": "summary_text", "text": "hm"}]
    assert resumed.output[3]["arguments"] == '{"a"'
    turn = resumed.run_round(text("3"))
    assert [kind for kind, _ in build_model_items(turn)] == ["function_call", "function_call_output"]
    assert resumed.types == ["mcp_call", "reasoning", "reasoning", "mcp_call", "message"]
    resumed.finish()


def test_a_first_round_that_was_interrupted_keeps_the_lists_of_tools() -> None:
    listed: Item = {"id": "mcpl_1", "type": "mcp_list_tools", "server_label": "calc", "tools": []}
    driver = LoopDriver(ADD)
    driver.take(driver.loop.start())
    driver.take(driver.loop.emit_item(listed, started=listed, phases=("completed",)))
    sent = SentOutput(driver.events)
    assert Interruption(None, sent).context_items == [listed]
    assert Interruption(None, sent).is_resumable
    resumed = driver.interrupt(None, driver.events, ADD)
    resumed.run_round(text("Hi"))
    assert resumed.types == ["mcp_list_tools", "message"]


@pytest.mark.parametrize(
    ("events", "is_resumable"),
    [
        (whole(REASONING)(0), True),
        ([ItemStarted(0, items.new_message("m")), PartStarted(0, 0, items.new_output_text())], True),
        (text("It")(0), False),
        ([ItemStarted(0, items.new_message("m")), PartStarted(0, 0, {"type": "output_text", "text": "It"})], False),
        (call()(0), False),
    ],
    ids=["reasoning", "an empty message", "text", "a part with text", "a call of the client's tool"],
)
def test_a_round_is_not_sampled_again_after_actionable_output_was_delivered(
    events: Sequence[Event], is_resumable: bool
) -> None:
    assert Interruption(None, SentOutput(events)).is_resumable is is_resumable


def test_approved_calls_keep_their_place_in_the_input() -> None:
    ask = hosted_tool("ask", needs_approval=True)
    past: list[Item] = []
    for n in range(2):
        request = {"id": f"mcpr_{n}", "type": "mcp_approval_request", "server_label": "calc", "name": "ask"}
        past += [{**request, "arguments": f'{{"a": {n}}}'}]
        past += [{"type": "mcp_approval_response", "approval_request_id": f"mcpr_{n}", "approve": True}]
    more: dict[str, Any] = {"past": past, "approved_ids": ["mcpr_0", "mcpr_1"]}
    driver = LoopDriver(ask, **more)
    driver.take(driver.loop.start_approved_calls())
    progress = driver.loop.save_progress()
    driver.settle(driver.loop.pending_calls[0], "one")
    resumed = driver.interrupt(progress, driver.events, ask, **more)
    assert resumed.loop.start_approved_calls() == []
    (waiting,) = resumed.loop.pending_calls
    resumed.settle(waiting, "two")
    outputs = [item for item in build_model_items(resumed.ask()) if item[0] == "function_call_output"]
    assert sorted(outputs) == [("function_call_output", "one"), ("function_call_output", "two")]


def test_a_queue_is_the_same_after_it_was_saved() -> None:
    catalogue = ToolCatalogue.build([ADD])
    waiting = HostedCall(item_id="mcp_1", call_id="c", key=ADD.key, model_name="calc_add", tool=ADD, index=0)
    waiting.arguments, waiting.outcome = "{}", ToolOutcome("3", media=[{"type": "input_image"}])
    part = items.new_output_text()
    events: list[Event] = [
        ItemStarted(1, items.new_message("m")),
        PartStarted(1, 0, part),
        Delta(1, 0, "a", logprobs=[{"token": "a"}]),
        Delta(1, 0, "b"),
        Delta(1, 0, "c", token_ids=[1]),
        Annotated(1, 0, {"type": "url_citation"}),
        PartEnded(1, 0),
        Progressed(1, "x"),
        ItemEnded(1),
    ]
    saved = save_queue([waiting, *events])
    call_again, *restored = restore_queue(saved, catalogue, {})
    assert restored == events
    assert isinstance(call_again, HostedCall)
    assert (call_again.outcome, call_again.arguments, call_again.tool) == (waiting.outcome, "{}", ADD)


def test_deltas_of_one_text_are_saved_as_one() -> None:
    saved = save_queue([Delta(1, 0, "a"), Delta(1, 0, "b"), Delta(1, 1, "c")])
    assert [entry["text"] for entry in saved] == ["ab", "c"]


def test_citations_of_sent_text_are_in_the_items() -> None:
    sent = SentOutput(
        [
            ItemStarted(0, items.new_message("m")),
            PartStarted(0, 0, items.new_output_text()),
            Annotated(0, 0, {"type": "url_citation"}),
            PartEnded(0, 0),
            ItemEnded(0),
        ]
    )
    (message,) = sent.whole_items(1)
    assert message["content"][0]["annotations"] == [{"type": "url_citation"}]


@given(st.data())
def test_any_loop_that_is_interrupted_anywhere_is_one_reply_and_runs_no_call_twice(data: st.DataObject) -> None:
    own = [function_tool("mine")]
    driver = LoopDriver(ADD, own=own)
    outcomes: dict[str, ToolOutcome] = {}
    numbers = count()
    for _ in range(data.draw(st.integers(1, 3))):
        if driver.loop.build_next_turn() is None:
            break
        kinds = data.draw(st.lists(st.sampled_from(["add", "made_up", "text", "mine"]), max_size=4))
        parts = [text("so") if kind == "text" else _call_of(kind, next(numbers)) for kind in kinds]
        driver.feed(round_of(*parts, usage=Usage(output=1)))
        while pending := driver.loop.pending_calls:
            chosen = data.draw(st.sampled_from(pending))
            assert chosen.item_id not in outcomes
            outcomes[chosen.item_id] = ToolOutcome(output=chosen.item_id)
            saved = driver.loop.save_progress()
            driver.settle(chosen, outcomes[chosen.item_id])
            if data.draw(st.booleans()):
                driver = driver.interrupt(saved, driver.events, ADD, own=own)
                for waiting in driver.loop.pending_calls:
                    if waiting.item_id in outcomes:
                        driver.settle(waiting, outcomes[waiting.item_id])
    ended = [event.index for event in driver.events if isinstance(event, ItemEnded)]
    assert sorted(ended) == list(range(len(driver.output)))
    results = {item["id"]: item["output"] for item in driver.output if item["type"] == "mcp_call" and not item["error"]}
    assert results == {item_id: outcome.output for item_id, outcome in outcomes.items()}


def _call_of(kind: str, number: int) -> ItemEvents:
    return call("mine" if kind == "mine" else f"calc_{kind}", f'{{"a": {number}}}', f"call_{number}")
