"""Calls that the loop does not run, and the limits of a loop."""

from typing import Any

import pytest

from tests.tool_rounds import LoopDriver, call, failed_round, function_tool, hosted_tool, round_of, text
from translation.hosted.bounds import LoopBounds
from translation.hosted.outcomes import build_execution_error
from translation.hygiene.reply import ReplyNormalizer
from translation.representation.events import (
    Failed,
    Finished,
    ItemEnded,
    ItemStarted,
    Usage,
)
from translation.representation.profile import DEFAULT_PROFILE


def names(turn: Any) -> list[str]:
    return [tool["name"] for tool in turn.tools]


def outputs(turn: Any) -> list[Any]:
    return [item["output"] for item in turn.items if item["type"] == "function_call_output"]


# Calls that are not run


def test_fault_24_an_unknown_name_is_an_error_and_the_reply_continues() -> None:
    driver = LoopDriver(hosted_tool())
    driver.run_round(call("add"), reason="tool_calls")
    assert outputs(driver.run_round(text("sorry"))) == ["add is not a valid tool name"]
    assert (driver.output[0]["status"], driver.output[0]["name"]) == ("failed", "add")
    assert isinstance(driver.finish(), Finished)


def test_fault_24_five_unknown_names_in_a_row_end_the_loop() -> None:
    driver = LoopDriver(hosted_tool())
    for _ in range(5):
        assert names(driver.run_round(call("made_up"), reason="tool_calls")) == ["calc_add"]
    assert names(driver.run_round(call("made_up"), reason="tool_calls")) == []
    end = driver.finish()
    assert isinstance(end, Finished)
    assert end.reason == "length"


def test_a_success_resets_the_errors_in_a_row() -> None:
    driver = LoopDriver(hosted_tool(), bounds=LoopBounds(errors_in_a_row=2))
    for n in range(4):
        assert driver.run_round(call("made_up"), reason="tool_calls").tools
        assert driver.run_round(call(arguments=f'{{"a": {n}}}'), reason="tool_calls").tools


def test_fault_25_arguments_that_are_no_json_are_not_run_and_the_item_keeps_them() -> None:
    driver = LoopDriver(hosted_tool())
    driver.run_round(call(arguments='{"a": '), reason="tool_calls")
    turn = driver.run_round(text("sorry"))
    assert outputs(turn) == ["Could not parse arguments as JSON"]
    assert driver.output[0]["arguments"] == '{"a": '


def test_fault_26_arguments_that_do_not_fit_the_schema_are_not_run() -> None:
    driver = LoopDriver(hosted_tool())
    driver.ask()
    driver.feed(round_of(call(arguments='{"a": "x"}')))
    assert driver.loop.pending_calls == []
    assert "arguments.a" in outputs(driver.ask())[0]


@pytest.mark.parametrize("arguments", ['{"a": 1, "b": 1000}', '{"é": "éé"}'])
def test_fault_27_arguments_over_the_bound_end_the_reply_as_incomplete(arguments: str) -> None:
    driver = LoopDriver(hosted_tool(parameters={}), bounds=LoopBounds(argument_bytes=12))
    driver.ask()
    driver.feed(round_of(call(), call(arguments=arguments, call_id="c2"), reason="tool_calls"))
    end = driver.finish()
    assert isinstance(end, Finished)
    assert end.reason == "length"
    assert [item["status"] for item in driver.output] == ["incomplete", "incomplete"]


@pytest.mark.parametrize("reason", ["length", "content_filter"])
def test_fault_27_a_round_that_was_cut_runs_no_call_and_ends_every_item(reason: Any) -> None:
    driver = LoopDriver(hosted_tool())
    driver.ask()
    driver.feed(round_of(call("made_up"), call(), text("x"), call(arguments='{"a"', is_cut=True), reason=reason))
    end = driver.finish()
    assert isinstance(end, Finished)
    assert end.reason == reason
    assert [item["status"] for item in driver.output] == ["failed", "incomplete", "completed", "incomplete"]


def test_fault_27_a_call_that_was_cut_before_its_arguments_ends_the_reply_as_incomplete() -> None:
    driver = LoopDriver(hosted_tool())
    driver.ask()
    driver.feed(round_of(call(arguments="", is_cut=True), reason="stop"))
    end = driver.finish()
    assert isinstance(end, Finished)
    assert end.reason == "length"
    assert (driver.output[0]["arguments"], driver.output[0]["status"]) == ("", "incomplete")


def test_fault_28_calls_with_one_id_get_their_own_ids_in_a_round_and_over_rounds() -> None:
    driver = LoopDriver(hosted_tool())
    for n in range(2):
        turn = driver.ask()
        events = round_of(*(call(arguments=f'{{"a": {n}, "b": {m}}}', call_id="call_1") for m in range(2)))
        driver.feed(ReplyNormalizer(turn, DEFAULT_PROFILE, lambda prefix: f"{prefix}_1").feed(events))
        first, second = driver.loop.pending_calls
        driver.settle(second, f"{n} second")
        driver.settle(first, f"{n} first")
    turn = driver.ask()
    ids = [item["call_id"] for item in turn.items if item["type"] == "function_call"]
    pairs = [(item["call_id"], item["output"]) for item in turn.items if item["type"] == "function_call_output"]
    assert len({*ids}) == 4
    assert pairs == list(zip(ids, ["0 first", "0 second", "1 first", "1 second"], strict=True))
    assert len({item["id"] for item in driver.output}) == 4


def test_a_failed_round_runs_no_call_and_ends_the_items_of_all_calls() -> None:
    driver = LoopDriver(hosted_tool(), hosted_tool("ask", needs_approval=True))
    driver.run_round(call(), reason="tool_calls", usage=Usage(output=4))
    driver.ask()
    open_calls = [*call(call_id="c3")(3)[:2], *call("calc_ask", call_id="c4")(4)[:2]]
    failed = failed_round(text("x"), call(), text("y"))
    driver.feed([*failed[:-1], *open_calls, failed[-1]])
    end = driver.finish()
    assert isinstance(end, Failed)
    assert end.usage == Usage(output=5)
    assert [item["status"] for item in driver.output[2:]] == ["incomplete", "completed", "incomplete"]
    assert sum(isinstance(event, ItemStarted) for event in driver.events) == 5
    assert sum(isinstance(event, ItemEnded) for event in driver.events) == 5


# Limits


def test_fault_40_an_endless_loop_gets_a_last_round_without_tools() -> None:
    driver = LoopDriver(hosted_tool(), bounds=LoopBounds(rounds=2), parallel_tool_calls=True)
    for n in range(2):
        assert names(driver.run_round(call(arguments=f'{{"a": {n}}}'), reason="tool_calls")) == ["calc_add"]
    last = driver.run_round(text("enough"))
    assert (names(last), last.tool_choice, last.parallel_tool_calls) == ([], None, None)
    end = driver.finish()
    assert isinstance(end, Finished)
    assert end.reason == "stop"


def test_fault_40_after_its_time_a_loop_gets_a_last_round_without_tools() -> None:
    driver = LoopDriver(hosted_tool(), bounds=LoopBounds(seconds=600))
    assert driver.run_round(call()).tools
    driver.loop.end_time()
    last = driver.run_round(call(call_id="c2"))
    assert not last.tools
    end = driver.finish()
    assert isinstance(end, Finished)
    assert end.reason == "length"
    assert "limit of 600 s reached" in str(driver.output[-1]["error"])


def test_fault_40_a_call_in_the_last_round_is_not_run_and_the_reply_is_incomplete() -> None:
    driver = LoopDriver(hosted_tool(), bounds=LoopBounds(rounds=1))
    driver.run_round(call(), reason="tool_calls")
    driver.run_round(call(arguments='{"a": 2}'), reason="tool_calls")
    end = driver.finish()
    assert isinstance(end, Finished)
    assert end.reason == "length"
    reached = "Tool call skipped: limit of 1 rounds reached"
    assert driver.output[1]["error"]["content"][0]["text"] == reached
    assert end.response == {"incomplete_details": {"reason": "max_output_tokens", "message": reached}}


def test_fault_27_arguments_over_the_bound_end_the_reply_with_the_reason() -> None:
    driver = LoopDriver(hosted_tool(), bounds=LoopBounds(argument_bytes=8))
    driver.run_round(call(arguments='{"a": 123456}'), call(call_id="c2"), reason="tool_calls", response={"id": "up"})
    end = driver.finish()
    assert isinstance(end, Finished)
    message = "Tool call skipped: its arguments have more than 8 bytes"
    assert (end.reason, end.response) == (
        "length",
        {"id": "up", "incomplete_details": {"reason": "max_output_tokens", "message": message}},
    )


def test_the_last_round_has_the_clients_own_tools() -> None:
    driver = LoopDriver(hosted_tool(), own=[function_tool("mine")], bounds=LoopBounds(rounds=1), tool_choice="required")
    assert driver.run_round(call(), reason="tool_calls").tool_choice == "required"
    last = driver.run_round(call("mine", "{}"), reason="tool_calls")
    assert (names(last), last.tool_choice) == (["mine"], "auto")
    end = driver.finish()
    assert isinstance(end, Finished)
    assert end.reason == "tool_calls"


def test_fault_41_calls_over_max_tool_calls_are_skipped_and_the_model_answers() -> None:
    driver = LoopDriver(hosted_tool(), bounds=LoopBounds(calls=1))
    driver.run_round(call(call_id="c1"), call(arguments='{"a": 2}', call_id="c2"), reason="tool_calls")
    last = driver.run_round(text("3"))
    assert outputs(last) == ["3", "Tool call skipped: limit of 1 calls reached"]
    assert not last.tools
    assert [item.get("status") for item in driver.output[:2]] == ["completed", "failed"]
    end = driver.finish()
    assert isinstance(end, Finished)
    assert end.reason == "stop"


def test_fault_43_the_third_of_identical_calls_is_not_run_and_the_tools_are_withdrawn() -> None:
    driver = LoopDriver(hosted_tool())
    for n in range(3):
        assert driver.run_round(call(call_id=f"c{n}"), reason="tool_calls").tools
    last = driver.run_round(text("3"))
    assert not last.tools
    assert "made 2 times already" in outputs(last)[2]
    assert outputs(last)[0] == "3"
    assert outputs(last)[1].startswith("3\n\n[Note: the same call returned the same result before.")
    assert [item["output"] for item in driver.output[:2]] == ["3", "3"], "the client sees the result alone"


def test_fault_42_a_forced_choice_holds_for_the_first_round_only() -> None:
    driver = LoopDriver(hosted_tool(), tool_choice={"type": "mcp", "server_label": "calc"})
    first = driver.run_round(call(), reason="tool_calls")
    assert first.tool_choice == {"type": "function", "name": "calc_add"}
    assert driver.run_round(text("3")).tool_choice == "auto"


def test_max_output_tokens_counts_over_all_rounds() -> None:
    driver = LoopDriver(hosted_tool(), max_output_tokens=100)
    assert driver.run_round(call(), reason="tool_calls", usage=Usage(output=30)).max_output_tokens == 100
    second = driver.run_round(call(arguments='{"a": 2}'), reason="tool_calls", usage=Usage(output=30))
    assert second.max_output_tokens == 70
    assert driver.run_round(text("3"), usage=Usage(output=40)).max_output_tokens == 40
    assert isinstance(driver.finish(), Finished)


@pytest.mark.parametrize("used", [90, 100, 120])
def test_a_reply_without_tokens_for_another_round_ends_as_incomplete(used: int) -> None:
    driver = LoopDriver(hosted_tool(), max_output_tokens=100)
    driver.run_round(call(), reason="tool_calls", usage=Usage(output=used), response={"id": "resp_up"})
    end = driver.finish()
    assert isinstance(end, Finished)
    assert (end.reason, end.response) == ("length", {"id": "resp_up"})
    assert driver.output[0]["output"] == "3"


def test_an_upstream_that_counts_no_tokens_gets_the_whole_limit_each_time() -> None:
    driver = LoopDriver(hosted_tool(), max_output_tokens=10)
    driver.run_round(call(), reason="tool_calls", usage=Usage(input=5))
    assert driver.ask().max_output_tokens == 10


def test_fault_60_a_late_or_second_outcome_is_dropped_and_counted() -> None:
    driver = LoopDriver(hosted_tool())
    driver.ask()
    driver.feed(round_of(call()))
    (pending,) = driver.loop.pending_calls
    driver.settle(pending, "first")
    assert driver.settle(pending, "second") == []
    assert outputs(driver.ask()) == ["first"]
    driver.feed(round_of(text("3")))
    driver.finish()
    assert driver.loop.settle_call(pending, build_execution_error("late")) == []
    assert driver.loop.dropped_outcomes == 2
    assert driver.output[0]["output"] == "first"


def test_fault_8_results_that_are_too_large_together_are_dropped_and_the_model_reads_that() -> None:
    driver = LoopDriver(hosted_tool(), bounds=LoopBounds(total_result_bytes=1000))
    for number in range(3):
        driver.run_round(call(arguments=f'{{"a": {number}}}', call_id=f"c{number}"), outcome="x" * 400)
    last = driver.run_round(text("Done."))
    assert outputs(last)[:2] == ["x" * 400, "x" * 400]
    assert outputs(last)[2].startswith("result_too_large: the tool was run, but the results of this response have more")
    assert driver.output[2]["status"] == "failed"


def test_fault_21_a_tool_that_was_removed_since_an_earlier_turn_is_no_valid_name() -> None:
    past = {"type": "mcp_call", "id": "mcp_1", "server_label": "calc", "name": "old", "arguments": "{}", "output": "5"}
    driver = LoopDriver(hosted_tool(), past=[past])
    driver.run_round(call("calc_old", "{}"))
    last = driver.run_round(text("Sorry."))
    assert outputs(last) == ["5", "calc_old is not a valid tool name"]
