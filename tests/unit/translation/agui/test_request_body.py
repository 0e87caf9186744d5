"""A run becomes a Responses request that follows what is stored of its thread."""

from random import Random
from typing import Any

import pytest

from translation.agui.history import join_history, open_requests
from translation.agui.interrupts import DENIED, EXPIRED, RequestStandings
from translation.agui.messages import NO_RESULT, message_fact, read_messages
from translation.agui.request_body import RunRequest, build_run_request
from translation.agui.run import choose_state
from translation.agui.schema import validate
from translation.errors import InvalidRequest
from translation.hosted.elicitation.forms import InputForm, RequestedInput
from translation.responses.schema.request import validate as validate_responses

Json = dict[str, Any]

HELLO: Json = {"id": "1", "role": "user", "content": "hello"}
ANSWER: Json = {"id": "msg_1", "role": "assistant", "content": "Hi"}
MORE: Json = {"id": "3", "role": "user", "content": "more"}

STORED_HELLO: Json = {
    "type": "message",
    "id": "msg_0",
    "role": "user",
    "content": [{"type": "input_text", "text": "hello"}],
}
STORED_ANSWER: Json = {
    "type": "message",
    "id": "msg_1",
    "role": "assistant",
    "content": [{"type": "output_text", "text": "Hi", "annotations": []}],
}
REASONING: Json = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "sealed"}
LISTED: Json = {"type": "mcp_list_tools", "id": "mcpl_1", "server_label": "docs", "tools": []}
REQUEST: Json = {
    "id": "mcpr_1",
    "type": "mcp_approval_request",
    "server_label": "docs",
    "name": "search",
    "arguments": '{"q":1}',
}
CALL: Json = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "add", "arguments": '{"a":1}'}
OUTPUT: Json = {"type": "function_call_output", "id": "fco_1", "call_id": "call_1", "output": "3"}
APPROVED_CALL: Json = {
    **REQUEST,
    "id": "mcp_1",
    "type": "mcp_call",
    "output": "found",
    "error": None,
    "approval_request_id": "mcpr_1",
}


def calling(call_id: str, name: str = "add", arguments: str = '{"a":1}') -> Json:
    function = {"name": name, "arguments": arguments}
    return {
        "id": call_id,
        "role": "assistant",
        "toolCalls": [{"id": call_id, "type": "function", "function": function}],
    }


def result(call_id: str, content: str = "3") -> Json:
    return {"id": f"{call_id}:result", "role": "tool", "toolCallId": call_id, "content": content}


ASKING = calling("mcpr_1", "docs_search", '{"q":1}')


OPEN = RequestStandings(open_ids={"mcpr_1"})


def build(*messages: Json, stored: Any = (), standings: RequestStandings = OPEN, **more: Any) -> RunRequest:
    body = {"threadId": "t", "runId": "r", "messages": list(messages), **more}
    validate(body)
    request = build_run_request(body, model="m", stored=stored, standings=standings)
    validate_responses(request.body)
    return request


def types(items: Any) -> list[str]:
    return [item["type"] for item in items]


def test_a_first_run_is_its_messages() -> None:
    request = build(HELLO)
    assert request.body == {
        "model": "m",
        "stream": True,
        "input": [{"type": "message", "role": "user", "content": "hello"}],
        "include": ["reasoning.encrypted_content"],
    }
    assert (request.history, request.losses, request.results, request.unanswered) == ((), [], {}, [])


def test_what_is_stored_already_is_the_history() -> None:
    stored = [STORED_HELLO, LISTED, REASONING, STORED_ANSWER]
    request = build(HELLO, ANSWER, MORE, stored=stored)
    assert request.history == stored
    assert [item["content"] for item in request.body["input"]] == ["more"]


def test_reasoning_that_the_client_keeps_is_not_sent_twice() -> None:
    thought = {"id": "rs_1:0", "role": "reasoning", "content": "Hm."}
    stored = [STORED_HELLO, REASONING, STORED_ANSWER]
    assert build(HELLO, thought, ANSWER, MORE, stored=stored).body["input"][0]["content"] == "more"
    new = build(HELLO, ANSWER, thought, MORE, stored=stored).body["input"]
    assert types(new) == ["reasoning", "message"]


@pytest.mark.parametrize(
    ("messages", "kept", "sent"),
    [
        ([HELLO, MORE], 1, 1),  # The answer was deleted, to get another one.
        ([{**HELLO, "content": "good day"}], 0, 1),
        ([HELLO, {**ANSWER, "content": "Ho"}, MORE], 1, 2),
        ([MORE], 0, 1),
        ([], 0, 0),
    ],
)
def test_a_history_that_was_changed_is_that_of_the_client(messages: list[Json], kept: int, sent: int) -> None:
    request = build(*messages, stored=[STORED_HELLO, STORED_ANSWER])
    assert (len(request.history), len(request.body["input"])) == (kept, sent)


def test_messages_with_media_are_compared_as_a_whole() -> None:
    image = {"type": "image", "source": {"type": "url", "value": "http://a"}}
    other = {"type": "image", "source": {"type": "url", "value": "http://b"}}
    sent = {**HELLO, "content": [image]}
    stored = build(sent).body["input"]
    assert build(sent, MORE, stored=stored).history == stored
    assert build({**HELLO, "content": [other]}, MORE, stored=stored).history == []


def test_a_frontend_result_answers_the_stored_call() -> None:
    request = build(HELLO, calling("call_1"), result("call_1"), stored=[STORED_HELLO, CALL])
    assert request.body["input"] == [{"type": "function_call_output", "call_id": "call_1", "output": "3"}]


def test_a_result_that_is_stored_is_not_sent_again() -> None:
    request = build(HELLO, calling("call_1"), result("call_1"), MORE, stored=[STORED_HELLO, CALL, OUTPUT])
    assert types(request.body["input"]) == ["message"]
    assert not request.losses


def test_a_result_that_comes_late_is_read() -> None:
    stored = [STORED_HELLO, CALL, {**OUTPUT, "output": NO_RESULT}]
    request = build(HELLO, calling("call_1"), result("call_1"), MORE, stored=stored)
    assert types(request.body["input"]) == ["function_call", "function_call_output", "message"]
    assert request.body["input"][1]["output"] == "3"


def test_fault_83_a_stream_that_broke_after_a_frontend_call_leaves_no_dead_end() -> None:
    request = build(HELLO, calling("call_1"), MORE, stored=[STORED_HELLO, CALL])
    assert types(request.body["input"]) == ["function_call_output", "message"]
    assert request.body["input"][0]["output"] == NO_RESULT
    unstored = build(HELLO, calling("call_1"), MORE, stored=[STORED_HELLO])
    assert types(unstored.body["input"]) == ["function_call", "function_call_output", "message"]


def test_calls_that_the_gateway_ran_are_in_the_history() -> None:
    own = {**APPROVED_CALL, "approval_request_id": None}
    request = build(
        HELLO, calling("mcp_1", "docs_search", '{"q":1}'), result("mcp_1", "found"), stored=[STORED_HELLO, LISTED, own]
    )
    assert (len(request.history), request.body["input"], request.losses) == (3, [], [])


def test_a_result_without_a_call_is_reported() -> None:
    request = build(HELLO, result("call_9"))
    assert [str(loss) for loss in request.losses] == ["messages[1]=dropped"]


def test_the_result_of_a_shell_of_the_client_answers_its_call() -> None:
    shell = {"type": "shell_call", "id": "sh_1", "call_id": "call_1", "action": {"commands": ["ls"]}}
    messages = [HELLO, calling("call_1", "shell", '{"action":{"commands":["ls"]}}'), result("call_1", "a.txt")]
    request = build(*messages, stored=[STORED_HELLO, shell])
    assert request.history == [STORED_HELLO]
    assert types(request.body["input"]) == ["function_call", "function_call_output"]
    # The upstream ran this one.
    ran = {"type": "shell_call_output", "id": "sho_1", "call_id": "call_1", "output": []}
    stored = [STORED_HELLO, shell, ran]
    request = build(*messages, stored=stored)
    assert (request.history, request.body["input"], request.losses) == (stored, [], [])


def test_context_and_instructions_hold_for_the_run_only() -> None:
    context = [{"description": "page", "value": "start"}, {"description": "cart", "value": {"items": 2}}]
    props = {"instructions": "Be brief."}
    request = build(HELLO, context=context, forwardedProps=props)
    assert request.body["instructions"] == (
        'Be brief.\n\nContext from the application:\npage: start\ncart: {"items":2}'
    )
    assert len(request.body["input"]) == 1


def test_the_state_is_for_the_model_only_if_the_client_wants_it() -> None:
    request = build(HELLO, state={"a": 1})
    assert "instructions" not in request.body
    assert [str(loss) for loss in request.losses] == ["state=not sent"]
    shown = build(HELLO, state={"a": 1}, forwardedProps={"include_state": True})
    assert shown.body["instructions"].endswith('State of the application: {"a":1}')
    assert not shown.losses
    assert not build(HELLO, state={}).losses
    stored = build_run_request(
        {"messages": [HELLO], "state": {"a": 1}, "threadId": "t", "runId": "r"}, model="m", stores_state=True
    )
    assert (stored.losses, stored.body.get("instructions")) == ([], None)


@pytest.mark.parametrize(
    ("body", "chosen"),
    [
        ({}, {"a": 1}),
        ({"state": None}, {"a": 1}),
        ({"state": {}}, {"a": 1}),
        ({"state": {"b": 2}}, {"b": 2}),
        ({"state": 0}, 0),
        ({"forwardedProps": {"reset_state": True}}, None),
        ({"state": {"b": 2}, "forwardedProps": {"reset_state": True}}, {"b": 2}),
    ],
)
def test_a_client_without_a_state_gets_that_of_its_thread(body: Json, chosen: Any) -> None:
    assert choose_state(body, {"a": 1}) == chosen


def test_parameters_are_forwarded_and_other_properties_reported() -> None:
    props = {"temperature": 0.5, "include": ["message.output_text.logprobs"], "threadMetadata": {}, "seed": None}
    request = build(HELLO, forwardedProps=props)
    assert request.body["temperature"] == 0.5
    assert request.body["include"] == ["message.output_text.logprobs", "reasoning.encrypted_content"]
    assert "seed" not in request.body
    assert [str(loss) for loss in request.losses] == ["forwardedProps.threadMetadata=dropped"]


def test_sealed_reasoning_is_asked_for_once() -> None:
    props = {"include": ["reasoning.encrypted_content"]}
    assert build(HELLO, forwardedProps=props).body["include"] == ["reasoning.encrypted_content"]


def test_tools_of_the_client_are_functions_and_hosted_tools_follow() -> None:
    hosted = {"type": "mcp", "server_label": "docs", "server_url": "http://a"}
    tools = [{"name": "add", "description": "adds", "parameters": {"type": "object"}}, {"name": "now"}]
    request = build(HELLO, tools=tools, forwardedProps={"tools": [hosted]})
    assert [tool.get("name") for tool in request.body["tools"]] == ["add", "now", None]
    assert request.body["tools"][1]["parameters"] == {"type": "object", "properties": {}}
    assert request.names["tools[2].server_url"] == "forwardedProps.tools[0].server_url"


def test_parameters_have_the_clients_names() -> None:
    names = build(HELLO, MORE, result("x"), tools=[{"name": "add"}]).names
    assert names["temperature"] == "forwardedProps.temperature"
    assert names["reasoning.effort"] == "forwardedProps.reasoning.effort"
    assert names["input[1].content"] == "messages[1]"
    assert "temperature" in set(names)
    assert len(names) > 5
    for unknown in ("model", "tools[0].name", "input[7]", "input[x]", "other"):
        assert names.get(unknown, "same") == "same"


@pytest.mark.parametrize(
    ("tools", "param"),
    [
        ({"type": "mcp"}, "forwardedProps.tools"),
        (["mcp"], "forwardedProps.tools[0]"),
        ([{"type": "function", "name": "add"}], "forwardedProps.tools[0]"),
    ],
)
def test_forwarded_tools_are_hosted_tools(tools: Any, param: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        build(HELLO, forwardedProps={"tools": tools})
    assert refused.value.param == param


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
        standings=RequestStandings(open_ids={"mcpr_1", "mcpr_2"}),
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


def test_an_old_client_that_goes_on_without_an_answer_denies() -> None:
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
def test_an_answer_that_is_none_is_refused_by_field(payload: Any, param: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        build(HELLO, ASKING, stored=INTERRUPTED, resume=resume(payload=payload))
    assert refused.value.param == param


def test_an_interrupt_that_has_expired_counts_as_denied() -> None:
    standings = RequestStandings(refused={"mcpr_1": EXPIRED})
    answered = resume(payload={"approved": True})
    request = build(HELLO, ASKING, stored=INTERRUPTED, standings=standings, resume=answered)
    assert [item["approve"] for item in request.body["input"]] == [False]
    assert [str(loss) for loss in request.losses] == ["resume[0]=dropped"]
    assert request.results == {"mcpr_1": EXPIRED}


def test_a_call_of_a_run_that_failed_later_is_part_of_the_next_run() -> None:
    standings = RequestStandings(calls={"mcpr_1": APPROVED_CALL})
    request = build(HELLO, ASKING, MORE, stored=INTERRUPTED, standings=standings, protocolVersion="1.0")
    assert types(request.body["input"]) == ["mcp_call", "message"]
    assert request.results == {"mcpr_1": "found"}
    again = build(HELLO, ASKING, result("mcpr_1", "found"), MORE, stored=INTERRUPTED, standings=standings)
    assert (types(again.body["input"]), again.results) == (["mcp_call", "message"], {})


def test_a_request_that_nobody_can_answer_any_more_is_no_dead_end() -> None:
    request = build(
        HELLO, ASKING, MORE, stored=INTERRUPTED, standings=RequestStandings(), protocolVersion="1.0", resume=[]
    )
    assert types(request.body["input"]) == ["message"]
    assert "not known" in request.results["mcpr_1"]
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
    """What the model reads of the user, of itself and of its calls, in order."""
    kinds = {"message": lambda item: message_fact(item), "function_call": lambda item: item["call_id"]}
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
    """The same messages, as a user may leave them: some are deleted or changed."""
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


def standings_of(*forms: InputForm) -> RequestStandings:
    asked = forms or (InputForm(key="size", message="For how many?", schema=FORM),)
    requested = RequestedInput(forms=asked, state="opaque", call_id="mcp_1")
    return RequestStandings(open_ids={"mcpr_1"}, inputs={"mcpr_1": requested})


CONFIRM = InputForm(key="sure", message="Sure?", schema={"type": "object", "properties": {}})
LOGIN = InputForm(key="login", message="Log in.", url="https://login.example.com")


def give(*forms: InputForm, **entry: Any) -> RunRequest:
    """The request of a run that answers what a call asked for."""
    standings = standings_of(*forms)
    return build(HELLO, BOOKING_CALL, stored=[STORED_HELLO, BOOKING, QUESTION], standings=standings, **entry)


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
def test_an_answer_that_does_not_fit_leaves_the_form_open_and_says_why(payload: Any) -> None:
    request = give(resume=resume(payload=payload), protocolVersion="1.0")
    assert [item["id"] for item in request.unanswered] == ["mcpr_1"]
    assert "does not fit what the tool asks for" in request.problems["mcpr_1"]


def test_an_old_client_that_goes_on_without_an_answer_declines() -> None:
    request = build(HELLO, BOOKING_CALL, MORE, stored=[STORED_HELLO, BOOKING, QUESTION], standings=standings_of())
    assert request.body["input"][0]["approve"] is False
    assert (request.approved_ids, request.results) == (["mcp_1"], {})


def test_a_form_that_has_expired_is_the_result_of_its_call() -> None:
    stored = [STORED_HELLO, BOOKING, QUESTION]
    expired = RequestStandings(refused={"mcpr_1": EXPIRED})
    request = build(HELLO, BOOKING_CALL, MORE, stored=stored, standings=expired, protocolVersion="1.0")
    assert request.results == {"mcp_1": EXPIRED}
    assert request.history == stored, "the client has the call once"


def _standing(random: Random, request: Json) -> RequestStandings:
    """What may have become of one request."""
    request_id = request["id"]
    call = {**APPROVED_CALL, "id": f"mcp_{request_id}", "approval_request_id": request_id}
    return random.choice(
        [
            RequestStandings(open_ids={request_id}),
            RequestStandings(open_ids={request_id}),
            RequestStandings(refused={request_id: EXPIRED}),
            RequestStandings(calls={request_id: call}),
            RequestStandings(),
        ]
    )


def test_whatever_became_of_the_requests_and_however_they_are_answered_there_is_no_dead_end() -> None:
    random = Random("interrupts")
    for _ in range(500):
        requests: list[Json] = [{**REQUEST, "id": f"mcpr_{number}"} for number in range(random.randrange(1, 4))]
        each = [_standing(random, request) for request in requests]
        open_ids = {one["id"] for one, standing in zip(requests, each, strict=True) if one["id"] in standing.open_ids}
        standings = RequestStandings(
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
        run = build(*messages, stored=[STORED_HELLO, *requests], standings=standings, **more)
        live = [request["id"] for request in requests if request["id"] in standings.open_ids]
        if run.unanswered:
            # The client gets the same interrupts again, all of them, and can answer each.
            assert [request["id"] for request in run.unanswered] == live
            assert not {*live} <= {answer["interruptId"] for answer in more["resume"] or ()}
            continue
        # Nothing stays open, and the client gets a result for each call, or the call is run.
        assert not {item["id"] for item in open_requests([*run.history, *run.body["input"]])} & {*live}
        assert {*run.results} | {*run.approved_ids} == {request["id"] for request in requests}
