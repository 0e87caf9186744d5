"""Verifies answers to approval requests by the records of those requests."""

from dataclasses import replace
from typing import Any

import pytest

from tests.tool_rounds import hosted_tool
from translation.errors import InvalidRequest
from translation.hosted.approvals import (
    NO_ANSWERS,
    ApprovalAnswers,
    ApprovalRecord,
    list_request_ids,
    replace_nul,
    verify_answers,
)
from translation.hosted.elicitation.forms import InputForm, RequestedInput
from translation.hosted.tools import digest_arguments
from translation.representation.json_types import Item

QUESTION: Item = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "2 + 3?"}]}


def request(number: int = 1, **more: Any) -> Item:
    item: Item = {"type": "mcp_approval_request", "server_label": "calc", "name": "add", "arguments": '{"a": 1}'}
    return {"id": f"mcpr_{number}", **item, **more}


def answer(number: int = 1, *, approve: bool = True) -> Item:
    return {"type": "mcp_approval_response", "approval_request_id": f"mcpr_{number}", "approve": approve}


def call(number: int = 1) -> Item:
    return {"id": "mcp_1", "type": "mcp_call", "approval_request_id": f"mcpr_{number}"}


def record(number: int = 1, **more: Any) -> ApprovalRecord:
    known: dict[str, Any] = {
        "id": f"mcpr_{number}",
        "response_id": "resp_1",
        "server_label": "calc",
        "tool_name": "add",
        "origin": "https://calc.example.com",
        "arguments_digest": digest_arguments('{"a": 1}'),
        "definition_digest": f"digest {number}",
        "expires_us": 1,
    }
    return ApprovalRecord(**known | more)


def used(number: int = 1) -> ApprovalRecord:
    return record(number, state="used", answered_by="resp_2")


def review(*items: Item, own: int | None = None, records: Any = None, labels: Any = ("calc",)) -> ApprovalAnswers:
    """Reviews an input whose last `own` items are the request's own; None is all of them."""
    known = [record()] if records is None else records
    own_items = items if own is None else items[len(items) - own :]
    return verify_answers(items, own_items, {each.id: each for each in known}, labels)


def refusal(*items: Item, **more: Any) -> tuple[str, str | None]:
    with pytest.raises(InvalidRequest) as refused:
        review(*items, **more)
    return refused.value.code, refused.value.param


@pytest.mark.parametrize("own", [1, 2], ids=["the request is in the history", "the client sends it back"])
def test_an_open_request_can_be_approved(own: int) -> None:
    answers = review(request(), answer(), own=own)
    assert answers == ApprovalAnswers({"mcpr_1": "digest 1"})
    assert not answers.is_empty
    assert answers.find_param("mcpr_1") == f"input[{own - 1}].approval_request_id"
    assert answers.find_param("mcpr_2") == "input"


def test_an_open_request_can_be_denied() -> None:
    answers = review(request(), answer(approve=False))
    assert answers == ApprovalAnswers(denied=("mcpr_1",))
    assert not answers.is_empty


def test_an_input_without_answers_has_none() -> None:
    assert review(QUESTION, request()) == NO_ANSWERS
    assert NO_ANSWERS.is_empty


def test_the_same_answer_twice_counts_once() -> None:
    assert review(request(), answer(), answer()).approved == {"mcpr_1": "digest 1"}


def test_equal_arguments_in_another_form_are_the_same_call() -> None:
    assert review(request(arguments='{ "a":1 }'), answer()).approved == {"mcpr_1": "digest 1"}


@pytest.mark.parametrize("approve", [True, False])
def test_fault_29_an_approval_of_an_unknown_request_is_refused(approve: bool) -> None:
    assert refusal(answer(approve=approve), records=[]) == ("approval_not_found", "input[0].approval_request_id")
    assert refusal(QUESTION, answer(approve=approve))[1] == "input[1].approval_request_id", "its request is missing"


def test_fault_29_the_text_is_the_same_for_a_request_of_another_owner() -> None:
    with pytest.raises(InvalidRequest) as foreign:
        review(request(), answer(), records=[])
    with pytest.raises(InvalidRequest) as missing:
        review(answer())
    assert foreign.value.message == missing.value.message


def test_fault_30_an_approval_that_was_used_is_refused_and_the_response_named() -> None:
    assert refusal(request(), answer(), records=[used()]) == ("approval_already_used", "input[1].approval_request_id")
    with pytest.raises(InvalidRequest, match="used already, by the response 'resp_2'"):
        review(request(), answer(), records=[used()])
    with pytest.raises(InvalidRequest, match="used already"):
        review(request(), answer(approve=False), records=[used()])


def test_fault_30_an_approval_of_a_denied_request_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="denied already, by the response 'resp_2'"):
        review(request(), answer(), records=[record(state="denied", answered_by="resp_2")])


def test_fault_30_an_approval_whose_call_follows_in_the_input_is_obsolete() -> None:
    assert review(request(), answer(), call(), QUESTION, records=[used()]) == NO_ANSWERS


@pytest.mark.parametrize("state", ["denied", "expired", "void"])
def test_fault_30_a_denial_in_a_history_of_the_client_is_obsolete(state: Any) -> None:
    answers = review(request(), answer(approve=False), QUESTION, records=[record(state=state)])
    assert answers.is_empty


def test_fault_30_a_denial_of_a_request_without_a_record_is_obsolete() -> None:
    assert review(request(), answer(approve=False), QUESTION, records=[]) == NO_ANSWERS


def test_fault_30_a_used_approval_in_the_history_is_obsolete_and_its_outcome_unknown() -> None:
    answers = review(request(), answer(), QUESTION, own=1, records=[used()])
    assert answers == ApprovalAnswers(not_run_reasons={"mcpr_1": "used"})


@pytest.mark.parametrize("first", [True, False])
def test_fault_31_approving_and_denying_one_request_is_refused(first: bool) -> None:
    expected = ("approval_conflict", "input[2].approval_request_id")
    assert refusal(request(), answer(approve=first), answer(approve=not first)) == expected


def test_fault_31_an_answer_against_an_open_one_of_the_history_is_refused() -> None:
    expected = ("approval_conflict", "input[0].approval_request_id")
    assert refusal(request(), answer(), answer(approve=False), own=1) == expected


def test_fault_32_an_expired_approval_is_refused() -> None:
    expired = [record(state="expired")]
    assert refusal(request(), answer(), records=expired) == ("approval_expired", "input[1].approval_request_id")
    assert review(request(), answer(), QUESTION, own=1, records=expired).not_run_reasons == {"mcpr_1": "expired"}


@pytest.mark.parametrize("changed", [{"arguments": '{"a": 2}'}, {"name": "sub"}, {"server_label": "other"}])
@pytest.mark.parametrize("approve", [True, False])
def test_fault_33_a_request_that_was_changed_is_refused(changed: Item, approve: bool) -> None:
    expected = ("approval_mismatch", "input[1].approval_request_id")
    assert refusal(request(**changed), answer(approve=approve)) == expected


def test_fault_34_a_void_approval_is_obsolete_and_no_error() -> None:
    void = record(state="void", answered_by="resp_2")
    assert review(request(), answer(), records=[void]) == ApprovalAnswers(not_run_reasons={"mcpr_1": "void"})


def test_fault_36_requests_beside_one_that_is_answered_are_pending() -> None:
    items = [request(1), request(2), request(3), request(4), answer(2), answer(3, approve=False)]
    records = [record(1), record(2), record(3), record(4, response_id="resp_0")]
    answers = review(*items, records=records)
    assert (dict(answers.approved), answers.denied) == ({"mcpr_2": "digest 2"}, ("mcpr_3",))
    assert answers.not_run_reasons == {"mcpr_1": "pending"}, "the one of another response is not"


def test_fault_37_an_unanswered_request_stays_open() -> None:
    assert review(request(), QUESTION) == NO_ANSWERS


def test_fault_79_a_call_that_the_client_wrote_approves_nothing() -> None:
    assert review(request(), answer(), call()) == NO_ANSWERS


def test_an_approval_needs_its_server_in_the_request() -> None:
    assert refusal(request(), answer(), labels=["other"]) == ("approval_server_missing", "tools")
    assert review(request(), answer(approve=False), labels=[]).denied == ("mcpr_1",)


def test_an_open_answer_in_the_history_counts() -> None:
    """It was stored by a response that did not run: `generate: false` on a WebSocket."""
    assert review(request(), answer(), QUESTION, own=1).approved == {"mcpr_1": "digest 1"}


def test_an_answer_in_the_history_that_does_not_count_is_left_out() -> None:
    assert review(answer(), QUESTION, own=1) == NO_ANSWERS


def test_an_answer_that_the_model_does_not_read_is_left_out() -> None:
    assert verify_answers([QUESTION], [request(), answer(), QUESTION], {"mcpr_1": record()}, ["calc"]) == NO_ANSWERS


def test_an_unanswered_call_whose_approval_was_used_has_no_known_outcome() -> None:
    assert review(request(), QUESTION, records=[used()]).not_run_reasons == {"mcpr_1": "used"}


def test_the_ids_of_all_requests_are_listed_once() -> None:
    items = [QUESTION, request(1), request(2, id=None), answer(1), answer(3)]
    assert list_request_ids(items) == ["mcpr_1", "mcpr_3"]


def test_answers_survive_as_json_without_denials() -> None:
    answers = ApprovalAnswers({"mcpr_1": "d"}, ("mcpr_2",), {"mcpr_3": "pending"})
    assert ApprovalAnswers.from_json(answers.to_json()) == replace(answers, denied=())


def test_a_label_that_no_database_can_hold_is_compared_as_it_is_recorded() -> None:
    odd = record(server_label=replace_nul("a\0b"))
    assert review(request(server_label="a\0b"), answer(), records=[odd], labels=["a\0b"]).approved


def test_a_tool_has_changed_if_its_definition_has() -> None:
    tool = hosted_tool(origin="https://calc.example.com/mcp")
    answers = ApprovalAnswers({"mcpr_1": tool.definition_digest})
    assert answers.find_changed({"mcpr_1": tool}) == []
    assert answers.find_changed({"mcpr_1": replace(tool, is_read_only=True, needs_approval=False)}) == []
    assert answers.find_changed({"mcpr_1": None}) == [], "a tool that is gone fails by its name"
    changes: list[dict[str, Any]] = [
        {"description": "Adds, and more."},
        {"parameters": {}},
        {"origin": "https://evil.example.com/mcp"},
    ]
    for change in changes:
        assert answers.find_changed({"mcpr_1": replace(tool, **change)}) == ["mcpr_1"]


ASKING = RequestedInput(
    forms=(InputForm(key="who", message="Who?", schema={"type": "object", "properties": {"name": {}}}),),
    state="opaque",
    call_id="mcp_1",
)
FORM = [record(requested_input=ASKING)]


def test_input_of_the_user_continues_the_call() -> None:
    answers = review(request(), {**answer(), "content": {"name": "Ann"}}, records=FORM)
    assert (answers.approved, answers.denied) == ({"mcpr_1": "digest 1"}, ())
    given = answers.inputs["mcpr_1"]
    assert given.responses == {"who": {"action": "accept", "content": {"name": "Ann"}}}
    assert (given.state, given.call_id) == ("opaque", "mcp_1")
    assert ApprovalAnswers.from_json(answers.to_json()) == answers


@pytest.mark.parametrize(
    ("fields", "action"), [({}, "decline"), ({"action": "decline"}, "decline"), ({"action": "cancel"}, "cancel")]
)
def test_a_declining_user_continues_the_call_too(fields: Item, action: str) -> None:
    answers = review(request(), {**answer(approve=False), **fields}, records=FORM)
    assert answers.inputs["mcpr_1"].responses == {"who": {"action": action}}
    assert answers.approved == {"mcpr_1": "digest 1"}


def test_a_call_of_a_removed_server_is_not_continued_to_decline() -> None:
    answers = review(request(), answer(approve=False), records=FORM, labels=())
    assert (answers.approved, answers.denied, answers.inputs) == ({}, ("mcpr_1",), {})


def test_content_that_the_form_does_not_accept_is_refused_by_field() -> None:
    given: Item = {**answer(), "content": {"age": 3}}
    assert refusal(request(), given, records=FORM) == ("invalid_elicitation_content", "input[1].content")
    assert refusal(request(), given, QUESTION, own=1, records=FORM) == ("invalid_elicitation_content", "input")


def test_input_is_used_once() -> None:
    given: Item = {**answer(), "content": {"name": "Ann"}}
    spent = [record(requested_input=ASKING, state="used", answered_by="resp_2")]
    assert refusal(request(), given, records=spent)[0] == "approval_already_used"
    assert refusal(request(), {**given, "approve": False}, records=spent)[0] == "approval_already_used"
    assert review(request(), given, call(), own=0, records=spent) == NO_ANSWERS


@pytest.mark.parametrize(
    ("fields", "place"),
    [
        ({"approve": True, "action": "decline"}, "action"),
        ({"approve": False, "action": "accept"}, "action"),
        ({"approve": True, "content": {"a": 2}}, "content"),
    ],
)
def test_contradictory_or_excessive_answers_are_refused(fields: Item, place: str) -> None:
    assert refusal(request(), {**answer(), **fields})[1] == f"input[1].{place}"
    assert refusal(request(), {**answer(), **fields}, QUESTION, own=1)[1] == place
    assert review(request(), {**answer(), "action": "accept"}).approved == {"mcpr_1": "digest 1"}
