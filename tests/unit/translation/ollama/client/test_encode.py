"""Encodes events as lines of Ollama's API, and as a whole reply."""

from typing import Any

import orjson
import pytest

from tests.unit.support.stream_checks.ollama_order import check_lines, read_lines
from translation.chat.delta_run import ChatDeltaRun
from translation.ollama.client.collect import OllamaCollector
from translation.ollama.client.encode import OllamaEncoder
from translation.ollama.client.reply_lines import LineHead
from translation.representation.events import (
    Annotated,
    Delta,
    Event,
    Failed,
    Finished,
    FinishReason,
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
from translation.representation.json_types import Item, Json

MESSAGE: Item = {"id": "msg_1", "type": "message", "status": "in_progress", "role": "assistant", "content": []}
REASONING: Item = {"id": "rs_1", "type": "reasoning", "summary": []}
CALL: Item = {"id": "fc_1", "type": "function_call", "call_id": "call_1", "name": "f", "arguments": ""}
TEXT: Json = {"type": "output_text", "text": "", "annotations": []}
THOUGHT: Json = {"type": "reasoning_text", "text": ""}
SUMMARY: Json = {"type": "summary_text", "text": ""}
STOP = Finished("stop")


def head_of(**more: Any) -> LineHead:
    ticks = iter(range(0, 1000, 7))
    head = LineHead("m%", "2026-01-02T03:04:05.000000006Z", True, True, lambda: next(ticks))
    return head._replace(**more)


def reply_of(*events: Event, **head: Any) -> Json:
    """The reply of the events, which is the same as lines and as a whole."""
    encoder, collector = OllamaEncoder(head_of(**head)), OllamaCollector(head_of(**head))
    batch = [Started("m"), *events]
    wire = b"".join(encoder.feed([event]) for event in batch) + encoder.conclude()
    at_once = OllamaEncoder(head_of(**head))
    assert at_once.feed(batch) + at_once.conclude() == wire
    collector.feed(batch)
    whole = collector.result()
    assert check_lines(wire) == whole
    return whole


def text(index: int, *deltas: str, part: Json = TEXT, item: Item = MESSAGE) -> list[Event]:
    return [
        ItemStarted(index, item),
        PartStarted(index, 0, part),
        *(Delta(index, 0, delta) for delta in deltas),
        PartEnded(index, 0),
        ItemEnded(index),
    ]


def test_a_text_is_a_line_for_each_delta() -> None:
    encoder = OllamaEncoder(head_of())
    wire = encoder.feed([Started("m"), *text(0, "Hel", 'l%"o'), Finished("stop", usage=Usage(3, 2))])
    assert [line["message"]["content"] for line in read_lines(wire)] == ["Hel", 'l%"o']
    (end,) = read_lines(encoder.conclude())
    assert end == {
        "model": "m%",
        "created_at": "2026-01-02T03:04:05.000000006Z",
        "message": {"role": "assistant", "content": ""},
        "done": True,
        "done_reason": "stop",
        "total_duration": 7,
        "prompt_eval_count": 3,
        "eval_count": 2,
    }


@pytest.mark.parametrize(
    ("reason", "done_reason"),
    [("stop", "stop"), ("tool_calls", "stop"), ("length", "length"), ("content_filter", "content_filter")],
)
def test_the_done_reason_follows_the_finish_reason(reason: FinishReason, done_reason: str) -> None:
    assert reply_of(*text(0, "Hi"), Finished(reason))["done_reason"] == done_reason


def test_the_words_of_the_upstream_are_shown_beside_the_done_reason() -> None:
    reply = reply_of(*text(0, "Hi"), Finished("content_filter", explanation="No. " * 1000))
    assert (reply["done_reason"], reply["finish_message"]) == ("content_filter", ("No. " * 1000)[:1000])


def test_a_reason_whose_meaning_is_not_known_is_shown_beside_the_done_reason() -> None:
    reply = reply_of(*text(0, "Hi"), Finished("other", raw_reason="load_shed"))
    assert (reply["done_reason"], reply["native_finish_reason"]) == ("stop", "load_shed")
    assert "native_finish_reason" not in reply_of(*text(0, "Hi"), STOP)


def test_thoughts_are_separate_and_sent_only_if_requested() -> None:
    events = [*text(0, "Hm", ".", part=THOUGHT, item=REASONING), *text(1, "Hi"), STOP]
    message = reply_of(*events)["message"]
    assert message == {"role": "assistant", "content": "Hi", "thinking": "Hm."}
    assert reply_of(*events, shows_thinking=False)["message"] == {"role": "assistant", "content": "Hi"}
    generated = reply_of(*events, is_chat=False)
    assert (generated["response"], generated["thinking"], "message" in generated) == ("Hi", "Hm.", False)


def test_several_texts_and_several_thoughts_are_paragraphs() -> None:
    thoughts: list[Event] = [
        ItemStarted(0, REASONING),
        PartStarted(0, 0, {**SUMMARY, "text": "One"}),
        PartEnded(0, 0),
        PartStarted(0, 1, SUMMARY),
        Delta(0, 1, ""),
        Delta(0, 1, "T"),
        Delta(0, 1, "wo"),
        PartEnded(0, 1),
        ItemEnded(0),
    ]
    parts: list[Event] = [
        ItemStarted(1, MESSAGE),
        PartStarted(1, 0, TEXT),
        Delta(1, 0, "A"),
        PartEnded(1, 0),
        PartStarted(1, 1, TEXT),
        Delta(1, 1, "B"),
        PartEnded(1, 1),
        ItemEnded(1),
    ]
    message = reply_of(*thoughts, *parts, *text(2, "C", "D"), STOP)["message"]
    assert message == {"role": "assistant", "content": "AB\n\nCD", "thinking": "One\n\nTwo"}


def test_items_without_deltas_are_whole_lines() -> None:
    refusal = {"type": "refusal", "refusal": "No."}
    said = {**MESSAGE, "content": [{**TEXT, "text": "Hi"}, {"type": "image"}, refusal]}
    thought = {**REASONING, "summary": [{**SUMMARY, "text": "One"}], "content": [{**THOUGHT, "text": "Two"}]}
    silent = {**MESSAGE, "content": []}
    events = [
        event
        for index, item in enumerate([thought, said, said, silent])
        for event in (ItemStarted(index, {**item, "content": []}), ItemEnded(index, item))
    ]
    message = reply_of(*events, STOP)["message"]
    assert message == {"role": "assistant", "content": "HiNo.\n\nHiNo.", "thinking": "One\n\nTwo"}
    assert "thinking" not in reply_of(*events, STOP, shows_thinking=False)["message"]


def call_events(index: int, *deltas: str, **ended: Any) -> list[Event]:
    item = {**CALL, "call_id": f"call_{index}"}
    return [ItemStarted(index, item), *(Delta(index, None, delta) for delta in deltas), ItemEnded(index, **ended)]


def test_calls_are_whole_with_arguments_as_objects() -> None:
    events = [*call_events(0, '{"a":', "1}"), *call_events(1), *call_events(2, "oops"), Finished("tool_calls")]
    calls = reply_of(*events)["message"]["tool_calls"]
    assert [(call["id"], call["function"]["index"], call["function"]["arguments"]) for call in calls] == [
        ("call_0", 0, {"a": 1}),
        ("call_1", 1, {}),
        ("call_2", 2, {"raw_arguments": "oops"}),
    ]


def test_a_call_that_was_cut_off_is_left_out_and_generate_has_none() -> None:
    cut = [*call_events(0, '{"a":', status="incomplete"), Finished("length")]
    reply = reply_of(*cut)
    assert ("tool_calls" in reply["message"], reply["done_reason"]) == (False, "length")
    assert reply_of(*call_events(0, "{}"), STOP, is_chat=False)["response"] == ""


def test_log_probabilities_are_on_the_line_of_their_text() -> None:
    tokens: list[Json] = [{"token": name, "logprob": -0.5, "bytes": [65], "top_logprobs": []} for name in "AB"]
    events: list[Event] = [
        *text(0, "Hm", "Hm", part=THOUGHT, item=REASONING),
        ItemStarted(1, MESSAGE),
        PartStarted(1, 0, TEXT),
        Delta(1, 0, "A", tokens[:1]),
        Delta(1, 0, "B", tokens[1:]),
        PartEnded(1, 0),
        ItemEnded(1),
        STOP,
    ]
    assert reply_of(*events, wants_logprobs=True)["logprobs"] == tokens
    assert "logprobs" not in reply_of(*events)


def test_durations_of_an_upstream_of_the_same_api_are_forwarded() -> None:
    raw = {"load_duration": 5, "eval_duration": 6, "prompt_eval_duration": "x", "total_duration": 99}
    reply = reply_of(*text(0, "Hi"), Finished("stop", usage=Usage(1, None, raw=raw)))
    assert (reply["load_duration"], reply["eval_duration"], reply["prompt_eval_count"]) == (5, 6, 1)
    assert reply.keys().isdisjoint({"prompt_eval_duration", "eval_count"})
    assert reply["total_duration"] == 7


def test_events_without_a_line_write_nothing() -> None:
    others: list[Event] = [
        Annotated(0, 0, {}),
        Progressed(0, "searching"),
        Opaque("chat", {}),
        Noted(usage=Usage(1, 1)),
    ]
    assert reply_of(*text(0, "Hi")[:-2], *others, PartEnded(0, 0), ItemEnded(0), STOP)["eval_count"] == 1
    hosted: Item = {"id": "mcp_1", "type": "mcp_call", "name": "f", "arguments": ""}
    events: list[Event] = [ItemStarted(0, hosted), Delta(0, None, "{}"), ItemEnded(0), STOP]
    assert reply_of(*events)["message"] == {"role": "assistant", "content": ""}


def test_a_failure_is_the_last_line() -> None:
    encoder = OllamaEncoder(head_of())
    encoder.feed([Started("m"), *text(0, "Hi")[:3], Failed("upstream_error", "broken")])
    assert read_lines(encoder.conclude()) == [{"error": "broken"}]


def read_of(text: str) -> bytes:
    return b"data: " + orjson.dumps({"choices": [{"index": 0, "delta": {"content": text}}]}) + b"\n\n"


def test_a_run_of_deltas_is_forwarded_by_a_template() -> None:
    encoder = OllamaEncoder(head_of())
    first = Delta(0, 0, "a")
    run = ChatDeltaRun.from_delta(read_of("a")[6:-2], "content", first)
    assert run is not None
    encoder.feed([Started("m"), ItemStarted(0, MESSAGE), PartStarted(0, 0, TEXT)])
    assert encoder.build_delta_template(run) is None
    encoder.feed([first])
    template = encoder.build_delta_template(run)
    assert template is not None
    (line,) = read_lines(template.encode_read(read_of('"b %')) or b"")
    assert (line["message"]["content"], line["model"]) == ('"b %', "m%")
