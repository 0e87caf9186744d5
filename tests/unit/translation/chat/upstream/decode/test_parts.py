"""Decodes content in parts, and images and audio beside the content."""

from typing import Any

import orjson
import pytest

from tests.unit.support.chat_chunks import chunk, completion, text_chunk, thought
from tests.unit.support.translator_drivers import collect, counting_ids, decode
from tests.unit.translation.chat.upstream.decode.decoded_texts import texts
from translation.chat.reply_objects import IMAGE_ITEM
from translation.chat.upstream.decode import ChatDecoder
from translation.representation.events import Delta, Event, Opaque
from translation.representation.json_types import Json
from translation.representation.profile import Profile

IMAGE: Json = {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}}
REMOTE: Json = {"type": "image_url", "image_url": {"url": "https://e.org/a.png"}}
PICTURE: Json = {
    "id": "ig_1",
    "type": IMAGE_ITEM,
    "status": "completed",
    "result": "aGk=",
    "output_format": "png",
}
TEXT: Json = {"type": "text", "text": "yes"}


def events_of(*chunks: Json, profile: Profile | None = None) -> list[Event]:
    return decode(ChatDecoder(counting_ids(), profile or Profile()), [*chunks, chunk(finish="stop")])


def opaque_of(events: list[Event]) -> list[Event]:
    return [event for event in events if isinstance(event, Opaque)]


@pytest.mark.parametrize(
    "delta", [{"images": [IMAGE]}, {"content": [IMAGE]}, {"content": IMAGE}], ids=["images", "parts", "one part"]
)
def test_an_image_is_an_item_after_the_text_and_the_reasoning_before_it(delta: Json) -> None:
    chunks = [text_chunk("see"), chunk(delta), thought("hm"), chunk(delta), text_chunk("yes")]
    found = collect(events_of(*chunks, profile=Profile(parsing_format="think_tags")))
    assert [item if item["type"] == IMAGE_ITEM else item["content"][0]["text"] for item in found] == [
        "see",
        PICTURE,
        "hm",
        {**PICTURE, "id": "ig_2"},
        "yes",
    ]


@pytest.mark.parametrize(
    ("profile", "held", "before"),
    [
        (Profile(parsing_format="think_tags"), "a <thi", ["a <thi"]),
        (Profile(parsing_format="leading_think_tags"), " <rea", ["<rea"]),
        (Profile(parsing_format="think_tags"), "<think>a </th", ["a </th"]),
        (Profile(text_tool_calls="hermes"), "a <tool_c", ["a <tool_c"]),
        (Profile(text_tool_calls="hermes"), 'a <tool_call>{"name": "f", ', ["a"]),
    ],
    ids=["a tag", "a leading tag", "a closing tag", "the tag of a call", "a call that is not complete"],
)
@pytest.mark.parametrize("delta", [{"images": [IMAGE]}, {"content": [IMAGE]}], ids=["images", "parts"])
def test_the_beginning_of_a_tag_stays_before_an_image(
    profile: Profile, held: str, before: list[str], delta: Json
) -> None:
    tools: list[Json] = [{"type": "function", "name": "f", "parameters": {"type": "object", "properties": {}}}]
    chunks = [text_chunk(held), chunk(delta), text_chunk("yes"), chunk(finish="stop")]
    found = collect(decode(ChatDecoder(counting_ids(), profile, tools), chunks))
    shown = ["image" if item["type"] == IMAGE_ITEM else item["content"][0]["text"].strip() for item in found]
    assert shown == [*before, "image", "yes"]


@pytest.mark.parametrize(
    ("delta", "kinds"),
    [
        ({"refusal": "no"}, ["message"]),
        (
            {"tool_calls": [{"index": 0, "id": "c", "function": {"name": "f", "arguments": "{}"}}]},
            ["message", "function_call"],
        ),
    ],
    ids=["a refusal", "a call"],
)
def test_the_beginning_of_a_tag_stays_before_other_output(delta: Json, kinds: list[str]) -> None:
    found = collect(events_of(text_chunk("a <thi"), chunk(delta), profile=Profile(parsing_format="think_tags")))
    assert [item["type"] for item in found] == kinds
    assert found[0]["content"][0]["text"] == "a <thi"


@pytest.mark.parametrize("delta", [{"images": [REMOTE, None]}, {"content": [REMOTE, {"type": "image_url"}]}])
def test_an_image_without_its_data_is_output_that_no_item_holds(delta: Json) -> None:
    events = events_of(chunk(delta), text_chunk("yes"))
    assert opaque_of(events) == [Opaque("chat", {"type": "image_url"}, is_output=True)] * 2
    assert texts(events) == [("message", "yes")]


def test_spoken_output_is_reported_once() -> None:
    events = events_of(*(chunk({"audio": audio}) for audio in ({}, "x", {"id": "a"}, {"data": "aGk="})))
    assert opaque_of(events) == [Opaque("chat", {"type": "audio"}, is_output=True)]


LINK: Json = {"type": "url_citation", "url_citation": {"url": "https://e.org", "start_index": 0, "end_index": 3}}
SOURCES: dict[str, tuple[Json, Json, list[str]]] = {
    "addresses": ({"citations": ["https://e.org"]}, {}, ["citations"]),
    "pages, and their addresses": (
        {"search_results": [{"url": "https://e.org"}], "citations": ["https://e.org"]},
        {},
        ["citations", "search_results"],
    ),
    "none": ({"citations": [], "search_results": None}, {}, []),
    "addresses that annotations have too": ({"citations": ["https://e.org"]}, {"annotations": [LINK]}, []),
}


@pytest.mark.parametrize("whole", [False, True], ids=["streamed", "whole"])
@pytest.mark.parametrize(("listed", "more", "kinds"), SOURCES.values(), ids=SOURCES)
def test_sources_beside_the_message_are_output_that_no_item_holds(
    listed: Json, more: Json, kinds: list[str], whole: bool
) -> None:
    message = {"content": "yes", **more}
    chunks = [completion(message) | listed] if whole else [chunk(message) | listed, text_chunk("!") | listed]
    assert opaque_of(events_of(*chunks)) == [Opaque("chat", {"type": kind}, is_output=True) for kind in kinds]


@pytest.mark.parametrize("place", range(4))
def test_sources_in_any_chunk_of_a_stream_are_reported(place: int) -> None:
    chunks = [chunk({"role": "assistant", "content": "y"}), text_chunk("e"), text_chunk("s"), chunk(finish="stop")]
    chunks[place] |= {"citations": ["https://e.org"]}
    reported = [Opaque("chat", {"type": "citations"}, is_output=True)]
    assert opaque_of(decode(ChatDecoder(counting_ids()), chunks)) == reported
    payloads = ChatDecoder(counting_ids())
    events = [*payloads.decode_payloads([orjson.dumps(each) for each in chunks]), *payloads.finish()]
    assert opaque_of(events) == reported


def test_sources_of_an_empty_answer_are_not_reported() -> None:
    assert opaque_of(events_of(chunk({"content": ""}) | {"citations": ["https://e.org"]})) == []


PARTS: dict[str, tuple[Any, list[tuple[str, str]]]] = {
    "texts of both names": ([TEXT, {"type": "output_text", "text": "!"}], [("message", "yes!")]),
    "strings": (["yes", "!"], [("message", "yes!")]),
    "thinking before the text": (
        [{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}, TEXT],
        [("reasoning", "hm"), ("message", "yes")],
    ),
    "something else is no text": ([None, TEXT], [("message", "yes")]),
}


@pytest.mark.parametrize("whole", [False, True], ids=["streamed", "whole"])
@pytest.mark.parametrize(("content", "expected"), PARTS.values(), ids=PARTS)
def test_parts_are_read_by_their_kind(content: Any, expected: list[tuple[str, str]], whole: bool) -> None:
    reply = completion({"content": content}) if whole else chunk({"content": content})
    assert texts(events_of(reply)) == expected


def test_thinking_in_parts_is_not_read_beside_reasoning_in_a_field() -> None:
    part = {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}
    assert texts(events_of(chunk({"reasoning": "hm", "content": [part, TEXT]}))) == [
        ("reasoning", "hm"),
        ("message", "yes"),
    ]


def test_a_refusal_in_parts_is_a_refusal() -> None:
    (item,) = collect(events_of(chunk({"content": [{"type": "refusal", "refusal": "no"}]})))
    assert item["content"] == [{"type": "refusal", "refusal": "no"}]


def test_a_part_of_an_unknown_kind_is_output_that_no_item_holds() -> None:
    part = {"type": "video", "id": "v"}
    assert opaque_of(events_of(chunk({"content": [part, TEXT]}))) == [Opaque("chat", part, is_output=True)]


def test_a_field_of_reasoning_that_no_other_test_names_is_reasoning() -> None:
    """What is kept for each set of fields is worked out here, whatever ran before."""
    profile = Profile(reasoning_fields=("musings",))
    events = decode(ChatDecoder(counting_ids(), profile), [chunk({"musings": "Hm"}), chunk(finish="stop")])
    assert [event.text for event in events if isinstance(event, Delta)] == ["Hm"]
