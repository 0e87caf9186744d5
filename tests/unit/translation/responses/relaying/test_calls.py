"""Calls on a Responses relay: unique ids, arguments without a fence, reported faults; valid calls are unchanged."""

from typing import Any

import orjson
import pytest

from tests.unit.support.stream_checks.responses_order import check_stream
from tests.unit.support.translator_drivers import conclude, feed_to_end, relay_to_end
from tests.upstream.builders import named_frame, response_snapshot
from translation.framing import sse
from translation.hygiene.call_tracker import CallRules
from translation.representation.events import Failed
from translation.representation.json_types import Item, Json
from translation.responses.client.initial_response import new_response
from translation.responses.relaying.relay import ResponsesRelay
from translation.responses.relaying.whole_response import OwnResponse, relay_response

HEAD = new_response({"model": "m", "input": "hi"}, response_id="resp_ours", created_at=200, model="m")
NOT_JSON = "the arguments are not valid JSON"
NO_OBJECT = "the arguments are not an object"
TOO_LONG = "the arguments are longer than 30 bytes"
RULES = CallRules(max_args_bytes=30)


def call(index: int, call_id: str, arguments: str = "", status: str = "completed") -> Item:
    said = {"call_id": call_id, "name": f"f{index}", "arguments": arguments, "status": status}
    return {"type": "function_call", "id": f"fc_{index}", **said}


def call_events(index: int, call_id: str, *pieces: str) -> list[Json]:
    place: Json = {"item_id": f"fc_{index}", "output_index": index}
    item = call(index, call_id, "".join(pieces))
    return [
        {"type": "response.output_item.added", "output_index": index, "item": call(index, call_id, "", "in_progress")},
        *({"type": "response.function_call_arguments.delta", **place, "delta": piece} for piece in pieces),
        {
            "type": "response.function_call_arguments.done",
            **place,
            "name": item["name"],
            "arguments": item["arguments"],
        },
        {"type": "response.output_item.done", "output_index": index, "item": item},
    ]


def items_of(events: list[Json]) -> list[Item]:
    return [event["item"] for event in events if event["type"] == "response.output_item.done"]


BEGINNING: list[Json] = [
    {"type": "response.created", "response": response_snapshot("in_progress")},
    {"type": "response.in_progress", "response": response_snapshot("in_progress")},
]


def stream_of(*events: Json, output: list[Any] | None = None) -> bytes:
    items = items_of(list(events)) if output is None else output
    whole = [*BEGINNING, *events, {"type": "response.completed", "response": response_snapshot("completed", items)}]
    return relay_bytes(whole) + sse.DONE_FRAME


def relay_bytes(events: list[Json]) -> bytes:
    return b"".join(
        named_frame({"type": event["type"], "sequence_number": number, **event}) for number, event in enumerate(events)
    )


def relay(rules: CallRules = RULES, *, is_stored: bool = False) -> ResponsesRelay:
    return ResponsesRelay(OwnResponse(None, HEAD, is_stored), calls=rules)


def relayed(wire: bytes, rules: CallRules = RULES) -> list[Json]:
    stream = relay(rules)
    return check_stream(relay_to_end(stream, wire))


def test_valid_calls_are_relayed_byte_for_byte() -> None:
    events = [*call_events(0, "a", " ", '{"x"', ':"`"}'), *call_events(1, "b", "{}"), *call_events(2, "c")]
    wire = stream_of(*events)
    stream = relay()
    assert feed_to_end(stream, wire) == wire
    assert stream.warnings == []


IDS: dict[str, tuple[list[str], list[str]]] = {
    "none": (["", " "], ["tc_1", "tc_2"]),
    "one for all": (["x", "x", "x"], ["x", "x__2", "x__3"]),
    "one of a call before": (["old", "tc_7", "new"], ["old__2", "tc_1", "new"]),
}


@pytest.mark.parametrize(("value", "expected"), IDS.values(), ids=IDS)
def test_each_call_has_an_id_of_its_own(value: list[str], expected: list[str]) -> None:
    rules = CallRules(used_ids=frozenset({"old", "tc_7"}))
    events = [event for index, each in enumerate(value) for event in call_events(index, each, "{}")]
    *seen, end = relayed(stream_of(*events), rules)
    assert [item["call_id"] for item in items_of(seen)] == expected
    assert [item["call_id"] for item in end["response"]["output"]] == expected
    whole = response_snapshot("completed", items_of(events))
    assert [item["call_id"] for item in relay_response(whole, calls=rules)["output"]] == expected


def test_ids_are_unchanged_if_the_upstream_continues_from_them() -> None:
    rules = CallRules(used_ids=frozenset({"x"}), renames_ids=False)
    wire = stream_of(*call_events(0, "x", "{}"), *call_events(1, "x", "{}"), *call_events(2, "", "{}"))
    assert feed_to_end(relay(rules), wire) == wire


ARGUMENTS: dict[str, tuple[list[str], str, str | None]] = {
    "an object": (['{"x"', ":1}"], '{"x":1}', None),
    "a fence": (['```json\n{"x":1}\n```'], '{"x":1}', None),
    "a fence in pieces": (["`", '``\n{"x"', ":1}\n`", "``"], '{"x":1}', None),
    "a fence after blanks": ([" ", "```", '{"x":1}```'], ' {"x":1}', None),
    "a fence around no object": (["```", "[1]```"], "```[1]```", NOT_JSON),
    "half an object": (['{"x"', ":"], '{"x":', NOT_JSON),
    "a list": (["[1]"], "[1]", NO_OBJECT),
    "an object that is too long": (['{"x":"', "y" * 30, '"}'], '{"x":"' + "y" * 30 + '"}', TOO_LONG),
    "nothing": ([], "", None),
    "blanks": (["  "], "  ", None),
}


@pytest.mark.parametrize(("pieces", "arguments", "why"), ARGUMENTS.values(), ids=ARGUMENTS)
def test_arguments_are_relayed_or_reported(pieces: list[str], arguments: str, why: str | None) -> None:
    events = call_events(0, "a", *pieces)
    warnings = [{"name": "f0", "why": why}] if why else None
    *seen, end = relayed(stream_of(*events))
    assert "".join(event["delta"] for event in seen if "delta" in event) == arguments
    assert [item["arguments"] for item in items_of(seen)] == [arguments]
    assert [item["arguments"] for item in end["response"]["output"]] == [arguments]
    assert end["response"].get("tool_warnings") == warnings
    whole = relay_response(response_snapshot("completed", items_of(events)), calls=RULES)
    assert whole["output"][0]["arguments"].strip() == arguments.strip()
    assert whole.get("tool_warnings") == warnings


def test_a_valid_whole_response_is_the_same_object() -> None:
    whole = response_snapshot("completed", [call(0, "a", "{}")])
    assert relay_response(whole) is whole


def test_interleaved_calls_are_distinguished() -> None:
    first, second = call_events(0, "x", "```{}", "```"), call_events(1, "x", "{", "}")
    interleaved = [first[0], second[0], first[1], second[1], first[2], second[2], *first[3:], *second[3:]]
    wire = stream_of(*interleaved)
    events = [orjson.loads(payload) for payload in payloads(feed_to_end(relay(), wire))]
    assert [event["call_id"] for event in events[-1]["response"]["output"]] == ["x", "x__2"]
    for index in range(2):
        said = [event["delta"] for event in events if event.get("output_index") == index and "delta" in event]
        assert "".join(said) == "{}"
    assert sorted(event["sequence_number"] for event in events) == list(range(len(events)))


def payloads(wire: bytes) -> list[bytes]:
    return [each for each in sse.FrameDecoder(len(wire)).parse_payloads(wire) if each != sse.DONE_PAYLOAD]


def test_a_call_that_only_has_an_end_is_normalized_there() -> None:
    events = [each for index in range(2) for each in call_events(index, "x", '```{"x":1}```')[-1:]]
    *seen, end = [orjson.loads(payload) for payload in payloads(feed_to_end(relay(), stream_of(*events)))]
    said = [("x", '{"x":1}'), ("x__2", '{"x":1}')]
    assert [(item["call_id"], item["arguments"]) for item in items_of(seen)] == said
    assert [(item["call_id"], item["arguments"]) for item in end["response"]["output"]] == said


def test_the_end_may_have_unstreamed_or_reordered_calls() -> None:
    told: list[Any] = [
        call(1, "y", "{}"),
        call(0, "x", "{}"),
        call(2, "x", "?"),
        {"type": "message"},
        "odd",
        {"type": []},
    ]
    wire = stream_of(*call_events(0, "x", "{}"), *call_events(1, "y", "{}"), output=told)
    end = orjson.loads(payloads(feed_to_end(relay(), wire))[-1])["response"]
    assert [item["call_id"] for item in end["output"][:3]] == ["y", "x", "x__2"]
    assert end["output"][3:] == [{"type": "message", "role": "assistant", "content": []}, *told[4:]]
    assert end["tool_warnings"] == [{"name": "f2", "why": NOT_JSON}]


def test_arguments_in_the_first_event_are_unchanged() -> None:
    added, *_, done = call_events(0, "a", "```{}```")
    added["item"]["arguments"] = "```{}```"
    wire = stream_of(added, done)
    events = [orjson.loads(payload) for payload in payloads(feed_to_end(relay(), wire))]
    assert [item["arguments"] for item in items_of(events)] == ["```{}```"]
    assert events[-1]["response"]["tool_warnings"] == [{"name": "f0", "why": NOT_JSON}]


def test_a_truncated_call_is_not_reported() -> None:
    *begun, done = call_events(0, "a", "```", '{"x"')
    done["item"]["status"] = "incomplete"
    *seen, end = relayed(stream_of(*begun, done))
    assert items_of(seen)[0]["arguments"] == '```{"x"'
    assert "tool_warnings" not in end["response"]


@pytest.mark.parametrize("unsaid", [slice(4, 5), slice(4, 6)], ids=["the end of its arguments", "any end of it"])
def test_buffered_text_is_sent_before_any_end_of_the_call(unsaid: slice) -> None:
    events = call_events(0, "a", "```", "{}", "```")
    del events[unsaid]
    wire = feed_to_end(relay(), stream_of(*events, output=[call(0, "a", "```{}```")]))
    seen = [orjson.loads(payload) for payload in payloads(wire)]
    assert "".join(event["delta"] for event in seen if "delta" in event) == "{}"
    assert [event["sequence_number"] for event in seen] == list(range(len(seen)))
    assert seen[-1]["response"]["output"] == [call(0, "a", "{}")]


def test_buffered_text_is_sent_before_a_failure() -> None:
    stream = relay()
    begun = stream.feed(relay_bytes([*BEGINNING, *call_events(0, "a", "```", '{"x"')[:3]]))
    rest = stream.fail(Failed("upstream_error", "it broke"))
    assert b"function_call_arguments" in rest, "it is no part of the end"
    *seen, end = [orjson.loads(payload) for payload in payloads(begun + rest + conclude(stream))]
    assert "".join(event["delta"] for event in seen if "delta" in event) == '```{"x"'
    assert end["type"] == "response.failed"


CUSTOM: Item = {"type": "custom_tool_call", "id": "ctc", "name": "sh", "status": "completed"}


def test_calls_of_custom_tools_get_ids_and_no_argument_check() -> None:
    item = {**CUSTOM, "call_id": "", "input": "```[```"}
    added = {"type": "response.output_item.added", "output_index": 0, "item": {**item, "input": ""}}
    done = {"type": "response.output_item.done", "output_index": 0, "item": item}
    *seen, end = [orjson.loads(payload) for payload in payloads(feed_to_end(relay(), stream_of(added, done)))]
    assert items_of(seen) == end["response"]["output"] == [{**item, "call_id": "tc_1"}]
    assert "tool_warnings" not in end["response"]


ODD: dict[str, Json] = {
    "an item without a place": {"type": "response.output_item.added", "item": call(0, "x")},
    "an id that is none": {"type": "response.output_item.added", "output_index": 0, "item": {**CUSTOM, "call_id": 5}},
    "no arguments": {"type": "response.output_item.done", "output_index": 0, "item": {**call(0, "x"), "arguments": 5}},
    "arguments of no call": {"type": "response.function_call_arguments.delta", "output_index": 5, "delta": "{}"},
    "arguments without a place": {"type": "response.function_call_arguments.delta", "delta": "{}"},
}


@pytest.mark.parametrize("odd", ODD.values(), ids=ODD)
def test_odd_events_are_relayed_unchanged(odd: Json) -> None:
    wire = stream_of(call_events(1, "c")[0], odd, {"type": "response.strange"}, output=[])
    before_end = wire[: wire.index(b"event: response.completed")]
    assert feed_to_end(relay(), wire).startswith(before_end)


def test_a_call_begun_twice_is_one_and_another_in_its_place_is_another() -> None:
    added = call_events(0, "x", "{}")[0]
    other = call_events(0, "y", "{}")[0]
    events = [
        orjson.loads(payload) for payload in payloads(feed_to_end(relay(), stream_of(added, added, other, output=[])))
    ]
    assert [event["item"]["call_id"] for event in events if "item" in event] == ["x", "x", "y"]


def test_a_stored_response_has_its_calls_as_they_were_sent() -> None:
    stream = relay(is_stored=True)
    stream.feed(stream_of(*call_events(0, "", "```{}```"), *call_events(1, "b", "?"), output=[]))
    assert stream.response is not None
    said = [(item["call_id"], item["arguments"]) for item in stream.response["output"]]
    assert said == [("tc_1", "{}"), ("b", "?")]
    assert stream.response["tool_warnings"] == [{"name": "f1", "why": NOT_JSON}]
