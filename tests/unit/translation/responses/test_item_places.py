"""Responses streams whose numbers of items and parts are not those of their final output, as vLLM has sent them.

Texts and items belong together in their order then: no text is lost, doubled, or taken for a contradiction.
"""

from time import thread_time
from typing import Any

import orjson
import pytest

from tests.unit.support.translator_drivers import counting_ids
from translation.errors import ProtocolViolation
from translation.framing import sse
from translation.representation.events import Delta, Event, Failed, Finished, ItemEnded, ItemStarted, PartStarted
from translation.responses.item_places import StreamedItem, find_places
from translation.responses.relaying.relay import ResponsesRelay
from translation.responses.relaying.whole_response import OwnResponse
from translation.responses.upstream.decode import ResponsesDecoder

Json = dict[str, Any]
CREATED: Json = {
    "type": "response.created",
    "response": {"id": "r", "object": "response", "status": "in_progress", "model": "u", "output": []},
}


def event(kind: str, index: int | None = None, number: int | None = None, /, **fields: Any) -> Json:
    numbers = {"output_index": index, "content_index": number, **fields}
    return {"type": f"response.{kind}", **{key: value for key, value in numbers.items() if value is not None}}


def text_part(text: str, key: str = "text") -> Json:
    return {"type": "refusal" if key == "refusal" else "output_text", key: text}


def message(*texts: str | Json, item_id: str = "m", **fields: Any) -> Json:
    parts = [text_part(text) if isinstance(text, str) else text for text in texts]
    return {"type": "message", "id": item_id, "role": "assistant", "status": "completed", "content": parts} | fields


def thinking(*texts: str, item_id: str = "t") -> Json:
    content = [{"type": "reasoning_text", "text": text} for text in texts]
    return {"type": "reasoning", "id": item_id, "summary": [], "content": content}


def call(arguments: str, item_id: str = "f") -> Json:
    return {"type": "function_call", "id": item_id, "call_id": "c", "name": "look_up", "arguments": arguments}


def start(index: int, item: Json) -> Json:
    emptied = {key: type(item[key])() for key in ("content", "arguments") if key in item}
    return event("output_item.added", index, item={**item, **emptied})


def done(index: int, item: Json) -> Json:
    return event("output_item.done", index, item=item)


def end(*output: Json, status: str = "completed") -> Json:
    reason = {"incomplete_details": {"reason": "max_output_tokens"}} if status == "incomplete" else {}
    return event(status, response={**CREATED["response"], "status": status, "output": [*output], **reason})


def deltas(index: int, *pieces: tuple[int, str], kind: str = "output_text") -> list[Json]:
    return [event(f"{kind}.delta", index, part, delta=text) for part, text in pieces]


def parts(index: int, part: int, text: str) -> list[Json]:
    """Returns the events that end a text and its part."""
    return [
        event("output_text.done", index, part, text=text),
        event("content_part.done", index, part, part=text_part(text)),
    ]


def announced(index: int, part: int) -> Json:
    return event("content_part.added", index, part, part=text_part(""))


def call_events(pieces: list[str], final: str, index: int = 0, *, ended: str | None = None) -> list[Json]:
    return [
        start(index, call("")),
        *(event("function_call_arguments.delta", index, delta=piece) for piece in pieces),
        *([] if ended is None else [event("function_call_arguments.done", index, arguments=ended)]),
        done(index, call(final)),
        end(call(final)),
    ]


THOUGHT = [start(0, thinking()), *deltas(0, (0, "Hm."), kind="reasoning_text"), done(0, thinking("Hm."))]
LATE = [start(1, thinking()), *deltas(1, (0, "Hm."), kind="reasoning_text"), done(1, thinking("Hm."))]
OUTPUT = (thinking("Hm."), message("Hello"))
NEW_IDS = (thinking("Hm.", item_id="u"), message("Hello", item_id="n"))

SAME: dict[str, list[Json]] = {
    "parts counted over the response": [
        *THOUGHT,
        start(1, message()),
        announced(1, 1),
        *deltas(1, (1, "Hel"), (1, "lo")),
        *parts(1, 1, "Hello"),
        done(1, message("Hello")),
        end(*OUTPUT),
    ],
    "parts counted over the response, without their ends": [
        *THOUGHT,
        start(1, message()),
        *deltas(1, (1, "Hel"), (1, "lo")),
        done(1, message("Hello")),
        end(*OUTPUT),
    ],
    "more at the end of a part counted over the response": [
        *THOUGHT,
        start(1, message()),
        *deltas(1, (1, "Hel")),
        done(1, message("Hello")),
        end(*OUTPUT),
    ],
    "two parts counted over the response": [
        *THOUGHT,
        start(1, message()),
        *deltas(1, (1, "Hel"), (2, "l")),
        done(1, message("Hel", "lo")),
        end(thinking("Hm."), message("Hel", "lo")),
    ],
    "a number for each delta": [
        start(0, message()),
        announced(0, 0),
        *deltas(0, (1, "Hel"), (2, "l"), (3, "o")),
        event("output_text.done", 0, 4, text="Hello"),
        event("content_part.done", 0, 5, part=text_part("Hello")),
        done(0, message("Hello")),
        end(message("Hello", item_id="n")),
    ],
    "a number for each delta, and no part before them": [
        start(0, message()),
        *deltas(0, (1, "Hel"), (2, "l"), (3, "o")),
        event("output_text.done", 0, 4, text="Hello"),
        event("content_part.done", 0, 5, part=text_part("Hello")),
        done(0, message("Hello")),
        end(message("Hello", item_id="n")),
    ],
    "a number for each delta, and more at the end": [
        start(0, message()),
        *deltas(0, (1, "Hel"), (2, "l")),
        done(0, message("Hello")),
        end(message("Hello")),
    ],
    "a number for each delta, and white space that is trimmed": [
        start(0, message()),
        *deltas(0, (1, "Hel"), (2, "lo"), (3, "\n")),
        done(0, message("Hello")),
        end(message("Hello")),
    ],
    "an item added at the index of the one before it": [
        *THOUGHT,
        start(0, message(item_id="old")),
        announced(1, 0),
        *deltas(1, (1, "Hel"), (2, "lo")),
        event("output_text.done", 1, 3, text="Hello"),
        event("content_part.done", 1, 4, part=text_part("Hello")),
        done(1, message("Hello")),
        end(*NEW_IDS),
    ],
    "items counted from 1, and all ended": [
        *LATE,
        start(2, message()),
        *deltas(2, (1, "Hel"), (1, "lo")),
        done(2, message("Hello")),
        end(*NEW_IDS),
    ],
    "items counted from 1, and the last one cut off": [
        *LATE,
        start(2, message()),
        *deltas(2, (1, "Hel"), (1, "lo")),
        end(*NEW_IDS, status="incomplete"),
    ],
    "two messages counted from 1, and the last one cut off": [
        start(1, message()),
        *deltas(1, (1, "Hm")),
        done(1, message("Hm")),
        start(2, message()),
        *deltas(2, (2, "Hello")),
        end(message("Hm", item_id="u"), message("Hello", item_id="n"), status="incomplete"),
    ],
    "two messages, and the last one cut off": [
        start(0, message()),
        *deltas(0, (0, "Hm")),
        done(0, message("Hm")),
        start(1, message()),
        *deltas(1, (0, "Hel")),
        end(message("Hm", item_id="u"), message("Hello", item_id="n"), status="incomplete"),
    ],
    "items counted from 1, with the same ids": [
        *LATE,
        start(2, message()),
        *deltas(2, (1, "Hel")),
        end(*OUTPUT, status="incomplete"),
    ],
    "a refusal after the text": [
        start(0, message()),
        *deltas(0, (1, "Hel")),
        *deltas(0, (2, "lo"), kind="refusal"),
        done(0, message("Hel", text_part("lo", "refusal"))),
        end(message("Hel", text_part("lo", "refusal"))),
    ],
    "parts in another order": [
        start(0, message()),
        *deltas(0, (1, "Hel")),
        done(0, message("", "Hel")),
        end(message("", "Hel")),
    ],
    "an empty part more than at the end": [
        start(0, message()),
        announced(0, 1),
        *deltas(0, (1, "Hel"), (1, "lo")),
        announced(0, 2),
        done(0, message("Hello")),
        end(message("Hello")),
    ],
    "a number for each delta, and no end of the item": [
        start(0, message()),
        *deltas(0, (1, "Hel"), (2, "l")),
        end(message("Hello")),
    ],
    "an item that ends without its text": [
        start(0, message()),
        *deltas(0, (1, "Hel"), (1, "lo")),
        done(0, message()),
        end(message("Hello")),
    ],
    "no index of the item": [
        event("output_text.delta", delta="Hello"),
        end(message("Hello")),
    ],
}

OTHER: dict[str, list[Json]] = {
    "a part counted over the response": [
        *THOUGHT,
        start(1, message()),
        *deltas(1, (1, "Hel")),
        done(1, message("Bye")),
        end(thinking("Hm."), message("Bye")),
    ],
    "a number for each delta": [start(0, message()), *deltas(0, (1, "Hel"), (2, "x")), done(0, message("Hello"))],
    "more after the end of the last number": [
        start(0, message()),
        *deltas(0, (1, "Hel"), (2, "l")),
        *parts(0, 2, "l"),
        done(0, message("Hello")),
    ],
    "more texts than parts": [
        start(0, message()),
        *deltas(0, (1, "a"), (2, "b"), (3, "c")),
        done(0, message("a", "b")),
    ],
    "the output, where each delta has a number": [
        start(0, message()),
        *deltas(0, (1, "Hel"), (2, "lo")),
        done(0, message("Hello")),
        end(message("Bye", item_id="n")),
    ],
    "the output of items counted from 1": [
        *LATE,
        start(2, message()),
        *deltas(2, (1, "Hel")),
        end(thinking("Hm.", item_id="u"), message("Bye", item_id="n"), status="incomplete"),
    ],
    "no item of its type": [*LATE, start(2, message()), *deltas(2, (1, "Hel")), end(thinking("Hm."))],
    "arguments": call_events(['{"a":1}'], '{"a":2}'),
}

CALLS: dict[str, list[Json]] = {
    "escapes": call_events(['{"b":"', '\\u00e9"}'], '{"b":"é"}', ended='{"b":"é"}'),
    "the order of keys": call_events(['{"a":1,', '"b":2}'], '{"b":2,"a":1}', ended='{"b":2,"a":1}'),
    "only in the item": call_events(['{"a":1,', '"b":2}'], '{"b":2,"a":1}'),
    "only in the output": [
        *call_events(['{"a":1,', '"b":2}'], "")[:-2],
        end(call('{"b":2,"a":1}')),
    ],
}


def relay(events: list[Json], *, is_stored: bool) -> tuple[ResponsesRelay, list[Json]]:
    relayed = ResponsesRelay(OwnResponse("m", CREATED["response"], is_stored))
    sent = b"".join(
        relayed.feed(sse.encode_event(each["type"], orjson.dumps({**each, "sequence_number": number})))
        for number, each in enumerate([CREATED, *events])
    )
    sent += relayed.finish() + relayed.conclude()
    return relayed, [
        orjson.loads(frame.partition(b"\ndata: ")[2]) for frame in sent.split(b"\n\n") if frame.startswith(b"event")
    ]


def decode(events: list[Json]) -> list[Event]:
    decoder = ResponsesDecoder(counting_ids())
    decoded = [each for chunk in [CREATED, *events] for each in decoder.feed(chunk)]
    return decoded + decoder.finish()


def relayed_text(sent: list[Json]) -> str:
    kinds = ("response.output_text.delta", "response.refusal.delta", "response.function_call_arguments.delta")
    return "".join(each["delta"] for each in sent if each["type"] in kinds)


def decoded_text(events: list[Event]) -> str:
    kinds = {each.index: each.item["type"] for each in events if isinstance(each, ItemStarted)}
    return "".join(each.text for each in events if isinstance(each, Delta) and kinds[each.index] != "reasoning")


def expected_text(events: list[Json]) -> str:
    output = events[-1]["response"]["output"]
    content = [part for item in output if item["type"] == "message" for part in item["content"]]
    return "".join(part.get("text", "") + part.get("refusal", "") for part in content)


@pytest.mark.parametrize("is_stored", [False, True], ids=["unstored", "stored"])
@pytest.mark.parametrize("events", SAME.values(), ids=SAME)
def test_a_relay_takes(events: list[Json], *, is_stored: bool) -> None:
    relayed, sent = relay(events, is_stored=is_stored)
    assert relayed.failed is None
    assert sent[-1]["type"] == events[-1]["type"]
    assert relayed_text(sent) == expected_text(events) or relayed_text(sent).strip() == expected_text(events)
    assert [each["sequence_number"] for each in sent] == list(range(len(sent)))
    output = sent[-1]["response"]["output"]
    assert [item["type"] for item in output] == [item["type"] for item in events[-1]["response"]["output"]]


@pytest.mark.parametrize("events", SAME.values(), ids=SAME)
def test_a_decoder_takes(events: list[Json]) -> None:
    decoded = decode(events)
    assert isinstance(decoded[-1], Finished)
    assert decoded_text(decoded).strip() == expected_text(events)
    items = [each.item["type"] for each in decoded if isinstance(each, ItemStarted)]
    assert items == [item["type"] for item in events[-1]["response"]["output"]]
    assert sum(isinstance(each, ItemEnded) for each in decoded) == len(items)


def test_a_part_that_was_announced_takes_deltas_with_other_numbers() -> None:
    decoded = decode(SAME["a number for each delta"])
    assert sum(isinstance(each, PartStarted) for each in decoded) == 1


@pytest.mark.parametrize("events", OTHER.values(), ids=OTHER)
def test_a_contradiction_fails_in(events: list[Json]) -> None:
    relayed, sent = relay(events, is_stored=False)
    assert relayed.failed is not None
    assert relayed.failed.code == "upstream_garbled"
    assert sent[-1]["type"] == "response.failed"
    with pytest.raises(ProtocolViolation, match=r"differs|lacks"):
        decode(events)


@pytest.mark.parametrize("events", CALLS.values(), ids=CALLS)
def test_arguments_may_be_written_in_another_way(events: list[Json]) -> None:
    streamed = "".join(each["delta"] for each in events if each["type"].endswith(".delta"))
    relayed, sent = relay(events, is_stored=False)
    assert relayed.failed is None
    assert relayed_text(sent) == streamed
    decoded = decode(events)
    assert not any(isinstance(each, Failed) for each in decoded)
    assert decoded_text(decoded) == streamed


def test_thinking_with_a_number_for_each_delta_is_not_doubled() -> None:
    whole = thinking("Hm hm.")
    events = [start(0, thinking()), *deltas(0, (1, "Hm"), (2, " hm."), kind="reasoning_text"), done(0, whole)]
    decoded = decode([*events, end(whole)])
    assert "".join(each.text for each in decoded if isinstance(each, Delta)) == "Hm hm."


MORE_PARTS: dict[str, list[Json]] = {
    "a part that had no deltas": [
        start(0, message()),
        *deltas(0, (2, "Hel"), (3, "l")),
        done(0, message("Hel", "l", "o")),
        end(message("Hel", "l", "o")),
    ],
    "a call at the index of the item before it": [
        *THOUGHT,
        start(0, call("")),
        *deltas(1, (0, "Hello")),
        done(1, message("Hello")),
        end(*OUTPUT),
    ],
    "an item that only the output has": [*LATE, end(*OUTPUT)],
}


@pytest.mark.parametrize("events", MORE_PARTS.values(), ids=MORE_PARTS)
def test_a_decoder_adds(events: list[Json]) -> None:
    assert decoded_text(decode(events)) == "Hello"


PLACES: dict[str, tuple[list[Json], list[StreamedItem], list[int | None]]] = {
    "by id": ([message(item_id="a"), message(item_id="b")], [StreamedItem(0, "message", "b")], [1]),
    "by index": ([message(item_id="a"), message(item_id="b")], [StreamedItem(1, "message", "c")], [1]),
    "by order": (
        [thinking(), message()],
        [StreamedItem(1, "reasoning", None), StreamedItem(2, "message", None)],
        [0, 1],
    ),
    "an id of another type": ([thinking(item_id="a")], [StreamedItem(0, "message", "a")], [None]),
    "an id twice": (
        [message(item_id="a")],
        [StreamedItem(0, "message", "a"), StreamedItem(1, "message", "a")],
        [0, None],
    ),
    "too many": ([message()], [StreamedItem(3, "message", None), StreamedItem(4, "message", None)], [0, None]),
}


@pytest.mark.parametrize(("output", "streamed", "places"), PLACES.values(), ids=PLACES)
def test_places_are_found(output: list[Json], streamed: list[StreamedItem], places: list[int | None]) -> None:
    found = find_places(output, streamed)
    assert [found.get(item) for item in streamed] == places


def test_many_items_without_ids_are_placed_in_little_time() -> None:
    output = [thinking("a", item_id="") for _ in range(8_000)]
    streamed = [StreamedItem(index + 1, "reasoning", None) for index in range(8_000)]
    started = thread_time()
    places = find_places(output, streamed)
    assert thread_time() - started < 1.0
    assert [places[item] for item in streamed] == list(range(8_000))
