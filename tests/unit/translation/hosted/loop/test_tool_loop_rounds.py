"""The loop of a model and hosted tools: many rounds, one reply."""

from typing import Any

import pytest

from tests.tool_rounds import LoopDriver, call, function_tool, hosted_tool, round_of, text, whole
from translation.errors import ProtocolViolation
from translation.hosted.bounds import LoopBounds
from translation.hosted.citations.citables import CitablePage
from translation.hosted.citations.citation_table import build_result_details
from translation.hosted.loop.model_context import ModelContext
from translation.hosted.loop.tool_loop import ToolLoop
from translation.hosted.outcomes import ToolOutcome, build_execution_error
from translation.hosted.past_hosted_calls import ApprovedCalls
from translation.hosted.result_reader import ResultReader
from translation.hosted.tool_search.deferred_tools import DeferredTools, split_deferred
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
    Opaque,
    PartEnded,
    Progressed,
    Started,
    Usage,
)
from translation.representation.json_types import Item
from translation.representation.turn import Turn

REASONING: Item = {
    "id": "rs_1",
    "type": "reasoning",
    "summary": [],
    "encrypted_content": "sealed",
    "details": [{"type": "reasoning.encrypted", "data": "x", "call_id": "call_1"}],
}


def names(turn: Any) -> list[str]:
    return [tool["name"] for tool in turn.tools]


def outputs(turn: Any) -> list[Any]:
    return [item["output"] for item in turn.items if item["type"] == "function_call_output"]


# Rounds


def test_rounds_are_one_reply_with_one_start_one_end_and_indexes_that_run_on() -> None:
    driver = LoopDriver(hosted_tool())
    driver.run_round(text("Let me see."), call(), reason="tool_calls", usage=Usage(input=10, output=2))
    second = driver.run_round(text("It is 3."), usage=Usage(input=20, output=5, reasoning=1))
    end = driver.finish()
    assert driver.types == ["message", "mcp_call", "message"]
    assert [type(event) for event in driver.events].count(Started) == 1
    assert isinstance(end, Finished)
    assert (end.reason, end.usage) == ("stop", Usage(input=30, output=7, reasoning=1))
    assert [item["type"] for item in second.items] == ["message", "function_call", "function_call_output"]
    assert outputs(second) == ["3"]


def test_the_events_of_a_call_are_in_the_order_of_the_api() -> None:
    driver = LoopDriver(hosted_tool())
    driver.run_round(call(), reason="tool_calls")
    assert [type(event) for event in driver.events] == [
        Started,
        ItemStarted,
        Progressed,
        Delta,
        PartEnded,
        Progressed,
        ItemEnded,
    ]
    assert [event.phase for event in driver.events if isinstance(event, Progressed)] == ["in_progress", "completed"]
    assert driver.output[0]["output"] == "3"


def test_text_before_a_call_and_the_arguments_of_the_call_are_sent_at_once() -> None:
    driver = LoopDriver(hosted_tool())
    driver.ask()
    events = round_of(text("one", "two"), call())
    for event in events[:-1]:
        sent = driver.feed([event])
        is_end_of_call = isinstance(event, ItemEnded) and event.index == 1
        assert sent or is_end_of_call or event == PartEnded(1, None), event


def test_events_after_a_call_wait_for_it_and_keep_their_order() -> None:
    driver = LoopDriver(hosted_tool())
    driver.ask()
    driver.feed(round_of(call(call_id="c1"), text("after"), call(arguments='{"a": 2}', call_id="c2"), text("last")))
    assert driver.types == ["mcp_call"]
    first, second = driver.loop.pending_calls
    assert driver.settle(second, "two") == []
    driver.settle(first, "one")
    assert driver.types == ["mcp_call", "message", "mcp_call", "message"]
    assert [item.get("output") for item in driver.output] == ["one", None, "two", None]


def test_no_call_is_pending_before_its_round_has_ended() -> None:
    driver = LoopDriver(hosted_tool())
    driver.ask()
    driver.feed(round_of(call())[:-1])
    assert driver.loop.pending_calls == []
    driver.feed([Finished("tool_calls")])
    assert len(driver.loop.pending_calls) == 1


def test_reasoning_stays_as_it_is_between_rounds() -> None:
    driver = LoopDriver(hosted_tool())
    driver.run_round(whole(REASONING), call(), reason="tool_calls")
    second = driver.run_round(text("3"))
    assert second.items[0] == REASONING
    assert driver.output[0] == REASONING
    assert driver.types == ["reasoning", "mcp_call", "message"]


def test_the_items_of_a_round_precede_the_outputs_of_its_calls() -> None:
    driver = LoopDriver(hosted_tool())
    driver.run_round(call(call_id="c1"), text("and"), call(arguments='{"a": 2}', call_id="c2"))
    second = driver.run_round(text("done"))
    assert [item.get("call_id") or item["type"] for item in second.items] == ["c1", "message", "c2", "c1", "c2"]


def test_images_of_a_result_are_parts_of_the_output() -> None:
    image = {"type": "input_image", "image_url": "data:image/png;base64,AA=="}
    driver = LoopDriver(hosted_tool())
    driver.ask()
    driver.feed(round_of(call()))
    (pending,) = driver.loop.pending_calls
    driver.settle(pending, build_execution_error("no"))
    assert pending.outcome is not None
    pending.outcome = type(pending.outcome)(output="see", media=[image])
    assert outputs(driver.ask()) == [[{"type": "input_text", "text": "see"}, image]]


def test_arguments_without_deltas_are_sent_as_one_delta() -> None:
    started = {**items.new_function_call("fc_1", call_id="c1", name="calc_add"), "arguments": '{"a": 1}'}
    late = items.new_function_call("fc_2", call_id="c2", name="calc_add")
    driver = LoopDriver(hosted_tool(), hosted_tool("now", parameters={}))
    driver.ask()
    driver.feed(
        [
            Started("m"),
            *whole(started)(0),
            ItemStarted(1, late),
            ItemEnded(1, {**late, "arguments": '{"a": 2}'}),
            *call("calc_now", "", "c3")(2),
            Finished("tool_calls"),
        ]
    )
    for pending in driver.loop.pending_calls:
        driver.settle(pending)
    texts = [event.text for event in driver.events if isinstance(event, Delta)]
    assert texts == ['{"a": 1}', '{"a": 2}', "{}"] == [item["arguments"] for item in driver.output]


def test_items_of_the_upstream_pass_with_their_events() -> None:
    search: Item = {"id": "ws_1", "type": "web_search_call", "status": "completed"}
    driver = LoopDriver(hosted_tool())
    driver.take(driver.loop.start())
    driver.take(
        driver.loop.emit_item(
            {"id": "mcpl_1", "type": "mcp_list_tools"},
            started={"id": "mcpl_1", "type": "mcp_list_tools"},
            phases=("in_progress", "completed"),
        )
    )
    driver.ask()
    events: list[Event] = [
        Started("m", response={"id": "resp_up"}),
        ItemStarted(0, search),
        Progressed(0, "searching"),
        Opaque("responses", {"type": "response.new"}, 0),
        ItemEnded(0, search),
        *call()(1),
        Opaque("responses", {"type": "response.about_a_call"}, 1),
        Opaque("responses", {"type": "response.other"}),
        Finished("tool_calls"),
    ]
    driver.feed(events)
    assert driver.types == ["mcp_list_tools", "web_search_call", "mcp_call"]
    assert Progressed(1, "searching") in driver.events
    assert Opaque("responses", {"type": "response.new"}, 1) in driver.events
    assert Opaque("responses", {"type": "response.other"}) in driver.events
    assert not [event for event in driver.events if isinstance(event, Opaque) and event.index == 2]
    assert driver.loop.start() == []


def test_deltas_keep_their_log_probabilities_where_the_index_changes() -> None:
    driver = LoopDriver(hosted_tool())
    driver.run_round(call(), reason="tool_calls")
    driver.ask()
    driver.feed([*text()(0)[:2], Delta(0, 0, "x", [{"token": "x"}], [7])])
    assert driver.events[-1] == Delta(1, 0, "x", [{"token": "x"}], [7])


def test_facts_are_sent_and_the_usage_of_a_round_is_not() -> None:
    driver = LoopDriver(hosted_tool())
    driver.ask()
    driver.feed([Started("m"), Noted(usage=Usage(output=3)), Noted(usage=Usage(output=4), facts={"service_tier": "x"})])
    assert driver.events[1:] == [Noted(facts={"service_tier": "x"})]
    driver.feed([Finished("stop")])
    assert driver.finish().usage == Usage(output=4)


def test_warnings_are_those_of_all_rounds_except_about_hosted_calls() -> None:
    driver = LoopDriver(hosted_tool(), own=[function_tool("mine")])
    driver.ask()
    hosted = {"name": "calc_add", "why": "broken"}
    driver.feed([*round_of(call(arguments="{"))[:-1], Noted(facts={TOOL_WARNINGS: [hosted]}), Finished("tool_calls")])
    assert not [event for event in driver.events if isinstance(event, Noted)]
    for n in (1, 2):
        driver.ask()
        warning = {"name": "mine", "why": str(n)}
        driver.feed([*round_of(call())[:-1], Noted(facts={TOOL_WARNINGS: [warning]}), Finished("tool_calls")])
        driver.settle(driver.loop.pending_calls[0])
    assert driver.events[-3] == Noted(facts={TOOL_WARNINGS: [{"name": "mine", "why": why} for why in "12"]})


@pytest.mark.parametrize(("rounds", "keys"), [(1, {"id", "output", "usage"}), (2, {"id"})])
def test_the_upstreams_own_response_is_used_without_fields_of_one_round(rounds: int, keys: set[str]) -> None:
    driver = LoopDriver(hosted_tool())
    if rounds == 2:
        driver.run_round(call(), reason="tool_calls")
    driver.run_round(text("3"), response={"id": "resp_up", "output": [], "usage": {}})
    end = driver.finish()
    assert isinstance(end, Finished)
    assert end.response is not None
    assert end.response.keys() == keys


# The client's own calls


def test_a_call_of_the_clients_function_ends_the_reply_after_the_hosted_calls_of_its_round() -> None:
    driver = LoopDriver(hosted_tool(), own=[function_tool("mine")])
    driver.ask()
    driver.feed(round_of(call("mine", "{}", "c1"), call(call_id="c2"), reason="tool_calls"))
    (pending,) = driver.loop.pending_calls
    driver.settle(pending)
    end = driver.finish()
    assert isinstance(end, Finished)
    assert end.reason == "tool_calls"
    assert driver.types == ["function_call", "mcp_call"]
    assert driver.output[1]["output"] == "3"


def test_fault_17_a_call_of_an_equally_named_function_goes_to_the_client() -> None:
    driver = LoopDriver(hosted_tool(), own=[function_tool("calc_add")])
    turn = driver.ask()
    assert names(turn)[0] == "calc_add"
    assert names(turn)[1].startswith("calc_add_")
    driver.feed(round_of(call("calc_add"), reason="tool_calls"))
    assert isinstance(driver.finish(), Finished)
    assert driver.types == ["function_call"]


@pytest.mark.parametrize(
    "item",
    [
        {"id": "ctc_1", "type": "custom_tool_call", "call_id": "c1", "name": "calc_add", "input": "x"},
        {"id": "lsh_1", "type": "local_shell_call", "call_id": "c1"},
        {"id": "fc_1", "type": "function_call", "call_id": "c1", "name": "calc_add", "namespace": "n", "arguments": ""},
        {"id": "mcpr_1", "type": "mcp_approval_request", "name": "x", "server_label": "native", "arguments": "{}"},
    ],
)
def test_every_kind_of_call_that_the_client_answers_ends_the_reply(item: Item) -> None:
    driver = LoopDriver(hosted_tool())
    driver.run_round(whole(item), call(call_id="c2"), reason="tool_calls")
    driver.finish()
    assert driver.types == [item["type"], "mcp_call"]


def test_a_call_that_the_upstream_ran_itself_does_not_end_the_reply() -> None:
    search: Item = {"id": "tsc_1", "type": "tool_search_call", "call_id": None, "execution": "server"}
    shell: Item = {"id": "sh_1", "type": "shell_call", "call_id": "c1"}
    shell_output: Item = {"id": "sho_1", "type": "shell_call_output", "call_id": "c1"}
    driver = LoopDriver(hosted_tool())
    driver.run_round(whole(search), whole(shell), whole(shell_output), call(call_id="c2"), reason="tool_calls")
    assert [item["type"] for item in driver.ask().items[:3]] == ["tool_search_call", "shell_call", "shell_call_output"]


def test_deltas_may_bypass_the_loop_unless_they_are_arguments_or_wait_for_a_call() -> None:
    driver = LoopDriver(hosted_tool())
    assert driver.loop.round_reason is None
    assert driver.loop.observe_text((0, 0)) is None, "no round has begun"
    driver.loop.emit_item({"type": "mcp_list_tools", "id": "mcpl_1"}, started={}, phases=())
    driver.ask()
    driver.loop.feed([Started("m"), *text("a")(0)[:3]])
    observed = driver.loop.observe_text((0, 0))
    assert observed is not None
    text_key, observe = observed
    assert text_key == (1, 0), "an item of the gateway comes before it"
    observe("b")
    driver.loop.feed([*text("a")(0)[3:], *call()(1)[:2]])
    assert driver.loop.observe_text((1, None)) is None
    driver.loop.feed([*call()(1)[2:], *text("c")(2)[:3]])
    assert driver.loop.observe_text((2, 0)) is None, "it waits for the call"
    assert not driver.loop.has_ended_round
    driver.loop.feed([*text("c")(2)[3:], Finished("stop")])
    assert driver.loop.has_ended_round
    driver.loop.settle_call(driver.loop.pending_calls[0], build_execution_error("no"))
    message, *_ = driver.ask().items
    assert message["content"][0]["text"] == "ab", "the model reads what bypassed the loop"


def test_calls_beside_those_of_the_client_are_skipped_where_their_results_would_be_lost() -> None:
    bounds = LoopBounds(runs_with_client_calls=False)
    driver = LoopDriver(hosted_tool(), own=[function_tool("ask_user")], bounds=bounds)
    driver.run_round(call("ask_user", "{}", "c1"), call(call_id="c2"), call("made_up", "{}", "c3"), reason="tool_calls")
    assert "together with calls of the client" in str(driver.output[1]["error"])
    assert "made_up is not a valid tool name" in str(driver.output[2]["error"])
    end = driver.loop.build_end_events()
    assert isinstance(end[0], Finished)
    alone = LoopDriver(hosted_tool(), own=[function_tool("ask_user")], bounds=bounds)
    alone.run_round(call())
    assert alone.output[0]["output"] == "3"


def test_events_of_a_round_that_was_not_begun_are_a_violation() -> None:
    with pytest.raises(ProtocolViolation, match="not begun"):
        LoopDriver(hosted_tool()).loop.feed([Started("m")])


def test_a_reply_has_no_end_while_a_round_follows() -> None:
    driver = LoopDriver(hosted_tool())
    driver.run_round(call(), reason="tool_calls")
    assert driver.loop.build_end_events() == []


def test_the_markers_of_a_result_are_citations_in_the_answer_of_the_next_round() -> None:
    page, other = CitablePage("https://a.example", "A"), CitablePage("https://b.example", "B")
    driver = LoopDriver(hosted_tool("look"))
    driver.ask()
    driver.feed(round_of(call("calc_look"), reason="tool_calls"))
    (pending,) = driver.loop.pending_calls
    # The outcome comes from another process, whose numbers are this one's if they are free.
    fields = {"details": build_result_details("【3】 A", {3: page})}
    driver.take(driver.loop.settle_call(pending, ToolOutcome(output="【3】 A", fields=fields)))
    turn = driver.ask()
    assert turn.items[-1]["output"] == "【3】 A"
    started = [Started("m"), *text("")(0)[:2]]
    driver.feed(started)
    assert driver.loop.observe_text((0, 0)) is None, "its deltas may have markers"
    sent = driver.feed([Delta(0, 0, "See 【3】"), Delta(0, 0, ".")])
    assert [event.text for event in sent if isinstance(event, Delta)] == [
        "See ",
        "([a.example](https://a.example))",
        ".",
    ]
    assert [event.annotation["end_index"] for event in sent if isinstance(event, Annotated)] == [36]
    context = ModelContext((), ResultReader(100))
    context.citations.add(other)
    taken = context.adopt_outcome(
        ToolOutcome(output="【1】 A", fields={"details": build_result_details("【1】 A", {1: page})})
    )
    assert taken == ToolOutcome(output="【2】 A", fields={"details": build_result_details("【2】 A", {2: page})})


def test_tools_that_are_loaded_follow_those_that_were_offered_before() -> None:
    deferred = DeferredTools()
    deferred.fill(split_deferred([{**function_tool("later"), "defer_loading": True}])[1])
    context = ModelContext((), ResultReader(100), deferred=deferred)
    catalogue = ToolCatalogue.build([hosted_tool()])
    turn = Turn(model="m", items=[], tools=[function_tool("now")])
    loop = ToolLoop(turn, catalogue, ApprovedCalls(), LoopBounds(rounds=1), lambda prefix: f"{prefix}_1", context)
    deferred.load(["later"])
    assert names(loop.build_next_turn()) == ["now", "calc_add", "later"]


def test_calls_that_have_ended_are_reported() -> None:
    driver = LoopDriver(hosted_tool())
    assert driver.loop.build_report_events() == []
    driver.run_round(call(call_id="c1"), call("unknown_tool", call_id="c2"))
    (noted,) = driver.loop.build_report_events()
    assert isinstance(noted, Noted)
    assert noted.facts is not None
    tools = noted.facts["gateway_report"]["tools"]
    assert {name: (each["calls"], each["failed"]) for name, each in tools.items()} == {
        "calc.add": (1, 0),
        "unknown": (1, 1),
    }
    assert driver.loop.report.count_by_tool()["unknown"]["skipped"] == 1
