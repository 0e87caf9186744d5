"""What a relayed Responses stream says of a text at its end is compared with its deltas: more is sent, another fails.

Clients may read the deltas, the event that ends the text, the item, or the whole response: they get the same from each.
"""

from typing import Any

import orjson
import pytest

from translation.framing import sse
from translation.responses.relaying.relay import ResponsesRelay
from translation.responses.relaying.whole_response import OwnResponse

Json = dict[str, Any]
PLACE: Json = {"item_id": "m", "output_index": 0, "content_index": 0}
CALL_PLACE: Json = {"item_id": "f", "output_index": 0}


def event(kind: str, **fields: Any) -> Json:
    return {"type": f"response.{kind}", **fields}


def response(status: str, *output: Any) -> Json:
    return {"id": "r", "object": "response", "status": status, "model": "u", "output": [*output]}


def message(text: Any, key: str = "text") -> Json:
    part = {"type": "output_text" if key == "text" else key, key: text}
    content = [] if text is None else [part]
    return {"type": "message", "id": "m", "role": "assistant", "status": "completed", "content": content}


def call(arguments: Any) -> Json:
    return {"type": "function_call", "id": "f", "call_id": "c", "name": "look_up", "arguments": arguments}


def text_stream(deltas: list[str], done: Any, item: Any, final: Any, kind: str = "output_text") -> list[Json]:
    """Returns the events of a text. None leaves an event, or the item of the last one, out."""
    key = "refusal" if kind == "refusal" else "text"
    return [
        event("created", response=response("in_progress")),
        event("output_item.added", output_index=0, item=message(None)),
        *(event(f"{kind}.delta", **PLACE, delta=delta) for delta in deltas),
        *([] if done is None else [event(f"{kind}.done", **PLACE, **{key: done})]),
        *([] if item is None else [event("output_item.done", output_index=0, item=message(item, key))]),
        event("completed", response=response("completed", *([] if final is None else [message(final, key)]))),
    ]


def part_stream(
    deltas: list[str], done: str | None, part: Any, item: str | None, kind: str = "output_text"
) -> list[Json]:
    """Returns the events of a text whose part has an end of its own."""
    events = text_stream(deltas, done, item, item, kind)
    end = event("content_part.done", **PLACE, part=part)
    return [*events[: len(deltas) + 2 + (done is not None)], end, *events[len(deltas) + 2 + (done is not None) :]]


def text_part(text: Any) -> Json:
    return {"type": "output_text", "text": text, "annotations": []}


def numbered_stream(part: str, item: str) -> list[Json]:
    """Returns the events of one text whose deltas have numbers of their own."""
    deltas = [
        event("output_text.delta", **{**PLACE, "content_index": number}, delta=delta)
        for number, delta in enumerate(["The ", "answer ", "is "])
    ]
    ends = [event("content_part.done", **PLACE, part=text_part(part))]
    begin, *_, item_done, last = text_stream([], None, item, item)
    return [begin, event("output_item.added", output_index=0, item=message(None)), *deltas, *ends, item_done, last]


def call_stream(deltas: list[str], done: Any, item: Any) -> list[Json]:
    return [
        event("created", response=response("in_progress")),
        event("output_item.added", output_index=0, item=call("")),
        *(event("function_call_arguments.delta", **CALL_PLACE, delta=delta) for delta in deltas),
        *([] if done is None else [event("function_call_arguments.done", **CALL_PLACE, arguments=done)]),
        *([] if item is None else [event("output_item.done", output_index=0, item=call(item))]),
        event("completed", response=response("completed", *([] if item is None else [call(item)]))),
    ]


HALF, WHOLE = ["The ", "answer ", "is "], "The answer is 42."
MANY = [f"word{number} " for number in range(200)]
MANY_MORE = "".join(MANY) + "end"

SAME: dict[str, tuple[list[Json], str]] = {
    "the same everywhere": (text_stream([*HALF, "42."], WHOLE, WHOLE, WHOLE), WHOLE),
    "many deltas": (text_stream(MANY, "".join(MANY), "".join(MANY), None), "".join(MANY)),
    "no final values": (text_stream([*HALF, "42."], None, WHOLE, None), WHOLE),
    "empty final texts": (text_stream([*HALF, "42."], "", WHOLE, WHOLE), WHOLE),
    "white space that is trimmed": (text_stream(["\nThe answer ", "is 42.\n"], WHOLE, WHOLE, WHOLE), f"\n{WHOLE}\n"),
    "characters and escapes": (text_stream(['Grü"', "ße\n😀"], 'Grü"ße\n😀', 'Grü"ße\n😀', None), 'Grü"ße\n😀'),
    "the same in the part": (part_stream([*HALF, "42."], WHOLE, text_part(WHOLE), WHOLE), WHOLE),
    "an empty part": (part_stream([*HALF, "42."], WHOLE, text_part(""), WHOLE), WHOLE),
    "a part without its text": (part_stream([*HALF, "42."], WHOLE, {"type": "output_text"}, WHOLE), WHOLE),
    "a part of a kind that is not known": (part_stream([*HALF, "42."], WHOLE, {"type": "hologram"}, WHOLE), WHOLE),
    "deltas with numbers of their own": (
        numbered_stream("The answer is ", "The answer is "),
        "The answer is ",
    ),
    "a call": (call_stream(['{"a"', ":1}"], '{"a":1}', '{"a":1}'), '{"a":1}'),
    "a call, written in another way": (call_stream(['{"a": ', "1}"], '{"a":1}', '{"a":1}'), '{"a": 1}'),
    "a call in a code fence": (
        call_stream(["```json\n", '{"a":1}', "\n```"], None, '```json\n{"a":1}\n```'),
        '{"a":1}',
    ),
}

MORE: dict[str, tuple[list[Json], str]] = {
    "in the event that ends it": (text_stream(HALF, WHOLE, WHOLE, WHOLE), WHOLE),
    "after many deltas": (text_stream(MANY, MANY_MORE, MANY_MORE, MANY_MORE), MANY_MORE),
    "in the item": (text_stream(HALF, None, WHOLE, WHOLE), WHOLE),
    "in a refusal": (text_stream(["I "], "I cannot.", "I cannot.", "I cannot.", "refusal"), "I cannot."),
    "in the part": (part_stream(HALF, None, text_part(WHOLE), WHOLE), WHOLE),
    "in the event and the part": (part_stream(HALF, WHOLE, text_part(WHOLE), WHOLE), WHOLE),
    "in the part of a refusal": (
        part_stream(["I "], None, {"type": "refusal", "refusal": "I cannot."}, "I cannot.", "refusal"),
        "I cannot.",
    ),
    "after deltas with numbers of their own": (numbered_stream(WHOLE, WHOLE), WHOLE),
    "in the arguments": (
        call_stream(['{"city"', ': "Par'], '{"city": "Paris"}', '{"city": "Paris"}'),
        '{"city": "Paris"}',
    ),
    "in the arguments of the item": (call_stream(['{"city"'], None, '{"city": "Paris"}'), '{"city": "Paris"}'),
    "in arguments without any text": (call_stream([""], "{}", "{}"), "{}"),
}

OTHER: dict[str, list[Json]] = {
    "the event that ends it": text_stream(HALF, "The question.", "The question.", "The question."),
    "the item": text_stream(HALF, None, "The question.", "The question."),
    "the item after the event": text_stream(HALF, "The answer is ", WHOLE, WHOLE),
    "the part": part_stream(HALF, None, text_part("The question."), WHOLE),
    "the part after the event": part_stream(HALF, "The answer is ", text_part(WHOLE), WHOLE),
    "the item after the part": part_stream(HALF, None, text_part("The answer is "), WHOLE),
    "the whole response": text_stream(HALF, None, None, "The question."),
    "a shorter text": text_stream(HALF, "The", "The", "The"),
    "a refusal": text_stream(["I "], "You cannot.", None, None, "refusal"),
    "arguments": call_stream(['{"city"'], '{"town":"Paris"}', '{"town":"Paris"}'),
    "after many deltas": text_stream(MANY, "word", "word", "word"),
    "a delta that is no JSON": text_stream(["x"], WHOLE, WHOLE, WHOLE),
}


def relay(events: list[Json], *, is_stored: bool = False, spaces: bool = False) -> tuple[ResponsesRelay, list[Json]]:
    relayed = ResponsesRelay(OwnResponse("m", response("in_progress"), is_stored))
    sent = b""
    for number, each in enumerate(events):
        payload = orjson.dumps({**each, "sequence_number": number})
        if spaces:
            payload = payload.replace(b'":', b'": ')
        if each.get("delta") == "x":
            payload = payload.replace(b"output_index", b'"output_index')
        sent += relayed.feed(sse.encode_event(each["type"], payload))
    sent += relayed.finish() + relayed.conclude()
    payloads = [frame.partition(b"\ndata: ")[2] for frame in sent.split(b"\n\n") if frame.startswith(b"event")]
    return relayed, [orjson.loads(payload) for payload in payloads if b'""output_index' not in payload]


def read_deltas(events: list[Json]) -> str:
    return "".join(each["delta"] for each in events if each["type"].endswith(".delta"))


@pytest.mark.parametrize("is_stored", [False, True], ids=["unstored", "stored"])
@pytest.mark.parametrize(("events", "text"), SAME.values(), ids=SAME)
def test_final_values_with(events: list[Json], text: str, *, is_stored: bool) -> None:
    relayed, sent = relay(events, is_stored=is_stored)
    assert relayed.failed is None
    assert read_deltas(sent) == text
    assert [each["sequence_number"] for each in sent] == list(range(len(events)))


@pytest.mark.parametrize("is_stored", [False, True], ids=["unstored", "stored"])
@pytest.mark.parametrize(("events", "text"), MORE.values(), ids=MORE)
def test_more_text(events: list[Json], text: str, *, is_stored: bool) -> None:
    relayed, sent = relay(events, is_stored=is_stored)
    assert relayed.failed is None
    assert read_deltas(sent) == text
    assert [each["sequence_number"] for each in sent] == list(range(len(events) + 1))
    assert sent[-1]["type"] == "response.completed"


@pytest.mark.parametrize("events", OTHER.values(), ids=OTHER)
def test_another_text_in(events: list[Json]) -> None:
    relayed, sent = relay(events)
    assert relayed.failed is not None
    assert relayed.failed.code == "upstream_garbled"
    assert sent[-1]["type"] == "response.failed"


def test_a_delta_that_is_no_json_is_noticed_before_the_end_of_a_long_text() -> None:
    relayed, sent = relay(text_stream(["x", *MANY], None, None, None)[:-1])
    assert relayed.failed is not None
    assert relayed.failed.code == "upstream_garbled"
    assert sent[-1]["type"] == "response.failed"
    assert len(sent) < len(MANY)


def test_deltas_of_several_texts_are_told_apart() -> None:
    first, second = PLACE, {**PLACE, "content_index": 1}
    deltas = [event("output_text.delta", **place, delta=text) for text in "ab" for place in (first, second)]
    events = [
        *text_stream([], None, None, None)[:2],
        *deltas,
        event("output_text.done", **first, text="ab!"),
        event("output_text.done", **second, text="ab?"),
        event("completed", response=response("completed")),
    ]
    relayed, sent = relay(events, spaces=True)
    assert read_deltas(sent) == "aabb!?"
    assert relayed.failed is not None  # the last event before the end was inside a message


def test_events_without_numbers_get_none() -> None:
    relayed = ResponsesRelay(OwnResponse("m", response("in_progress")))
    sent = b""
    for each in text_stream(HALF, WHOLE, WHOLE, WHOLE):
        sent += relayed.feed(sse.encode_event(each["type"], orjson.dumps(each)))
    assert b'"delta":"42."' in sent
    assert b"sequence_number" not in sent


def test_an_event_that_cannot_be_numbered_is_sent_as_it_came() -> None:
    relayed = ResponsesRelay(OwnResponse("m", response("in_progress")))
    for number, each in enumerate(text_stream(HALF, WHOLE, None, None)[:-1]):
        relayed.feed(sse.encode_event(each["type"], orjson.dumps({**each, "sequence_number": number})))
    frame = sse.encode_event("response.new_thing", b'{"type":"response.new_thing"}')
    assert relayed.feed(frame) == frame
