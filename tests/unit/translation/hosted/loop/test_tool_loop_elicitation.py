"""Calls in the loop that request user input, and continue with it."""

from typing import Any

from tests.tool_rounds import LoopDriver, call, function_tool, hosted_tool, text
from tests.unit.translation.hosted.loop.test_tool_loop_approvals import QUESTION, answer, request
from translation.hosted.bounds import LoopBounds
from translation.hosted.elicitation.answers import UserInput, accept_input
from translation.hosted.elicitation.forms import InputForm, RequestedInput
from translation.hosted.outcomes import ToolOutcome
from translation.representation.events import Finished, Usage
from translation.representation.json_types import Item

ADD = hosted_tool(needs_approval=False)
FORM = InputForm(key="who", message="Who?", schema={"type": "object", "properties": {"name": {}}})
REQUESTED = RequestedInput(forms=(FORM,), state="opaque")
ASKS = ToolOutcome(requested_input=REQUESTED)
PAST: list[Item] = [QUESTION, request(), answer()]


def given(call_id: str = "mcp_1") -> UserInput:
    requested = RequestedInput(forms=(FORM,), state="opaque", call_id=call_id)
    return accept_input(requested, {"name": "Ann"})


def continuing(**more: Any) -> LoopDriver:
    """The loop of a reply to what the user gave."""
    driver = LoopDriver(ADD, past=PAST, approved_ids=["mcpr_1"], inputs={"mcpr_1": given()}, **more)
    driver.take(driver.loop.start_approved_calls())
    return driver


def end_of(driver: LoopDriver) -> Finished:
    driver.take(driver.loop.send_approval_requests())
    end = driver.finish()
    assert isinstance(end, Finished)
    return end


def test_a_call_that_requests_input_ends_the_reply_with_a_request_for_it() -> None:
    driver = LoopDriver(ADD)
    driver.run_round(text("One moment."), call(), reason="tool_calls", outcome=ASKS)
    (asked,) = driver.loop.approval_requests
    assert asked.requested_input is not None
    assert asked.requested_input.call_id == driver.output[1]["id"]
    assert end_of(driver).reason == "stop"
    message, hosted_call, item = driver.output
    assert (hosted_call["status"], hosted_call["output"]) == ("incomplete", None)
    assert hosted_call["input_request_id"] == item["id"]
    assert item == {
        **request(),
        "id": item["id"],
        "continues": hosted_call["id"],
        "elicitation": REQUESTED.describe(),
    }
    assert message["type"] == "message"


def test_calls_beside_it_run_and_its_request_follows_them() -> None:
    driver = LoopDriver(ADD, hosted_tool("free"))
    driver.ask()
    parts = [call(call_id="c1"), call("calc_free", call_id="c2")]
    driver.run_events(*parts, reason="tool_calls")
    first, second = driver.loop.pending_calls
    driver.settle(first, ASKS)
    driver.settle(second, "3")
    end_of(driver)
    assert [(item["type"], item.get("status")) for item in driver.output] == [
        ("mcp_call", "incomplete"),
        ("mcp_call", "completed"),
        ("mcp_approval_request", None),
    ]


def test_the_calls_of_a_client_remain_the_reason_why_the_reply_ends() -> None:
    driver = LoopDriver(ADD, own=[function_tool("mine")])
    driver.run_round(call(), call("mine", "{}", "c2"), reason="tool_calls", outcome=ASKS)
    assert end_of(driver).reason == "tool_calls"


def test_a_call_continues_with_the_users_input_before_the_model_is_prompted() -> None:
    driver = continuing()
    (pending,) = driver.loop.pending_calls
    assert pending.user_input == given()
    driver.settle(pending, "Ann is here.")
    turn = driver.run_round(text("Done."))
    assert turn.items[2]["output"] == "Ann is here."
    driver.finish()
    assert (driver.output[0]["approval_request_id"], driver.output[0]["continues"]) == ("mcpr_1", "mcp_1")


def test_a_call_may_request_input_again() -> None:
    driver = continuing()
    (pending,) = driver.loop.pending_calls
    driver.settle(pending, ASKS)
    end = end_of(driver)
    assert (end.reason, end.usage) == ("stop", Usage(input=0, output=0, cache_read=0, reasoning=0))
    hosted_call, item = driver.output
    assert hosted_call["input_request_id"] == item["id"]
    assert item["continues"] == hosted_call["continues"] == "mcp_1", "for clients it is the same call"


def test_an_approved_call_that_requests_input_stays_the_approved_call() -> None:
    driver = LoopDriver(ADD, past=PAST, approved_ids=["mcpr_1"])
    driver.take(driver.loop.start_approved_calls())
    (pending,) = driver.loop.pending_calls
    driver.settle(pending, ASKS)
    end_of(driver)
    assert driver.output[1]["continues"] == "mcpr_1"


def test_a_call_whose_tool_has_changed_does_not_continue() -> None:
    driver = continuing(changed_ids=["mcpr_1"])
    assert driver.loop.pending_calls == []
    assert driver.output[0]["approval_request_id"] == "mcpr_1"
    assert driver.ask().items[2]["output"].startswith("The tool has changed since it asked")


def test_a_reply_requests_a_limited_number_of_inputs() -> None:
    driver = LoopDriver(ADD, bounds=LoopBounds(open_approvals=1))
    parts = [call(call_id="c1"), call(arguments='{"a": 2}', call_id="c2")]
    driver.run_round(*parts, reason="tool_calls", outcome=ASKS)
    end_of(driver)
    assert [item.get("status") for item in driver.output] == ["incomplete", "failed", None]
    assert "limit of 1 open approvals" in str(driver.output[1]["error"])


def test_the_item_in_the_journal_is_that_of_a_call_without_an_end() -> None:
    driver = LoopDriver(ADD)
    driver.ask()
    driver.run_events(call(), reason="tool_calls")
    (pending,) = driver.loop.pending_calls
    assert pending.build_item_with(ASKS)["status"] == "incomplete"


def test_another_process_continues_with_the_users_input() -> None:
    driver = continuing()
    saved = driver.loop.save_progress()
    more: Any = {"past": PAST, "approved_ids": ["mcpr_1"], "inputs": {"mcpr_1": given()}}
    resumed = driver.interrupt(saved, driver.events, ADD, **more)
    (pending,) = resumed.loop.pending_calls
    assert pending.user_input == given()
