"""One call of a hosted tool: its item, and what the model reads."""

import pytest

from tests.tool_rounds import hosted_tool
from translation.hosted.calls import NO_ITEM, HostedCall, build_approval_request, is_json_object
from translation.hosted.citations.citables import CitablePage
from translation.hosted.citations.citation_table import build_result_details
from translation.hosted.outcomes import ToolOutcome, build_execution_error
from translation.hosted.result_reader import ResultReader
from translation.representation.events import Delta, ItemEnded, ItemStarted, PartEnded, Progressed
from translation.representation.json_types import Json


def new_call(arguments: str = '{"a": 1}', index: int = 0) -> HostedCall:
    tool = hosted_tool()
    call = HostedCall(item_id="mcp_1", call_id="call_1", key=tool.key, model_name="calc_add", tool=tool, index=index)
    call.append_arguments(arguments)
    return call


def item(status: str, **more: object) -> Json:
    return {
        "id": "mcp_1",
        "type": "mcp_call",
        "status": status,
        "approval_request_id": None,
        "arguments": "",
        "error": None,
        "name": "add",
        "output": None,
        "server_label": "calc",
        **more,
    }


def test_the_item_has_the_plain_name_and_no_output_as_it_starts() -> None:
    assert new_call().build_start_events() == [ItemStarted(0, item("in_progress")), Progressed(0, "in_progress")]


def test_the_item_of_an_approved_call_is_in_progress_twice() -> None:
    call = new_call()
    call.approval_request_id = "mcpr_1"
    events = call.build_approved_events()
    assert [type(event) for event in events] == [ItemStarted, Progressed, Delta, Progressed, PartEnded]
    assert events[0] == ItemStarted(0, item("in_progress", approval_request_id="mcpr_1"))


def test_the_item_of_a_call_with_whole_arguments_has_the_same_events_as_a_streamed_one() -> None:
    events = new_call().build_whole_events()
    assert [type(event) for event in events] == [ItemStarted, Progressed, Delta, PartEnded]


def test_a_completed_call_has_its_output() -> None:
    call = new_call()
    assert not call.is_settled
    call.outcome = ToolOutcome(output="3")
    assert call.is_settled
    ended = ItemEnded(0, item("completed", arguments='{"a": 1}', output="3"))
    assert call.build_end_events() == [Progressed(0, "completed"), ended]


def test_a_failed_call_has_its_error() -> None:
    call = new_call()
    call.outcome = build_execution_error("broken")
    ended = ItemEnded(0, item("failed", arguments='{"a": 1}', error=call.outcome.error))
    assert call.build_end_events() == [Progressed(0, "failed"), ended]


def test_a_call_that_was_cut_is_incomplete_and_neither_completed_nor_failed() -> None:
    call = new_call('{"a"')
    call.is_incomplete = True
    assert call.is_settled
    assert call.build_end_events() == [ItemEnded(0, item("incomplete", arguments='{"a"'), "incomplete")]


def test_the_model_reads_a_function_call_and_its_output() -> None:
    call = new_call()
    call.outcome = ToolOutcome(output="x" * 300)
    function_call, output = call.build_model_items(ResultReader(100))
    assert function_call == {
        "type": "function_call",
        "call_id": "call_1",
        "name": "calc_add",
        "arguments": '{"a": 1}',
    }
    assert output["call_id"] == "call_1"
    assert "200 of 300 characters left out" in output["output"]


def test_fault_25_the_model_does_not_read_its_broken_arguments_but_the_item_keeps_them() -> None:
    call = new_call('{"a": ')
    call.outcome = build_execution_error("Could not parse arguments as JSON")
    function_call, output = call.build_model_items(ResultReader(100))
    assert function_call["arguments"] == "{}"
    assert output["output"] == "Could not parse arguments as JSON"
    ended = call.build_end_events()[-1]
    assert isinstance(ended, ItemEnded)
    assert ended.item is not None
    assert ended.item["arguments"] == '{"a": '


def test_arguments_add_up_and_can_be_replaced() -> None:
    call = new_call("{")
    call.append_arguments('"a"')
    call.append_arguments(": 1}")
    assert call.arguments == call.arguments == '{"a": 1}'
    call.arguments = '{ "a": 1 }'
    assert call.arguments == '{ "a": 1 }'
    assert call.fingerprint == new_call().fingerprint


def test_arguments_are_measured_in_bytes() -> None:
    call = new_call('{"a": "éé"}')
    assert call.is_longer_than(12)
    assert not call.is_longer_than(13)
    assert call.is_longer_than(5)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("{}", True), ('{"a": 1}', True), ("[]", False), ("", False), ("{", False), ("\ud800", False)],
)
def test_only_objects_are_arguments(text: str, expected: bool) -> None:
    assert is_json_object(text) is expected


def test_the_request_for_an_approval_names_the_tool_plainly() -> None:
    call = new_call(index=NO_ITEM)
    assert not call.has_item
    assert build_approval_request(call, "mcpr_1") == {
        "id": "mcpr_1",
        "type": "mcp_approval_request",
        "arguments": '{"a": 1}',
        "name": "add",
        "server_label": "calc",
    }


@pytest.mark.parametrize(
    ("details", "text"),
    [
        (None, "[1] evil [2†L3]"),
        ([], "[1] evil [2†L3]"),
        (build_result_details("", {2: CitablePage("https://two.example", "Two")}), "[1] evil 【2†L3】"),
    ],
)
def test_the_model_reads_no_markers_of_other_results(details: list[Json] | None, text: str) -> None:
    call = new_call()
    call.outcome = ToolOutcome(output="【1】 evil 【2†L3】", fields=None if details is None else {"details": details})
    _, output = call.build_model_items(ResultReader(100))
    assert output["output"] == text
    assert call.outcome.output == "【1】 evil 【2†L3】"
