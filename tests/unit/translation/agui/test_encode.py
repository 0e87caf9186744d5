"""Events become AG-UI events."""

from typing import Any

import pytest

from tests.agui_events import kinds_of, text_of
from tests.unit.translation.agui.encoded_runs import OLD, Json, call, encode, mcp_call, message, of_type, whole
from translation.agui.activities import CALL_PROGRESS
from translation.agui.run import RunHead
from translation.representation import items
from translation.representation.events import (
    Annotated,
    Delta,
    Event,
    Finished,
    ItemEnded,
    ItemStarted,
    Opaque,
    PartEnded,
    PartStarted,
    Progressed,
)
from translation.representation.json_types import Item


def test_a_text_is_one_message() -> None:
    events = encode(*message("Good ", "day", "."))
    assert kinds_of(events) == [
        "RUN_STARTED",
        "TEXT_MESSAGE_START",
        "TEXT_MESSAGE_CONTENT",
        "TEXT_MESSAGE_END",
        "RUN_FINISHED",
    ]
    assert text_of(events) == "Good day."
    assert events[0] == {
        "type": "RUN_STARTED",
        "threadId": "t",
        "runId": "r",
        "protocolVersion": "1.0",
        "metadata": {"responseId": "resp_1"},
    }
    assert events[-1] == {"type": "RUN_FINISHED", "threadId": "t", "runId": "r", "outcome": {"type": "success"}}


def test_a_text_may_contain_format_characters() -> None:
    assert text_of(encode(*message("100 %b", " %s {} \u20ac"))) == "100 %b %s {} \u20ac"


def test_a_refusal_is_text_too() -> None:
    events = encode(*message("I ", "cannot.", kind="refusal"))
    assert text_of(events) == "I cannot."
    assert [event["metadata"] for event in of_type(events, "TEXT_MESSAGE_CONTENT")] == [{"refusal": True}] * 2
    item = {**items.new_message("msg_0"), "content": [{"type": "refusal", "refusal": "No."}]}
    (content,) = of_type(encode(*whole(item)), "TEXT_MESSAGE_CONTENT")
    assert (content["delta"], content["metadata"]) == ("No.", {"refusal": True})
    assert "metadata" not in of_type(encode(*whole(item), head=OLD), "TEXT_MESSAGE_CONTENT")[0]


def test_a_text_without_deltas_is_sent_whole() -> None:
    part = {"type": "output_text", "text": "Hello"}
    item = {**items.new_message("msg_0"), "content": [part, {"type": "other"}]}
    assert text_of(encode(ItemStarted(0, items.new_message("msg_0")), ItemEnded(0, item))) == "Hello"
    started: list[Event] = [ItemStarted(0, items.new_message("msg_0")), PartStarted(0, 0, part)]
    assert text_of(encode(*started, PartEnded(0, 0, part), ItemEnded(0, item))) == "Hello"
    rest: list[Event] = [
        ItemStarted(0, items.new_message("msg_0")),
        PartStarted(0, 0, {**part, "text": ""}),
        Delta(0, 0, "He"),
    ]
    assert text_of(encode(*rest, PartEnded(0, 0, part), ItemEnded(0, item))) == "Hello"
    assert text_of(encode(*rest, PartEnded(0, 0), ItemEnded(0, item))) == "He"


def test_an_empty_message_is_not_sent() -> None:
    assert kinds_of(encode(*message(""))) == ["RUN_STARTED", "RUN_FINISHED"]


def test_reasoning_is_a_span_of_messages_and_its_encrypted_value_belongs_to_the_first() -> None:
    parts: list[Json] = [{"type": "summary_text", "text": "one"}, {"type": "reasoning_text", "text": "two"}]
    item = {**items.new_reasoning("rs_1"), "summary": parts[:1], "content": parts[1:], "encrypted_content": "sealed"}
    events = encode(
        ItemStarted(0, items.new_reasoning("rs_1")),
        PartStarted(0, 0, {**parts[0], "text": ""}),
        Delta(0, 0, "on"),
        Delta(0, 0, "e"),
        PartEnded(0, 0, parts[0]),
        PartStarted(0, 1, {**parts[1], "text": ""}),
        Delta(0, 1, "two"),
        PartEnded(0, 1),
        ItemEnded(0, item),
    )
    assert kinds_of(events)[1:-1] == [
        "REASONING_START",
        *("REASONING_MESSAGE_START", "REASONING_MESSAGE_CONTENT", "REASONING_MESSAGE_END"),
        *("REASONING_MESSAGE_START", "REASONING_MESSAGE_CONTENT", "REASONING_MESSAGE_END"),
        *("REASONING_ENCRYPTED_VALUE", "REASONING_END"),
    ]
    assert [event["messageId"] for event in of_type(events, "REASONING_MESSAGE_START")] == ["rs_1:0", "rs_1:1"]
    value = of_type(events, "REASONING_ENCRYPTED_VALUE")[0]
    assert (value["entityId"], value["subtype"], value["encryptedValue"]) == ("rs_1:0", "message", "sealed")


def test_reasoning_without_text_keeps_its_encrypted_value() -> None:
    item = {**items.new_reasoning("rs_1"), "encrypted_content": "sealed"}
    events = encode(*whole(item))
    assert kinds_of(events)[1:-1] == [
        "REASONING_START",
        *("REASONING_MESSAGE_START", "REASONING_MESSAGE_END", "REASONING_ENCRYPTED_VALUE", "REASONING_END"),
    ]


def test_reasoning_without_content_is_not_sent() -> None:
    assert kinds_of(encode(*whole(items.new_reasoning("rs_1")))) == ["RUN_STARTED", "RUN_FINISHED"]


def test_reasoning_without_events_of_its_own_is_sent_whole() -> None:
    item = {**items.new_reasoning("rs_1"), "content": [{"type": "reasoning_text", "text": "Hm."}]}
    events = encode(*whole(item))
    assert of_type(events, "REASONING_MESSAGE_CONTENT")[0]["delta"] == "Hm."
    assert len(of_type(events, "REASONING_MESSAGE_END")) == 1


def test_calls_of_the_client_are_pending_and_get_no_result() -> None:
    events = encode(*call("call_1"), *call("call_2", index=1))
    assert not of_type(events, "TOOL_CALL_RESULT")
    assert events[-1]["outcome"] == {"type": "success", "pendingToolCallIds": ["call_1", "call_2"]}
    args = of_type(events, "TOOL_CALL_ARGS")
    assert "".join(event["delta"] for event in args if event["toolCallId"] == "call_1") == '{"a":1}'


def test_calls_of_one_round_are_one_message_of_the_client() -> None:
    events = encode(*message("Let me see."), *call("call_1", index=1), *call("call_2", index=2))
    assert [event["parentMessageId"] for event in of_type(events, "TOOL_CALL_START")] == ["msg_0", "msg_0"]
    events = encode(*call("call_1"), *call("call_2", index=1))
    assert [event.get("parentMessageId") for event in of_type(events, "TOOL_CALL_START")] == [None, "call_1"]


def test_a_call_that_was_cut_off_is_not_the_clients_to_run() -> None:
    events = encode(*call("call_1", '{"a"', status="incomplete"), Finished("length"))
    assert events[-1]["outcome"] == {"type": "success"}
    assert events[-1]["result"] == {"status": "incomplete", "incompleteDetails": {"reason": "max_output_tokens"}}


def test_arguments_without_deltas_are_sent_whole() -> None:
    item = items.new_function_call("fc_1", call_id="call_1", name="add") | {"arguments": '{"a":1}'}
    for started in (item, {**item, "arguments": ""}):
        events = encode(ItemStarted(0, started), ItemEnded(0, item))
        assert [event["delta"] for event in of_type(events, "TOOL_CALL_ARGS")] == ['{"a":1}']


def test_calls_of_other_kinds_have_their_action_as_arguments() -> None:
    custom = items.new_custom_tool_call("ctc_1", call_id="call_1", name="run") | {"input": "ls"}
    shell: Item = {"type": "shell_call", "id": "sh_1", "call_id": "call_2", "action": {"commands": ["ls"]}}
    events = encode(*whole(custom, Delta(0, None, "ls")), *whole(shell, index=1))
    assert [event["delta"] for event in of_type(events, "TOOL_CALL_ARGS")] == [
        '{"input":"ls"}',
        '{"action":{"commands":["ls"]}}',
    ]
    assert [event["toolCallName"] for event in of_type(events, "TOOL_CALL_START")] == ["run", "shell"]
    assert events[-1]["outcome"]["pendingToolCallIds"] == ["call_1", "call_2"]


@pytest.mark.parametrize(
    ("output", "text"),
    [
        ([{"stdout": "a\n", "stderr": ""}, {"stderr": "b"}, 3], "a\nb"),
        ("done", "done"),
        ([], "[]"),
        ({"type": "computer_screenshot"}, '{"type":"computer_screenshot"}'),
    ],
)
def test_a_call_that_the_upstream_ran_itself_has_a_result_and_is_not_pending(output: Any, text: str) -> None:
    shell: Item = {"type": "shell_call", "id": "sh_1", "call_id": "call_1", "action": {"commands": ["ls"]}}
    ran: Item = {"type": "shell_call_output", "id": "sho_1", "call_id": "call_1", "output": output}
    other: Item = {**ran, "id": "sho_2", "call_id": "call_2"}
    events = encode(*whole(shell), *whole(ran, index=1), *whole(other, index=2))
    assert [(event["toolCallId"], event["content"]) for event in of_type(events, "TOOL_CALL_RESULT")] == [
        ("call_1", text)
    ]
    assert events[-1]["outcome"] == {"type": "success"}


def test_output_of_commands_of_the_upstream_is_an_activity_while_they_run() -> None:
    shell: Item = {"type": "shell_call", "id": "sh_1", "call_id": "call_1", "action": {"commands": ["ls"]}}
    ran: Item = {"type": "shell_call_output", "id": "sho_1", "call_id": "call_1", "output": [{"stdout": "a\nb\n"}]}

    def printed(**fields: Any) -> Opaque:
        return Opaque("responses", {"type": "response.shell_call_output_content.delta", **fields}, 1)

    events = encode(
        *whole(shell),
        ItemStarted(1, {**ran, "output": []}),
        printed(command_index=0, delta={"stdout": "a\n"}),
        printed(command_index=1, delta={"stderr": "b\n", "stdout": None}),
        printed(delta="not known"),
        ItemEnded(1, ran),
    )
    (first,) = of_type(events, "ACTIVITY_SNAPSHOT")
    assert (first["messageId"], first["activityType"]) == ("sho_1:activity", "shell_call_output")
    assert first["content"] == {
        "toolCallId": "call_1",
        "status": "in_progress",
        "output": [{"stdout": "a\n", "commandIndex": 0}],
    }
    assert [event["patch"] for event in of_type(events, "ACTIVITY_DELTA")] == [
        [{"op": "add", "path": "/output/-", "value": {"stderr": "b\n", "commandIndex": 1}}],
        [{"op": "add", "path": "/output/-", "value": {"commandIndex": 0}}],
        [{"op": "replace", "path": "/status", "value": "completed"}],
    ]
    assert [event["content"] for event in of_type(events, "TOOL_CALL_RESULT")] == ["a\nb\n"]


def test_a_list_of_tools_is_an_activity() -> None:
    listed: Item = {"id": "mcpl_1", "type": "mcp_list_tools", "server_label": "docs", "tools": [{"name": "search"}]}
    started = {**listed, "tools": []}
    events = encode(
        ItemStarted(0, started), Progressed(0, "in_progress"), Progressed(0, "completed"), ItemEnded(0, listed)
    )
    first, last = of_type(events, "ACTIVITY_SNAPSHOT")
    assert first["activityType"] == "mcp_list_tools"
    assert first["content"] == {"serverLabel": "docs", "status": "in_progress"}
    assert last["content"] == {"serverLabel": "docs", "status": "completed", "tools": ["search"]}
    assert first["messageId"] == last["messageId"]
    assert last["replace"] is True


def test_a_list_that_failed_has_its_error() -> None:
    listed: Item = {"id": "mcpl_1", "type": "mcp_list_tools", "server_label": "docs", "tools": [], "error": "refused"}
    assert of_type(encode(*whole(listed)), "ACTIVITY_SNAPSHOT")[-1]["content"]["error"] == "refused"


def test_a_call_that_the_gateway_runs_has_its_result_and_its_phases() -> None:
    item = mcp_call()
    started = {**item, "arguments": "", "output": None, "status": "in_progress"}
    events = encode(
        ItemStarted(0, started),
        Progressed(0, "in_progress"),
        Delta(0, None, '{"q"'),
        Delta(0, None, ":1}"),
        PartEnded(0, None, {"arguments": '{"q":1}'}),
        Progressed(0, "in_progress"),
        Progressed(0, "in_progress", {"progress": 0.5}),
        Progressed(0, "completed"),
        ItemEnded(0, item),
    )
    assert of_type(events, "TOOL_CALL_START")[0]["toolCallName"] == "docs_search"
    result = of_type(events, "TOOL_CALL_RESULT")[0]
    assert (result["toolCallId"], result["content"], result["role"]) == ("mcp_0", "found", "tool")
    snapshot = of_type(events, "ACTIVITY_SNAPSHOT")[0]
    assert snapshot["content"] == {"toolCallId": "mcp_0", "status": "in_progress"}
    patches = [event["patch"] for event in of_type(events, "ACTIVITY_DELTA")]
    assert patches[0][1] == {"op": "add", "path": "/details", "value": {"progress": 0.5}}
    assert patches[1] == [{"op": "replace", "path": "/status", "value": "completed"}]
    assert "pendingToolCallIds" not in events[-1]["outcome"]


def test_the_progress_of_a_running_call_is_part_of_its_activity() -> None:
    report: Json = {"type": CALL_PROGRESS, "item_id": "mcp_0", "progress": 0.5, "total": 1.0, "message": None}
    other = Opaque("responses", {**report, "item_id": "mcp_9"})
    started = ItemStarted(0, mcp_call(arguments="", output=None))
    end = ItemEnded(0, mcp_call())
    events = encode(started, Progressed(0, "in_progress"), other, Opaque("responses", report), end)
    (delta,) = of_type(events, "ACTIVITY_DELTA")
    assert delta["patch"] == [{"op": "add", "path": "/progress", "value": {"progress": 0.5, "total": 1.0}}]
    assert delta["messageId"] == of_type(events, "ACTIVITY_SNAPSHOT")[0]["messageId"]
    assert not of_type(encode(started, Opaque("responses", report), end), "ACTIVITY_DELTA")


def test_calls_after_a_result_are_a_new_message() -> None:
    events = encode(*message("Let me see."), *whole(mcp_call(1), index=1), *whole(mcp_call(2), index=2))
    assert [event.get("parentMessageId") for event in of_type(events, "TOOL_CALL_START")] == ["msg_0", None]


def test_a_failed_call_has_its_error_as_its_result() -> None:
    item = mcp_call(output=None, error={"type": "http_error", "code": 500, "message": "broken"}, status="failed")
    assert of_type(encode(*whole(item)), "TOOL_CALL_RESULT")[0]["content"] == "broken"


@pytest.mark.parametrize(
    ("item", "arguments", "result"),
    [
        (
            {"type": "web_search_call", "action": {"query": "q", "sources": [{"url": "http://a"}, "x", {}]}},
            '{"query":"q","sources":[{"url":"http://a"},"x",{}]}',
            "http://a",
        ),
        ({"type": "web_search_call", "status": "failed"}, "{}", "failed"),
        (
            {"type": "file_search_call", "queries": ["q"], "results": [{"filename": "a.md"}, {"file_id": "f"}, {}, 1]},
            '{"queries":["q"]}',
            "a.md\nf\n",
        ),
        (
            {"type": "code_interpreter_call", "code": "1", "outputs": [{"logs": "2"}, {"url": "u"}, {}, 0]},
            '{"code":"1"}',
            "2\nu\n",
        ),
        ({"type": "image_generation_call", "result": "AAAA"}, "{}", "image x_1"),
        ({"type": "image_generation_call"}, "{}", "completed"),
    ],
)
def test_tools_of_the_upstream_have_arguments_and_results(item: Item, arguments: str, result: str) -> None:
    events = encode(*whole({"id": "x_1", **item}, Delta(0, None, "1"), Progressed(0, "searching", {"a": 1})))
    assert of_type(events, "TOOL_CALL_ARGS")[0]["delta"] == arguments
    assert of_type(events, "TOOL_CALL_RESULT")[0]["content"] == result
    assert of_type(events, "ACTIVITY_SNAPSHOT")[0]["content"]["details"] == {"a": 1}


def test_an_image_is_sent_as_a_custom_event() -> None:
    item: Item = {"id": "ig_1", "type": "image_generation_call", "result": "AAAA", "output_format": "webp"}
    value = of_type(encode(*whole(item)), "CUSTOM")[0]["value"]
    assert value == {"toolCallId": "ig_1", "image": "AAAA", "mimeType": "image/webp"}


def test_a_citation_is_a_custom_event() -> None:
    annotation = {"type": "url_citation", "url": "http://a"}
    started, part, *rest = message("x")
    value = of_type(encode(started, part, Annotated(0, 0, annotation), *rest), "CUSTOM")[0]["value"]
    assert value == {"messageId": "msg_0", "annotation": annotation}


def test_items_without_a_meaning_in_the_protocol_are_left_out() -> None:
    item: Item = {"id": "cmp_1", "type": "compaction", "encrypted_content": "x"}
    assert kinds_of(encode(*whole(item), Progressed(0, "x"))) == ["RUN_STARTED", "ACTIVITY_SNAPSHOT", "RUN_FINISHED"]
    assert kinds_of(encode(*whole(item))) == ["RUN_STARTED", "RUN_FINISHED"]


def test_events_of_the_upstream_are_sent_raw_only_if_requested() -> None:
    opaque = Opaque("responses", {"type": "response.x"})
    assert not of_type(encode(opaque), "RAW")
    head = RunHead(thread_id="t", run_id="r", is_versioned=True, sends_raw_events=True)
    assert of_type(encode(opaque, head=head), "RAW")[0]["event"] == {"type": "response.x"}
