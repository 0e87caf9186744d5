"""Collects events to a response object."""

from typing import Any, get_args

import pytest
from openai.types.responses.response_error import ResponseError

from tests.unit.support.responses_streams import STREAMS, USAGE, message
from tests.unit.support.stream_checks.responses_order import check_response
from translation.representation import items
from translation.representation.events import (
    Delta,
    Event,
    Failed,
    Finished,
    ItemEnded,
    ItemStarted,
    Noted,
    PartStarted,
    Started,
    Usage,
)
from translation.responses.client import snapshot
from translation.responses.client.initial_response import new_response

Json = dict[str, Any]

COUNTS = {
    "input_tokens": 10,
    "input_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 1},
    "output_tokens": 5,
    "output_tokens_details": {"reasoning_tokens": 2},
    "total_tokens": 15,
}


def collect(*events: Event, body: Json | None = None) -> Json:
    head = new_response(body or {}, response_id="resp_1", created_at=100, model="m")
    collecting = snapshot.Snapshot(head, lambda: 105)
    collecting.feed(events)
    response = collecting.result()
    check_response(response)
    return response


@pytest.mark.parametrize("name", [name for name, stream in STREAMS.items() if stream.official])
def test_every_turn_is_a_response_the_official_client_accepts(name: str) -> None:
    assert collect(*STREAMS[name].events)["status"] == STREAMS[name].end


def test_a_completed_response_has_its_time_and_usage() -> None:
    response = collect(Started("up"), *message(0, "a"), Finished("stop", "stop", USAGE))
    assert response["completed_at"] == 105
    assert response["usage"] == COUNTS
    assert response["model"] == "m"
    assert response["id"] == "resp_1"


@pytest.mark.parametrize(
    ("finished", "status", "details"),
    {
        "stop": (Finished("stop"), "completed", None),
        "tool calls": (Finished("tool_calls"), "completed", None),
        "an unknown reason": (Finished("other", "eos_banana"), "completed", None),
        "the token limit": (Finished("length"), "incomplete", {"reason": "max_output_tokens"}),
        "a content filter": (Finished("content_filter"), "incomplete", {"reason": "content_filter"}),
        "a reason only the upstream knows": (
            Finished(
                "length",
                "steered",
                response={"status": "incomplete", "incomplete_details": {"reason": "steered"}},
                is_unknown=True,
            ),
            "incomplete",
            {"reason": "steered"},
        ),
        "a limit with more to say": (
            Finished("length", response={"incomplete_details": {"reason": "max_output_tokens", "message": "64"}}),
            "incomplete",
            {"reason": "max_output_tokens", "message": "64"},
        ),
        "details of another reason": (
            Finished("length", response={"incomplete_details": {"reason": "steered"}}),
            "incomplete",
            {"reason": "max_output_tokens"},
        ),
        "details that contradict the status": (
            Finished("stop", response={"status": "completed", "incomplete_details": {"reason": "steered"}}),
            "completed",
            None,
        ),
    }.values(),
    ids=[
        "stop",
        "tool calls",
        "an unknown reason",
        "the token limit",
        "a content filter",
        "a reason only the upstream knows",
        "a limit with more to say",
        "details of another reason",
        "details that contradict the status",
    ],
)
def test_how_a_turn_finished_is_the_status(finished: Finished, status: str, details: Json | None) -> None:
    response = collect(Started("up"), finished)
    assert response["status"] == status
    assert response["incomplete_details"] == details
    assert (response["completed_at"] is None) == (status == "incomplete")


@pytest.mark.parametrize(
    ("events", "usage"),
    [
        ([Finished("stop")], None),
        ([Finished("stop", usage=Usage())], None),
        ([Noted(USAGE), Finished("stop")], COUNTS),
        ([Noted(Usage(1, 1)), Noted(), Finished("stop", usage=USAGE)], COUNTS),
        ([Noted(USAGE), Failed("server_error", "x")], COUNTS),
        ([Failed("server_error", "x", usage=USAGE)], COUNTS),
        (
            [Finished("stop", usage=Usage(output=3))],
            {
                "input_tokens": 0,
                "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
                "output_tokens": 3,
                "output_tokens_details": {"reasoning_tokens": 0},
                "total_tokens": 3,
            },
        ),
    ],
    ids=[
        "none when nothing was counted",
        "none when every count is missing",
        "what was noted on the way",
        "the last word",
        "what a failed turn had noted",
        "what a failed turn cost",
        "zero for what was not counted",
    ],
)
def test_usage_is(events: list[Event], usage: Json | None) -> None:
    assert collect(Started("up"), *events)["usage"] == usage


def test_usage_has_additional_counts_of_the_upstream() -> None:
    theirs = {
        "input_tokens": 10,
        "input_tokens_details": {"cache_write_tokens_details": {"ttl_12h_tokens": 1, "ttl_30m_tokens": 0}},
        "output_tokens_details": None,
        "turns": 1,
    }
    usage = collect(Started("up"), Finished("stop", usage=USAGE, response={"usage": theirs}))["usage"]
    assert usage["turns"] == 1
    assert usage["input_tokens_details"] == {
        "cached_tokens": 4,
        "cache_write_tokens": 1,
        "cache_write_tokens_details": {"ttl_12h_tokens": 1, "ttl_30m_tokens": 0},
    }


@pytest.mark.parametrize(
    ("failed", "error"),
    [
        (Failed("server_error", "broken"), {"code": "server_error", "message": "broken"}),
        (Failed("rate_limited", "slow"), {"code": "rate_limit_exceeded", "message": "slow", "type": "rate_limited"}),
        (
            Failed("context_length_exceeded", "too long", "input"),
            {"code": "context_length_exceeded", "message": "too long", "param": "input"},
        ),
        (Failed("insufficient_quota", "empty"), {"code": "insufficient_quota", "message": "empty"}),
        (
            Failed("upstream_truncated", "cut"),
            {"code": "server_error", "message": "cut", "type": "upstream_truncated"},
        ),
    ],
    ids=["as it is", "a limit", "a prompt that is too long", "no money left", "everything else"],
)
def test_a_failure_has_a_code_from_the_closed_list(failed: Failed, error: Json) -> None:
    response = collect(Started("up"), failed)
    assert response["status"] == "failed"
    assert response["error"] == error
    assert response["completed_at"] is None


def test_the_closed_list_is_the_official_one() -> None:
    assert set(ResponseError.model_fields["code"].annotation.__args__) == snapshot._ERROR_CODES  # type: ignore[union-attr]


def test_open_items_of_a_failed_turn_are_present_and_incomplete() -> None:
    output = collect(*STREAMS["failed with everything open"].events)["output"]
    assert [(item["type"], item["status"]) for item in output] == [
        ("message", "completed"),
        ("message", "incomplete"),
        ("function_call", "incomplete"),
        ("web_search_call", "failed"),
    ]
    assert output[1]["content"][0]["text"] == "Hel"
    assert output[2]["arguments"] == '{"a'


def test_a_failed_turn_is_distinct_from_a_finished_one() -> None:
    collecting = snapshot.Snapshot(new_response({}, response_id="r", created_at=1, model="m"), lambda: 2)
    assert collecting.failed is None
    failed = Failed("server_error", "x")
    collecting.feed([failed])
    assert collecting.failed is failed


def test_an_item_keeps_the_id_it_started_with() -> None:
    rotated = {**items.new_message("theirs"), "status": "completed"}
    output = collect(
        Started("up"), ItemStarted(0, items.new_message("msg_1")), ItemEnded(0, rotated), Finished("stop")
    )["output"]
    assert [item["id"] for item in output] == ["msg_1"]
    assert rotated["id"] == "theirs"


@pytest.mark.parametrize(
    ("final", "status", "arguments"),
    [
        (None, "completed", "{}"),
        ({"arguments": "", "status": "completed"}, "completed", "{}"),
        ({"arguments": "", "status": "incomplete"}, "completed", ""),
        (None, "incomplete", ""),
    ],
    ids=["added up", "said by the upstream", "said to be cut off", "cut off"],
)
def test_only_a_complete_call_has_its_empty_arguments_filled(final: Json | None, status: Any, arguments: str) -> None:
    call = items.new_function_call("fc_1", call_id="call_1", name="f")
    ended = ItemEnded(0, None if final is None else {**call, **final}, status)
    assert collect(Started("up"), ItemStarted(0, call), ended, Finished("stop"))["output"][0]["arguments"] == arguments


@pytest.mark.parametrize(
    ("facts", "tier"),
    [
        ({"service_tier": "priority"}, "priority"),
        ({"service_tier": "on_demand"}, "default"),
        ({"service_tier": None}, "default"),
        ({"service_tier": {}}, "default"),
        ({"system_fingerprint": "fp"}, "default"),
    ],
    ids=["one of the API", "one of another vendor", "null", "not a word", "another fact"],
)
def test_the_service_tier_is_the_one_used_if_the_api_knows_it(facts: Json, tier: str) -> None:
    assert collect(Started("up"), Noted(facts=facts), Finished("stop"))["service_tier"] == tier


def test_fields_of_a_responses_upstream_are_preserved() -> None:
    theirs = {
        "id": "resp_theirs",
        "model": "theirs",
        "created_at": 1,
        "instructions": "theirs",
        "output": [{"never": "read"}],
        "temperature": 0.6,
        "top_p": None,
        "reasoning": {"effort": "medium", "summary": None},
        "service_tier": "flex",
        "billing": {"payer": "developer"},
    }
    response = collect(
        Started("up", response=theirs),
        Finished("stop", response={"later": 1}),
        body={"instructions": "ours", "reasoning": {"summary": "auto"}},
    )
    assert response["id"] == "resp_1"
    assert response["model"] == "m"
    assert response["created_at"] == 100
    assert response["instructions"] == "ours"
    assert response["output"] == []
    assert response["temperature"] == 0.6
    assert response["top_p"] == 1.0
    assert response["reasoning"] == {"effort": "medium", "summary": "auto"}
    assert response["service_tier"] == "flex"
    assert response["billing"] == {"payer": "developer"}
    assert response["later"] == 1


def test_text_is_added_up_part_by_part() -> None:
    output = collect(
        Started("up"),
        ItemStarted(0, items.new_message("msg_1")),
        PartStarted(0, 0, items.new_output_text()),
        Delta(0, 0, "a"),
        Delta(0, 0, "b"),
        PartStarted(0, 1, items.new_refusal()),
        Delta(0, 1, "no"),
        ItemEnded(0),
        Finished("stop"),
    )["output"]
    assert [part.get("text", part.get("refusal")) for part in output[0]["content"]] == ["ab", "no"]


def test_dropped_and_unreadable_calls_are_reported() -> None:
    warnings = [{"name": "f", "why": "the arguments are not an object"}]
    assert (
        collect(Started("up"), Noted(facts={"tool_warnings": warnings}), Finished("stop"))["tool_warnings"] == warnings
    )
    assert "tool_warnings" not in collect(Started("up"), Noted(facts={"service_tier": "flex"}), Finished("stop"))


def test_every_event_is_accepted() -> None:
    assert set(get_args(Event)) == snapshot._EVENT_APPLIERS.keys()


def test_searches_are_counted_and_an_upstreams_own_count_stays() -> None:
    search = {
        "id": "ws_1",
        "type": "web_search_call",
        "status": "completed",
        "action": {"type": "search", "query": "q"},
    }
    events: list[Event] = [Started("m"), ItemStarted(0, search), ItemEnded(0, search), Finished("stop")]
    response = collect(*events)
    assert response["tool_usage"]["web_search"] == {"num_requests": 1}
    check_response(response)
    own = {**response["tool_usage"], "web_search": {"num_requests": 7}}
    assert collect(Started("m", response={"tool_usage": own}), *events[1:])["tool_usage"] == own


def test_a_report_of_tools_is_part_of_the_response() -> None:
    report = {"tools": {"file_search": {"calls": 1}}, "notes": []}
    assert collect(Started("up"), Noted(facts={"gateway_report": report}), Finished("stop"))["gateway_report"] == report
