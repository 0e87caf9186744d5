"""An item whose output index another item takes comes out once, and no other item gets what is sent of it later."""

from typing import Any

import pytest

from tests.unit.support.stream_checks.responses_order import check_order, read_stream
from tests.unit.support.translator_drivers import collect, counting_ids, feed_to_end
from tests.unit.translation.responses.decoded_responses import CREATED, added, decoded, delta, done, native
from translation.errors import ProtocolViolation
from translation.representation import items
from translation.representation.events import Delta, Event, Opaque
from translation.representation.json_types import Item, Json
from translation.responses.client.encode import ResponsesEncoder
from translation.responses.client.initial_response import new_response
from translation.responses.upstream.decode import ResponsesDecoder

ARGUMENTS = '{"a":1}'
HEAD = new_response({"model": "m", "input": "hi"}, response_id="resp_1", created_at=100, model="m")


def call(arguments: str = ARGUMENTS, item_id: str = "f", call_id: str = "c1") -> Item:
    return {
        **items.new_function_call(item_id, call_id=call_id, name="f"),
        "arguments": arguments,
        "status": "completed",
    }


def patch(text: str = "PATCH") -> Item:
    return {**items.new_custom_tool_call("p", call_id="c3", name="f"), "input": text, "status": "completed"}


def message(*texts: str, item_id: str = "m") -> Item:
    parts = [{"type": "output_text", "text": text, "annotations": []} for text in texts or ("HELLO",)]
    return {**items.new_message(item_id), "status": "completed", "content": parts}


def thought(text: str = "Hm.") -> Item:
    return {**items.new_reasoning("t"), "content": [{"type": "reasoning_text", "text": text}]}


def search(item_id: str = "w") -> Item:
    return {"id": item_id, "type": "web_search_call", "status": "completed"}


def text_delta(text: str, item_id: str = "m", **keys: Any) -> Json:
    return {**delta(text, item_id=item_id), **keys}


def arguments_delta(piece: str, item_id: str = "f") -> Json:
    return native("function_call_arguments.delta", output_index=0, item_id=item_id, delta=piece)


def begin(item: Item) -> list[Json]:
    """Returns the event that adds an item, and those of its text."""
    match item["type"]:
        case "function_call":
            pieces = [arguments_delta(piece, item["id"]) for piece in item["arguments"]]
            return [added({**item, "arguments": "", "status": "in_progress"}), *pieces]
        case "custom_tool_call":
            delta_of_input = native("custom_tool_call_input.delta", output_index=0, item_id="p", delta=item["input"])
            return [added({**item, "input": "", "status": "in_progress"}), delta_of_input]
        case "message":
            pieces = [
                text_delta(part["text"], item["id"], content_index=place) for place, part in enumerate(item["content"])
            ]
            return [added({**item, "content": [], "status": "in_progress"}), *pieces]
        case "reasoning":
            place = {"output_index": 0, "item_id": item["id"], "content_index": 0}
            return [
                added({**item, "content": []}),
                native("reasoning_text.delta", **place, delta=item["content"][0]["text"]),
            ]
    return [added({**item, "status": "in_progress"})]


def completed(*output: Item) -> Json:
    return native("completed", response={"status": "completed", "output": [*output]})


def outline(item: Item) -> tuple[str, str]:
    """Returns the type of an item, and its text."""
    parts = [*item.get("summary", ()), *item.get("content", ())]
    own = str(item.get("arguments", item.get("input", "")))
    return item["type"], own + "".join(part.get("text", part.get("refusal", "")) for part in parts)


def encode(events: list[Event]) -> list[Json]:
    stream = read_stream(feed_to_end(ResponsesEncoder(HEAD, lambda: 105), events))
    check_order(stream)
    return stream


PAIRS: dict[str, tuple[Item, Item]] = {
    "a message over a call": (call(), message()),
    "a call over a message": (message(), call()),
    "a call over a call": (call(), call('{"b":2}', "f2", "c2")),
    "a message over the input of a call": (patch(), message()),
    "a message over thinking": (thought(), message()),
    "thinking over a message": (message(), thought()),
    "a message over a search": (search(), message()),
    "a message of two parts over a call": (call(), message("HEL", "LO")),
    "a call over a message of two parts": (message("HEL", "LO"), call()),
}


def build_ends(one: Item, other: Item) -> dict[str, list[Json]]:
    """Returns the events after the beginnings of both, by the form of the stream's end."""
    return {
        "the last first": [done(other), done(one)],
        "the first first": [done(one), done(other)],
        "each twice": [done(one), done(other), done(one), done(other)],
        "only the first": [done(one)],
        "only the last": [done(other)],
        "at an index that no item has": [done(other), done(one, 5)],
        "added again": [added({**one, "status": "in_progress"}), done(one), done(other)],
        "neither": [],
    }


OUTPUTS = {"all": (0, 1), "all in another order": (1, 0), "nothing": (), "only the last": (1,)}
PAIR_CASES = pytest.mark.parametrize(("one", "other"), PAIRS.values(), ids=PAIRS)


@PAIR_CASES
@pytest.mark.parametrize("end", build_ends(call(), message()))
@pytest.mark.parametrize("output", OUTPUTS.values(), ids=OUTPUTS)
def test_each_of_two_items_with_one_index_comes_out_once(
    one: Item, other: Item, end: str, output: tuple[int, ...]
) -> None:
    whole = completed(*[(one, other)[place] for place in output])
    events = decoded(CREATED, *begin(one), *begin(other), *build_ends(one, other)[end], whole)
    assert [outline(item) for item in collect(events)] == [outline(one), outline(other)]
    response = encode(events)[-1]["response"]
    assert response["status"] == "completed"
    assert [outline(item) for item in response["output"]] == [outline(one), outline(other)]


@PAIR_CASES
def test_an_item_that_ended_before_its_index_was_taken_comes_out_once(one: Item, other: Item) -> None:
    events = decoded(
        CREATED, *begin(one), done(one), *begin(other), done(one), done(other), done(one), completed(one, other)
    )
    assert [outline(item) for item in collect(events)] == [outline(one), outline(other)]


def test_each_of_three_items_with_one_index_comes_out_once() -> None:
    three = [call(), message(), call('{"b":2}', "f2", "c2")]
    begins = [event for item in three for event in begin(item)]
    for order in ([0, 1, 2], [2, 1, 0], [1, 0, 2]):
        ends = [done(three[place]) for place in order]
        events = decoded(CREATED, *begins, *ends, completed(*three))
        assert [outline(item) for item in collect(events)] == [outline(item) for item in three]


def test_an_item_that_only_the_output_has_is_added_beside_a_displaced_one() -> None:
    more = message("MORE", item_id="n")
    for ends in ([], [done(call())], [done(message()), done(call())]):
        events = decoded(CREATED, *begin(call()), *begin(message()), *ends, completed(call(), message(), more))
        assert [outline(item) for item in collect(events)] == [outline(call()), outline(message()), outline(more)]


def test_displaced_items_have_their_places_in_an_output_with_other_ids() -> None:
    renamed = [call(item_id="x", call_id="c1"), message(item_id="y"), message("MORE", item_id="z")]
    events = decoded(CREATED, *begin(call()), *begin(message()), completed(*renamed))
    assert [outline(item) for item in collect(events)] == [outline(item) for item in renamed]


def test_a_call_is_known_by_its_call_id_when_its_item_id_changed() -> None:
    events = decoded(CREATED, *begin(call()), *begin(message()), done(message()), done(call(item_id="x")), completed())
    assert [outline(item) for item in collect(events)] == [outline(call()), outline(message())]


def test_calls_with_one_item_id_are_told_apart_by_their_call_ids() -> None:
    one, other = call(), call('{"b":2}', call_id="c2")
    for ends in ([done(other), done(one)], [done(one), done(other)], [done(one)], []):
        events = decoded(CREATED, *begin(one), *begin(other), *ends, completed())
        assert [outline(item) for item in collect(events)] == [outline(one), outline(other)]


def test_arguments_of_a_displaced_call_may_be_written_in_another_way() -> None:
    spaced = call('{ "a": 1 }')
    events = decoded(CREATED, *begin(call()), *begin(message()), done(spaced), done(message()), completed(spaced))
    assert [outline(item) for item in collect(events)] == [outline(call()), outline(message())]


def test_another_form_of_a_displaced_text_is_reported_once() -> None:
    streamed, final = message("Cafe\u0301"), message("Café")
    events = decoded(CREATED, *begin(streamed), *begin(call()), done(final), done(call()), completed(final, call()))
    assert [event.payload for event in events if isinstance(event, Opaque)] == [{"type": "final_text"}]
    assert [outline(item) for item in collect(events)] == [outline(streamed), outline(call())]


def part_done(part: Json, item_id: str = "m", number: int = 0) -> Json:
    return native("content_part.done", output_index=0, item_id=item_id, content_index=number, part=part)


def text_done(text: str, number: int = 0) -> Json:
    return native("output_text.done", output_index=0, item_id="m", content_index=number, text=text)


def arguments_done(arguments: str) -> Json:
    return native("function_call_arguments.done", output_index=0, item_id="f", arguments=arguments)


SAID: dict[str, tuple[Item, Item, list[Json]]] = {
    "the end of the arguments": (call(), message(), [arguments_done(ARGUMENTS)]),
    "an empty end of the arguments": (call(), message(), [arguments_done("")]),
    "a piece of the arguments without text": (call(), message(), [arguments_delta("")]),
    "the end of a text": (message(), call(), [text_done("HELLO")]),
    "a trimmed end of a text": (message("HELLO\n"), call(), [text_done("HELLO")]),
    "the end of a text under another number": (message(), call(), [text_done("HELLO", 3)]),
    "the ends of two parts": (message("HEL", "LO"), call(), [text_done("LO", 1), text_done("HEL")]),
    "the end of a part": (message(), call(), [part_done(message()["content"][0])]),
    "the beginning of a part": (
        message(),
        call(),
        [native("content_part.added", output_index=0, item_id="m", content_index=0, part=items.new_output_text())],
    ),
    "a citation": (
        message(),
        call(),
        [
            native(
                "output_text.annotation.added",
                output_index=0,
                item_id="m",
                content_index=0,
                annotation={"type": "url_citation"},
            )
        ],
    ),
    "the end of thinking": (thought(), message(), [part_done(thought()["content"][0], "t")]),
    "the end of a part of an unknown type": (message(), call(), [part_done({"type": "hologram"})]),
}


@pytest.mark.parametrize(("one", "other", "said"), SAID.values(), ids=SAID)
def test_what_repeats_a_displaced_item_changes_nothing(one: Item, other: Item, said: list[Json]) -> None:
    quiet = decoded(CREATED, *begin(one), *begin(other), done(one), done(other), completed())
    assert decoded(CREATED, *begin(one), *begin(other), *said, done(one), done(other), completed()) == quiet


LOST: dict[str, tuple[Item, Item, Json]] = {
    "a piece of the arguments": (call('{"a"'), message(), arguments_delta(":1}")),
    "a piece of the arguments of one of two calls": (call('{"a"'), call("{", "f2", "c2"), arguments_delta(":1}")),
    "a piece of a text": (message("HEL"), call(), text_delta("LO")),
    "a piece of a further part": (message("HEL"), call(), text_delta("LO", content_index=1)),
    "a piece of thinking": (
        thought(),
        message(),
        native("reasoning_text.delta", output_index=0, item_id="t", content_index=0, delta="More."),
    ),
    "a piece of the input": (
        patch("PA"),
        message(),
        native("custom_tool_call_input.delta", output_index=0, item_id="p", delta="TCH"),
    ),
    "a piece under an index that no item has": (
        message("HEL"),
        call(),
        {**text_delta("LO"), "output_index": 5},
    ),
    "more at the end of the arguments": (call('{"a"'), message(), arguments_done(ARGUMENTS)),
    "other arguments": (call(), message(), arguments_done('{"a":2}')),
    "arguments that had no piece": (call(""), message(), arguments_done(ARGUMENTS)),
    "more at the end of a text": (message("HEL"), call(), text_done("HELLO")),
    "another text": (message(), call(), text_done("BYE")),
    "a text that had no piece": (message(""), call(), text_done("HELLO")),
    "a part that had no piece": (message("HEL", "L"), call(), text_done("O", 2)),
    "more at the end of a part": (message("HEL"), call(), part_done(message()["content"][0])),
    "a refusal that had no piece": (message(), call(), part_done({"type": "refusal", "refusal": "No."})),
    "more arguments in the item": (call('{"a"'), message(), done(call())),
    "other arguments in the item": (call(), message(), done(call('{"a":2}'))),
    "arguments in the item alone": (call(""), message(), done(call())),
    "more text in the item": (message("HEL"), call(), done(message())),
    "a text in the item alone": (message(""), call(), done(message())),
    "one more part in the item": (message("HEL"), call(), done(message("HEL", "LO"))),
    "more text in the output": (message("HEL"), call(), completed(message(), call())),
    "one more part in the output": (message("HEL"), call(), completed(message("HEL", "LO"), call())),
    "other arguments in an output with other ids": (
        call(),
        message(),
        completed(call('{"a":2}', "x"), message(item_id="y")),
    ),
}


@pytest.mark.parametrize(("one", "other", "said"), LOST.values(), ids=LOST)
def test_text_that_a_displaced_item_would_lose_fails(one: Item, other: Item, said: Json) -> None:
    decoder = ResponsesDecoder(counting_ids())
    for chunk in (CREATED, *begin(one), *begin(other)):
        decoder.feed(chunk)
    with pytest.raises(ProtocolViolation, match=r"differs|had taken its place"):
        decoder.feed(said)


def test_pieces_of_the_item_that_has_the_index_go_into_it() -> None:
    for item_id in ("m", "changed", None):
        pieces = [{**text_delta(piece), "item_id": item_id} for piece in ("HEL", "LO")]
        start = added({**message(), "content": [], "status": "in_progress"})
        events = decoded(CREATED, *begin(call()), start, *pieces, done(message()), completed())
        assert [(event.index, event.text) for event in events if isinstance(event, Delta)][-2:] == [
            (1, "HEL"),
            (1, "LO"),
        ]


def test_an_item_with_the_id_of_the_displaced_one_takes_the_pieces() -> None:
    other = message(item_id="f")
    events = decoded(CREATED, *begin(call()), *begin(other), done(other), done(call()), completed(call(), other))
    assert [outline(item) for item in collect(events)] == [outline(call()), outline(other)]


def test_other_events_of_a_displaced_item_keep_its_address() -> None:
    found = native("web_search_call.completed", output_index=0, item_id="w")
    events = decoded(CREATED, *begin(search()), *begin(message()), found, completed())
    assert Opaque("responses", found, 0) in events
    stream = read_stream(feed_to_end(ResponsesEncoder(HEAD, lambda: 105), events))
    [sent] = [event for event in stream if event["type"] == found["type"]]
    assert (sent["item_id"], sent["output_index"]) == ("w", 0)


def end(item: Item) -> list[Json]:
    """Returns the events of a whole item, with its end."""
    return [*begin(item), done(item)]


ONE, TWO = message("One", item_id="x"), message("Two", item_id="x")
PLAN, PLAN_TWO = thought("One"), thought("Two")
OTHER_CALL = call('{"b":2}', call_id="c2")
USED_AGAIN: dict[str, list[Item]] = {
    "a message": [ONE, call(), TWO],
    "a message, after a search": [ONE, search(), TWO],
    "a message with the same text": [ONE, call(), ONE],
    "thinking": [PLAN, call(), PLAN_TWO],
    "a call": [call(), message(), OTHER_CALL],
    "a message, three times": [ONE, call(), TWO, search(), message("Three", item_id="x")],
    "a message and a call": [ONE, call(), TWO, OTHER_CALL],
}


@pytest.mark.parametrize("output", ["all", "nothing"])
@pytest.mark.parametrize("whole", USED_AGAIN.values(), ids=USED_AGAIN)
def test_an_id_may_be_used_again_after_the_end_of_its_item(whole: list[Item], output: str) -> None:
    stream = [event for item in whole for event in end(item)]
    events = decoded(CREATED, *stream, completed(*(whole if output == "all" else ())))
    assert [outline(item) for item in collect(events)] == [outline(item) for item in whole]
    response = read_stream(feed_to_end(ResponsesEncoder(HEAD, lambda: 105), events))[-1]["response"]
    assert response["status"] == "completed"
    assert [outline(item) for item in response["output"]] == [outline(item) for item in whole]


def test_an_item_that_ended_after_its_index_was_taken_frees_its_id() -> None:
    stream = [*begin(ONE), *begin(call()), done(ONE), done(call()), *end(TWO)]
    events = decoded(CREATED, *stream, completed(ONE, call(), TWO))
    assert [outline(item) for item in collect(events)] == [outline(item) for item in (ONE, call(), TWO)]


def test_an_item_that_came_whole_frees_its_id() -> None:
    events = decoded(CREATED, done(ONE), *end(call()), *end(TWO), completed(ONE, call(), TWO))
    assert [outline(item) for item in collect(events)] == [outline(item) for item in (ONE, call(), TWO)]


ADDED_AGAIN: dict[str, list[Json]] = {
    # the events before a call is added once more
    "before its end": [*begin(call()), *begin(message())],
    "after its end": [*begin(call()), done(call()), *begin(message())],
    "after its end, which came late": [*begin(call()), *begin(message()), done(call())],
    "under another item id": [*begin(call(item_id="g")), *begin(message())],
}


@pytest.mark.parametrize("before", ADDED_AGAIN.values(), ids=ADDED_AGAIN)
def test_a_displaced_call_that_is_added_again_comes_out_once(before: list[Json]) -> None:
    again = added({**call(), "arguments": "", "status": "in_progress"})
    events = decoded(CREATED, *before, again, done(message()), completed(call(), message()))
    assert [outline(item) for item in collect(events)] == [outline(call()), outline(message())]


def test_a_call_with_a_call_id_of_its_own_is_another_one() -> None:
    stream = [*begin(call()), *begin(message()), done(message()), *end(OTHER_CALL), done(call())]
    events = decoded(CREATED, *stream, completed(call(), message(), OTHER_CALL))
    assert [outline(item) for item in collect(events)] == [outline(call()), outline(message()), outline(OTHER_CALL)]


@pytest.mark.parametrize("at", [0, 1], ids=["its index", "an index that no item has"])
def test_what_names_an_id_that_is_used_again_is_about_the_new_item(at: int) -> None:
    start = added({**TWO, "content": [], "status": "in_progress"})
    rest = [{**text_delta(piece, "x"), "output_index": at} for piece in ("T", "wo")]
    events = decoded(CREATED, *end(ONE), *end(call()), start, *rest, done(TWO, at), completed(ONE, call(), TWO))
    assert [outline(item) for item in collect(events)] == [outline(item) for item in (ONE, call(), TWO)]


def test_an_id_that_is_used_again_for_another_type_still_names_the_displaced_item() -> None:
    other = call(item_id="x")
    events = decoded(CREATED, *begin(ONE), *begin(other), done(ONE), done(other), done(ONE), completed())
    assert [outline(item) for item in collect(events)] == [outline(ONE), outline(other)]
