"""Events become AG-UI events."""

from collections.abc import Sequence
from typing import Any
from unittest.mock import ANY

import pytest

from tests.agui_events import OLD_EVENTS, kinds_of, read_events, read_run, text_of
from translation.agui.activities import CALL_PROGRESS
from translation.agui.encode import AguiEncoder
from translation.agui.interrupts import CHANGED
from translation.agui.run import RunHead
from translation.agui.run_end import CANCELLED
from translation.representation import items
from translation.representation.delta_runs import DeltaRun
from translation.representation.events import (
    Annotated,
    Delta,
    Event,
    Failed,
    Finished,
    ItemEnded,
    ItemStarted,
    Noted,
    Opaque,
    PartEnded,
    PartStarted,
    Progressed,
    Started,
    Usage,
)
from translation.representation.json_types import Item

Json = dict[str, Any]

HEAD = RunHead(thread_id="t", run_id="r", is_versioned=True)
OLD = RunHead(thread_id="t", run_id="r")
REQUEST: Item = {
    "id": "mcpr_1",
    "type": "mcp_approval_request",
    "server_label": "docs",
    "name": "search",
    "arguments": '{"q":"x"}',
}


def encode(*events: Event, head: RunHead = HEAD, **more: Any) -> list[Json]:
    """The events of a run whose reply has these events; one that has not failed finishes."""
    encoder = AguiEncoder(head, response_id="resp_1", model="m", **more)
    ends: list[Event] = [] if events and isinstance(events[-1], Failed | Finished) else [Finished("stop")]
    frames = encoder.feed([Started("m")]) + b"".join(encoder.feed([event]) for event in [*events, *ends])
    assert encoder.ended
    frames += encoder.conclude()
    assert encoder.conclude() == b""
    return read_run(frames)


def message(*texts: str, index: int = 0, kind: str = "output_text") -> list[Event]:
    key = "refusal" if kind == "refusal" else "text"
    part: Json = {"type": kind, key: "".join(texts)}
    item = {**items.new_message(f"msg_{index}"), "content": [part]}
    return [
        ItemStarted(index, items.new_message(f"msg_{index}")),
        PartStarted(index, 0, {"type": kind, key: ""}),
        *(Delta(index, 0, text) for text in texts),
        PartEnded(index, 0, part),
        ItemEnded(index, item),
    ]


def whole(item: Item, *between: Event, index: int = 0, status: Any = "completed") -> list[Event]:
    started = {**item, "status": "in_progress"}
    return [ItemStarted(index, started), *between, ItemEnded(index, item, status)]


def call(call_id: str, arguments: str = '{"a":1}', index: int = 0, status: Any = "completed") -> list[Event]:
    item = items.new_function_call(f"fc_{index}", call_id=call_id, name="add") | {"arguments": arguments}
    started = {**item, "arguments": ""}
    return [
        ItemStarted(index, started),
        *(Delta(index, None, piece) for piece in (arguments[:3], arguments[3:])),
        PartEnded(index, None, {"arguments": arguments}),
        ItemEnded(index, {**item, "status": status}, status),
    ]


def mcp_call(index: int = 0, **more: Any) -> Item:
    fields = {"arguments": '{"q":1}', "output": "found", "error": None, "status": "completed"}
    return {"id": f"mcp_{index}", "type": "mcp_call", "server_label": "docs", "name": "search", **fields, **more}


def of_type(events: Sequence[Json], kind: str) -> list[Json]:
    return [event for event in events if event["type"] == kind]


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


def test_a_text_may_hold_what_formats_use() -> None:
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


def test_an_empty_message_is_none() -> None:
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


def test_reasoning_without_anything_is_not_shown() -> None:
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


def test_calls_of_other_kinds_have_what_they_ask_for_as_arguments() -> None:
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


def test_what_commands_of_the_upstream_print_is_an_activity_while_they_run() -> None:
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


def test_events_of_the_upstream_are_sent_raw_only_if_the_client_asks() -> None:
    opaque = Opaque("responses", {"type": "response.x"})
    assert not of_type(encode(opaque), "RAW")
    head = RunHead(thread_id="t", run_id="r", is_versioned=True, sends_raw_events=True)
    assert of_type(encode(opaque, head=head), "RAW")[0]["event"] == {"type": "response.x"}


def test_usage_is_at_the_end() -> None:
    usage = Usage(input=3, output=5, reasoning=2, cache_read=1, cache_write=4)
    expected = {"model": "m", "inputTokens": 3, "outputTokens": 5, "totalTokens": 8, "reasoningTokens": 2}
    expected |= {"cachedInputTokens": 1, "cacheWriteInputTokens": 4}
    assert encode(Noted(usage=usage))[-1]["usage"] == [expected]
    assert encode(Noted(), Finished("stop", usage=usage))[-1]["usage"] == [expected]
    assert encode(Failed("x", "y", usage=usage))[-1]["usage"] == [expected]
    del expected["cacheWriteInputTokens"]
    assert encode(Noted(usage=usage), head=OLD)[-1]["usage"] == [expected]
    assert encode(Noted(usage=Usage(output=0)))[-1]["usage"] == [{"model": "m", "outputTokens": 0}]


def test_a_failure_is_the_only_end() -> None:
    started, part, delta, *_ = message("He", "llo")
    events = encode(started, part, delta, Failed("upstream_disconnected", "it closed"))
    assert events[-1] == {"type": "RUN_ERROR", "message": "it closed", "code": "upstream_disconnected"}


def test_fault_84_a_failure_after_the_end_was_built_replaces_it() -> None:
    encoder = AguiEncoder(HEAD, response_id="resp_1", model="m")
    frames = encoder.feed([Started("m"), Finished("stop")])
    frames += encoder.feed([Failed("store_unavailable", "no")])
    assert kinds_of(read_run(frames + encoder.conclude())) == ["RUN_STARTED", "RUN_ERROR"]


def test_there_is_no_end_before_the_turn_has_ended() -> None:
    encoder = AguiEncoder(HEAD, response_id="resp_1", model="m")
    assert encoder.conclude() == b""
    assert kinds_of(read_events(encoder.feed([Started("m")]))) == ["RUN_STARTED"]
    encoder_of_any_kind: Any = encoder
    assert encoder_of_any_kind.delta_template(DeltaRun, ()) is None
    assert encoder.failed is None


def test_a_run_that_was_stopped_is_cancelled() -> None:
    assert encode(Failed(CANCELLED, "stopped"))[-1]["outcome"] == {"type": "cancelled"}
    assert encode(Failed(CANCELLED, "stopped"), head=OLD)[-1]["code"] == CANCELLED


def test_a_limit_of_the_gateway_cancels_the_run() -> None:
    details = {"reason": "max_output_tokens", "message": "Tool call skipped: limit of 2 rounds reached"}
    finished = Finished("length", response={"incomplete_details": details})
    end = encode(*whole(mcp_call()), finished)[-1]
    assert (end["type"], end["outcome"]) == ("RUN_FINISHED", {"type": "cancelled"})
    assert end["result"] == {"status": "incomplete", "incompleteDetails": details}
    # A client of 0.0.x does not know the outcome. It reads why the answer is not whole.
    old = encode(*whole(mcp_call()), finished, head=OLD)[-1]
    assert (old["type"], old.get("outcome"), old["result"]) == ("RUN_FINISHED", None, end["result"])


@pytest.mark.parametrize("details", [None, {"reason": "max_output_tokens"}, {"message": 3}, []])
def test_a_limit_of_the_client_or_its_model_does_not_cancel_the_run(details: Any) -> None:
    end = encode(*message("He"), Finished("length", response={"incomplete_details": details}))[-1]
    assert end["outcome"] == {"type": "success"}
    assert end["result"]["incompleteDetails"] == {"reason": "max_output_tokens"}


def test_a_request_for_an_approval_is_a_call_and_an_interrupt() -> None:
    head = RunHead(thread_id="t", run_id="r", is_versioned=True, state={"a": 1})
    events = encode(*whole(REQUEST), head=head, expiry_of=lambda item: "2026-12-01T00:00:00Z")
    assert kinds_of(events)[1:] == [
        *("TOOL_CALL_START", "TOOL_CALL_ARGS", "TOOL_CALL_END"),
        *("STATE_SNAPSHOT", "MESSAGES_SNAPSHOT", "RUN_FINISHED"),
    ]
    outcome = events[-1]["outcome"]
    assert outcome["type"] == "interrupt"
    (interrupt,) = outcome["interrupts"]
    assert (interrupt["id"], interrupt["toolCallId"], interrupt["reason"]) == ("mcpr_1", "mcpr_1", "tool_call")
    assert interrupt["responseSchema"]["required"] == ["approved"]
    assert interrupt["expiresAt"] == "2026-12-01T00:00:00Z"


def test_the_messages_before_an_interrupt_are_those_that_the_client_has() -> None:
    sent: list[Json] = [
        {"id": "u1", "role": "user", "content": "Hi", "name": None},
        {"id": "rs_0:0", "role": "reasoning", "content": "Hm."},
    ]
    events = encode(
        *message("I ", "look.", index=0),
        *whole(mcp_call(1), index=1),
        *whole({**REQUEST}, index=2),
        head=RunHead(thread_id="t", run_id="r", is_versioned=True, messages=sent),
        results={"mcpr_0": "not approved"},
    )
    (snapshot,) = of_type(events, "MESSAGES_SNAPSHOT")

    def call_in_snapshot(call_id: str) -> Json:
        return {"id": call_id, "type": "function", "function": {"name": "docs_search", "arguments": ANY}}

    assert snapshot["messages"] == [
        {"id": "u1", "role": "user", "content": "Hi"},
        {"id": "mcpr_0:result", "role": "tool", "toolCallId": "mcpr_0", "content": "not approved"},
        {"id": "msg_0", "role": "assistant", "content": "I look.", "toolCalls": [call_in_snapshot("mcp_1")]},
        {"id": "mcp_1:result", "role": "tool", "toolCallId": "mcp_1", "content": "found"},
        {"id": "mcpr_1", "role": "assistant", "toolCalls": [call_in_snapshot("mcpr_1")]},
    ]


@pytest.mark.parametrize(
    ("sent", "versioned"),
    [
        ([{"id": "u1", "role": "user", "content": "a"}, {"id": "u1", "role": "user", "content": "b"}], True),
        ([{"id": "u1", "role": "user", "content": [{"type": "binary", "mimeType": "image/png", "url": "u"}]}], True),
        ([], False),
    ],
)
def test_no_snapshot_is_sent_by_which_a_client_could_lose_a_message(sent: list[Json], versioned: bool) -> None:
    head = RunHead(thread_id="t", run_id="r", is_versioned=versioned, messages=sent)
    events = encode(*whole(REQUEST), head=head)
    assert events[-1]["outcome"]["type"] == "interrupt"
    assert not of_type(events, "MESSAGES_SNAPSHOT")


def test_a_state_that_the_client_does_not_have_is_sent_first() -> None:
    head = RunHead(thread_id="t", run_id="r", is_versioned=True, state={"a": 1}, is_state_restored=True)
    assert encode(*message("Hi"), head=head)[1] == {"type": "STATE_SNAPSHOT", "snapshot": {"a": 1}}
    empty = RunHead(thread_id="t", run_id="r", is_versioned=True, state=None, is_state_restored=True)
    assert not of_type(encode(*message("Hi"), head=empty), "STATE_SNAPSHOT")


def test_a_request_that_was_answered_since_is_no_interrupt() -> None:
    assert encode(*whole(REQUEST), closed_ids={"mcpr_1"})[-1]["outcome"] == {"type": "success"}


def test_an_approved_call_has_only_its_result() -> None:
    item = mcp_call(approval_request_id="mcpr_1")
    events = encode(
        ItemStarted(0, {**item, "arguments": ""}),
        Progressed(0, "in_progress"),
        Delta(0, None, '{"q":1}'),
        PartEnded(0, None, {"arguments": '{"q":1}'}),
        ItemEnded(0, item),
    )
    assert not of_type(events, "TOOL_CALL_START")
    assert not of_type(events, "TOOL_CALL_ARGS")
    assert of_type(events, "TOOL_CALL_RESULT")[0]["toolCallId"] == "mcpr_1"


def test_an_approved_call_whose_tool_has_changed_gets_a_result() -> None:
    events = encode(*whole({**REQUEST, "id": "mcpr_2"}), approved_ids=["mcpr_1"])
    (result,) = of_type(events, "TOOL_CALL_RESULT")
    assert (result["toolCallId"], result["content"]) == ("mcpr_1", CHANGED)
    assert not of_type(encode(Failed("x", "y"), approved_ids=["mcpr_1"]), "TOOL_CALL_RESULT")
    ran = encode(*whole(mcp_call(approval_request_id="mcpr_1")), approved_ids=["mcpr_1"])
    assert [event["content"] for event in of_type(ran, "TOOL_CALL_RESULT")] == ["found"]


def test_a_denied_call_gets_a_result() -> None:
    events = encode(*message("Then not."), results={"mcpr_1": "not approved"})
    assert kinds_of(events)[1] == "TOOL_CALL_RESULT"
    assert (events[1]["toolCallId"], events[1]["content"]) == ("mcpr_1", "not approved")


QUESTION: Item = {
    **REQUEST,
    "continues": "mcp_1",
    "elicitation": {"mode": "form", "message": "For how many?", "requested_schema": {"type": "object"}},
}


def test_a_call_that_asks_for_input_is_an_interrupt_without_a_result() -> None:
    asking = mcp_call(id="mcp_1", status="incomplete", output=None, input_request_id="mcpr_1")
    events = encode(*whole(asking), *whole(QUESTION, index=1), expiry_of=lambda item: "2026-12-01T00:00:00Z")
    assert [event["toolCallId"] for event in of_type(events, "TOOL_CALL_START")] == ["mcp_1"]
    assert not of_type(events, "TOOL_CALL_RESULT")
    assert of_type(events, "ACTIVITY_SNAPSHOT")[-1]["content"]["status"] == "input_required"
    (interrupt,) = events[-1]["outcome"]["interrupts"]
    assert interrupt == {
        "id": "mcpr_1",
        "reason": "input_required",
        "message": "For how many?",
        "toolCallId": "mcp_1",
        "responseSchema": {"type": "object"},
        "expiresAt": "2026-12-01T00:00:00Z",
        "metadata": {"mode": "form"},
    }


def test_an_address_to_open_is_an_interrupt_that_shows_its_host() -> None:
    question = {"mode": "url", "message": "Log in.", "url": "https://x.example/a", "host": "x.example"}
    (interrupt,) = encode(open_requests=[{**QUESTION, "elicitation": question}])[-1]["outcome"]["interrupts"]
    assert interrupt["responseSchema"]["required"] == ["approved"]
    assert interrupt["metadata"] == {"mode": "url", "url": "https://x.example/a", "host": "x.example"}


def test_an_answer_that_does_not_fit_gets_the_interrupt_again_with_the_reason() -> None:
    events = encode(open_requests=[QUESTION], problems={"mcpr_1": "too many"})
    assert events[-1]["outcome"]["interrupts"][0]["metadata"]["problem"] == "too many"


def test_a_call_that_asks_again_has_no_result_yet() -> None:
    again = mcp_call(
        id="mcp_2",
        status="incomplete",
        output=None,
        approval_request_id="mcpr_1",
        continues="mcp_1",
        input_request_id="mcpr_2",
    )
    second = {**QUESTION, "id": "mcpr_2"}
    events = encode(*whole(again), *whole(second, index=1), approved_ids=["mcp_1"])
    assert not of_type(events, "TOOL_CALL_RESULT")
    assert not of_type(events, "TOOL_CALL_START")
    assert events[-1]["outcome"]["interrupts"][0]["toolCallId"] == "mcp_1"
    ended = mcp_call(id="mcp_3", approval_request_id="mcpr_2", continues="mcp_1")
    (result,) = of_type(encode(*whole(ended), approved_ids=["mcp_1"]), "TOOL_CALL_RESULT")
    assert result["toolCallId"] == "mcp_1"


def test_requests_that_stay_open_interrupt_the_run_again() -> None:
    outcome = encode(open_requests=[REQUEST])[-1]["outcome"]
    assert [interrupt["id"] for interrupt in outcome["interrupts"]] == ["mcpr_1"]


def test_fault_85_a_client_of_the_first_versions_gets_only_what_it_knows() -> None:
    events = encode(
        *message("Hi"),
        *call("call_1", index=1),
        *whole(mcp_call(2), Progressed(2, "in_progress"), index=2),
        *whole({**REQUEST}, index=3),
        head=RunHead(thread_id="t", run_id="r", parent_run_id="p"),
        expiry_of=lambda item: "2026-12-01T00:00:00Z",
    )
    assert {event["type"] for event in events} <= OLD_EVENTS
    assert events[0] == {"type": "RUN_STARTED", "threadId": "t", "runId": "r", "parentRunId": "p"}
    assert "expiresAt" not in events[-1]["outcome"]["interrupts"][0]
    assert "outcome" not in encode(*call("call_1"), head=OLD)[-1]


@pytest.mark.parametrize(
    ("version", "versioned"),
    [(None, False), ("", False), ("0.0.59", False), ("1.0", True), ("1.1", True), ("x", False)],
)
def test_the_version_of_a_client_is_what_it_declares(version: str | None, versioned: bool) -> None:
    props = {"raw_events": True}
    body: Json = {"threadId": "t", "runId": "r", "messages": [], "protocolVersion": version, "forwardedProps": props}
    head = RunHead.from_input(body)
    assert (head.is_versioned, head.sends_raw_events) == (versioned, True)
