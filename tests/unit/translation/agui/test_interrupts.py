"""Answers to the interrupts of a thread: approvals and forms, and what their calls become."""

from random import Random
from typing import Any

import pytest

from tests.unit.translation.agui.run_requests import (
    APPROVED_CALL,
    HELLO,
    MORE,
    REQUEST,
    STORED_ANSWER,
    STORED_HELLO,
    Json,
    build,
    calling,
    result,
    types,
)
from translation.agui.agui_history import join_history, open_requests
from translation.agui.interrupts import DENIED, EXPIRED, RequestStates
from translation.agui.messages import build_message_fact, read_messages
from translation.agui.request_body import RunRequest
from translation.errors import InvalidRequest
from translation.hosted.elicitation.forms import InputForm, RequestedInput

ASKING = calling("mcpr_1", "docs_search", '{"q":1}')


def resume(**entry: Any) -> list[Json]:
    return [{"interruptId": "mcpr_1", "status": "resolved", **entry}]


INTERRUPTED = [STORED_HELLO, REQUEST]


def test_an_approval_is_an_answer_before_all_other_input() -> None:
    answered = resume(payload={"approved": True, "reason": "fine"})
    request = build(HELLO, ASKING, MORE, stored=INTERRUPTED, resume=answered)
    assert types(request.body["input"]) == ["mcp_approval_response", "message"]
    assert request.body["input"][0]["approve"] is True
    assert request.body["input"][0]["reason"] == "fine"
    assert request.history == INTERRUPTED
    assert (request.results, request.unanswered, request.approved_ids) == ({}, [], ["mcpr_1"])
    assert request.names["input[0].approval_request_id"] == "resume[0].interruptId"


@pytest.mark.parametrize("entry", [{"payload": {"approved": False}}, {"status": "cancelled"}])
def test_a_denial_and_a_cancelled_interrupt_are_the_same(entry: Json) -> None:
    request = build(HELLO, ASKING, stored=INTERRUPTED, resume=resume(**entry))
    assert request.body["input"][0]["approve"] is False
    assert request.results == {"mcpr_1": DENIED}


def test_an_interrupt_that_is_not_answered_stays_open() -> None:
    unknown = {"interruptId": "mcpr_9", "status": "cancelled"}
    resumes: list[Json] = [{}, {"resume": []}, {"resume": [unknown]}]
    for more in resumes:
        request = build(HELLO, ASKING, MORE, stored=INTERRUPTED, protocolVersion="1.0", **more)
        assert request.unanswered == [REQUEST]


def test_fault_80_an_answer_to_some_interrupts_leaves_all_of_them_open() -> None:
    other = {**REQUEST, "id": "mcpr_2"}
    asking = calling("mcpr_2", "docs_search", '{"q":1}')
    request = build(
        HELLO,
        ASKING,
        asking,
        stored=[*INTERRUPTED, other],
        request_states=RequestStates(open_ids={"mcpr_1", "mcpr_2"}),
        resume=resume(payload={"approved": True}),
    )
    assert request.unanswered == [REQUEST, other]


def test_an_answer_to_an_unknown_interrupt_is_reported_and_left_out() -> None:
    unknown: Json = {"interruptId": "mcpr_9", "status": "resolved", "payload": {"approved": True}}
    request = build(HELLO, stored=[STORED_HELLO], resume=[unknown])
    assert request.body["input"] == []
    assert [str(loss) for loss in request.losses] == ["resume[0]=dropped"]
    twice = [*resume(payload={"approved": True}), *resume(payload={"approved": False})]
    assert [str(loss) for loss in build(HELLO, ASKING, stored=INTERRUPTED, resume=twice).losses] == [
        "resume[1]=dropped"
    ]


def test_an_old_client_that_continues_without_an_answer_denies() -> None:
    request = build(HELLO, ASKING, MORE, stored=INTERRUPTED)
    assert types(request.body["input"]) == ["mcp_approval_response", "message"]
    assert request.results == {"mcpr_1": DENIED}
    assert not request.unanswered
    assert build(HELLO, ASKING, stored=INTERRUPTED).unanswered == [REQUEST]


@pytest.mark.parametrize(
    ("payload", "param"),
    [
        (None, "resume[0].payload"),
        ("yes", "resume[0].payload"),
        ({"approved": "yes"}, "resume[0].payload"),
        ({"approved": True, "editedArgs": {"q": 2}}, "resume[0].payload.editedArgs"),
    ],
)
def test_an_invalid_answer_is_refused_by_field(payload: Any, param: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        build(HELLO, ASKING, stored=INTERRUPTED, resume=resume(payload=payload))
    assert refused.value.param == param


APPROVED = resume(payload={"approved": True})
STORED_MORE: Json = {**STORED_HELLO, "id": "msg_2", "content": [{"type": "input_text", "text": "more"}]}
LONG = [STORED_HELLO, STORED_ANSWER, STORED_MORE, REQUEST]
ANSWER: Json = {"id": "2", "role": "assistant", "content": "Hi"}
NEXT: Json = {"id": "9", "role": "user", "content": "and then"}
THREADS: dict[str, tuple[list[Json], list[Json], int]] = {
    "all messages": ([HELLO, ASKING], INTERRUPTED, 0),
    "the messages of the user": ([HELLO], INTERRUPTED, 0),
    "no messages": ([], INTERRUPTED, 0),
    "a new message behind those of the user": ([HELLO, NEXT], INTERRUPTED, 1),
    "all messages of a longer thread": ([HELLO, ANSWER, MORE, ASKING], LONG, 0),
    "the messages of the user in a longer thread": ([HELLO, MORE], LONG, 0),
    "the beginning of a longer thread": ([HELLO, ANSWER], LONG, 0),
    "the last message of the user": ([MORE], LONG, 0),
    "the answers only": ([ANSWER], LONG, 0),
    "a new message in a longer thread": ([HELLO, MORE, NEXT], LONG, 1),
    "new messages behind all of a longer thread": ([HELLO, ANSWER, MORE, NEXT, NEXT], LONG, 2),
}


@pytest.mark.parametrize("case", THREADS)
def test_an_answer_continues_its_thread_whatever_part_of_it_the_client_sends(case: str) -> None:
    messages, stored, new_count = THREADS[case]
    request = build(*messages, stored=stored, resume=APPROVED, protocolVersion="1.0")
    assert types(request.body["input"]) == ["mcp_approval_response", *["message"] * new_count]
    assert request.history == stored
    assert (request.unanswered, request.losses, request.approved_ids) == ([], [], ["mcpr_1"])


EDITED: Json = {**HELLO, "content": "goodbye"}


@pytest.mark.parametrize(
    ("messages", "stored", "param"),
    [
        ([EDITED], INTERRUPTED, "messages[0]"),
        ([HELLO, EDITED], LONG, "messages[1]"),
        ([HELLO, ANSWER, EDITED, ASKING], LONG, "messages[2]"),
        ([MORE, HELLO], LONG, "messages[1]"),
    ],
)
def test_messages_that_contradict_the_thread_of_an_answered_interrupt_are_refused(
    messages: list[Json], stored: list[Json], param: str
) -> None:
    with pytest.raises(InvalidRequest) as refused:
        build(*messages, stored=stored, resume=APPROVED)
    assert refused.value.param == param
    assert build(*messages, stored=stored, resume=[]).history != stored


CALL: Json = {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "add", "arguments": '{"a":1}'}
OUTPUT: Json = {"type": "function_call_output", "call_id": "c1", "output": "3"}
WITH_OUTPUT = [STORED_HELLO, CALL, OUTPUT, REQUEST]


@pytest.mark.parametrize("more", [[], [result("c1")]], ids=["no result", "the same result"])
def test_an_answer_needs_no_results_of_earlier_calls(more: list[Json]) -> None:
    request = build(HELLO, *more, stored=WITH_OUTPUT, resume=APPROVED)
    assert types(request.body["input"]) == ["mcp_approval_response"]
    assert request.losses == []


def test_another_result_of_an_earlier_call_is_refused_with_an_answer() -> None:
    with pytest.raises(InvalidRequest) as refused:
        build(HELLO, calling("c1"), result("c1", "4"), stored=WITH_OUTPUT, resume=APPROVED)
    assert refused.value.param == "messages[2]"


def test_an_interrupt_that_has_expired_counts_as_denied() -> None:
    request_states = RequestStates(refused={"mcpr_1": EXPIRED})
    answered = resume(payload={"approved": True})
    request = build(HELLO, ASKING, stored=INTERRUPTED, request_states=request_states, resume=answered)
    assert [item["approve"] for item in request.body["input"]] == [False]
    assert [str(loss) for loss in request.losses] == ["resume[0]=dropped"]
    assert request.results == {"mcpr_1": EXPIRED}


def test_a_call_of_a_run_that_failed_later_is_part_of_the_next_run() -> None:
    request_states = RequestStates(calls={"mcpr_1": APPROVED_CALL})
    request = build(HELLO, ASKING, MORE, stored=INTERRUPTED, request_states=request_states, protocolVersion="1.0")
    assert types(request.body["input"]) == ["mcp_call", "message"]
    assert request.results == {"mcpr_1": "found"}
    again = build(HELLO, ASKING, result("mcpr_1", "found"), MORE, stored=INTERRUPTED, request_states=request_states)
    assert (types(again.body["input"]), again.results) == (["mcp_call", "message"], {})


def test_an_unanswerable_request_does_not_block_the_thread() -> None:
    request = build(
        HELLO, ASKING, MORE, stored=INTERRUPTED, request_states=RequestStates(), protocolVersion="1.0", resume=[]
    )
    assert types(request.body["input"]) == ["message"]
    assert "unknown" in request.results["mcpr_1"]
    assert not request.unanswered


def test_answered_requests_are_closed() -> None:
    denial: Json = {"type": "mcp_approval_response", "approval_request_id": "mcpr_1", "approve": False}
    for last in (denial, APPROVED_CALL):
        request = build(HELLO, ASKING, result("mcpr_1"), MORE, stored=[*INTERRUPTED, last])
        assert not request.unanswered
        assert types(request.body["input"]) == ["message"]


def test_a_changed_name_of_a_hosted_tool_is_the_same_call() -> None:
    entries = read_messages([HELLO, calling("mcpr_1", "docs_search_0a1b2c3d", '{"q":1}')])
    assert len(join_history(INTERRUPTED, entries).history) == 2
    assert len(join_history(INTERRUPTED, read_messages([HELLO, calling("mcpr_1", "docs_search", "{}")])).history) == 1


def test_items_without_content_are_not_compared() -> None:
    empty = {**STORED_ANSWER, "content": None}
    assert len(build(HELLO, MORE, stored=[STORED_HELLO, empty]).history) == 2


def _main_facts(items: Any) -> list[Any]:
    """Returns the texts and calls that the model reads, in order."""
    kinds = {"message": lambda item: build_message_fact(item), "function_call": lambda item: item["call_id"]}
    return [kinds[item["type"]](item) for item in items if item["type"] in kinds]


def _outputs(items: Any) -> dict[str, str]:
    found = {item["call_id"]: item["output"] for item in items if item["type"] == "function_call_output"}
    assert len(found) == sum(item["type"] == "function_call_output" for item in items), "no call has two outputs"
    return found


def _messages(random: Random, number: int) -> list[Json]:
    """The messages of one run: a user's, and an answer with some calls, of which some have results."""
    calls = [f"call_{number}_{index}" for index in range(random.choice([0, 0, 1, 2]))]
    function = {"name": "add", "arguments": '{"a":1}'}
    answer: Json = {
        "id": f"msg_{number}",
        "role": "assistant",
        "content": random.choice(["", f"answer {number}"]),
        "toolCalls": [{"id": call_id, "type": "function", "function": function} for call_id in calls],
    }
    results = [result(call_id, f"result of {call_id}") for call_id in calls if random.random() < 0.7]
    return [{"id": f"u{number}", "role": "user", "content": f"question {number}"}, answer, *results]


def _edit(random: Random, messages: list[Json]) -> list[Json]:
    """Returns the messages with random deletions and changes, as a user may make them."""
    match random.randrange(5):
        case 0:
            return messages[: random.randrange(len(messages) + 1)]
        case 1:
            position = random.randrange(len(messages))
            return messages[:position] + messages[position + 1 :]
        case 2:
            position = random.randrange(len(messages))
            changed = {**messages[position], "content": "changed"}
            return [*messages[:position], changed, *messages[position + 1 :]]
        case _:
            return messages


def test_the_model_reads_the_messages_of_the_client_whatever_is_stored() -> None:
    random = Random("agui")
    for _ in range(300):
        stored: list[Json] = []
        messages: list[Json] = []
        for number in range(4):
            messages = [*_edit(random, messages), *_messages(random, number)] if messages else _messages(random, number)
            request = build(*messages, stored=stored)
            alone = build(*messages)
            read = [*request.history, *request.body["input"]]
            assert _main_facts(read) == _main_facts(alone.body["input"]), messages
            assert _outputs(read) == _outputs(alone.body["input"]), messages
            assert request.history == stored[: len(request.history)]
            stored = read


FORM: Json = {"type": "object", "properties": {"people": {"type": "integer"}}, "required": ["people"]}
BOOKING: Json = {
    **REQUEST,
    "id": "mcp_1",
    "type": "mcp_call",
    "status": "incomplete",
    "output": None,
    "error": None,
    "approval_request_id": None,
    "input_request_id": "mcpr_1",
}
QUESTION: Json = {**REQUEST, "continues": "mcp_1", "elicitation": {"mode": "form", "message": "For how many?"}}
BOOKING_CALL = calling("mcp_1", "docs_search", '{"q":1}')


def request_states_of(*forms: InputForm) -> RequestStates:
    asked = forms or (InputForm(key="size", message="For how many?", schema=FORM),)
    requested = RequestedInput(forms=asked, state="opaque", call_id="mcp_1")
    return RequestStates(open_ids={"mcpr_1"}, inputs={"mcpr_1": requested})


CONFIRM = InputForm(key="sure", message="Sure?", schema={"type": "object", "properties": {}})
LOGIN = InputForm(key="login", message="Log in.", url="https://login.example.com")


def give(*forms: InputForm, **entry: Any) -> RunRequest:
    """Returns the request of a run that answers a call's request for input."""
    request_states = request_states_of(*forms)
    return build(HELLO, BOOKING_CALL, stored=[STORED_HELLO, BOOKING, QUESTION], request_states=request_states, **entry)


@pytest.mark.parametrize(
    ("forms", "entry", "fields"),
    [
        ((), {"payload": {"people": 2}}, {"approve": True, "content": {"people": 2}}),
        ((), {"payload": {"approved": False}}, {"approve": False}),
        ((), {"payload": {"approved": True, "people": 2}}, {"approve": True, "content": {"people": 2}}),
        ((CONFIRM,), {"payload": {"approved": True}}, {"approve": True}),
        ((CONFIRM,), {}, {"approve": True, "content": None}),
        ((), {"status": "cancelled"}, {"approve": False, "action": "cancel"}),
        ((LOGIN,), {"payload": {"approved": True}}, {"approve": True}),
        ((LOGIN,), {}, {"approve": True, "content": None}),
        ((LOGIN,), {"payload": {"approved": False}}, {"approve": False}),
    ],
)
def test_an_answer_to_a_form_continues_its_call(forms: Any, entry: Json, fields: Json) -> None:
    request = give(*forms, resume=resume(**entry))
    item: Json = {"type": "mcp_approval_response", "approval_request_id": "mcpr_1"}
    assert request.body["input"] == [{**item, **fields}]
    assert (request.approved_ids, request.results, request.unanswered) == (["mcp_1"], {}, [])


def test_a_form_may_have_a_field_with_the_name_of_an_approval() -> None:
    schema: Json = {"type": "object", "properties": {"approved": {"type": "boolean"}}}
    form = InputForm(key="x", message="Approve?", schema=schema)
    request = give(form, resume=resume(payload={"approved": False}))
    assert request.body["input"][0]["content"] == {"approved": False}


@pytest.mark.parametrize("payload", [None, "two", {}, {"people": "two"}, {"approved": True}])
def test_an_answer_that_does_not_fit_leaves_the_form_open_with_the_reason(payload: Any) -> None:
    request = give(resume=resume(payload=payload), protocolVersion="1.0")
    assert [item["id"] for item in request.unanswered] == ["mcpr_1"]
    assert "does not fit what the tool asks for" in request.problems["mcpr_1"]


def test_an_old_client_that_continues_without_an_answer_declines() -> None:
    request = build(
        HELLO, BOOKING_CALL, MORE, stored=[STORED_HELLO, BOOKING, QUESTION], request_states=request_states_of()
    )
    assert request.body["input"][0]["approve"] is False
    assert (request.approved_ids, request.results) == (["mcp_1"], {})


def test_a_form_that_has_expired_is_the_result_of_its_call() -> None:
    stored = [STORED_HELLO, BOOKING, QUESTION]
    expired = RequestStates(refused={"mcpr_1": EXPIRED})
    request = build(HELLO, BOOKING_CALL, MORE, stored=stored, request_states=expired, protocolVersion="1.0")
    assert request.results == {"mcp_1": EXPIRED}
    assert request.history == stored, "the client has the call once"


def _random_state(random: Random, request: Json) -> RequestStates:
    """Draws the state of one request."""
    request_id = request["id"]
    call = {**APPROVED_CALL, "id": f"mcp_{request_id}", "approval_request_id": request_id}
    return random.choice(
        [
            RequestStates(open_ids={request_id}),
            RequestStates(open_ids={request_id}),
            RequestStates(refused={request_id: EXPIRED}),
            RequestStates(calls={request_id: call}),
            RequestStates(),
        ]
    )


def test_no_state_or_answer_of_requests_blocks_the_thread() -> None:
    random = Random("interrupts")
    for _ in range(500):
        requests: list[Json] = [{**REQUEST, "id": f"mcpr_{number}"} for number in range(random.randrange(1, 4))]
        each = [_random_state(random, request) for request in requests]
        open_ids = {one["id"] for one, state in zip(requests, each, strict=True) if one["id"] in state.open_ids}
        request_states = RequestStates(
            open_ids=open_ids,
            refused={key: text for one in each for key, text in one.refused.items()},
            calls={key: call for one in each for key, call in one.calls.items()},
        )
        answers = [
            {
                "interruptId": random.choice([request["id"], request["id"], "mcpr_of_nobody"]),
                "status": random.choice(["resolved", "cancelled"]),
                "payload": {"approved": random.random() < 0.5},
            }
            for request in requests
            if random.random() < 0.8
        ]
        messages = [HELLO, *(calling(request["id"], "docs_search", '{"q":1}') for request in requests)]
        more: Json = {"resume": answers, "protocolVersion": random.choice(["1.0", None])}
        if random.random() < 0.3:
            messages, more["resume"] = [*messages, MORE], None
        run = build(*messages, stored=[STORED_HELLO, *requests], request_states=request_states, **more)
        live = [request["id"] for request in requests if request["id"] in request_states.open_ids]
        if run.unanswered:
            # The client gets the same interrupts again, all of them, and can answer each.
            assert [request["id"] for request in run.unanswered] == live
            assert not {*live} <= {answer["interruptId"] for answer in more["resume"] or ()}
            continue
        # Nothing stays open, and the client gets a result for each call, or the call is run.
        assert not {item["id"] for item in open_requests([*run.history, *run.body["input"]])} & {*live}
        assert {*run.results} | {*run.approved_ids} == {request["id"] for request in requests}
