"""The end of an AG-UI run: usage, failures, interrupts, and older clients."""

from typing import Any
from unittest.mock import ANY

import pytest

from tests.agui_events import OLD_EVENTS, kinds_of, read_events, read_run
from tests.unit.translation.agui.encoded_runs import HEAD, OLD, Json, call, encode, mcp_call, message, of_type, whole
from translation.agui.client_messages import SentMessages
from translation.agui.encode import AguiEncoder
from translation.agui.interrupts import CHANGED
from translation.agui.run import RunHead
from translation.agui.run_end import CANCELLED
from translation.representation.delta_runs import DeltaRun
from translation.representation.events import (
    Delta,
    Failed,
    Finished,
    FinishReason,
    ItemEnded,
    ItemStarted,
    Noted,
    PartEnded,
    Progressed,
    Started,
    Usage,
)
from translation.representation.json_types import Item

REQUEST: Item = {
    "id": "mcpr_1",
    "type": "mcp_approval_request",
    "server_label": "docs",
    "name": "search",
    "arguments": '{"q":"x"}',
}


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


def test_an_unfinished_turn_has_no_end() -> None:
    encoder = AguiEncoder(HEAD, response_id="resp_1", model="m")
    assert encoder.conclude() == b""
    assert kinds_of(read_events(encoder.feed([Started("m")]))) == ["RUN_STARTED"]
    encoder_of_any_kind: Any = encoder
    assert encoder_of_any_kind.build_delta_template(DeltaRun, ()) is None
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


@pytest.mark.parametrize("head", [HEAD, OLD])
def test_an_end_whose_meaning_is_not_known_shows_the_reason_of_the_upstream(head: RunHead) -> None:
    end = encode(*message("He"), Finished("other", raw_reason="load_shed"), head=head)[-1]
    assert end["result"] == {"status": "completed", "nativeFinishReason": "load_shed"}
    assert "result" not in encode(*message("He"), Finished("other"), head=head)[-1]


@pytest.mark.parametrize("head", [HEAD, OLD])
@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        ("stop", {"status": "completed"}),
        ("length", {"status": "incomplete", "incompleteDetails": {"reason": "max_output_tokens"}}),
        ("other", {"status": "completed", "nativeFinishReason": "load_shed"}),
    ],
)
def test_an_end_says_what_the_reply_lacks(head: RunHead, reason: FinishReason, expected: Json) -> None:
    finished = Finished(reason, raw_reason="load_shed" if reason == "other" else None, lacks=("output.fileData",))
    end = encode(*message("He"), finished, head=head)[-1]
    assert (end["type"], end["result"]) == ("RUN_FINISHED", {**expected, "losses": ["output.fileData=not reported"]})


@pytest.mark.parametrize("head", [HEAD, OLD])
def test_an_end_has_the_words_of_the_upstream(head: RunHead) -> None:
    end = encode(*message("He"), Finished("content_filter", explanation="Not this."), head=head)[-1]
    assert end["result"] == {
        "status": "incomplete",
        "incompleteDetails": {"reason": "content_filter", "message": "Not this."},
    }


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
        head=RunHead(thread_id="t", run_id="r", is_versioned=True, sent=SentMessages.read(sent)),
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
    head = RunHead(thread_id="t", run_id="r", is_versioned=versioned, sent=SentMessages.read(sent))
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


def test_a_call_that_requests_input_is_an_interrupt_without_a_result() -> None:
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


def test_an_address_to_open_is_an_interrupt_with_its_host() -> None:
    question = {"mode": "url", "message": "Log in.", "url": "https://x.example/a", "host": "x.example"}
    (interrupt,) = encode(open_requests=[{**QUESTION, "elicitation": question}])[-1]["outcome"]["interrupts"]
    assert interrupt["responseSchema"]["required"] == ["approved"]
    assert interrupt["metadata"] == {"mode": "url", "url": "https://x.example/a", "host": "x.example"}


def test_an_answer_that_does_not_fit_gets_the_interrupt_again_with_the_reason() -> None:
    events = encode(open_requests=[QUESTION], problems={"mcpr_1": "too many"})
    assert events[-1]["outcome"]["interrupts"][0]["metadata"]["problem"] == "too many"


def test_a_call_that_requests_more_input_has_no_result_yet() -> None:
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


def test_an_incomplete_run_shows_a_reason_that_is_not_known() -> None:
    end = encode(*message("He"), Finished("length", "steered", is_unknown=True))[-1]
    details = {"reason": "max_output_tokens", "nativeFinishReason": "steered"}
    assert end["result"] == {"status": "incomplete", "incompleteDetails": details}
