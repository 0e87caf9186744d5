"""Past items of hosted tools, as the model reads them."""

import time
from typing import Any

import pytest

from translation.hosted.call_forms import output_text_of
from translation.hosted.past_hosted_calls import resolve_history
from translation.hosted.tools import ToolKey, model_name_of
from translation.representation.json_types import Item

HISTORY_TYPES = frozenset({"mcp_list_tools", "mcp_call", "mcp_approval_request", "mcp_approval_response"})
"""Types of the items that are rewritten."""
QUESTION: Item = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "2 + 3?"}]}


def mcp_call(**more: Any) -> Item:
    item: Item = {"id": "mcp_1", "type": "mcp_call", "server_label": "calc", "name": "add", "arguments": '{"a": 1}'}
    return {**item, "output": "5", "error": None, **more}


def request(request_id: str | None = "mcpr_1", **more: Any) -> Item:
    item: Item = {"type": "mcp_approval_request", "server_label": "calc", "name": "add", "arguments": '{"a": 1}'}
    return {"id": request_id, **item, **more}


def answer(request_id: str = "mcpr_1", *, approve: bool = True, **more: Any) -> Item:
    return {"type": "mcp_approval_response", "approval_request_id": request_id, "approve": approve, **more}


def resolved(*items: Item, approved_ids: frozenset[str] = frozenset()) -> list[Item]:
    return resolve_history(items, model_name_of, approved_ids=approved_ids).items


def outputs(*items: Item) -> list[Any]:
    return [item["output"] for item in resolved(*items) if item["type"] == "function_call_output"]


def test_fault_78_a_call_without_its_list_of_tools_becomes_a_function_call_with_its_output() -> None:
    history = resolve_history([QUESTION, mcp_call()], model_name_of)
    assert history.items == [
        QUESTION,
        {"type": "function_call", "call_id": "mcp_1", "name": "calc_add", "arguments": '{"a": 1}'},
        {"type": "function_call_output", "call_id": "mcp_1", "output": "5"},
    ]
    assert history.listed == {}
    assert history.approved == []


def test_the_last_list_without_an_error_counts_and_no_list_is_sent() -> None:
    lists: list[Item] = [
        {"type": "mcp_list_tools", "id": f"mcpl_{n}", "server_label": "calc", "tools": [], "error": error}
        for n, error in enumerate((None, None, "unreachable"))
    ]
    history = resolve_history(lists, model_name_of)
    assert history.items == []
    assert history.listed == {"calc": lists[1]}


def test_a_list_whose_error_only_names_tools_that_were_left_out_counts() -> None:
    tools = [{"name": "add", "input_schema": {}}]
    listed: Item = {"type": "mcp_list_tools", "server_label": "calc", "tools": tools, "error": "tools left out: x"}
    assert resolve_history([listed], model_name_of).listed == {"calc": listed}


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"output": "5"}, "5"),
        ({"output": None}, ""),
        ({}, ""),
        ({"output": {"sum": 5}}, '{"sum":5}'),
        ({"error": "broken"}, "broken"),
        ({"error": ["broken"]}, '["broken"]'),
        ({"error": {"type": "http_error", "code": 502, "message": "bad gateway"}}, "bad gateway"),
        ({"error": {"type": "mcp_protocol_error", "code": -1}}, '{"type":"mcp_protocol_error","code":-1}'),
        ({"error": {"content": [{"type": "text", "text": "one"}, {"text": "two"}]}}, "one\ntwo"),
        ({"error": {"content": ["x", {"type": "image"}, {"text": 5}], "message": "no text"}}, "no text"),
        ({"error": {"content": "x"}}, '{"content":"x"}'),
        ({"output": "partly", "error": {"message": "broken"}}, "broken"),
    ],
)
def test_the_output_of_a_call_is_its_text_or_its_error_in_whatever_form(fields: Item, text: str) -> None:
    assert output_text_of(fields) == text


def test_items_without_ids_and_arguments_have_some() -> None:
    items = resolved(mcp_call(id=None, arguments=""), mcp_call(id=None), request(None))
    calls = [item for item in items if item["type"] == "function_call"]
    assert [item["call_id"] for item in calls] == ["mcp_0", "mcp_1", "mcp_2"]
    assert calls[0]["arguments"] == "{}"


def test_fault_37_an_unanswered_request_counts_as_not_approved() -> None:
    history = resolve_history([request(), QUESTION], model_name_of, approved_ids=frozenset({"mcpr_1"}))
    assert [item["type"] for item in history.items] == ["function_call", "function_call_output", "message"]
    assert history.items[1]["output"] == "The user did not approve this call. It was not run."
    assert history.approved == []


def test_a_denied_call_is_not_run_and_the_model_reads_why() -> None:
    assert outputs(request(), answer(approve=False)) == ["The user did not approve this call. It was not run."]
    denied = outputs(request(), answer(approve=False, reason="too risky"))
    assert denied == ["The user did not approve this call. It was not run. Reason: too risky"]


def test_an_approved_call_is_to_be_run_in_the_place_of_its_answer() -> None:
    items = [QUESTION, request(), answer(), QUESTION]
    history = resolve_history(items, model_name_of, approved_ids=frozenset({"mcpr_1"}))
    assert [item["type"] for item in history.items] == ["message", "function_call", "message"]
    assert history.approved == [("mcpr_1", ToolKey("calc", "add"), '{"a": 1}', 2)]


def test_fault_79_an_approval_that_was_not_verified_is_text_only() -> None:
    history = resolve_history([request(), answer()], model_name_of)
    assert history.approved == []
    assert [item["type"] for item in history.items] == ["function_call", "function_call_output"]
    assert history.items[1]["output"] == "This approval is not valid. The call was not run."


def test_fault_79_a_forged_call_proves_no_approval() -> None:
    items = [mcp_call(approval_request_id="mcpr_1"), request(), answer()]
    history = resolve_history(items, model_name_of, approved_ids=frozenset({"mcpr_1"}))
    assert history.approved == []
    assert outputs(*items) == ["5"]


def test_fault_30_an_approval_whose_call_was_run_is_obsolete() -> None:
    items = [request(), answer(), mcp_call(approval_request_id="mcpr_1")]
    history = resolve_history(items, model_name_of, approved_ids=frozenset({"mcpr_1"}))
    assert [item["type"] for item in history.items] == ["function_call", "function_call_output"]
    assert history.approved == []


@pytest.mark.parametrize("first", [True, False])
def test_a_second_answer_to_a_request_counts_for_nothing(first: bool) -> None:
    items = [request(), answer(approve=first), answer(approve=True)]
    history = resolve_history(items, model_name_of, approved_ids=frozenset({"mcpr_1"}))
    assert len(history.approved) == (1 if first else 0)
    assert len([item for item in history.items if item["type"] == "function_call"]) == 1


def test_an_answer_without_its_request_is_left_out() -> None:
    assert resolved(answer("mcpr_9")) == []


def test_an_unanswered_request_stays_beside_a_call_that_needed_no_approval() -> None:
    assert len(outputs(mcp_call(approval_request_id=None), request(None))) == 2


def test_every_type_of_the_module_is_rewritten() -> None:
    items = [{"type": "mcp_list_tools", "server_label": "calc", "tools": []}, mcp_call(), request("mcpr_2"), request()]
    assert HISTORY_TYPES.isdisjoint(item["type"] for item in resolved(*items, answer()))


@pytest.mark.parametrize(
    ("reason", "unanswered", "approved"),
    [
        ("pending", "This call waits for the approval", "This approval is not valid"),
        ("used", "This call was approved before. Its outcome", "This call was approved before. Its outcome"),
        ("expired", "The user did not approve", "The approval of this call came too late"),
        ("void", "The user did not approve", "The tool has changed since"),
    ],
)
def test_the_model_reads_why_a_call_is_not_run(reason: Any, unanswered: str, approved: str) -> None:
    not_run_reasons = {"mcpr_1": reason}
    for items, expected in (([request()], unanswered), ([request(), answer()], approved)):
        history = resolve_history(items, model_name_of, not_run_reasons=not_run_reasons)
        assert history.items[1]["output"].startswith(expected)
    denied = resolve_history([request(), answer(approve=False)], model_name_of, not_run_reasons=not_run_reasons)
    assert denied.items[1]["output"].startswith("The user did not approve")


QUESTIONS: Item = {"mode": "form", "message": "Who?", "requested_schema": {}}


def test_a_call_that_requested_input_is_one_call_for_the_model() -> None:
    asking = mcp_call(output=None, status="incomplete", input_request_id="mcpr_1")
    waiting = request(elicitation=QUESTIONS, continues="mcp_1")
    assert outputs(asking, waiting) == ["The tool asked the user for input and got none. The call was not finished."]
    going_on = mcp_call(id="mcp_2", approval_request_id="mcpr_1", continues="mcp_1")
    assert outputs(asking, waiting, answer(), going_on) == ["5"]
    # A client may leave the request out. Then there is nothing that the call could go on with.
    assert outputs(asking) == ["This call was not finished. It has no result."]


def test_a_call_that_requested_input_continues_with_any_answer() -> None:
    for approve in (True, False):
        items = [request(elicitation=QUESTIONS), answer(approve=approve)]
        ids = frozenset({"mcpr_1"})
        history = resolve_history(items, model_name_of, approved_ids=ids, continued_ids=ids)
        assert [each.approval_request_id for each in history.approved] == ["mcpr_1"]


@pytest.mark.parametrize("reason", ["pending", "used", "expired", "void"])
def test_the_model_reads_why_a_call_that_requested_input_did_not_continue(reason: Any) -> None:
    texts = set()
    for items in ([request(elicitation=QUESTIONS)], [request(elicitation=QUESTIONS), answer()]):
        history = resolve_history(items, model_name_of, not_run_reasons={"mcpr_1": reason})
        texts.add(history.items[1]["output"])
    (text,) = texts
    assert text not in outputs(request(elicitation=QUESTIONS))


def test_many_requests_for_approvals_take_linear_time() -> None:
    requests = [
        {"id": f"mcpr_{n}", "type": "mcp_approval_request", "server_label": "s", "name": "t", "arguments": "{}"}
        for n in range(4_500)
    ]
    answers = [
        {"type": "mcp_approval_response", "approval_request_id": f"mcpr_{n}", "approve": False} for n in range(4_500)
    ]
    began = time.thread_time()
    for items in (requests, requests + answers):
        assert len(resolve_history(items, model_name_of).items) == 9_000
    assert time.thread_time() - began < 1, "some 60 ms; sets that were built for each item took 2 s"


def test_a_past_call_is_adapted_to_what_the_model_knows() -> None:
    history = resolve_history(
        [mcp_call()],
        model_name_of,
        adapt_call=lambda call_id, call: call._replace(arguments=f'{{"id": "{call_id}"}}', output=call.output * 2),
    )
    call, output = history.items
    assert (call["arguments"], output["output"]) == ('{"id": "mcp_1"}', "55")


def test_items_of_servers_that_the_upstream_calls_itself_are_not_changed() -> None:
    items = [{"type": "mcp_list_tools", "server_label": "calc", "tools": []}, request(), answer(), mcp_call()]
    assert resolve_history(items, model_name_of, forms={}).items == items
