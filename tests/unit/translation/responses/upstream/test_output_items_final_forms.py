"""A Responses upstream may end a text with another form of it, in each of the events that repeat it.

Decoded replies have the streamed text everywhere. Relayed ones have both, each where the upstream sent it.
"""

from typing import Any

import orjson
import pytest

from tests.unit.support.translator_drivers import counting_ids
from translation.errors import ProtocolViolation
from translation.framing import sse
from translation.representation.events import Delta, Event, ItemEnded, ItemStarted, Opaque, PartEnded, PartStarted
from translation.responses.relaying.relay import ResponsesRelay
from translation.responses.relaying.whole_response import OwnResponse
from translation.responses.upstream.decode import ResponsesDecoder

Json = dict[str, Any]
PLACE: Json = {"item_id": "m", "output_index": 0, "content_index": 0}
RAW, CLEAN = "<think>Hm.</think>\n\nHello", "Hello"
APART, COMPOSED = "Cafe\u0301", "Café"
THOUGHT: Json = {"type": "reasoning", "id": "r", "summary": [], "content": [{"type": "reasoning_text", "text": "Hm."}]}


def message(text: str, item_id: str = "m") -> Json:
    part = {"type": "output_text", "text": text, "annotations": []}
    return {"type": "message", "id": item_id, "role": "assistant", "status": "completed", "content": [part]}


def custom_call(text: str) -> Json:
    return {"type": "custom_tool_call", "id": "m", "call_id": "c", "name": "f", "input": text, "status": "completed"}


def completed(*output: Json) -> Json:
    response = {"id": "r", "object": "response", "status": "completed", "model": "u", "output": [*output]}
    return {"type": "response.completed", "response": response}


CREATED: Json = {"type": "response.created", "response": {"id": "r", "object": "response", "status": "in_progress"}}


def begin(item: Json) -> list[Json]:
    empty: Json = {"content": [], "input": ""}
    emptied = item | {key: value for key, value in empty.items() if key in item}
    return [CREATED, {"type": "response.output_item.added", "output_index": 0, "item": emptied}]


def deltas(*texts: str, numbers: bool = False) -> list[Json]:
    return [
        {"type": "response.output_text.delta", **PLACE, "content_index": number if numbers else 0, "delta": text}
        for number, text in enumerate(texts)
    ]


def text_done(text: str) -> Json:
    return {"type": "response.output_text.done", **PLACE, "text": text}


def part_done(text: str) -> Json:
    return {"type": "response.content_part.done", **PLACE, "part": message(text)["content"][0]}


def item_done(item: Json) -> Json:
    return {"type": "response.output_item.done", "output_index": 0, "item": item}


def build_streams(raw: str, clean: str) -> dict[str, list[Json]]:
    start = [*begin(message(raw)), *deltas(raw[:3], raw[3:])]
    return {
        "everywhere": [
            *start,
            text_done(clean),
            part_done(clean),
            item_done(message(clean)),
            completed(message(clean)),
        ],
        "in the end of the text": [*start, text_done(clean), item_done(message(raw)), completed(message(raw))],
        "in the item": [*start, text_done(raw), item_done(message(clean)), completed(message(clean))],
        "in the response": [*start, text_done(raw), item_done(message(raw)), completed(message(clean))],
        "in the response alone": [*start, completed(message(clean))],
        "in a response with other ids": [
            *start,
            text_done(raw),
            item_done(message(raw)),
            completed(message(clean, "x")),
        ],
        "of a part for each delta": [
            *begin(message(raw)),
            *deltas(raw[:3], raw[3:8], raw[8:], numbers=True),
            item_done(message(clean)),
            completed(message(clean)),
        ],
    }


STREAMS = {
    f"{name}, {form[1]}": (form[0], stream)
    for form in ((RAW, CLEAN), (APART, COMPOSED))
    for name, stream in build_streams(*form).items()
}
WITH_THOUGHT = [*build_streams(RAW, CLEAN)["in the response alone"][:-1], completed(THOUGHT, message(CLEAN))]
STREAMS["with the thinking"] = (RAW, WITH_THOUGHT)
CASES = pytest.mark.parametrize(("raw", "stream"), STREAMS.values(), ids=STREAMS)


def decode(stream: list[Json]) -> list[Event]:
    decoder = ResponsesDecoder(counting_ids())
    return [event for chunk in stream for event in decoder.feed(chunk)]


def relay(stream: list[Json]) -> tuple[ResponsesRelay, list[Json]]:
    relayed = ResponsesRelay(OwnResponse("m", {"id": "r", "status": "in_progress"}))
    sent = b"".join(relayed.feed(sse.encode_event(event["type"], orjson.dumps(event))) for event in stream)
    sent += relayed.finish() + relayed.conclude()
    return relayed, [orjson.loads(frame.partition(b"data: ")[2]) for frame in sent.split(b"\n\n")[:-2]]


def reports(events: list[Event]) -> list[Opaque]:
    return [event for event in events if isinstance(event, Opaque)]


@CASES
def test_decoded_replies_have_the_streamed_text_and_report_the_other_once(raw: str, stream: list[Json]) -> None:
    events = decode(stream)
    assert "".join(event.text for event in events if isinstance(event, Delta)) == raw
    assert [(report.payload, report.is_output) for report in reports(events)] == [({"type": "final_text"}, True)]
    wholes = [event.item for event in events if isinstance(event, ItemEnded) and event.item is not None]
    parts = [event.part for event in events if isinstance(event, PartEnded) and event.part is not None]
    parts += [part for item in wholes for part in item["content"]]
    assert {part["text"] for part in parts} <= {raw}
    assert len([event for event in events if isinstance(event, PartStarted)]) == 1


def deltas_of(stream: list[Json]) -> list[Json]:
    return [event for event in stream if event["type"].endswith(".delta")]


@CASES
def test_relayed_replies_have_both_and_report_the_difference(raw: str, stream: list[Json]) -> None:
    relayed, sent = relay(stream)
    assert relayed.failed is None
    assert relayed.unreported == ("output.final_text",)
    assert sent[-1]["response"]["losses"] == ["output.final_text=differs from the deltas"]
    assert "".join(event["delta"] for event in deltas_of(sent)) == raw


def test_thinking_in_the_text_is_not_shown_again_as_an_item() -> None:
    assert [event.item["type"] for event in decode(WITH_THOUGHT) if isinstance(event, ItemStarted)] == ["message"]


def test_the_end_of_a_part_is_compared_where_the_reply_is_decoded() -> None:
    start = [*begin(message(RAW)), *deltas(RAW), part_done(CLEAN), item_done(message(RAW)), completed(message(RAW))]
    assert len(reports(decode(start))) == 1


def test_the_input_of_a_custom_call_stays_as_it_was_streamed() -> None:
    delta = {"type": "response.custom_tool_call_input.delta", "output_index": 0, "delta": APART}
    done = {"type": "response.custom_tool_call_input.done", "output_index": 0, "input": COMPOSED}
    for ends in ([done], []):
        stream = [
            *begin(custom_call("")),
            delta,
            *ends,
            item_done(custom_call(COMPOSED)),
            completed(custom_call(COMPOSED)),
        ]
        events = decode(stream)
        assert len(reports(events)) == 1
        assert [event.item["input"] for event in events if isinstance(event, ItemEnded) and event.item] == [APART]


@pytest.mark.parametrize("final", ["Hullo", "Hell", f"{RAW}!"])
def test_another_text_after_another_form_fails(final: str) -> None:
    start = [*begin(message(RAW)), *deltas(RAW), text_done(CLEAN), item_done(message(CLEAN))]
    with pytest.raises(ProtocolViolation):
        decode([*start, completed(message(final))])
    relayed, _ = relay([*start, completed(message(final))])
    assert relayed.failed is not None


def test_arguments_have_no_other_form() -> None:
    call = {"type": "function_call", "id": "f", "call_id": "c", "name": "f", "arguments": "", "status": "completed"}
    delta = {"type": "response.function_call_arguments.delta", "output_index": 0, "delta": f'{{"a":"{APART}"}}'}
    final = {**call, "arguments": f'{{"a":"{COMPOSED}"}}'}
    stream = [*begin(call), delta, item_done(final), completed(final)]
    with pytest.raises(ProtocolViolation, match="differs"):
        decode(stream)
    assert relay(stream)[0].failed is not None


NUMBERED: dict[str, tuple[list[Json], list[str]]] = {
    # the events after the deltas, the texts of the final parts
    "one final part": ([item_done(message("Hello world"))], ["Hello world"]),
    "a final text with a further number": (
        [{**text_done("Hello world"), "content_index": 3}, item_done(message("Hello world"))],
        ["Hello world"],
    ),
    "ends of each piece": (
        [
            text_done("Hel"),
            {**text_done("lo "), "content_index": 1},
            {**part_done("world"), "content_index": 2},
            item_done(message("Hello world")),
        ],
        ["Hello world"],
    ),
    "no item": ([], ["Hello world"]),
}


@pytest.mark.parametrize(("ends", "texts"), NUMBERED.values(), ids=NUMBERED)
def test_pieces_with_numbers_of_their_own_are_one_part(ends: list[Json], texts: list[str]) -> None:
    """Versions of vLLM that announce no part give each delta a number."""
    pieces = deltas("Hel", "lo ", "world", numbers=True)
    events = decode([*begin(message("")), *pieces, *ends, completed(message("Hello world"))])
    assert "".join(event.text for event in events if isinstance(event, Delta)) == "Hello world"
    assert len([event for event in events if isinstance(event, PartStarted)]) == 1
    items = [event.item for event in events if isinstance(event, ItemEnded) and event.item is not None]
    assert [[part["text"] for part in item["content"]] for item in items] == [texts]


def test_parts_that_were_streamed_as_one_are_one_in_the_item_with_the_places_of_their_citations() -> None:
    cited = {"type": "url_citation", "url": "https://example.com", "title": "t", "start_index": 0, "end_index": 2}
    whole = message("Hel")
    whole["content"] += message("lo ")["content"]
    whole["content"][1]["annotations"] = [cited]
    for done in (
        [item_done(whole)],
        [
            item_done(message("Hello ")),
        ],
    ):
        events = decode([*begin(message("")), *deltas("Hel", "l", numbers=True), *done, completed(whole)])
        assert "".join(event.text for event in events if isinstance(event, Delta)) == "Hello "
    events = decode([*begin(message("")), *deltas("Hel", "l", numbers=True), item_done(whole), completed(whole)])
    (item,) = (event.item for event in events if isinstance(event, ItemEnded))
    assert item is not None
    (part,) = item["content"]
    assert (part["text"], part["annotations"]) == ("Hello ", [{**cited, "start_index": 3, "end_index": 5}])


def test_an_ended_part_is_not_the_place_of_further_pieces() -> None:
    events = decode(
        [
            *begin(message("")),
            *deltas("Hel"),
            text_done("Hel"),
            {**deltas("lo")[0], "content_index": 1},
            item_done({**message(""), "content": [*message("Hel")["content"], *message("lo")["content"]]}),
        ]
    )
    assert len([event for event in events if isinstance(event, PartStarted)]) == 2


def test_parts_of_several_types_are_not_joined() -> None:
    refusal = {"type": "refusal", "refusal": "No."}
    whole = {**message("Hello"), "content": [*message("Hello")["content"], refusal]}
    events = decode([*begin(message("")), *deltas("Hel", "lo", numbers=True), item_done(whole)])
    assert "".join(event.text for event in events if isinstance(event, Delta)) == "HelloNo."


def announced(*numbers: int) -> list[Json]:
    part = message("")["content"][0]
    return [
        {"type": "response.content_part.added", **PLACE, "content_index": number, "part": part} for number in numbers
    ]


def numbered(number: int, text: str) -> Json:
    return {**deltas(text)[0], "content_index": number}


def parts_of(*texts: str) -> Json:
    return {**message(""), "content": [message(text)["content"][0] for text in texts]}


def test_a_whole_text_with_a_number_that_no_part_has_is_a_repetition() -> None:
    stream = [*begin(message("")), *announced(0), *deltas("Hel", "lo"), {**text_done("Hello"), "content_index": 4}]
    events = decode([*stream, item_done(message("Hello"))])
    assert "".join(event.text for event in events if isinstance(event, Delta)) == "Hello"
    assert len([event for event in events if isinstance(event, PartStarted)]) == 1


def test_a_part_that_had_no_events_gets_a_free_number() -> None:
    stream = [*begin(message("")), *announced(2, 5), numbered(2, "a"), numbered(5, "b")]
    events = decode([*stream, item_done(parts_of("a", "b", "c"))])
    assert "".join(event.text for event in events if isinstance(event, Delta)) == "abc"


def test_announced_parts_that_are_one_at_the_end_have_its_text_together() -> None:
    stream = [*begin(message("")), *announced(0, 1), numbered(0, "<think>Hm.</think>"), numbered(1, "Hello")]
    for final in ("<think>Hm.</think>Hello", "Hello"):
        events = decode([*stream, item_done(message(final)), completed(message(final))])
        assert len(reports(events)) == (final == "Hello")
        assert len(reports(decode([*stream, completed(message(final))]))) == (final == "Hello")
    for final in ("Hullo", "<think>Hm.</think>Hello!"):
        with pytest.raises(ProtocolViolation, match="lacks a part"):
            decode(
                [
                    *stream,
                    *[part_done("<think>Hm.</think>"), {**part_done("Hello"), "content_index": 1}],
                    item_done(message(final)),
                ]
            )
        with pytest.raises(ProtocolViolation, match="lacks a part"):
            decode([*stream, item_done(message("Hello")), completed(message(final))])


def test_thinking_in_more_parts_than_at_the_end_is_shown_as_it_was_streamed() -> None:
    thinking = {**THOUGHT, "content": [{"type": "reasoning_text", "text": "Hm."}]}
    part = {"type": "reasoning_text", "text": ""}
    stream = begin(thinking)
    for number in (0, 1):
        place = {**PLACE, "content_index": number}
        stream.append({"type": "response.content_part.added", **place, "part": part})
        stream.append({"type": "response.reasoning_text.delta", **place, "delta": f"{number}."})
    events = decode([*stream, item_done(thinking)])
    assert "".join(event.text for event in events if isinstance(event, Delta)) == "0.1."
