"""A final value without text stands for what was streamed: in the events, and in what the client gets of them."""

from itertools import product
from typing import Any, NamedTuple

import pytest

from tests.unit.support.responses_streams import CITATION
from tests.unit.support.stream_checks.responses_order import check_order, read_stream
from tests.unit.support.translator_drivers import collect, feed_to_end
from tests.unit.translation.responses.decoded_responses import CREATED, added, decoded, delta, done, native
from translation.errors import ProtocolViolation
from translation.representation.events import Delta, Event, ItemEnded, ItemStarted, PartEnded, PartStarted
from translation.representation.json_types import Item, Json
from translation.responses.client.encode import ResponsesEncoder
from translation.responses.client.initial_response import new_response
from translation.responses.client.snapshot import Snapshot

HEAD = new_response({"model": "m", "input": "hi"}, response_id="resp_1", created_at=100, model="m")
ABSENT: Any = object()
BLANKS: dict[str, Any] = {"absent": ABSENT, "null": None, "empty": "", "white space": " \n\t"}
NO_PARTS: dict[str, Any] = {"absent": ABSENT, "null": None, "an empty list": []}
BLANK_CASES = pytest.mark.parametrize("blank", BLANKS.values(), ids=BLANKS)


def put(whole: Json, key: str, value: Any) -> Json:
    """Returns an object with a value, or without it."""
    rest = {each: whole[each] for each in whole if each != key}
    return rest if value is ABSENT else {**rest, key: value}


def encode(events: list[Event]) -> list[Json]:
    stream = read_stream(feed_to_end(ResponsesEncoder(HEAD, lambda: 105), events))
    check_order(stream)
    return stream


def completed(*output: Item) -> Json:
    return native("completed", response={"status": "completed", "output": [*output]})


OWN_TEXTS: dict[str, tuple[Item, str, str]] = {
    # the item, the name of its events, its text
    "arguments": (
        {"type": "function_call", "id": "i", "call_id": "c", "name": "f", "arguments": ""},
        "function_call_arguments",
        '{"a":1}',
    ),
    "input": (
        {"type": "custom_tool_call", "id": "i", "call_id": "c", "name": "f", "input": ""},
        "custom_tool_call_input",
        "PATCH",
    ),
    "MCP arguments": (
        {"type": "mcp_call", "id": "i", "server_label": "s", "name": "f", "arguments": ""},
        "mcp_call_arguments",
        '{"a":1}',
    ),
    "code": ({"type": "code_interpreter_call", "id": "i", "code": ""}, "code_interpreter_call_code", "print(1)"),
}


@BLANK_CASES
@pytest.mark.parametrize(("item", "name", "text"), OWN_TEXTS.values(), ids=OWN_TEXTS)
def test_a_blank_final_text_of_an_item_stands_for_the_streamed_one(
    item: Item, name: str, text: str, blank: Any
) -> None:
    key = next(key for key in ("arguments", "input", "code") if key in item)
    pieces = [native(f"{name}.delta", output_index=0, item_id="i", delta=piece) for piece in (text[:3], text[3:])]
    text_end = native(f"{name}.done", output_index=0, item_id="i")
    final_texts: list[list[Any]] = [[], [blank], [text]]
    for at_text, at_item, at_end in product(final_texts, final_texts, final_texts[1:]):
        ends = [put(text_end, key, final) for final in at_text] + [done(put(item, key, final)) for final in at_item]
        check_own_text(decoded(CREATED, added(item), *pieces, *ends, completed(put(item, key, at_end[0]))), key, text)


def check_own_text(events: list[Event], key: str, text: str) -> None:
    """Checks that the events, the stream and the snapshot have this text of one item, once."""
    assert "".join(event.text for event in events if isinstance(event, Delta)) == text
    [part_end] = [event for event in events if isinstance(event, PartEnded)]
    assert part_end.part in (None, {key: text})
    [end] = [event for event in events if isinstance(event, ItemEnded)]
    assert end.item is not None
    assert end.item[key] == text
    stream = encode(events)
    assert [event[key] for event in stream if event["type"].endswith(".done") and key in event] == [text]
    assert stream[-1]["response"]["output"][0][key] == text
    snapshot = Snapshot(HEAD, lambda: 105)
    snapshot.feed(events)
    assert snapshot.result()["output"][0][key] == text


def test_a_call_without_streamed_arguments_has_none() -> None:
    call = OWN_TEXTS["arguments"][0]
    events = decoded(CREATED, added(call), done(call), completed(call))
    assert encode(events)[-1]["response"]["output"][0]["arguments"] == "{}"


class Parts(NamedTuple):
    """A kind of parts: their item, the key of the list, their type, their text key and the names of their events."""

    item: Item
    list_key: str
    part_type: str
    text_key: str
    text_events: str
    part_events: str

    def build(self, *texts: Any) -> Item:
        """Returns the whole item with parts of these texts."""
        extra: Json = {"annotations": []} if self.part_type == "output_text" else {}
        parts = [put({"type": self.part_type, **extra}, self.text_key, text) for text in texts]
        return {**self.item, self.list_key: parts}

    def place(self, number: int) -> Json:
        position_key = "summary_index" if self.list_key == "summary" else "content_index"
        return {"output_index": 0, "item_id": "i", position_key: number}

    def stream(self, *texts: str, is_announced: bool = True) -> list[Json]:
        chunks = [added(put(self.item, "content", []) if "content" in self.item else self.item)]
        for number, text in enumerate(texts):
            part = self.build("")[self.list_key][0]
            if is_announced:
                chunks.append(native(f"{self.part_events}.added", **self.place(number), part=part))
            chunks.append(native(f"{self.text_events}.delta", **self.place(number), delta=text))
        return chunks


MESSAGE: Item = {"type": "message", "id": "i", "role": "assistant", "status": "completed", "content": []}
REASONING: Item = {"type": "reasoning", "id": "i", "summary": []}
PARTS = {
    "text": Parts(MESSAGE, "content", "output_text", "text", "output_text", "content_part"),
    "refusal": Parts(MESSAGE, "content", "refusal", "refusal", "refusal", "content_part"),
    "thinking": Parts(REASONING, "content", "reasoning_text", "text", "reasoning_text", "content_part"),
    "summary": Parts(REASONING, "summary", "summary_text", "text", "reasoning_summary_text", "reasoning_summary_part"),
}
PART_CASES = pytest.mark.parametrize("parts", PARTS.values(), ids=PARTS)


def check_texts(parts: Parts, events: list[Event], *texts: str) -> None:
    """Checks that the events, the stream and the snapshot have these parts, each once."""
    whole = parts.build(*texts)[parts.list_key]
    assert sum(isinstance(event, PartStarted) for event in events) == len(texts)
    assert "".join(event.text for event in events if isinstance(event, Delta)) == "".join(texts)
    ends = [event.part for event in events if isinstance(event, PartEnded)]
    assert [end or part for end, part in zip(ends, whole, strict=True)] == whole
    [end] = [event for event in events if isinstance(event, ItemEnded)]
    assert end.item is not None
    assert end.item[parts.list_key] == whole
    stream = encode(events)
    sent = [event[parts.text_key] for event in stream if event["type"] == f"response.{parts.text_events}.done"]
    assert sent == [*texts]
    assert stream[-1]["response"]["output"][0][parts.list_key] == whole
    snapshot = Snapshot(HEAD, lambda: 105)
    snapshot.feed(events)
    assert snapshot.result()["output"][0][parts.list_key] == whole


@BLANK_CASES
@PART_CASES
def test_a_blank_final_text_of_a_part_stands_for_the_streamed_one(parts: Parts, blank: Any) -> None:
    place = parts.place(0)
    part = parts.build(blank)[parts.list_key][0]
    ends: dict[str, Json] = {
        "text": put(native(f"{parts.text_events}.done", **place), parts.text_key, blank),
        "part": native(f"{parts.part_events}.done", **place, part=part),
        "item": done(parts.build(blank)),
    }
    for is_announced, *chosen in product((True, False), (True, False), (True, False), (True, False)):
        sent = [end for end, is_sent in zip(ends.values(), chosen, strict=True) if is_sent]
        stream = parts.stream("Hello", is_announced=is_announced)
        check_texts(parts, decoded(CREATED, *stream, *sent, completed(parts.build(blank))), "Hello")


@pytest.mark.parametrize("final", NO_PARTS.values(), ids=NO_PARTS)
@PART_CASES
def test_a_final_item_without_parts_has_the_streamed_ones(parts: Parts, final: Any) -> None:
    whole = put(parts.item, parts.list_key, final)
    part = parts.build("Hello")[parts.list_key][0]
    part_end = native(f"{parts.part_events}.done", **parts.place(0), part=part)
    for ends in ([done(whole)], [part_end, done(whole)], []):
        events = decoded(CREATED, *parts.stream("Hello"), *ends, completed(whole))
        check_texts(parts, events, "Hello")


@PART_CASES
def test_streamed_parts_keep_their_order(parts: Parts) -> None:
    for final, is_done in product((parts.item, parts.build(""), parts.build("", " ")), (True, False)):
        ends = [done(final)] if is_done else []
        check_texts(parts, decoded(CREATED, *parts.stream("Hel", "lo"), *ends, completed(final)), "Hel", "lo")


def test_text_and_refusal_keep_their_order() -> None:
    text, refusal = PARTS["text"], PARTS["refusal"]
    chunks = [*text.stream("Hello"), native("refusal.delta", **refusal.place(1), delta="No.")]
    events = decoded(CREATED, *chunks, done(MESSAGE), completed(MESSAGE))
    expected = [text.build("Hello")["content"][0], {"type": "refusal", "refusal": "No."}]
    assert collect(events)[0]["content"] == expected
    assert encode(events)[-1]["response"]["output"][0]["content"] == expected


def test_a_summary_stays_where_only_the_content_has_text() -> None:
    thinking, summary = PARTS["thinking"], PARTS["summary"]
    chunks = [*thinking.stream("Hm."), native("reasoning_summary_text.delta", **summary.place(0), delta="Short.")]
    final = thinking.build("Hm.")
    events = decoded(CREATED, *chunks, done(final), completed(final))
    assert collect(events) == [{**final, "summary": [{"type": "summary_text", "text": "Short."}]}]


@pytest.mark.parametrize("form", ["no parts", "no text", "no citations"])
def test_streamed_citations_stay_with_the_text(form: str) -> None:
    final = {"no parts": MESSAGE, "no text": PARTS["text"].build(""), "no citations": PARTS["text"].build("Hello")}
    cited = native("output_text.annotation.added", **PARTS["text"].place(0), annotation=CITATION)
    events = decoded(CREATED, *PARTS["text"].stream("Hello"), cited, done(final[form]), completed(final[form]))
    [part] = collect(events)[0]["content"]
    assert (part["text"], part["annotations"]) == ("Hello", [CITATION])


def test_white_space_alone_is_a_text() -> None:
    text = PARTS["text"]
    events = decoded(CREATED, added(MESSAGE), done(text.build(" \n")), completed(text.build(" \n")))
    assert [event.text for event in events if isinstance(event, Delta)] == [" \n"]
    empty = decoded(CREATED, *text.stream(" \n"), done(MESSAGE), completed(MESSAGE))
    assert collect(empty)[0]["content"] == []


def test_a_part_of_an_unknown_type_does_not_stand_for_the_streamed_text() -> None:
    final = {**MESSAGE, "content": [{"type": "hologram"}]}
    with pytest.raises(ProtocolViolation, match="lacks a part"):
        decoded(CREATED, *PARTS["text"].stream("Hel", "lo"), done(final))


STARTS: dict[str, tuple[Item, Item]] = {
    "reasoning": ({"type": "reasoning", "id": "i"}, {"type": "reasoning", "id": "i", "summary": []}),
    "reasoning with nulls": (
        {"type": "reasoning", "id": "i", "summary": None, "content": None, "encrypted_content": None},
        {"type": "reasoning", "id": "i", "summary": []},
    ),
    "a message": (
        {"type": "message", "id": "i"},
        {"type": "message", "id": "i", "role": "assistant", "content": []},
    ),
    "a message with nulls": (
        {"type": "message", "id": "i", "role": None, "content": None},
        {"type": "message", "id": "i", "role": "assistant", "content": []},
    ),
}


@pytest.mark.parametrize(("start", "expected"), STARTS.values(), ids=STARTS)
def test_a_started_item_has_the_lists_that_the_api_requires(start: Item, expected: Item) -> None:
    events = decoded(CREATED, added(start), done(start), completed(start))
    assert [event.item for event in events if isinstance(event, ItemStarted | ItemEnded)] == [expected, expected]
    alone = decoded(CREATED, completed(start))
    assert [event.item for event in alone if isinstance(event, ItemStarted | ItemEnded)] == [expected, expected]


@pytest.mark.parametrize("annotations", NO_PARTS.values(), ids=NO_PARTS)
def test_a_text_has_annotations_from_its_beginning_to_its_end(annotations: Any) -> None:
    place = PARTS["text"].place(0)
    part, whole = (put({"type": "output_text", "text": text}, "annotations", annotations) for text in ("", "Hello"))
    item = {**MESSAGE, "content": [whole]}
    events = decoded(
        CREATED,
        added(MESSAGE),
        native("content_part.added", **place, part=part),
        delta("Hello"),
        native("content_part.done", **place, part=whole),
        done(item),
        completed(item),
    )
    parts = [event.part for event in events if isinstance(event, PartStarted | PartEnded)]
    assert parts == [{**part, "annotations": []}, {**whole, "annotations": []}]
    assert collect(events)[0]["content"] == [{**whole, "annotations": []}]
    for event in encode(events):
        shown = event.get("part") or next(iter(event.get("item", {}).get("content", ())), None)
        assert shown is None or shown["annotations"] == []
