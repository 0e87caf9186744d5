"""translation/gemini/upstream/decode.py"""

from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.unit.support.golden import GOLDEN, check_events, chunks_of, recordings
from tests.unit.support.translator_drivers import collect, counting_ids, decode, every_split
from tests.unit.translation.gemini.chunks import USAGE, call, chunk, text, thought
from translation.errors import ProtocolViolation
from translation.framing.sse import FrameDecoder
from translation.gemini.upstream.decode import GeminiDecoder
from translation.representation.events import Delta, Event, Failed, Finished, ItemEnded, Noted, Opaque, Started, Usage
from translation.representation.json_types import Item, Json


def decoded(*chunks: Json) -> list[Event]:
    return decode(GeminiDecoder(counting_ids()), chunks)


def items_of(*chunks: Json) -> list[Item]:
    return collect(decoded(*chunks))


def message(item_id: str, value: str, status: str = "completed", **part: Any) -> Item:
    content = {"type": "output_text", "text": value, "annotations": [], "logprobs": [], **part}
    return {"id": item_id, "type": "message", "status": status, "role": "assistant", "content": [content]}


def reasoning(item_id: str, said: str | None = None, *details: Json, **more: Any) -> Item:
    summary = [] if said is None else [{"type": "summary_text", "text": said}]
    item: Item = {"id": item_id, "type": "reasoning", "summary": summary, **more}
    return {**item, "details": list(details)} if details else item


def function_call(number: int, name: str, arguments: str, call_id: str) -> Item:
    return {
        "id": f"fc_{number}",
        "type": "function_call",
        "status": "completed",
        "call_id": call_id,
        "name": name,
        "arguments": arguments,
    }


IMAGE: Json = {"inlineData": {"mimeType": "image/png", "data": "QUJD"}}


def image(item_id: str) -> Item:
    result = {"status": "completed", "result": "QUJD", "output_format": "png"}
    return {"id": item_id, "type": "image_generation_call", **result}


def signed_call(call_id: str, signature: str = "s") -> Json:
    return {"type": "gemini.call", "call_id": call_id, "signature": signature}


def signed_text(signature: str = "s", *, empty: bool = False) -> Json:
    return {"type": "gemini.text", "thought": False, "empty": empty, "signature": signature}


@pytest.mark.parametrize("recording", recordings("gemini"), ids=lambda path: path.stem)
def test_published_streams_become_their_expected_events(recording: Path, update_golden: bool) -> None:
    check_events(recording, decoded(*chunks_of(recording.read_bytes())), update=update_golden)


@pytest.mark.parametrize("answer", sorted((GOLDEN / "gemini").glob("*.json")), ids=lambda path: path.stem)
def test_a_whole_answer_is_the_items_of_its_stream(answer: Path) -> None:
    streamed = collect(decoded(*chunks_of(answer.with_suffix(".sse").read_bytes())))
    whole = collect(decoded(orjson.loads(answer.read_bytes())))
    assert list(map(_item_text, whole)) == list(map(_item_text, streamed))


def _item_text(item: Item) -> tuple[str, str]:
    parts = [*(item.get("summary") or ()), *(item.get("content") or ())]
    return item["type"], "".join(part["text"] for part in parts) + item.get("arguments", "")


def test_a_stream_may_be_split_into_any_reads() -> None:
    wire = (GOLDEN / "gemini" / "published-text-then-call.sse").read_bytes()
    whole = _events_of([wire])
    for reads in every_split(wire):
        assert _events_of(reads) == whole


def _events_of(reads: list[bytes]) -> list[Event]:
    frames, decoder = FrameDecoder(), GeminiDecoder(counting_ids())
    events = [event for read in reads for event in decoder.decode_payloads(frames.parse_payloads(read))]
    return [*events, *decoder.decode_payloads([frame.payload for frame in frames.finish()]), *decoder.finish()]


ITEMS: dict[str, tuple[list[Json], list[Item]]] = {
    "text": (
        [chunk(text("Hel")), chunk(text("lo")), chunk(text(""), reason="STOP")],
        [message("msg_1", "Hello")],
    ),
    "thoughts are a summary": (
        [chunk(thought("Hm. ")), chunk(thought("Yes.")), chunk(text("Hello"), reason="STOP")],
        [reasoning("rs_1", "Hm. Yes."), message("msg_1", "Hello")],
    ),
    "thoughts again after text": (
        [chunk(thought("a"), text("b"), thought("c"), text("d"), reason="STOP")],
        [reasoning("rs_1", "a"), message("msg_1", "b"), reasoning("rs_2", "c"), message("msg_2", "d")],
    ),
    "a signed thought": (
        [chunk(thought("Hm.", "s"), text("Hello"), reason="STOP")],
        [reasoning("rs_1", "Hm.", {"type": "gemini.thought", "signature": "s"}), message("msg_1", "Hello")],
    ),
    "a signed thought without words": (
        [chunk(thought("", "s"), text("Hello"), reason="STOP")],
        [reasoning("rs_1", None, {"type": "gemini.thought", "signature": "s"}), message("msg_1", "Hello")],
    ),
    "a signed call has its signature in the reasoning before it": (
        [chunk(thought("Hm.")), chunk(call("f", {"a": 1}, "s", id="x"), reason="STOP")],
        [reasoning("rs_1", "Hm.", signed_call("x")), function_call(1, "f", '{"a":1}', "x")],
    ),
    "a signed call without thoughts has a reasoning of its own": (
        [chunk(call("f", {}, "s"), call("f", {}), reason="STOP")],
        [
            reasoning("rs_1", None, signed_call("tc_1")),
            function_call(1, "f", "{}", "tc_1"),
            function_call(2, "f", "{}", "tc_2"),
        ],
    ),
    "calls that are signed each": (
        [chunk(call("f", {}, "s"), call("g", {}, "t"), reason="STOP")],
        [
            reasoning("rs_1", None, signed_call("tc_1")),
            function_call(1, "f", "{}", "tc_1"),
            reasoning("rs_2", None, signed_call("tc_2", "t")),
            function_call(2, "g", "{}", "tc_2"),
        ],
    ),
    "a signed call after text": (
        [chunk(text("Let me see."), call("f", {}, "s"), reason="STOP")],
        [
            message("msg_1", "Let me see."),
            reasoning("rs_1", None, signed_call("tc_1")),
            function_call(1, "f", "{}", "tc_1"),
        ],
    ),
    "signed text": (
        [chunk(text("Hel")), chunk(text("lo", "s"), reason="STOP")],
        [message("msg_1", "Hello"), reasoning("rs_1", None, signed_text())],
    ),
    "a signature after the text": (
        [chunk(text("Hello")), chunk(text("", "s"), reason="STOP")],
        [message("msg_1", "Hello"), reasoning("rs_1", None, signed_text(empty=True))],
    ),
    "a signature after thoughts, and no text": (
        [chunk(thought("Hm.")), chunk(text("", "s"), reason="STOP")],
        [reasoning("rs_1", "Hm."), reasoning("rs_2", None, signed_text(empty=True))],
    ),
    "signed text, then a signed call": (
        [chunk(text("a", "t"), call("f", {}, "s"), reason="STOP")],
        [
            message("msg_1", "a"),
            reasoning("rs_1", None, signed_text("t"), signed_call("tc_1")),
            function_call(1, "f", "{}", "tc_1"),
        ],
    ),
    "calls of one id are distinguished": (
        [chunk(call("f", {}, id="x"), call("f", {}, id="x"), reason="STOP")],
        [function_call(1, "f", "{}", "x"), function_call(2, "f", "{}", "x__2")],
    ),
    "a call without arguments": (
        [chunk(call("f", id=7), reason="STOP")],
        [function_call(1, "f", "{}", "tc_1")],
    ),
    "arguments that are no object are preserved": (
        [chunk(call("f", [1]), reason="STOP")],
        [function_call(1, "f", "[1]", "tc_1")],
    ),
    "an image": (
        [chunk(text("Here:"), IMAGE, reason="STOP")],
        [message("msg_1", "Here:"), image("ig_1")],
    ),
    "a signed image has its signature in the reasoning before it": (
        [chunk(thought("Hm."), IMAGE | {"thoughtSignature": "s"}, reason="STOP")],
        [reasoning("rs_1", "Hm.", {"type": "gemini.image", "signature": "s"}), image("ig_1")],
    ),
    "an image of the thinking is no answer": (
        [chunk(thought("Hm."), IMAGE | {"thought": True}, thought("Yes.")), chunk(IMAGE, reason="STOP")],
        [reasoning("rs_1", "Hm.Yes."), image("ig_1")],
    ),
    "a sound of the thinking is no answer": (
        [chunk({"inlineData": {"mimeType": "audio/pcm", "data": ""}, "thought": True}, text("a"), reason="STOP")],
        [message("msg_1", "a")],
    ),
    "a signed image of the thinking": (
        [chunk(text("a"), IMAGE | {"thought": True, "thoughtSignature": "s"}, text("b"), reason="STOP")],
        [
            message("msg_1", "a"),
            reasoning("rs_1", None, {"type": "gemini.thought", "signature": "s"}),
            message("msg_2", "b"),
        ],
    ),
    "text cut at its length": (
        [chunk(text("Hel"), reason="MAX_TOKENS")],
        [message("msg_1", "Hel", "incomplete")],
    ),
    "thoughts cut at their length": (
        [chunk(thought("Hm", "s"), reason="MAX_TOKENS")],
        [reasoning("rs_1", "Hm", {"type": "gemini.thought", "signature": "s"}, status="incomplete")],
    ),
    "another candidate is left alone": (
        [
            {"candidates": [{"index": 1, "content": {"parts": [text("no")]}}, *chunk(text("a"))["candidates"]]},
            chunk(reason="STOP"),
        ],
        [message("msg_1", "a")],
    ),
    "nothing at all": ([chunk(reason="STOP", content={"role": "model"})], []),
    "a signature that is none": ([chunk({"text": "a", "thoughtSignature": 7}, reason="STOP")], [message("msg_1", "a")]),
}


@pytest.mark.parametrize(("chunks", "expected"), ITEMS.values(), ids=ITEMS)
def test_chunks_add_up_to_items(chunks: list[Json], expected: list[Item]) -> None:
    assert items_of(*chunks) == expected


REASONS = {
    "STOP": ("stop", "completed"),
    "MAX_TOKENS": ("length", "incomplete"),
    "SAFETY": ("content_filter", "incomplete"),
    "RECITATION": ("content_filter", "incomplete"),
    "PROHIBITED_CONTENT": ("content_filter", "incomplete"),
    "SOMETHING_NEW": ("other", "completed"),
}


@pytest.mark.parametrize(("value", "meant"), REASONS.items(), ids=REASONS)
def test_finish_reasons_are_mapped(value: str, meant: tuple[str, str]) -> None:
    events = decoded(chunk(text("a"), reason=value))
    assert events[-1] == Finished(meant[0], value)  # type: ignore[arg-type]
    assert [event.status for event in events if isinstance(event, ItemEnded)] == [meant[1]]


@pytest.mark.parametrize(("message", "explanation"), [("Not this.", "Not this."), ("", None), (7, None)])
def test_an_end_has_the_words_of_the_upstream(message: Any, explanation: str | None) -> None:
    cut = chunk(text("a"), reason="RECITATION")
    cut["candidates"][0]["finishMessage"] = message
    assert decoded(cut)[-1] == Finished("content_filter", "RECITATION", explanation=explanation)


@pytest.mark.parametrize(
    ("part", "end"), [(call("f", {}), Finished("tool_calls", "STOP")), (text("a"), Finished("stop", "STOP"))]
)
def test_an_answer_that_was_not_cut_off_has_no_words_on_its_end(part: Json, end: Finished) -> None:
    ended = chunk(part, reason="STOP")
    ended["candidates"][0]["finishMessage"] = "Model generated function call(s)."
    assert decoded(ended)[-1] == end


def test_an_end_for_an_unknown_reason_without_an_answer_is_a_failure() -> None:
    message = "the upstream sent no output and ended with an unknown finish reason: SOMETHING_NEW"
    empty = chunk(reason="SOMETHING_NEW", content={"role": "model"}, usage=USAGE)
    assert decoded(empty)[-1] == Failed("upstream_error", message, usage=Usage(input=9, output=3, raw=USAGE))


@pytest.mark.parametrize(
    ("args", "text"),
    [({}, "{}"), (None, "{}"), ([], "[]"), ([1], "[1]"), ("", "{}"), ('{"x":', '{"x":'), (0, "0"), (False, "false")],
)
def test_arguments_that_are_no_object_are_preserved_unchanged(args: Any, text: str) -> None:
    [made] = items_of(chunk({"functionCall": {"name": "f", "args": args}}, reason="STOP"))
    assert made["arguments"] == text


def test_a_turn_with_calls_ends_in_calls() -> None:
    assert decoded(chunk(call("f", {}), reason="STOP"))[-1] == Finished("tool_calls", "STOP")


def test_the_turn_starts_once_and_usage_is_read_from_every_chunk() -> None:
    events = decoded(chunk(text("a"), usage=USAGE), chunk(reason="STOP", usage=USAGE))
    counted = Usage(input=9, output=3, raw=USAGE)
    assert events[0] == Started("m-1", "r")
    assert [event for event in events if isinstance(event, Started | Noted)] == [
        Started("m-1", "r"),
        Noted(usage=counted),
        Noted(usage=counted),
    ]
    assert events[-1] == Finished("stop", "STOP", counted)


def test_probabilities_are_sent_once_per_chunk() -> None:
    chosen = {"token": "a", "logProbability": -0.5}
    said = chunk(text("a"), text("b"), reason="STOP", logprobsResult={"chosenCandidates": [chosen]})
    deltas = [event for event in decoded(said) if isinstance(event, Delta)]
    assert [bool(delta.logprobs) for delta in deltas] == [True, False]


GROUNDING: Json = {
    "groundingChunks": [{"web": {"uri": "https://a", "title": "A"}}],
    "groundingSupports": [{"segment": {"endIndex": 7}, "groundingChunkIndices": [0]}],
}
CITED = {"type": "url_citation", "url": "https://a", "title": "A", "start_index": 0, "end_index": 5}


def test_sources_before_the_end_are_citations_of_the_whole_text() -> None:
    [found] = items_of(chunk(text("Grü"), groundingMetadata=GROUNDING), chunk(text("ße!"), reason="STOP"))
    assert found == message("msg_1", "Grüße!", annotations=[CITED])


def test_sources_after_the_text_are_citations_of_it() -> None:
    [found, _] = items_of(chunk(text("Grüße")), chunk(text("", "s"), reason="STOP", groundingMetadata=GROUNDING))
    assert found == message("msg_1", "Grüße", annotations=[CITED])


def test_the_queries_of_a_reply_are_one_search_after_its_text() -> None:
    pages = [*GROUNDING["groundingChunks"], {"web": {"uri": "https://b"}}, {"maps": {"uri": "https://c"}}, {"web": 7}]
    searched = {**GROUNDING, "groundingChunks": pages, "webSearchQueries": ["who", "", 7, "when"]}
    answer, search = items_of(
        chunk(text("Grüße"), groundingMetadata={"webSearchQueries": ["who"]}),
        chunk(text(""), reason="MAX_TOKENS", groundingMetadata=searched),
    )
    assert answer["status"] == "incomplete"
    assert search == {
        "id": "ws_1",
        "type": "web_search_call",
        "status": "completed",
        "action": {
            "type": "search",
            "query": "who; when",
            "queries": ["who", "when"],
            "sources": [
                {"type": "url", "url": "https://a", "title": "A"},
                {"type": "url", "url": "https://b"},
            ],
        },
        "details": [{"type": "gemini.search"}],
    }


@pytest.mark.parametrize("metadata", [{}, 7, {"webSearchQueries": 7}, {"webSearchQueries": []}], ids=str)
def test_a_reply_without_a_query_has_no_search(metadata: Any) -> None:
    assert len(items_of(chunk(text("a"), reason="STOP", groundingMetadata=metadata))) == 1


def test_output_of_geminis_own_tools_is_forwarded_unparsed() -> None:
    ran = {"executableCode": {"language": "PYTHON", "code": "1"}}
    assert Opaque("gemini", ran) in decoded(chunk(ran, reason="STOP"))


FAILURES: dict[str, tuple[list[Json], str]] = {
    "no end": ([chunk(text("a"))], "upstream_truncated"),
    "nothing": ([], "upstream_truncated"),
    "a call that is none": ([chunk(text("a")), chunk(reason="MALFORMED_FUNCTION_CALL")], "upstream_error"),
    "a call without a name": ([chunk({"functionCall": {"args": {}}}, text("b"))], "upstream_garbled"),
    "a sound": ([chunk({"inlineData": {"mimeType": "audio/pcm", "data": ""}})], "upstream_error"),
    "an image without data": ([chunk({"inlineData": {"mimeType": "image/png"}})], "upstream_error"),
    "an error in the middle": ([chunk(text("a")), {"error": {"status": "UNAVAILABLE"}}], "upstream_overloaded"),
    "a blocked prompt": ([{"promptFeedback": {"blockReason": "SAFETY"}}], "invalid_prompt"),
}


@pytest.mark.parametrize(("chunks", "code"), FAILURES.values(), ids=FAILURES)
def test_an_invalid_reply_fails(chunks: list[Json], code: str) -> None:
    last = decoded(*chunks)[-1]
    assert isinstance(last, Failed)
    assert last.code == code


def test_the_decoder_knows_when_the_answer_is_complete() -> None:
    decoder = GeminiDecoder(counting_ids())
    decoder.feed(chunk(text("a")))
    assert not decoder.is_complete
    decoder.feed(chunk(reason="STOP"))
    assert decoder.is_complete


def test_a_failure_has_the_usage_before_it() -> None:
    last = decoded(chunk(text("a"), usage=USAGE))[-1]
    assert isinstance(last, Failed)
    assert last.usage == Usage(input=9, output=3, raw=USAGE)


def test_after_the_end_nothing_is_read() -> None:
    decoder = GeminiDecoder(counting_ids())
    assert decoder.feed({"error": {"message": "boom"}}) == [Failed("upstream_error", "boom")]
    assert decoder.feed(chunk(text("a"))) == []
    assert decoder.finish() == []


VIOLATIONS: dict[str, Any] = {
    "no object": [1],
    "no answer": {"id": "x"},
    "candidates that are no list": {"candidates": {"content": 1}},
    "a candidate that is no object": {"candidates": [1]},
    "a part that is no object": chunk("a"),
}


@pytest.mark.parametrize("value", VIOLATIONS.values(), ids=VIOLATIONS)
def test_data_outside_the_protocol_is_refused(value: Any) -> None:
    with pytest.raises(ProtocolViolation):
        GeminiDecoder(counting_ids()).feed(value)


ODD_CONTENTS: list[Any] = [1, "text", [], {"parts": 1}, {"parts": "text"}, {"parts": {"text": "a"}}]
ODD_PARTS: list[Any] = [{"text": 1}, {"text": ["a"]}, {"functionCall": "f"}, {"functionCall": []}]
ODD_CONTENTS += [{"parts": [part]} for part in ODD_PARTS]


@pytest.mark.parametrize("content", ODD_CONTENTS, ids=repr)
def test_content_of_a_wrong_type_breaks_the_protocol(content: Any) -> None:
    with pytest.raises(ProtocolViolation):
        decoded({"candidates": [{"content": content}]})


def test_other_values_of_wrong_types_are_ignored() -> None:
    odd = {"candidates": [{"content": {"parts": None}}], "promptFeedback": {}, "usageMetadata": 7}
    assert [type(event) for event in decoded(odd, {"candidates": None}, chunk(reason="STOP"))] == [Started, Finished]


def test_bytes_and_parsed_chunks_are_decoded_equally() -> None:
    decoder = GeminiDecoder(counting_ids())
    assert decoder.decode_payloads([orjson.dumps(chunk(text("a")))]) == GeminiDecoder(counting_ids()).feed(
        chunk(text("a"))
    )
    with pytest.raises(orjson.JSONDecodeError):
        decoder.decode_payloads([b"{"])


def test_another_candidate_is_reported_once_as_output_that_is_not_shown() -> None:
    other = {"index": 1, "content": {"parts": [text("no")]}}
    events = decoded({"candidates": [other, *chunk(text("a"))["candidates"], other]}, {"candidates": [other]})
    assert [event.payload for event in events if isinstance(event, Opaque)] == [{"type": "candidate"}]
    assert [event.text for event in events if isinstance(event, Delta)] == ["a"]


def test_nothing_is_read_after_a_candidate_that_failed() -> None:
    broken = {**chunk(text("a"))["candidates"][0], "finishReason": "MALFORMED_FUNCTION_CALL"}
    events = decoded({"candidates": [broken, {"index": 1, "content": {"parts": [text("no")]}}]})
    assert isinstance(events[-1], Failed)
    assert not any(isinstance(event, Opaque) for event in events)


def test_images_of_the_thinking_are_reported_without_their_bytes() -> None:
    events = decoded(chunk(IMAGE | {"thought": True}, IMAGE, reason="STOP"))
    reports = [event for event in events if isinstance(event, Opaque)]
    assert [(report.payload, report.is_output) for report in reports] == [({"type": "thought_image"}, True)]
