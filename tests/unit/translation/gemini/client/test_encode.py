"""Encodes events as replies of Gemini's API, streamed and whole: cases that the recordings do not have."""

import re
from collections.abc import Callable, Sequence
from typing import Any

import orjson
import pytest

from tests.unit.support.stream_checks.gemini_order import check_content_reply, check_content_stream, read_chunks
from tests.unit.support.stream_checks.gemini_sdks import SDK_READERS, SdkError
from tests.unit.support.translator_drivers import feed_to_end
from tests.unit.translation.gemini.client.test_encode_golden import HEAD, build_error
from translation.gemini.client.collect import ContentCollector
from translation.gemini.client.encode import GeminiEncoder
from translation.gemini.client.gemini_errors import build_status_body
from translation.gemini.client.reply_objects import build_usage_metadata, shows_thoughts, wants_logprobs
from translation.gemini.client.signatures import unpack_signature
from translation.gemini.client.value_replies import ValueForm
from translation.representation.events import (
    Annotated,
    Delta,
    Event,
    Failed,
    Finished,
    ItemEnded,
    ItemStarted,
    Noted,
    Opaque,
    PartEnded,
    PartStarted,
    Progressed,
    Started,
    Usage,
)
from translation.representation.item_seal import ItemSeal

Json = dict[str, Any]


class PlainSeal:
    """A seal that marks data instead of encrypting it."""

    def may_need_seal(self, _payload: bytes) -> bool:
        return True

    def seal_added_item(self, item: Json) -> Json:
        return item

    def seal_done_item(self, item: Json) -> Json:
        return {**item, "encrypted_content": f"rgr-{item['id']}"} if item["type"] != "message" else item


def text_item(index: int, text: str, *, kind: str = "message", annotation: Json | None = None) -> list[Event]:
    part = {"type": "output_text", "text": "", "annotations": []}
    item: Json = {"id": f"i{index}", "type": kind, "role": "assistant", "content": []}
    if kind == "reasoning":
        part, item = {"type": "reasoning_text", "text": ""}, {"id": f"i{index}", "type": kind, "summary": []}
    cited: list[Event] = [] if annotation is None else [Annotated(index, 0, annotation)]
    return [
        ItemStarted(index, item),
        PartStarted(index, 0, part),
        Delta(index, 0, text),
        *cited,
        PartEnded(index, 0),
        ItemEnded(index),
    ]


def call_item(index: int, arguments: str) -> list[Event]:
    item = {"id": f"i{index}", "type": "function_call", "call_id": "c1", "name": "f", "arguments": ""}
    return [ItemStarted(index, item), Delta(index, None, arguments), PartEnded(index, None), ItemEnded(index)]


def whole_item(index: int, item: Json) -> list[Event]:
    return [ItemStarted(index, item), ItemEnded(index, item)]


def both_ways(
    *events: Event,
    thoughts: bool = False,
    logprobs: bool = False,
    value_form: ValueForm | None = None,
    seal: ItemSeal | None = None,
) -> Json:
    """The candidate of a reply to these events, which is the same streamed and collected."""
    batch = [Started(model="u"), *events]
    if not isinstance(batch[-1], Finished):
        batch.append(Finished("stop", "stop"))
    encoder = GeminiEncoder(
        HEAD,
        form="events",
        thoughts=thoughts,
        logprobs=logprobs,
        value_form=value_form,
        build_error=build_error,
        seal=seal,
    )
    collector = ContentCollector(HEAD, thoughts=thoughts, value_form=value_form, seal=seal)
    collector.feed(batch)
    streamed = check_content_stream(feed_to_end(encoder, batch))
    whole = check_content_reply(orjson.loads(orjson.dumps(collector.result())))
    collected: Json = whole["candidates"][0]
    if "logprobsResult" in collected:
        del collected["logprobsResult"]["topCandidates"]
    assert streamed["candidates"] == [collected]
    return collected


def parts_of(candidate: Json) -> list[Json]:
    parts: list[Json] = candidate["content"]["parts"]
    return parts


def test_seals_are_on_the_part_after_the_thought() -> None:
    parts = parts_of(
        both_ways(
            *text_item(0, "Hm.", kind="reasoning"),
            *text_item(1, "Hi"),
            *text_item(2, "So.", kind="reasoning"),
            *call_item(3, '{"a":1}'),
            *text_item(4, "End.", kind="reasoning"),
            thoughts=True,
            seal=PlainSeal(),
        )
    )
    assert [part.get("thought", False) for part in parts] == [True, False, True, False, True, False]
    carried = [unpack_signature(part.get("thoughtSignature")) for part in parts]
    assert [(*each.thoughts, each.call) for each in carried] == [
        (None,),
        ("rgr-i0", None),
        (None,),
        ("rgr-i2", "rgr-i3"),
        (None,),
        ("rgr-i4", None),
    ]
    assert parts[3]["functionCall"] == {"id": "c1", "name": "f", "args": {"a": 1}}
    assert parts[5]["text"] == ""


def test_a_value_is_sent_once_it_is_whole() -> None:
    thought = text_item(0, "Hm.", kind="reasoning")
    parts = parts_of(both_ways(*thought, *text_item(1, '{"value":"red"}'), thoughts=True, value_form="text"))
    assert parts == [{"text": "Hm.", "thought": True}, {"text": "red"}]


@pytest.mark.parametrize(("arguments", "fault"), [("{", "not valid JSON"), ("[1]", "not an object")])
def test_a_call_whose_arguments_are_no_object_is_left_out_and_reported(arguments: str, fault: str) -> None:
    candidate = both_ways(*call_item(0, arguments), Finished("tool_calls", "tool_calls"))
    assert candidate["finishReason"] == "MALFORMED_FUNCTION_CALL"
    assert fault in candidate["finishMessage"]
    assert parts_of(candidate) == [{"text": ""}]


ENDS = [
    ("stop", "stop", "STOP"),
    ("tool_calls", "tool_calls", "STOP"),
    ("other", "eos", "STOP"),
    ("length", "length", "MAX_TOKENS"),
    ("content_filter", "refusal", "SAFETY"),
    ("content_filter", "RECITATION", "RECITATION"),
]


@pytest.mark.parametrize(("reason", "raw", "finish"), ENDS)
def test_finish_reasons_have_their_names(reason: Any, raw: str, finish: str) -> None:
    assert both_ways(*text_item(0, "Hi"), Finished(reason, raw))["finishReason"] == finish


def test_what_a_reply_lacks_is_in_its_message() -> None:
    candidate = both_ways(*text_item(0, "Hi"), Finished("other", "eos", lacks=("output.audio", "output.video")))
    assert candidate["finishMessage"] == (
        "The upstream's finish reason is not known: eos. "
        "Losses of this reply: output.audio=not reported, output.video=not reported"
    )
    lacking = both_ways(*text_item(0, "Hi"), Finished("stop", lacks=("output.audio",)))
    assert lacking["finishMessage"] == "Losses of this reply: output.audio=not reported"


def test_the_words_of_the_upstream_are_in_the_message() -> None:
    explained = Finished("content_filter", "RECITATION", lacks=("output.audio",), explanation="As in a book")
    candidate = both_ways(*text_item(0, "Hi"), explained)
    assert (candidate["finishReason"], candidate["finishMessage"]) == (
        "RECITATION",
        "As in a book. Losses of this reply: output.audio=not reported",
    )


def test_a_call_that_was_cut_off_is_no_malformed_call() -> None:
    assert both_ways(*call_item(0, '{"a'), Finished("length", "length"))["finishReason"] == "MAX_TOKENS"


def test_a_call_without_arguments_has_none() -> None:
    assert parts_of(both_ways(*call_item(0, "")))[0]["functionCall"]["args"] == {}


def test_citations_are_grounding_with_offsets_in_bytes() -> None:
    url: Json = {"type": "url_citation", "url": "https://a.example", "start_index": 1, "end_index": 2}
    candidate = both_ways(
        *text_item(0, "é"),
        *text_item(1, "üx", annotation=url),
        *text_item(2, "y", annotation={**url, "title": "A", "start_index": 0, "end_index": 1}),
        *text_item(3, "z", annotation={"type": "file_citation"}),
    )
    assert candidate["groundingMetadata"] == {
        "groundingChunks": [{"web": {"uri": "https://a.example", "title": "A"}}],
        "groundingSupports": [
            {"segment": {"startIndex": 4, "endIndex": 5, "text": "x"}, "groundingChunkIndices": [0]},
            {"segment": {"startIndex": 5, "endIndex": 6, "text": "y"}, "groundingChunkIndices": [0]},
        ],
    }


def test_searches_are_grounding_with_their_pages() -> None:
    sources = [{"type": "url", "url": "https://a.example"}, {"type": "url", "url": "https://b.example", "title": "B"}]
    searches: list[Json] = [
        {"status": "completed", "action": {"type": "search", "query": "who", "sources": sources}},
        {"status": "completed", "action": {"type": "search", "query": "", "queries": ["when", "where"]}},
        {"status": "completed", "action": {"type": "open_page", "url": "https://c.example"}},
        {"status": "failed", "action": {"type": "search", "query": "why"}},
    ]
    candidate = both_ways(
        *(
            event
            for index, search in enumerate(searches)
            for event in whole_item(index, {"id": f"i{index}", "type": "web_search_call", **search})
        )
    )
    assert candidate["groundingMetadata"] == {
        "webSearchQueries": ["who", "when", "where"],
        "groundingChunks": [
            {"web": {"uri": "https://a.example", "title": "https://a.example"}},
            {"web": {"uri": "https://b.example", "title": "B"}},
        ],
    }


def test_images_of_the_upstream_are_parts_and_other_items_are_nothing() -> None:
    image = {"id": "i0", "type": "image_generation_call", "result": "AAAA", "output_format": "jpeg"}
    nothing = {"id": "i1", "type": "image_generation_call", "result": None}
    search = {"id": "i2", "type": "web_search_call"}
    searched: list[Event] = [ItemStarted(2, search), Progressed(2, "searching"), ItemEnded(2)]
    candidate = both_ways(*whole_item(0, image), *whole_item(1, nothing), *searched, *text_item(3, ""))
    assert parts_of(candidate) == [{"inlineData": {"mimeType": "image/jpeg", "data": "AAAA"}}]


def test_texts_without_deltas_are_written_once() -> None:
    thought = {"id": "i0", "type": "reasoning", "summary": [{"type": "summary_text", "text": "Hm."}]}
    message: Json = {"id": "i1", "type": "message", "role": "assistant", "content": []}
    part = {"type": "output_text", "text": "Hi", "annotations": []}
    events = [
        *whole_item(0, thought),
        ItemStarted(1, message),
        PartStarted(1, 0, part),
        PartEnded(1, 0, part),
        PartStarted(1, 1, {**part, "text": ""}),
        PartEnded(1, 1, {**part, "text": "!"}),
        ItemEnded(1),
    ]
    assert parts_of(both_ways(*events, thoughts=True)) == [{"text": "Hm.", "thought": True}, {"text": "Hi!"}]


def test_paragraphs_of_a_thought_are_apart() -> None:
    item: Json = {"id": "i0", "type": "reasoning", "summary": []}
    events: list[Event] = [ItemStarted(0, item)]
    for index in (0, 1):
        part = {"type": "summary_text", "text": ""}
        events += [PartStarted(0, index, part), Delta(0, index, f"{index}"), Delta(0, index, "."), PartEnded(0, index)]
    assert parts_of(both_ways(*events, ItemEnded(0), thoughts=True)) == [{"text": "0.\n\n1.", "thought": True}]


def test_log_probabilities_are_with_their_text() -> None:
    entry = {"token": "H", "logprob": -0.5, "top_logprobs": [{"token": "J", "logprob": -2.0}]}
    started, part, *_, part_ended, ended = text_item(0, "Hi")
    deltas = [Delta(0, 0, "H", [entry]), Delta(0, 0, "i", [{**entry, "token": "i"}]), Delta(0, 0, "!")]
    candidate = both_ways(started, part, *deltas, part_ended, ended, logprobs=True)
    assert parts_of(candidate) == [{"text": "Hi!"}]
    assert candidate["logprobsResult"]["chosenCandidates"] == [
        {"token": "H", "logProbability": -0.5},
        {"token": "i", "logProbability": -0.5},
    ]


def test_counts_are_those_that_are_known() -> None:
    assert build_usage_metadata(None) == {}
    assert build_usage_metadata(Usage(input=5)) == {"promptTokenCount": 5}
    whole = Usage(10, 8, cache_read=4, reasoning=3, raw={"toolUsePromptTokenCount": 2})
    assert build_usage_metadata(whole) == {
        "promptTokenCount": 8,
        "candidatesTokenCount": 5,
        "thoughtsTokenCount": 3,
        "cachedContentTokenCount": 4,
        "toolUsePromptTokenCount": 2,
        "totalTokenCount": 18,
    }


FAILED: list[Event] = [
    *text_item(0, "Hi")[:3],
    Noted(usage=Usage(1, 1)),
    Opaque("x", {}),
    Failed("upstream_error", "no"),
]


def write_events(events: list[Event]) -> bytes:
    return feed_to_end(GeminiEncoder(HEAD, form="events", thoughts=False, build_error=build_error), events)


def cut_after(wire: bytes, delimiter: bytes) -> list[bytes]:
    """Cuts a stream into reads that end with the delimiter."""
    return [piece for piece in re.split(b"(?<=%b)" % re.escape(delimiter), wire) if piece]


READS: dict[str, Callable[[bytes], list[bytes]]] = {
    "one read": lambda wire: [wire],
    "a read for each frame": lambda wire: cut_after(wire, b"\n\n"),
    "reads that end after a brace": lambda wire: cut_after(wire, b"}"),
    "a read for each byte": lambda wire: [bytes([byte]) for byte in wire],
}


@pytest.mark.parametrize("cut", READS.values(), ids=READS)
@pytest.mark.parametrize("read", SDK_READERS.values(), ids=SDK_READERS)
def test_every_sdk_raises_for_a_stream_that_fails_however_it_arrives(
    read: Callable[[Sequence[bytes]], list[Any]], cut: Callable[[bytes], list[bytes]]
) -> None:
    with pytest.raises(SdkError):
        read(cut(write_events(FAILED)))
    with pytest.raises(SdkError):
        read(cut(write_events(FAILED[-1:])))


@pytest.mark.parametrize("cut", READS.values(), ids=READS)
@pytest.mark.parametrize("name", ["JavaScript", "Python", "Go"])
def test_the_newest_sdks_raise_the_status_of_the_failure(name: str, cut: Callable[[bytes], list[bytes]]) -> None:
    with pytest.raises(SdkError) as raised:
        SDK_READERS[name](cut(write_events(FAILED)))
    assert raised.value.code == 502


@pytest.mark.parametrize("cut", READS.values(), ids=READS)
@pytest.mark.parametrize("read", SDK_READERS.values(), ids=SDK_READERS)
def test_no_sdk_raises_for_a_stream_that_ends(
    read: Callable[[Sequence[bytes]], list[Any]], cut: Callable[[bytes], list[bytes]]
) -> None:
    wire = write_events([*text_item(0, "Hi"), Finished("stop")])
    assert read(cut(wire)) == read_chunks(wire)


def test_a_failure_ends_a_stream_in_the_form_that_sdks_raise_on() -> None:
    failed = FAILED
    wire = write_events(failed)
    assert read_chunks(wire)[-1]["error"]["message"] == "no"
    array = GeminiEncoder(HEAD, form="array", thoughts=False, build_error=build_error)
    assert orjson.loads(feed_to_end(array, failed))[-1]["error"]["status"] == "INTERNAL"
    at_once = GeminiEncoder(HEAD, form="array", thoughts=False, build_error=build_error)
    assert len(orjson.loads(feed_to_end(at_once, [Failed("upstream_error", "no")]))) == 1


def test_the_end_is_written_once() -> None:
    encoder = GeminiEncoder(HEAD, form="array", thoughts=False, build_error=build_error)
    assert encoder.conclude() == b""
    batch: list[Event] = [Started(model="u"), Finished("stop", "stop")]
    assert orjson.loads(feed_to_end(encoder, batch))
    assert encoder.conclude() == b""


def test_an_unfinished_turn_has_no_reply() -> None:
    with pytest.raises(ValueError, match="not finished"):
        ContentCollector(HEAD, thoughts=False).result()


def test_the_stream_form_follows_the_request() -> None:
    assert not shows_thoughts({})
    assert shows_thoughts({"generationConfig": {"thinkingConfig": {"includeThoughts": True}}})
    assert not wants_logprobs({"generationConfig": {}})
    assert wants_logprobs({"generationConfig": {"responseLogprobs": True}})


def test_errors_have_the_known_details() -> None:
    assert build_status_body("no", status=418) == {"error": {"code": 418, "message": "no", "status": "INTERNAL"}}
    kinds = build_status_body("no", status=429, code="a", param="b", retry_after="3")["error"]["details"]
    assert [kind["@type"].rpartition(".")[2] for kind in kinds] == ["ErrorInfo", "BadRequest", "RetryInfo"]
    assert "details" not in build_status_body("no", status=429, retry_after="Mon, 23 Nov 2026")["error"]
