"""A relayed Responses stream gives every client the whole answer: in the deltas, the items and the whole response.

Upstreams leave out what they think their own client does not read: OpenAI the deltas of short answers, others the ends
of the items, or the texts in them.
"""

import time
from typing import Any

import orjson
import pytest

from tests.unit.support.stream_checks.responses_order import accumulate, check_order, read_stream
from tests.unit.support.translator_drivers import feed_to_end, relay_to_end
from tests.unit.translation.responses.relaying.relayed_responses import CREATED, HEAD, OURS, USAGE, ending, frame
from translation.representation.json_types import Item, Json
from translation.responses.relaying.relay import ResponsesRelay
from translation.responses.relaying.whole_response import OwnResponse, relay_response

TEXT = 'Grü"ße\n😀'
ARGUMENTS = '{"a": "😀"}'
PLACE: Json = {"item_id": "msg_1", "output_index": 0, "content_index": 0}
CALL_PLACE: Json = {"item_id": "fc_1", "output_index": 0}


def part(text: str = TEXT) -> Json:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def message(*parts: Json, item_id: str = "msg_1") -> Item:
    return {"id": item_id, "type": "message", "role": "assistant", "status": "completed", "content": [*parts]}


def call(arguments: str = ARGUMENTS, number: int = 1) -> Item:
    names = {"id": f"fc_{number}", "type": "function_call", "call_id": f"call_{number}", "name": "f"}
    return {**names, "arguments": arguments, "status": "completed"}


REFUSAL: Json = {"type": "refusal", "refusal": TEXT}
CUSTOM: Item = {"id": "ct_1", "type": "custom_tool_call", "call_id": "call_9", "name": "patch", "input": TEXT}
SEARCH: Item = {"id": "ws_1", "type": "web_search_call", "status": "completed"}
THOUGHT: Item = {"id": "rs_1", "type": "reasoning", "summary": [{"type": "summary_text", "text": "Hm."}]}


def added(item: Item, index: int = 0) -> Json:
    begun = {**item, "status": "in_progress"}
    begun |= {key: type(item[key])() for key in ("content", "arguments", "input", "summary") if key in item}
    return {"type": "response.output_item.added", "output_index": index, "item": begun}


def done(item: Item, index: int = 0) -> Json:
    return {"type": "response.output_item.done", "output_index": index, "item": item}


def event(kind: str, place: Json = PLACE, **fields: Any) -> Json:
    return {"type": f"response.{kind}", **place, **fields}


PART_ADDED = event("content_part.added", part=part(""))
PART_DONE = event("content_part.done", part=part())
TEXT_DONE = event("output_text.done", text=TEXT, logprobs=[])
DELTA = event("output_text.delta", delta=TEXT, logprobs=[])
ARGUMENTS_DELTA = event("function_call_arguments.delta", CALL_PLACE, delta=ARGUMENTS)
ARGUMENTS_DONE = event("function_call_arguments.done", CALL_PLACE, name="f", arguments=ARGUMENTS)


def write_stream(events: list[Json], output: Any, status: str = "completed") -> bytes:
    frames = [frame(number=2 + number, event_type=each["type"], **_fields(each)) for number, each in enumerate(events)]
    return CREATED + b"".join(frames) + ending(status, 2 + len(events), output=output, usage=USAGE)


def _fields(each: Json) -> Json:
    return {key: value for key, value in each.items() if key != "type"}


def relay(events: list[Json], output: Any, *, is_stored: bool, status: str = "completed") -> list[Json]:
    stream = ResponsesRelay(OwnResponse("m", OURS, is_stored))
    sent = read_stream(relay_to_end(stream, write_stream(events, output, status)))
    assert stream.failed is None
    assert [each["sequence_number"] for each in sent] == list(range(len(sent)))
    return sent


def read_deltas(sent: list[Json]) -> list[str]:
    texts: dict[tuple[int, int], str] = {}
    for each in sent:
        if each["type"].endswith(".delta"):
            key = each["output_index"], each.get("content_index", 0)
            texts[key] = texts.get(key, "") + each["delta"]
    return [text for _, text in sorted(texts.items())]


def read_items(sent: list[Json]) -> list[Item]:
    return [each["item"] for each in sent if each["type"] == "response.output_item.done"]


NO_DELTAS: dict[str, tuple[list[Json], list[Item], list[str]]] = {
    "a text in its end": (
        [added(message()), PART_ADDED, TEXT_DONE, PART_DONE, done(message(part()))],
        [message(part())],
        [TEXT],
    ),
    "a text in the end of its part": (
        [added(message()), PART_ADDED, PART_DONE, done(message(part()))],
        [message(part())],
        [TEXT],
    ),
    "a text in its end, in a part that did not begin": (
        [added(message()), TEXT_DONE, PART_DONE, done(message(part()))],
        [message(part())],
        [TEXT],
    ),
    "a text in its item": ([added(message()), done(message(part()))], [message(part())], [TEXT]),
    "two texts in their item": (
        [added(message()), done(message(part("a"), part("b")))],
        [message(part("a"), part("b"))],
        ["a", "b"],
    ),
    "the second text of an item": (
        [
            added(message()),
            PART_ADDED,
            DELTA,
            TEXT_DONE,
            PART_DONE,
            done(message(part(), part("b"))),
        ],
        [message(part(), part("b"))],
        [TEXT, "b"],
    ),
    "a text in an item that did not begin": ([done(message(part()))], [message(part())], [TEXT]),
    "a text in the whole response": ([], [message(part())], [TEXT]),
    "a text in the whole response, of an item that began": ([added(message())], [message(part())], [TEXT]),
    "a text beside a blank one in the whole response": ([], [message(part(" "), part())], [" ", TEXT]),
    "a blank text in the whole response, of an item that began": ([added(message())], [message(part(" "))], []),
    "a refusal in its item": ([added(message()), done(message(REFUSAL))], [message(REFUSAL)], [TEXT]),
    "arguments in their end": ([added(call()), ARGUMENTS_DONE, done(call())], [call()], [ARGUMENTS]),
    "arguments in their item": ([added(call()), done(call())], [call()], [ARGUMENTS]),
    "arguments in an item that did not begin": ([done(call())], [call()], [ARGUMENTS]),
    "calls in the whole response": ([], [call("{}"), call(number=2)], ["{}", ARGUMENTS]),
    "the input of a custom tool": ([added(CUSTOM), done(CUSTOM)], [CUSTOM], [TEXT]),
    "an item after one with deltas": (
        [added(message()), PART_ADDED, DELTA, TEXT_DONE, PART_DONE, done(message(part())), done(call(), 1)],
        [message(part()), call()],
        [TEXT, ARGUMENTS],
    ),
    "items without texts": ([], [THOUGHT, SEARCH, message(part())], [TEXT]),
    "an item that only the whole response has": (
        [added(THOUGHT), done(THOUGHT)],
        [THOUGHT, message(part())],
        [TEXT],
    ),
}


@pytest.mark.parametrize("is_stored", [False, True], ids=["unstored", "stored"])
@pytest.mark.parametrize(("events", "output", "texts"), NO_DELTAS.values(), ids=NO_DELTAS)
def test_a_text_without_deltas_gets_them(
    events: list[Json], output: list[Item], texts: list[str], *, is_stored: bool
) -> None:
    sent = relay(events, output, is_stored=is_stored)
    check_order(sent)
    accumulate(sent)
    assert read_deltas(sent) == texts
    assert read_items(sent) == sent[-1]["response"]["output"] == output


NO_ENDS: dict[str, tuple[list[Json], list[Item]]] = {
    "a text": ([added(message()), PART_ADDED, DELTA], [message(part())]),
    "half a text": ([added(message()), PART_ADDED, event("output_text.delta", delta=TEXT[:3])], [message(part())]),
    "arguments": ([added(call()), ARGUMENTS_DELTA], [call()]),
    "one item of two": ([added(call()), ARGUMENTS_DELTA, added(SEARCH, 1), done(SEARCH, 1)], [call(), SEARCH]),
    "an item without an index": ([event("output_text.delta", {"item_id": "msg_1"}, delta=TEXT)], [message(part())]),
}


@pytest.mark.parametrize("is_stored", [False, True], ids=["unstored", "stored"])
@pytest.mark.parametrize(("events", "output"), NO_ENDS.values(), ids=NO_ENDS)
def test_an_item_that_did_not_end_ends_before_the_whole_response(
    events: list[Json], output: list[Item], *, is_stored: bool
) -> None:
    sent = relay(events, output, is_stored=is_stored)
    assert sorted(read_items(sent), key=lambda item: item["id"]) == sorted(output, key=lambda item: item["id"])
    assert "".join(each["delta"] for each in sent if each["type"].endswith(".delta")) in (TEXT, ARGUMENTS)


BEGINNINGS_WITH_TEXT: dict[str, list[Json]] = {
    "an item": [{**added(message()), "item": message(part())}, TEXT_DONE, PART_DONE, done(message(part()))],
    "a part": [added(message()), event("content_part.added", part=part()), PART_DONE, done(message(part()))],
    "a call": [{**added(call()), "item": call()}, ARGUMENTS_DONE, done(call())],
}


@pytest.mark.parametrize("events", BEGINNINGS_WITH_TEXT.values(), ids=BEGINNINGS_WITH_TEXT)
def test_a_text_that_came_with_its_beginning_is_not_sent_again(events: list[Json]) -> None:
    sent = relay(events, [events[-1]["item"]], is_stored=False)
    assert read_deltas(sent) == []
    assert len(sent) == len(events) + 3


OTHER_NUMBERS: dict[str, list[Json]] = {
    "another part": [{**DELTA, "content_index": 1}, TEXT_DONE],
    "another item": [{**DELTA, "output_index": 1}, TEXT_DONE],
    "a part for each piece": [
        *({**DELTA, "content_index": number, "delta": piece} for number, piece in enumerate([TEXT[:3], TEXT[3:]])),
        {**TEXT_DONE, "content_index": 2},
    ],
    "a part for each piece, of which the first is empty": [
        {**DELTA, "content_index": 1, "delta": ""},
        {**DELTA, "content_index": 2},
        {**TEXT_DONE, "content_index": 3},
        {**PART_DONE, "content_index": 3},
    ],
    "the end again": [DELTA, TEXT_DONE, done(message(part())), TEXT_DONE],
}


@pytest.mark.parametrize("events", OTHER_NUMBERS.values(), ids=OTHER_NUMBERS)
def test_a_text_that_ends_under_another_number_is_not_sent_again(events: list[Json]) -> None:
    sent = relay([added(message()), *events], [message(part())], is_stored=False)
    assert "".join(read_deltas(sent)) == TEXT


def remove_indexes(events: list[Json]) -> list[Json]:
    return [{key: value for key, value in each.items() if not key.endswith("_index")} for each in events]


def test_items_of_a_stream_without_any_index_come_once() -> None:
    texts = [added(message()), PART_ADDED, DELTA, TEXT_DONE, PART_DONE, done(message(part()))]
    events = remove_indexes([*texts, added(SEARCH), done(SEARCH)])
    sent = relay(events, [message(part()), SEARCH], is_stored=False)
    assert [each["type"] for each in sent[2:-1]] == [each["type"] for each in events]


@pytest.mark.parametrize("has_part", [True, False])
def test_a_text_without_deltas_and_index_gets_them(has_part: bool) -> None:
    events = remove_indexes([added(message()), *([PART_ADDED] if has_part else []), TEXT_DONE, done(message(part()))])
    sent = relay(events, [message(part())], is_stored=False)
    assert [each["type"].removeprefix("response.") for each in sent[2:-1]] == [
        "output_item.added",
        "content_part.added",
        "output_text.delta",
        "output_text.done",
        "output_item.done",
    ]
    assert not any("output_index" in each for each in sent)


def test_the_end_of_a_text_without_any_item_waits_for_the_item() -> None:
    sent = relay([TEXT_DONE, done(message(part()))], [message(part())], is_stored=False)
    assert [each["type"].removeprefix("response.") for each in sent[2:]] == [
        "output_text.done",
        "output_item.added",
        "content_part.added",
        "output_text.delta",
        "output_text.done",
        "content_part.done",
        "output_item.done",
        "completed",
    ]


EMPTY: dict[str, tuple[list[Json], Any, Item]] = {
    "the end of a text": ([DELTA, event("output_text.done", text=""), done(message(part()))], [], message(part())),
    "a text": ([DELTA, done(message(part("")))], [], message(part())),
    "a blank text": ([DELTA, done(message(part(" \n")))], [], message(part())),
    "a part without text": (
        [DELTA, event("content_part.done", part={"type": "output_text"}), done(message({"type": "output_text"}))],
        [],
        message({"type": "output_text", "text": TEXT, "annotations": []}),
    ),
    "no parts": ([DELTA, done(message())], [], message(part())),
    "no list of parts": ([DELTA, done({**message(), "content": None})], [], message(part())),
    "no parts of a refusal": (
        [event("refusal.delta", delta=TEXT), done(message())],
        [],
        message(REFUSAL),
    ),
    "two texts": (
        [DELTA, event("refusal.delta", {**PLACE, "content_index": 1}, delta=TEXT), done(message())],
        [message()],
        message(part(), REFUSAL),
    ),
    "the text in the whole response": ([DELTA], [message(part(""))], message(part())),
    "no parts in the whole response": ([DELTA, done(message())], [message()], message(part())),
    "arguments": ([ARGUMENTS_DELTA, done(call(""))], [], call()),
    "arguments in their end": (
        [ARGUMENTS_DELTA, {**ARGUMENTS_DONE, "arguments": ""}, done(call(""))],
        [call("")],
        call(),
    ),
    "null arguments": ([ARGUMENTS_DELTA, done({**call(), "arguments": None})], [], call()),
    "input": (
        [
            event("custom_tool_call_input.delta", {"item_id": "ct_1", "output_index": 0}, delta=TEXT),
            done({**CUSTOM, "input": ""}),
        ],
        [],
        CUSTOM,
    ),
}


@pytest.mark.parametrize("is_stored", [False, True], ids=["unstored", "stored"])
@pytest.mark.parametrize(("events", "output", "item"), EMPTY.values(), ids=EMPTY)
def test_a_final_value_that_is_empty_becomes_what_was_streamed(
    events: list[Json], output: Any, item: Item, *, is_stored: bool
) -> None:
    sent = relay([added(item), *events], output, is_stored=is_stored)
    assert read_items(sent) == sent[-1]["response"]["output"] == [item]
    for each in sent:
        for key in ("text", "arguments"):
            assert each.get(key, TEXT) in (TEXT, ARGUMENTS)
        assert each["type"] != "response.content_part.done" or each["part"]["text"] == TEXT


SHARED_INDEX: dict[str, tuple[list[Json], list[Item]]] = {
    "one after the other": (
        [added(message()), DELTA, done(message(part())), added(call()), ARGUMENTS_DELTA, done(call())],
        [message(part()), call()],
    ),
    "the other way": (
        [added(call()), ARGUMENTS_DELTA, done(call()), added(message()), DELTA, done(message(part()))],
        [call(), message(part())],
    ),
    "at once": (
        [added(call()), ARGUMENTS_DELTA, added(message()), DELTA, done(message(part())), done(call())],
        [message(part()), call()],
    ),
    "two messages": (
        [added(message()), DELTA, done(message(part())), done(message(part("b"), item_id="msg_2"))],
        [message(part()), message(part("b"), item_id="msg_2")],
    ),
}


@pytest.mark.parametrize("is_stored", [False, True], ids=["unstored", "stored"])
@pytest.mark.parametrize("is_empty", [False, True], ids=["whole output", "no output"])
@pytest.mark.parametrize(("events", "output"), SHARED_INDEX.values(), ids=SHARED_INDEX)
def test_items_with_one_index_are_all_in_the_response(
    events: list[Json], output: list[Item], *, is_empty: bool, is_stored: bool
) -> None:
    sent = relay(events, [] if is_empty else output, is_stored=is_stored)
    assert read_items(sent) == sent[-1]["response"]["output"] == output


SAME_ID: dict[str, tuple[list[Json], list[Item]]] = {
    "calls with one id": (
        [done(call("{}") | {"id": "fc"}), done(call(number=2) | {"id": "fc"})],
        [call("{}") | {"id": "fc"}, call(number=2) | {"id": "fc"}],
    ),
    "calls with one id and own indexes": (
        [done(call("{}") | {"id": "fc"}), done(call(number=2) | {"id": "fc"}, 1)],
        [call("{}") | {"id": "fc"}, call(number=2) | {"id": "fc"}],
    ),
    "one of two did not end": (
        [added(message()), PART_ADDED, DELTA, added(call()), ARGUMENTS_DELTA, done(call())],
        [message(part()), call()],
    ),
    "the other did not end": (
        [added(call()), ARGUMENTS_DELTA, added(message()), PART_ADDED, DELTA, done(message(part()))],
        [call(), message(part())],
    ),
    "deltas without an index": (
        [added(call()), {key: value for key, value in ARGUMENTS_DELTA.items() if key != "output_index"}, done(call())],
        [call()],
    ),
}


@pytest.mark.parametrize("is_stored", [False, True], ids=["unstored", "stored"])
@pytest.mark.parametrize(("events", "output"), SAME_ID.values(), ids=SAME_ID)
def test_items_that_are_hard_to_tell_apart_come_once(
    events: list[Json], output: list[Item], *, is_stored: bool
) -> None:
    sent = relay(events, output, is_stored=is_stored)
    assert sent[-1]["response"]["output"] == output
    assert sorted(read_items(sent), key=str) == sorted(output, key=str)
    texts = [each["delta"] for each in sent if each["type"].endswith(".delta")]
    assert len(texts) == len(set(texts)) == len(output)


HOSTILE: dict[str, list[Json]] = {
    "beginnings": [added(message(item_id=f"m{number}"), number) for number in range(6_000)],
    "ends": [done(message(part(str(number)), item_id=f"m{number}")) for number in range(6_000)],
    "open texts": [
        event(f"output_text.{kind}", {"item_id": f"m{index}", "output_index": index, "content_index": 0}, **more)
        for number in range(3_000)
        for kind, index, more in (
            ("delta", number, {"delta": f"a{number}"}),
            ("done", 5_000 + number, {"text": f"b{number}"}),
        )
    ],
}


@pytest.mark.parametrize("events", HOSTILE.values(), ids=HOSTILE)
def test_many_items_take_linear_time(events: list[Json]) -> None:
    output = [message(part(str(number)), item_id=f"x{number}") for number in range(1_000)]
    half, whole = (write_stream(events[: len(events) // share], output) for share in (2, 1))
    times = []
    for wire in (half, whole):
        stream = ResponsesRelay(OwnResponse("m", OURS))
        begin = time.thread_time()
        stream.feed(wire)
        assert stream.ended
        times.append(time.thread_time() - begin)
    assert times[1] < 4 * times[0] + 0.1


def test_an_item_that_ends_twice_is_one() -> None:
    again = {**message(part()), "id": "msg_2"}
    sent = relay([added(message()), DELTA, done(message(part())), done(again)], [], is_stored=False)
    assert sent[-1]["response"]["output"] == [again]


@pytest.mark.parametrize("is_stored", [False, True], ids=["unstored", "stored"])
@pytest.mark.parametrize("output", [[], None, [call()]], ids=["empty", "null", "the call only"])
def test_a_text_that_no_item_has_is_a_failure(output: Any, *, is_stored: bool) -> None:
    events = [added(message()), PART_ADDED, DELTA, added(call(), 1), done(call(), 1)]
    stream = ResponsesRelay(OwnResponse("m", OURS, is_stored))
    feed_to_end(stream, write_stream(events, output))
    assert stream.failed is not None
    assert (stream.failed.code, "lacks a text" in stream.failed.message) == ("upstream_garbled", True)


CUT: dict[str, tuple[list[Json], list[Item]]] = {
    "a text": ([added(message()), PART_ADDED, DELTA], [{**message(part()), "status": "incomplete"}]),
    "a call": ([added(call()), ARGUMENTS_DELTA], [{**call(), "status": "incomplete"}]),
    "a call beside one that ended": (
        [
            *(added(call()), ARGUMENTS_DELTA, done(call()), added(call(number=2), 1)),
            {**ARGUMENTS_DELTA, "item_id": "fc_2", "output_index": 1, "delta": '{"b":'},
        ],
        [call(), {**call('{"b":', number=2), "status": "incomplete"}],
    ),
    "a text beside a call": (
        [added(call()), ARGUMENTS_DELTA, done(call()), added(message(), 1), {**DELTA, "output_index": 1}],
        [call(), {**message(part()), "status": "incomplete"}],
    ),
}


@pytest.mark.parametrize("is_stored", [False, True], ids=["unstored", "stored"])
@pytest.mark.parametrize(("events", "items"), CUT.values(), ids=CUT)
def test_a_response_that_was_cut_off_has_what_was_streamed(
    events: list[Json], items: list[Item], *, is_stored: bool
) -> None:
    sent = relay(events, [], is_stored=is_stored, status="incomplete")
    assert read_items(sent) == sent[-1]["response"]["output"] == items


def test_a_text_of_no_item_is_a_failure_in_a_response_that_was_cut_off_too() -> None:
    stream = ResponsesRelay(OwnResponse("m", OURS))
    feed_to_end(stream, write_stream([DELTA], [], "incomplete"))
    assert stream.failed is not None


def test_an_item_with_other_parts_than_were_streamed_is_a_failure() -> None:
    stream = ResponsesRelay(OwnResponse("m", OURS))
    feed_to_end(stream, write_stream([added(message()), DELTA, done(message(REFUSAL))], []))
    assert stream.failed is not None


class Seal:
    """Removes what has to be sealed."""

    def may_need_seal(self, payload: bytes) -> bool:
        return b"encrypted_content" in payload

    def seal_added_item(self, item: Item) -> Item:
        return {key: value for key, value in item.items() if key != "encrypted_content"}

    seal_done_item = seal_added_item


def test_an_inserted_beginning_is_sealed() -> None:
    stream = ResponsesRelay(OwnResponse("m", OURS), seal=Seal())
    item = call() | {"encrypted_content": "RAW"}
    sent = stream.feed(CREATED + frame("response.output_item.done", 2, output_index=0, item=item))
    assert b"output_item.added" in sent
    assert b"RAW" not in sent


ODD_ITEMS: dict[str, Item] = {
    "a call without arguments": {"type": "function_call", "call_id": "c", "id": "fc"},
    "a text without text": {"type": "message", "id": 5, "content": [{"type": "output_text"}]},
}


@pytest.mark.parametrize("item", ODD_ITEMS.values(), ids=ODD_ITEMS)
def test_an_item_without_its_text_is_relayed_as_it_came(item: Item) -> None:
    sent = relay([], [item], is_stored=False)
    assert sent[-1]["response"]["output"] == [item]


BARE: dict[str, tuple[Item, Item]] = {
    "a reasoning item": ({"type": "reasoning", "id": "rs_1"}, {"type": "reasoning", "id": "rs_1", "summary": []}),
    "a null summary": (
        {"type": "reasoning", "id": "rs_1", "summary": None},
        {"type": "reasoning", "id": "rs_1", "summary": []},
    ),
    "a text": (
        {**message(), "content": [{"type": "output_text", "text": TEXT}]},
        {**message(), "content": [{"type": "output_text", "text": TEXT, "annotations": []}]},
    ),
    "null annotations": (
        {**message(), "content": [{"type": "output_text", "text": TEXT, "annotations": None}]},
        {**message(), "content": [{"type": "output_text", "text": TEXT, "annotations": []}]},
    ),
    "a message": (
        {"type": "message", "id": "msg_1"},
        {"type": "message", "id": "msg_1", "role": "assistant", "content": []},
    ),
}


@pytest.mark.parametrize("is_stored", [False, True], ids=["unstored", "stored"])
@pytest.mark.parametrize(("item", "whole"), BARE.values(), ids=BARE)
def test_items_have_the_members_that_the_api_requires(item: Item, whole: Item, *, is_stored: bool) -> None:
    begun: Json = {"type": "response.output_item.added", "output_index": 0, "item": {**item, "content": None}}
    if item["type"] == "reasoning":
        begun["item"].pop("content")
    sent = relay([begun, done(item)], [item], is_stored=is_stored)
    assert read_items(sent) == sent[-1]["response"]["output"] == [whole]
    first = next(each["item"] for each in sent if each["type"] == "response.output_item.added")
    assert first == whole | ({"content": []} if item["type"] == "message" else {})
    reply = relay_response({**HEAD, "status": "completed", "output": [item]}, OwnResponse("m", OURS, is_stored))
    assert reply["output"] == [whole]


def test_a_part_begins_with_the_members_that_the_api_requires() -> None:
    begun = event("content_part.added", part={"type": "output_text", "text": ""})
    sent = relay([added(message()), begun, DELTA, done(message(part()))], [message(part())], is_stored=False)
    assert sent[3]["part"] == {"type": "output_text", "text": "", "annotations": []}


@pytest.mark.parametrize("odd", [{"type": "message", "content": 5, "id": 7}, {"type": "refusal", "refusal": 5}])
def test_what_cannot_be_read_is_relayed_as_it_came_if_nobody_stores_it(odd: Any) -> None:
    body = {**HEAD, "status": "completed", "output": [odd]}
    assert relay_response(body, OwnResponse("m", OURS))["output"] == [odd]
    begun = event("content_part.added", part={**odd, "annotations": None})
    stream = ResponsesRelay(OwnResponse("m", OURS))
    stream.feed(CREATED)
    assert (
        orjson.loads(stream.feed(frame(begun["type"], 2, **_fields(begun))).split(b"data: ")[1])["part"]
        == begun["part"]
    )


def test_a_damaged_beginning_begins_nothing() -> None:
    stream = ResponsesRelay(OwnResponse("m", OURS))
    stream.feed(CREATED + b'event: response.output_item.added\ndata: {"item":{}, }\n\n')
    sent = stream.feed(frame("response.output_item.done", 3, output_index=0, item=message(part())))
    assert sent.count(b"event: response.output_item.added") == 1
