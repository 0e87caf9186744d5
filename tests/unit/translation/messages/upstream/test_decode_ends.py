"""Decodes ends, failures and counts of the Messages API."""

from typing import Any

import orjson
import pytest

from tests.unit.support.translator_drivers import counting_ids
from tests.unit.translation.messages.upstream.decoded_items import RUN, events_of, items_of, message_item
from tests.upstream.anthropic import (
    block,
    call_block,
    closing,
    message,
    opening,
    text_block,
    text_deltas,
    text_events,
    thinking_block,
    thought,
)
from translation.decoding.usage import read_message_usage
from translation.encoding.visible_output import UNREPORTED_FACT
from translation.errors import ProtocolViolation
from translation.messages.upstream.decode import AnthropicDecoder, failure_in
from translation.representation.events import Delta, Failed, Finished, Noted, Opaque, Usage
from translation.representation.json_types import Json
from translation.representation.loss import DROPPED_THINKING

REASONS = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "content_filter",
    "pause_turn": "length",
}


@pytest.mark.parametrize(("word", "reason"), REASONS.items())
def test_stop_reasons_become_finish_reasons(word: str, reason: str) -> None:
    for chunks in ([opening(), *closing(word)], [message(stop_reason=word)]):
        *_, finished = events_of(*chunks)
        assert isinstance(finished, Finished)
        assert (finished.reason, finished.raw_reason) == (reason, word)


def test_a_turn_that_was_paused_is_not_complete() -> None:
    items = items_of(opening(), *block(0, text_block(), *text_deltas("a")), *closing("pause_turn"))
    assert items == [message_item("a", "incomplete")]


def test_an_unknown_stop_reason_is_reported_after_the_answer() -> None:
    *_, finished = events_of(opening(), *block(0, text_block(), *text_deltas("a")), *closing("something_new"))
    assert isinstance(finished, Finished)
    assert (finished.reason, finished.raw_reason) == ("other", "something_new")


@pytest.mark.parametrize("chunks", [[opening(), *closing("something_new")], [message(stop_reason="something_new")]])
def test_an_unknown_stop_reason_without_an_answer_is_a_failure(chunks: list[Json]) -> None:
    *_, failed = events_of(*chunks)
    assert isinstance(failed, Failed)
    assert (failed.code, failed.message) == (
        "upstream_error",
        "the upstream sent no output and ended with an unknown finish reason: something_new",
    )
    assert failed.usage is not None


def test_a_turn_with_calls_finishes_with_tool_calls() -> None:
    *_, finished = events_of(opening(), *block(0, call_block("f")), *closing("end_turn"))
    assert isinstance(finished, Finished)
    assert finished.reason == "tool_calls"


def test_a_whole_message_without_a_reason_is_whole() -> None:
    *_, finished = events_of(message(stop_reason=None))
    assert isinstance(finished, Finished)
    assert (finished.reason, finished.raw_reason) == ("stop", None)


@pytest.mark.parametrize("end", [[{"type": "message_stop"}], closing(None)], ids=["without an end", "with null"])
@pytest.mark.parametrize("content", [[], block(0, text_block(), *text_deltas("a"))], ids=["empty", "with text"])
def test_a_stream_that_stops_without_a_reason_is_truncated(content: list[Json], end: list[Json]) -> None:
    *_, failed = events_of(opening(), *content, *end)
    assert isinstance(failed, Failed)
    assert failed.code == "upstream_truncated"


def test_a_stream_that_broke_off_after_its_reason_is_whole() -> None:
    *_, finished = events_of(*text_events("a")[:-1])
    assert isinstance(finished, Finished)


@pytest.mark.parametrize("kept", range(6))
def test_a_stream_without_a_reason_has_failed(kept: int) -> None:
    *_, failed = events_of(*text_events("a", "b")[:kept])
    assert isinstance(failed, Failed)
    assert failed.code == "upstream_truncated"


def test_the_first_reason_counts() -> None:
    later = {"type": "message_delta", "delta": {"stop_reason": None}}
    *_, finished = events_of(opening(), *closing("refusal")[:-1], later, *closing("end_turn"))
    assert isinstance(finished, Finished)
    assert finished.raw_reason == "refusal"


EXPLANATIONS: dict[str, tuple[Any, str | None]] = {
    "a category and an explanation": ({"category": "cyber", "explanation": "Not this."}, "cyber: Not this."),
    "an explanation": ({"category": None, "explanation": "Not this."}, "Not this."),
    "neither": ({"category": None, "explanation": 7}, None),
    "no details": (None, None),
}


@pytest.mark.parametrize(("details", "explanation"), EXPLANATIONS.values(), ids=EXPLANATIONS)
def test_a_refusal_has_the_words_of_the_upstream(details: Any, explanation: str | None) -> None:
    refused = {"type": "message_delta", "delta": {"stop_reason": "refusal", "stop_details": details}}
    whole = {**message(stop_reason="refusal"), "stop_details": details}
    for chunks in ([opening(), refused], [whole]):
        *events, finished = events_of(*chunks)
        facts = [event.facts or {} for event in events if isinstance(event, Noted)]
        noted = [each["stop_details"] for each in facts if "stop_details" in each]
        assert noted == ([details] if explanation else [])
        assert isinstance(finished, Finished)
        assert (finished.reason, finished.explanation) == ("content_filter", explanation)


def test_events_after_the_end_are_ignored() -> None:
    assert isinstance(events_of(*text_events("a"), {"type": "error"})[-1], Finished)


def test_pings_are_ignored_and_other_events_are_forwarded() -> None:
    events = events_of({"type": "ping"}, opening(), {"type": "new"}, *closing())
    assert [event for event in events if isinstance(event, Opaque)] == [Opaque("anthropic", {"type": "new"})]


def cited(start: int, end: int) -> Json:
    return {"type": "url_citation", "url": "https://a", "title": "A", "start_index": start, "end_index": end}


WEB = {
    "type": "web_search_result_location",
    "url": "https://a",
    "title": "A",
    "cited_text": "b",
    "encrypted_index": "c",
}
CITATIONS: dict[str, tuple[Any, list[Json]]] = {
    "a page": (WEB, [cited(2, 5)]),
    "a page without a title": ({**WEB, "title": None}, [{**cited(2, 5), "title": ""}]),
    "a search result": ({"type": "search_result_location", "source": "https://a", "title": "A"}, [cited(2, 5)]),
    "a document": (
        {"type": "char_location", "document_title": "D", "file_id": None, "start_char_index": 1},
        [{"type": "file_citation", "file_id": "", "filename": "D", "index": 5}],
    ),
    "a stored document": (
        {"type": "page_location", "document_title": None, "file_id": "file_1"},
        [{"type": "file_citation", "file_id": "file_1", "filename": "", "index": 5}],
    ),
    "a block of a document": (
        {"type": "content_block_location", "document_title": "D", "start_block_index": 0, "end_block_index": 1},
        [{"type": "file_citation", "file_id": "", "filename": "D", "index": 5}],
    ),
    "another kind": ({"type": "new"}, []),
    "what is none": ("a", []),
}


@pytest.mark.parametrize(("citation", "annotations"), CITATIONS.values(), ids=CITATIONS)
def test_citations_are_annotations_on_the_text_of_their_block(citation: Any, annotations: list[Json]) -> None:
    delta = {"type": "citations_delta", "citation": citation}
    stream = [
        *block(0, text_block(), *text_deltas("ab")),
        *block(1, text_block(), *text_deltas("c"), delta, *text_deltas("de")),
    ]
    assert items_of(opening(), *stream, *closing()) == [message_item("abcde", annotations=annotations)]
    whole = message(text_block("ab"), {**text_block("cde"), "citations": [citation]})
    assert items_of(whole) == [message_item("abcde", annotations=annotations)]


def test_citations_count_from_the_beginning_of_their_message() -> None:
    first, last = (
        block(0, text_block(), *text_deltas("ab")),
        block(2, {**text_block(), "citations": [WEB]}, *text_deltas("cde")),
    )
    items = items_of(opening(), *first, *block(1, thinking_block(), *thought("x")), *last[:-1], *closing())
    assert items[-1] == message_item("cde", number=2, annotations=[cited(0, 3)])
    items = items_of(opening(), *first, *block(1, RUN), *last, *closing())
    assert items == [message_item("abcde", annotations=[cited(2, 5)])]


GARBLED: dict[str, tuple[list[Any], type[Exception]]] = {
    "no object": ([[]], ProtocolViolation),
    "another API's": ([{"object": "chat.completion.chunk"}], ProtocolViolation),
    "a block before the message": (block(0, text_block()), ProtocolViolation),
    "two messages": ([opening(), opening()], ProtocolViolation),
    "no message": ([{"type": "message_start"}], KeyError),
    "a delta of no block": ([opening(), block(0, text_block(), *text_deltas("a"))[1]], ProtocolViolation),
    "a delta of another block": (
        [opening(), block(0, text_block())[0], block(1, text_block(), *text_deltas("a"))[1]],
        ProtocolViolation,
    ),
    "a text in a call": ([opening(), *block(0, call_block("f"), *text_deltas("a"))], ProtocolViolation),
    "a text that is none": ([opening(), *block(0, text_block(), {"type": "text_delta", "text": 1})], TypeError),
    "a signature that is none": (
        [opening(), *block(0, thinking_block(), {"type": "signature_delta", "signature": 1})],
        TypeError,
    ),
    "a call without a name": ([opening(), *block(0, call_block(""))], ProtocolViolation),
    "a redaction of nothing": ([opening(), *block(0, {"type": "redacted_thinking"})], KeyError),
}


@pytest.mark.parametrize(("chunks", "refusal"), GARBLED.values(), ids=GARBLED)
def test_data_outside_the_protocol_is_refused(chunks: list[Any], refusal: type[Exception]) -> None:
    with pytest.raises(refusal):
        events_of(*chunks)


@pytest.mark.parametrize("begun", [True, False])
def test_an_error_in_a_stream_is_a_failure(begun: bool) -> None:
    error = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    *_, failed = events_of(*(text_events("a")[:3] if begun else []), error)
    assert isinstance(failed, Failed)
    assert (failed.code, failed.message) == ("upstream_overloaded", "Overloaded")
    assert (failed.usage is not None) == begun


FAILURES: dict[str, tuple[Any, str]] = {
    "overloaded": ({"type": "overloaded_error", "message": "a"}, "upstream_overloaded"),
    "too fast": ({"type": "rate_limit_error", "message": "a"}, "rate_limited"),
    "too slow": ({"type": "timeout_error", "message": "a"}, "upstream_timeout"),
    "too poor": ({"type": "billing_error", "message": "a"}, "insufficient_quota"),
    "too long": ({"type": "invalid_request_error", "message": "prompt is too long: 9 > 8"}, "context_length_exceeded"),
    "a mistake": ({"type": "invalid_request_error", "message": "a"}, "upstream_error"),
    "no words": ({"type": "api_error"}, "upstream_error"),
    "just words": ("a", "upstream_error"),
}


@pytest.mark.parametrize(("error", "code"), FAILURES.values(), ids=FAILURES)
def test_errors_have_codes_by_meaning(error: Any, code: str) -> None:
    failed = failure_in(error)
    assert failed.code == code
    assert failed.message


def test_messages_about_the_gateways_key_are_not_forwarded() -> None:
    failed = failure_in({"type": "authentication_error", "message": "invalid x-api-key sk-ant-1"})
    assert failed.code == "upstream_unauthorized"
    assert "sk-ant" not in failed.message


def counts(usage: Usage | None) -> Any:
    return usage and (usage.input, usage.output, usage.cache_read, usage.cache_write)


def test_input_tokens_include_cache_reads_and_writes() -> None:
    first = read_message_usage({"input_tokens": 5, "cache_creation_input_tokens": 7, "cache_read_input_tokens": 11})
    assert counts(first) == (23, None, 11, 7)
    last = read_message_usage(
        {"output_tokens": 3, "cache_creation_input_tokens": 2, "cache_read_input_tokens": None}, first
    )
    assert counts(last) == (23, 3, 11, 7)
    assert last is not None
    assert last.raw == {
        "input_tokens": 5,
        "cache_creation_input_tokens": 7,
        "cache_read_input_tokens": 11,
        "output_tokens": 3,
    }


COUNTED_INPUTS: dict[str, tuple[Json, int]] = {
    "a smaller count": ({"input_tokens": 20}, 20),
    "a larger count": ({"input_tokens": 40}, 40),
    "nothing": ({}, 30),
    "null": ({"input_tokens": None}, 30),
    "zero": ({"input_tokens": 0}, 30),
}


@pytest.mark.parametrize(("reported", "expected"), COUNTED_INPUTS.values(), ids=COUNTED_INPUTS)
def test_an_estimate_of_the_input_is_replaced_by_its_count(reported: Json, expected: int) -> None:
    estimated = read_message_usage({"input_tokens": 30, "output_tokens": 0})
    assert counts(read_message_usage({"output_tokens": 3, **reported}, estimated))[:2] == (expected, 3)


THINKING_COUNTS: dict[str, tuple[Any, int | None]] = {
    "a number": ({"thinking_tokens": 4}, 4),
    "none": ({"thinking_tokens": 0}, 0),
    "more than the output": ({"thinking_tokens": 9}, 7),
    "no number": ({"thinking_tokens": "4"}, None),
    "other details": ({}, None),
    "no details": (None, None),
    "details that are no object": (4, None),
}


@pytest.mark.parametrize(("details", "reasoning"), THINKING_COUNTS.values(), ids=THINKING_COUNTS)
def test_tokens_of_thinking_are_a_part_of_the_output(details: Any, reasoning: int | None) -> None:
    usage = read_message_usage({"output_tokens": 7, "output_tokens_details": details})
    assert usage is not None
    assert (usage.output, usage.reasoning) == (7, reasoning)


def test_missing_counts_are_not_zero() -> None:
    assert counts(read_message_usage({"output_tokens": 3, "iterations": ["a"]})) == (None, 3, None, None)
    assert read_message_usage("a") is None


def test_a_message_without_usage_has_none() -> None:
    *_, finished = events_of({**message(text_block("a")), "usage": None})
    assert isinstance(finished, Finished)
    assert finished.usage is None


def test_bytes_and_parsed_events_are_decoded_equally() -> None:
    decoder = AnthropicDecoder(counting_ids())
    events = decoder.decode_payloads([orjson.dumps(event) for event in text_events("a", "b")])
    assert [event.text for event in events if isinstance(event, Delta)] == ["a", "b"]
    with pytest.raises(orjson.JSONDecodeError):
        AnthropicDecoder(counting_ids()).decode_payloads([b"{"])


WHOLE_CALL = {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {"a": 1, "b": 2}}


def input_deltas(*pieces: str) -> list[Json]:
    return [{"type": "input_json_delta", "partial_json": piece} for piece in pieces]


@pytest.mark.parametrize("pieces", [(), ("",), ('{"a":1,', '"b":2}'), ('{"b": 2, "a": 1}',)])
def test_deltas_may_repeat_the_input_of_a_call(pieces: tuple[str, ...]) -> None:
    events = events_of(opening(), *block(0, WHOLE_CALL, *input_deltas(*pieces)), *closing("tool_use"))
    assert [event.text for event in events if isinstance(event, Delta)] == ['{"a":1,"b":2}']
    assert isinstance(events[-1], Finished)


@pytest.mark.parametrize("pieces", [('{"a":1}',), ('{"a":1,', '"b":3}'), ("{",)])
def test_deltas_with_another_input_of_a_call_fail(pieces: tuple[str, ...]) -> None:
    with pytest.raises(ProtocolViolation, match="two different inputs"):
        events_of(opening(), *block(0, WHOLE_CALL, *input_deltas(*pieces)), *closing("tool_use"))
    # Without the end of the block they are compared at the end of the reply.
    events = events_of(opening(), *block(0, WHOLE_CALL, *input_deltas(*pieces))[:-1], *closing("tool_use"))
    assert isinstance(events[-1], Failed)
    assert events[-1].code == "upstream_garbled"


DROP: Json = {"type": "thinking_dropped", "path": "messages.1.content.0", "reason": "prefix_binding_mismatch"}
SHOWN: Json = {"type": "thinking_mismatch_allowed", "path": "messages.1.content.0"}

TRANSFORMATIONS: dict[str, tuple[Any, bool]] = {
    "none": ([], False),
    "a drop": ([DROP], True),
    "several": ([SHOWN, DROP, DROP], True),
    "a block that was shown all the same": ([SHOWN], False),
    "other kinds": ([{"type": "new"}, {}, 1], False),
    "no list": ("thinking_dropped", False),
    "null": (None, False),
}


@pytest.mark.parametrize(("listed", "is_lost"), TRANSFORMATIONS.values(), ids=TRANSFORMATIONS)
def test_thinking_that_the_api_dropped_is_reported_at_the_end(listed: Any, is_lost: bool) -> None:
    start = opening()
    start["message"]["input_transformations"] = listed
    whole = {**message(text_block("a")), "input_transformations": listed}
    for chunks in ([start, *block(0, text_block(), *text_deltas("a")), *closing()], [whole]):
        *_, before, end = events_of(*chunks)
        assert isinstance(end, Finished)
        assert end.lacks == ((DROPPED_THINKING,) if is_lost else ())
        assert (before == Noted(facts={UNREPORTED_FACT: DROPPED_THINKING})) is is_lost


@pytest.mark.parametrize(("first", "last", "is_lost"), [([], [DROP], True), ([DROP], [], False), ([DROP], None, True)])
def test_what_the_model_lacks_that_takes_over_is_what_counts(first: Any, last: Any, is_lost: bool) -> None:
    start = opening()
    start["message"]["input_transformations"] = first
    delta, stop = closing()
    if last is not None:
        delta = {**delta, "input_transformations": last}
    *_, end = events_of(start, *block(0, text_block(), *text_deltas("a")), delta, stop)
    assert isinstance(end, Finished)
    assert bool(end.lacks) is is_lost


def test_a_reply_that_fails_says_nothing_of_dropped_thinking() -> None:
    start = opening()
    start["message"]["input_transformations"] = [DROP]
    *_, end = events_of(start, *closing("something_new"))
    assert isinstance(end, Failed)
