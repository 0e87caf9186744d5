"""Encodes events as a stream of the Messages API, and as a whole message."""

from typing import Any

import orjson
import pytest

from tests.unit.support.stream_checks.messages_order import check_message_stream, read_frames
from tests.unit.translation.messages.encoded_messages import (
    CALL,
    MESSAGE,
    REASONING,
    STOP,
    SUMMARY,
    TEXT,
    THOUGHT,
    Seal,
    item,
    reply_of,
)
from translation.chat.delta_run import ChatDeltaRun
from translation.errors import ProtocolViolation
from translation.gemini.upstream.details import gemini_details
from translation.lowering.reasoning import is_signature_only
from translation.messages.client.collect import MessageCollector
from translation.messages.client.encode import MessagesEncoder
from translation.messages.client.reply_objects import ThinkingView, choose_thinking_view
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
from translation.representation.json_types import Item, Json


def test_text_is_a_block() -> None:
    message = reply_of(*item(0, MESSAGE, "Hel", 'lo "%b" 100 %', part=TEXT), STOP)
    assert message["content"] == [{"type": "text", "text": 'Hello "%b" 100 %'}]
    assert message["stop_reason"] == "end_turn"


def test_an_empty_reply_has_no_block() -> None:
    assert reply_of(STOP)["content"] == []
    assert reply_of(*item(0, MESSAGE, "", part=TEXT), STOP)["content"] == []


BLANKS: dict[str, tuple[tuple[str, ...], list[str]]] = {
    "before a call": (("\n", "\n"), []),
    "before an answer": (("\n\n", " a", "\n"), ["\n\n a\n"]),
}


@pytest.mark.parametrize(("deltas", "texts"), BLANKS.values(), ids=BLANKS)
def test_white_space_alone_is_no_block(deltas: tuple[str, ...], texts: list[str]) -> None:
    message = reply_of(*item(0, MESSAGE, *deltas, part=TEXT), *item(1, CALL, "{}"), Finished("tool_calls"))
    blocks: list[Json] = [{"type": "text", "text": text} for text in texts]
    assert message["content"] == [*blocks, {"type": "tool_use", "id": "call_1", "name": "f", "input": {}}]


def test_white_space_without_deltas_is_no_block() -> None:
    blank = {**MESSAGE, "content": [{**TEXT, "text": " \n"}]}
    assert reply_of(ItemStarted(0, MESSAGE), ItemEnded(0, blank), STOP)["content"] == []
    events: list[Event] = [
        ItemStarted(0, MESSAGE),
        PartStarted(0, 0, {**TEXT, "text": " "}),
        PartEnded(0, 0, {**TEXT, "text": " a"}),
    ]
    assert reply_of(*events, ItemEnded(0), STOP)["content"] == [{"type": "text", "text": " a"}]


def test_text_without_deltas_is_not_lost() -> None:
    final = {**MESSAGE, "content": [{**TEXT, "text": "whole"}]}
    part: list[Event] = [
        ItemStarted(0, MESSAGE),
        PartStarted(0, 0, TEXT),
        PartEnded(0, 0, {**TEXT, "text": "whole"}),
        ItemEnded(0),
    ]
    for events in (
        part,
        [ItemStarted(0, MESSAGE), ItemEnded(0, final)],
        item(0, MESSAGE, part={**TEXT, "text": "whole"}),
    ):
        assert reply_of(*events, STOP)["content"] == [{"type": "text", "text": "whole"}]


def test_a_block_ends_with_its_item() -> None:
    events: list[Event] = [ItemStarted(0, MESSAGE), PartStarted(0, 0, TEXT), Delta(0, 0, "a"), ItemEnded(0)]
    assert reply_of(*events, STOP)["content"] == [{"type": "text", "text": "a"}]


def test_a_refusal_is_text_and_a_reason() -> None:
    message = reply_of(*item(0, MESSAGE, "No.", part={"type": "refusal", "refusal": ""}), STOP)
    assert (message["content"], message["stop_reason"]) == ([{"type": "text", "text": "No."}], "refusal")


def test_pages_are_cited_with_their_supported_text() -> None:
    annotation = {"type": "url_citation", "url": "http://a", "title": "A", "start_index": 0, "end_index": 3}
    events: list[Event] = [
        ItemStarted(0, MESSAGE),
        PartStarted(0, 0, TEXT),
        Annotated(0, 0, annotation),
        Delta(0, 0, "One two"),
        Annotated(0, 0, annotation),
        Annotated(0, 0, {"type": "file_citation", "file_id": "f", "filename": "b", "index": 1}),
        PartEnded(0, 0),
        ItemEnded(0, {**MESSAGE, "content": [{**TEXT, "text": "One two", "annotations": [annotation]}]}),
    ]
    (block,) = reply_of(*events, STOP)["content"]
    assert block["citations"] == [
        {
            "type": "web_search_result_location",
            "url": "http://a",
            "title": "A",
            "cited_text": "One",
            "encrypted_index": "",
        }
    ]


QUERY: Json = {"type": "search", "query": "q"}
SEARCH: Item = {"id": "ws_1", "type": "web_search_call", "status": "in_progress"}
FOUND: Item = {**SEARCH, "status": "completed", "action": {**QUERY, "sources": [{"type": "url", "url": "http://a"}]}}
USE: Json = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "q"}}
PAGE: Json = {"type": "web_search_result", "url": "http://a", "title": "http://a", "encrypted_content": ""}
RESULT: Json = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": [PAGE]}


@pytest.mark.parametrize("start", [SEARCH, {**SEARCH, "action": QUERY}], ids=["known at the end", "known at once"])
def test_a_search_is_a_call_and_its_result(start: Item) -> None:
    events = [*item(0, start, final=FOUND), *item(1, MESSAGE, "a", part=TEXT), STOP]
    message = reply_of(*events)
    assert message["content"] == [USE, RESULT, {"type": "text", "text": "a"}]
    assert message["usage"]["server_tool_use"] == {"web_search_requests": 1, "web_fetch_requests": 0}
    assert message["stop_reason"] == "end_turn"


def test_a_search_is_sent_before_it_ends() -> None:
    encoder = MessagesEncoder(message_id="msg_1", model="m", thinking="none")
    begun = read_frames(encoder.feed([Started("m"), ItemStarted(0, {**SEARCH, "action": QUERY})]))
    assert [event["type"] for event in begun[1:]] == [
        "content_block_start",
        "content_block_delta",
        "content_block_stop",
    ]
    ended = read_frames(encoder.feed([ItemEnded(0, FOUND)]))
    assert [event["type"] for event in ended] == ["content_block_start", "content_block_stop"]
    assert ended[0]["content_block"] == RESULT


def test_searches_side_by_side_are_calls_and_then_results() -> None:
    encoder = MessagesEncoder(message_id="msg_1", model="m", thinking="none")
    starts: list[Event] = [ItemStarted(n, {**SEARCH, "id": f"ws_{n}", "action": QUERY}) for n in range(2)]
    ends: list[Event] = [ItemEnded(n, {**FOUND, "id": f"ws_{n}"}) for n in range(2)]
    wire = encoder.feed([Started("m"), *starts, *ends, STOP]) + encoder.conclude()
    content = check_message_stream(wire)["content"]
    ids = [block.get("id") or block["tool_use_id"] for block in content]
    assert ids == ["srvtoolu_0", "srvtoolu_1"] * 2


def test_sealed_search_data_is_in_the_first_page() -> None:
    more = {**FOUND, "action": {**QUERY, "sources": [{"url": "http://a"}] * 2}, "details": [{}]}
    _, result = reply_of(*item(0, SEARCH, final=more), STOP, seal=Seal())["content"]
    assert result["content"] == [{**PAGE, "encrypted_content": "sealed ws_1"}, PAGE]


def test_sealed_search_data_follows_a_result_without_pages() -> None:
    failed = {**SEARCH, "status": "failed", "action": QUERY, "error": "query_too_long", "details": [{}]}
    message = reply_of(*item(0, SEARCH, final=failed), STOP, seal=Seal())
    error = {"type": "web_search_tool_result_error", "error_code": "query_too_long"}
    carrier = {"type": "redacted_thinking", "data": "call.sealed ws_1"}
    assert message["content"] == [USE, {**RESULT, "content": error}, carrier]
    assert "server_tool_use" not in message["usage"]


def test_a_search_that_waits_for_the_next_request_has_no_result() -> None:
    waiting = {**SEARCH, "status": "incomplete", "action": QUERY, "details": [{}]}
    paused = Finished("length", "pause_turn")
    message = reply_of(*item(0, {**SEARCH, "action": QUERY}, final=waiting), paused, seal=Seal())
    assert message["content"] == [USE, {"type": "redacted_thinking", "data": "call.sealed ws_1"}]
    assert message["stop_reason"] == "pause_turn"


def test_cited_text_without_deltas_keeps_its_citations() -> None:
    annotation = {"type": "url_citation", "url": "http://a", "start_index": 0, "end_index": 3}
    final = {**MESSAGE, "content": [{**TEXT, "text": "One two", "annotations": [annotation]}]}
    (block,) = reply_of(ItemStarted(0, MESSAGE), ItemEnded(0, final), STOP)["content"]
    assert block["citations"][0]["cited_text"] == "One"


VIEWS: dict[ThinkingView, list[Json]] = {
    "text": [{"type": "thinking", "thinking": "Hm.", "signature": "sealed rs_1"}],
    "omitted": [{"type": "thinking", "thinking": "", "signature": "sealed rs_1"}],
    "none": [],
}


@pytest.mark.parametrize(("view", "blocks"), VIEWS.items())
def test_thinking_has_the_requested_form(view: ThinkingView, blocks: list[Json]) -> None:
    final = {**REASONING, "content": [{**THOUGHT, "text": "Hm."}]}
    for events in (item(0, REASONING, "H", "m.", part=THOUGHT), [ItemStarted(0, REASONING), ItemEnded(0, final)]):
        assert reply_of(*events, STOP, view=view, seal=Seal())["content"] == blocks


@pytest.mark.parametrize("words", [(), ("Hm.",)], ids=["data alone", "data of a thought"])
def test_data_of_a_call_reaches_a_client_that_gets_no_thinking(words: tuple[str, ...]) -> None:
    content = [{**THOUGHT, "text": text} for text in words]
    call = {"type": "gemini.call", "call_id": "call_1", "signature": "s"}
    final = {**REASONING, "content": content, "details": [{"type": "gemini.thought", "signature": "t"}, call]}
    events = [*item(0, REASONING, *words, part=THOUGHT, final=final), *item(1, CALL, "{}"), STOP]
    carrier = {"type": "redacted_thinking", "data": "signature.sealed rs_1"}
    use = {"type": "tool_use", "id": "call_1", "name": "f", "input": {}}
    seal = RecordingSeal()
    assert reply_of(*events, view="none", seal=seal)["content"] == [carrier, use]
    assert reply_of(*events, view="none")["content"] == [use]
    sealed, again = [each for each in seal.items if each["type"] == "reasoning"]  # of the stream and of the message
    assert sealed == again
    # The upstream reads the signature, and any other has nothing to lose: the thinking is in none of it.
    assert list(gemini_details(sealed)) == [{**call, "thought": False}]
    assert is_signature_only(sealed)


class RecordingSeal(Seal):
    """A seal that notes what it sealed."""

    def __init__(self) -> None:
        self.items: list[Item] = []

    def seal_done_item(self, item: Item) -> Item:
        self.items.append(item)
        return super().seal_done_item(item)


@pytest.mark.parametrize("details", [[{"type": "gemini.text", "thought": False}], None, {"call_id": "call_1"}, [1]])
def test_other_data_does_not(details: Any) -> None:
    events = item(0, REASONING, final={**REASONING, "details": details})
    assert reply_of(*events, STOP, view="none", seal=Seal())["content"] == []


def test_thinking_needs_no_signature() -> None:
    blocks = reply_of(*item(0, REASONING, "Hm.", part=THOUGHT), STOP)["content"]
    assert blocks == [{"type": "thinking", "thinking": "Hm.", "signature": ""}]
    assert reply_of(*item(0, REASONING, part=THOUGHT), STOP)["content"] == []
    assert reply_of(*item(0, REASONING, part=THOUGHT), STOP, view="omitted")["content"] == []


def test_paragraphs_of_a_summary_are_one_block() -> None:
    events: list[Event] = [ItemStarted(0, REASONING)]
    for index, text in enumerate(("One.", "Two.")):
        events += [PartStarted(0, index, SUMMARY), Delta(0, index, text), Delta(0, index, "!"), PartEnded(0, index)]
    blocks = reply_of(*events, ItemEnded(0), STOP)["content"]
    assert blocks == [{"type": "thinking", "thinking": "One.!\n\nTwo.!", "signature": ""}]


def test_unreadable_thinking_is_redacted() -> None:
    blocks = reply_of(*item(0, REASONING), STOP, seal=Seal())["content"]
    assert blocks == [{"type": "redacted_thinking", "data": "sealed rs_1"}]


def test_a_call_is_a_block_and_the_reason() -> None:
    message = reply_of(*item(0, CALL, '{"a"', ":1}"), Finished("tool_calls"))
    assert message["content"] == [{"type": "tool_use", "id": "call_1", "name": "f", "input": {"a": 1}}]
    assert message["stop_reason"] == "tool_use"


def test_arguments_without_deltas_are_not_lost() -> None:
    started = {**CALL, "arguments": '{"a":1}'}
    whole: list[list[Event]] = [
        [ItemStarted(0, started), ItemEnded(0)],
        [ItemStarted(0, CALL), ItemEnded(0, started)],
    ]
    for events in whole:
        assert reply_of(*events, STOP)["content"][0]["input"] == {"a": 1}
    assert reply_of(*item(0, CALL), STOP)["content"][0]["input"] == {}


MALFORMED: dict[str, tuple[str, ...]] = {
    "an array": ("[1", "]"),
    "single quotes": ("{", "'a': 1", "}"),
    "a brace": ("{",),
    "a text with quotes": ('"a"', ' \\ b"'),
    "a code fence": ("```json\n", '{"a":1}', "\n```x"),
    "blanks and no object": (" ", "\n", "a"),
}


@pytest.mark.parametrize("texts", MALFORMED.values(), ids=MALFORMED)
def test_arguments_that_are_no_object_are_within_one(texts: tuple[str, ...]) -> None:
    message = reply_of(*item(0, CALL, *texts), Finished("tool_calls"))
    assert message["content"][0]["input"] == {"raw_arguments": "".join(texts)}
    whole = {**CALL, "arguments": "".join(texts)}
    assert reply_of(ItemStarted(0, CALL), ItemEnded(0, whole), STOP)["content"] == message["content"]
    assert reply_of(ItemStarted(0, whole), ItemEnded(0), STOP)["content"] == message["content"]


def test_an_empty_delta_of_arguments_that_are_no_object_is_not_sent() -> None:
    assert reply_of(*item(0, CALL, "oops", "", "!"), Finished("tool_calls"))["content"][0]["input"] == {
        "raw_arguments": "oops!"
    }


def test_arguments_of_blanks_are_an_empty_object() -> None:
    assert reply_of(*item(0, CALL, " ", "\n"), STOP)["content"][0]["input"] == {}
    assert reply_of(*item(0, CALL, " {", " ", "}"), STOP)["content"][0]["input"] == {}


def test_a_call_that_is_cut_off_has_what_has_come() -> None:
    encoder = MessagesEncoder(message_id="msg_1", model="m", thinking="text")
    ended = ItemEnded(0, status="incomplete")
    wire = encoder.feed([Started("m"), ItemStarted(0, CALL), Delta(0, None, "{"), ended, Finished("length")])
    deltas = [event for event in read_frames(wire + encoder.conclude()) if event["type"] == "content_block_delta"]
    assert [event["delta"]["partial_json"] for event in deltas] == ["{"]


def test_sealed_data_of_a_call_follows_it() -> None:
    final = {**CALL, "arguments": "{}", "details": [{"type": "signature"}]}
    blocks = reply_of(*item(0, CALL, "{}", final=final), STOP, seal=Seal())["content"]
    assert blocks[1] == {"type": "redacted_thinking", "data": "call.sealed fc_1"}


def test_items_that_the_api_does_not_have_are_left_out() -> None:
    search: Item = {"id": "ws_1", "type": "image_generation_call", "status": "completed"}
    events: list[Event] = [ItemStarted(0, search), Delta(0, None, "x"), Progressed(0, "completed"), PartEnded(0, None)]
    assert reply_of(*events, ItemEnded(0), Opaque("chat", {}), STOP)["content"] == []


ENDS: dict[str, tuple[list[Event], Json]] = {
    "a limit": ([Finished("length")], {"stop_reason": "max_tokens", "stop_sequence": None}),
    "a filter": ([Finished("content_filter")], {"stop_reason": "refusal", "stop_sequence": None}),
    "a filter that says why": (
        [Finished("content_filter", explanation="Not this.")],
        {
            "stop_reason": "refusal",
            "stop_sequence": None,
            "stop_details": {"type": "refusal", "category": None, "explanation": "Not this."},
        },
    ),
    "a filter that says what and why": (
        [
            Noted(facts={"stop_details": {"category": "cyber", "explanation": "Not this."}}),
            Finished("content_filter", explanation="cyber: Not this."),
        ],
        {
            "stop_reason": "refusal",
            "stop_sequence": None,
            "stop_details": {"type": "refusal", "category": "cyber", "explanation": "Not this."},
        },
    ),
    "a limit that says why": (
        [Finished("length", explanation="Too long.")],
        {"stop_reason": "max_tokens", "stop_sequence": None, "finish_message": "Too long."},
    ),
    "a pause": ([Finished("length", "pause_turn")], {"stop_reason": "pause_turn", "stop_sequence": None}),
    "a stop sequence": (
        [Noted(facts={"stop_sequence": "###"}), STOP],
        {"stop_reason": "stop_sequence", "stop_sequence": "###"},
    ),
    "something else": ([Finished("other", "eos")], {"stop_reason": "end_turn", "stop_sequence": None}),
}


@pytest.mark.parametrize(("events", "end"), ENDS.values(), ids=ENDS)
def test_ends_have_the_reasons_of_the_api(events: list[Event], end: Json) -> None:
    message = reply_of(*events)
    assert {key: message[key] for key in end} == end


def test_usage_counts_cached_tokens_apart() -> None:
    usage = Usage(input=100, output=20, cache_read=60, cache_write=10, reasoning=5)
    message = reply_of(Noted(usage=usage, facts={"service_tier": "default"}), Finished("stop", usage=usage))
    assert message["usage"] == {
        "input_tokens": 30,
        "cache_creation_input_tokens": 10,
        "cache_read_input_tokens": 60,
        "output_tokens": 20,
        "output_tokens_details": {"thinking_tokens": 5},
        "service_tier": "standard",
    }


def test_the_beginning_has_the_usage_that_is_known() -> None:
    encoder = MessagesEncoder(message_id="msg_1", model="m", thinking="none")
    assert encoder.feed([Started("m"), Noted(usage=Usage(input=7, output=1))]) == b""
    (start, *_) = read_frames(encoder.feed([ItemStarted(0, MESSAGE), PartStarted(0, 0, TEXT), Delta(0, 0, "a")]))
    assert start["message"]["usage"]["input_tokens"] == 7


def test_a_failure_is_the_last_event() -> None:
    encoder = MessagesEncoder(message_id="msg_1", model="m", thinking="none")
    wire = encoder.feed([Started("m"), ItemStarted(0, MESSAGE), PartStarted(0, 0, TEXT), Delta(0, 0, "a")])
    wire += encoder.feed([Failed("upstream_overloaded", "busy")]) + encoder.conclude()
    assert read_frames(wire)[-1] == {"type": "error", "error": {"type": "overloaded_error", "message": "busy"}}
    assert encoder.failed is not None


def test_a_failure_replaces_an_end_that_was_not_sent() -> None:
    encoder = MessagesEncoder(message_id="msg_1", model="m", thinking="none")
    encoder.feed([Started("m"), STOP])
    encoder.feed([Failed("upstream_error", "no")])
    assert b"event: error" in encoder.conclude()


def test_an_unfinished_turn_has_no_message() -> None:
    collector = MessageCollector(message_id="msg_1", model="m", thinking="none")
    with pytest.raises(ValueError, match="not finished"):
        collector.result()
    collector.feed([Started("m"), Failed("upstream_error", "no", usage=Usage(1, 2))])
    assert (collector.failed is not None, collector.usage) == (True, Usage(1, 2))


@pytest.mark.parametrize(
    ("thinking", "view"),
    [
        (None, "none"),
        ({"type": "disabled"}, "none"),
        ({"type": "adaptive"}, "text"),
        ({"type": "adaptive", "display": "omitted"}, "omitted"),
        ({"type": "enabled", "budget_tokens": 2000, "display": "summarized"}, "text"),
    ],
)
def test_thinking_is_sent_only_if_requested(thinking: Any, view: ThinkingView) -> None:
    assert choose_thinking_view({"thinking": thinking}) == view


def read_of(text: str) -> bytes:
    delta = {"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": None}]}
    return b"data: " + orjson.dumps(delta) + b"\n\n"


def test_a_run_of_deltas_is_forwarded_by_a_template() -> None:
    observed: list[str] = []
    encoder = MessagesEncoder(message_id="msg_1", model="m", thinking="none")
    first = Delta(0, 0, "a")
    run = ChatDeltaRun.from_delta(read_of("a")[6:-2], "content", first)
    assert run is not None
    encoder.feed([Started("m"), ItemStarted(0, MESSAGE), PartStarted(0, 0, TEXT)])
    assert encoder.build_delta_template(run, ()) is None, "the block has not begun"
    encoder.feed([first])
    template = encoder.build_delta_template(run, (observed.append,))
    assert template is not None
    assert template.encode_read(b"data: [DONE]\n\n") is None
    (frame,) = read_frames(template.encode_read(read_of('"b %')) or b"")
    assert (frame["delta"]["text"], observed) == ('"b %', ['"b %'])
    encoder.feed([PartEnded(0, 0), ItemEnded(0)])
    assert encoder.build_delta_template(run, ()) is None, "the item has ended"


@pytest.mark.parametrize("arguments", ['{"a":', '{"a":1}}', '{"a"}'])
def test_a_whole_call_with_a_part_of_its_arguments_fails_the_message(arguments: str) -> None:
    """Official clients complete the JSON by themselves, and would run the tool with other input."""
    encoder = MessagesEncoder(message_id="msg_1", model="m", thinking="text")
    encoder.feed([Started("m"), ItemStarted(0, CALL), Delta(0, None, arguments)])
    with pytest.raises(ProtocolViolation, match="not a whole JSON object"):
        encoder.feed([ItemEnded(0)])
