"""Which calls are run, and when the tools are withdrawn."""

from dataclasses import replace

import pytest

from tests.tool_rounds import hosted_tool
from translation.hosted.bounds import LoopBounds
from translation.hosted.call_forms import output_text_of
from translation.hosted.calls import HostedCall
from translation.hosted.loop.call_checks import CallChecks
from translation.hosted.outcomes import ToolOutcome, build_execution_error
from translation.hosted.tools import ToolCatalogue, ToolKey

CATALOGUE = ToolCatalogue.build([hosted_tool()])


def call_of(arguments: str, name: str = "calc_add") -> HostedCall:
    tool = CATALOGUE.find(name)
    key = ToolKey("calc", name)
    call = HostedCall(item_id="mcp_1", call_id="call_1", key=key, model_name=name, tool=tool, index=0)
    call.append_arguments(arguments)
    return call


def end(checks: CallChecks, outcome: ToolOutcome | str, arguments: str = '{"a": 1}') -> str:
    """Runs a call, and returns what the model reads besides its result."""
    call = call_of(arguments)
    checks.settle_unless_runnable(call)
    checks.count_outcome(call, outcome if isinstance(outcome, ToolOutcome) else ToolOutcome(output=outcome))
    return call.model_note


def fault(checks: CallChecks, arguments: str, name: str = "calc_add", withdrawal: str | None = None) -> str | None:
    call = call_of(arguments, name)
    checks.settle_unless_runnable(call, withdrawal=withdrawal)
    return None if call.outcome is None else output_text_of({"error": call.outcome.error})


@pytest.mark.parametrize(
    ("arguments", "name", "expected"),
    [
        ('{"a": 1}', "calc_add", None),
        ('{"a": 1}', "add", "add is not a valid tool name"),
        ("{", "calc_add", "Could not parse arguments as JSON"),
        ("[1]", "calc_add", "Could not parse arguments as JSON"),
        ('{"a": "x"}', "calc_add", 'The call was not run: arguments.a: "x" is not of type "integer"'),
        ("{}", "calc_add", 'The call was not run: arguments: "a" is a required property'),
    ],
)
def test_faults_24_25_26_a_call_is_checked_before_it_is_run(arguments: str, name: str, expected: str | None) -> None:
    assert fault(CallChecks(CATALOGUE, LoopBounds()), arguments, name) == expected


def test_a_call_outside_the_choice_is_skipped_and_its_defect_is_named_first() -> None:
    checks = CallChecks(CATALOGUE, LoopBounds())
    checks.allowed_names = frozenset({"calc_sub"})
    assert fault(checks, '{"a": 1}') == "Tool call skipped: the tool_choice of the request does not allow it"
    assert fault(checks, "{") == "Could not parse arguments as JSON"
    checks.allowed_names = frozenset({"calc_add"})
    assert fault(checks, '{"a": 1}') is None


@pytest.mark.parametrize(
    ("arguments", "expected"), [('{"a": "x"}', None), ("[1]", "Could not parse arguments as JSON")]
)
def test_an_executor_may_judge_arguments_itself(arguments: str, expected: str | None) -> None:
    call = call_of(arguments)
    call.tool = replace(hosted_tool(), checks_arguments=False)
    CallChecks(CATALOGUE, LoopBounds()).settle_unless_runnable(call)
    assert (call.outcome and call.outcome.error and output_text_of({"error": call.outcome.error})) == expected


def test_fault_41_no_more_calls_are_run_than_the_limit() -> None:
    checks = CallChecks(CATALOGUE, LoopBounds(calls=2))
    assert [fault(checks, f'{{"a": {n}}}') for n in range(3)] == [
        None,
        None,
        "Tool call skipped: limit of 2 calls reached",
    ]
    assert checks.find_withdrawal(2) == "Tool call skipped: limit of 2 calls reached"


def test_calls_that_are_not_run_do_not_count_towards_the_limit() -> None:
    checks = CallChecks(CATALOGUE, LoopBounds(calls=1))
    assert fault(checks, "{") is not None
    assert fault(checks, '{"a": 1}') is None


def test_fault_43_the_same_call_with_the_same_result_gets_a_hint_and_then_the_tools_are_withdrawn() -> None:
    checks = CallChecks(CATALOGUE, LoopBounds())
    assert end(checks, "5", '{"a": 1, "b": 2}') == ""
    assert end(checks, "5", '{"a": 1}') == "", "other arguments are another call"
    assert "returned the same result before" in end(checks, "5", '{"b":2,"a":1}')
    assert checks.find_withdrawal(2) is None
    hint = fault(checks, '{"a": 1,"b": 2}')
    assert hint is not None
    assert "made 2 times already" in hint
    assert checks.find_withdrawal(2) == "Tool call skipped: the same call was made too often"


def test_fault_43_identical_calls_that_run_at_once_count_before_they_have_results() -> None:
    checks = CallChecks(CATALOGUE, LoopBounds())
    assert [fault(checks, '{"a": 1}') is None for _ in range(3)] == [True, True, False]


def test_a_call_that_waits_for_something_may_be_made_as_often_as_its_result_changes() -> None:
    checks = CallChecks(CATALOGUE, LoopBounds())
    notes = [end(checks, f"{percent} %") for percent in range(10)]
    assert set(notes) == {""}
    assert end(checks, "9 %") != ""
    assert fault(checks, '{"a": 1}') is not None


def test_errors_in_a_row_withdraw_the_tools_and_a_success_resets_them() -> None:
    checks = CallChecks(CATALOGUE, LoopBounds(errors_in_a_row=3))
    fault(checks, "{")
    fault(checks, "{}", "made_up")
    end(checks, "5")
    fault(checks, "{")
    end(checks, build_execution_error("no"))
    assert checks.find_withdrawal(2) is None
    end(checks, build_execution_error("no"), '{"a": 2}')
    assert checks.find_withdrawal(2) == "Tool call skipped: 3 calls in a row failed"


def test_fault_40_the_tools_are_withdrawn_after_the_last_round_with_tools() -> None:
    checks = CallChecks(CATALOGUE, LoopBounds(rounds=2))
    assert checks.find_withdrawal(2) is None
    assert checks.find_withdrawal(3) == "Tool call skipped: limit of 2 rounds reached"


def test_a_call_of_a_withdrawn_tool_is_skipped_but_its_own_defect_is_named_first() -> None:
    checks = CallChecks(CATALOGUE, LoopBounds())
    assert fault(checks, '{"a": 1}', withdrawal="skipped") == "skipped"
    assert fault(checks, "{", withdrawal="skipped") == "Could not parse arguments as JSON"
