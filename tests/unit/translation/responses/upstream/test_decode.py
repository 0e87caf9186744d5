"""A Responses upstream's events, or its whole response, as events."""

import orjson
import pytest

from tests.unit.support.responses_streams import CITATION, LOGPROB, SEARCH
from tests.unit.support.translator_drivers import counting_ids
from tests.unit.translation.responses.decoded_responses import (
    CALL,
    COMPLETED,
    CREATED,
    FINISHED,
    MADE_UP,
    STARTED,
    TEXT,
    added,
    decoded,
    delta,
    done,
    message,
    native,
)
from translation.representation import items
from translation.representation.events import (
    Annotated,
    Delta,
    Event,
    Finished,
    ItemEnded,
    ItemStarted,
    Opaque,
    PartEnded,
    PartStarted,
    Progressed,
)
from translation.representation.json_types import Json
from translation.responses.upstream.decode import ResponsesDecoder


def test_bytes_and_parsed_chunks_are_decoded_equally() -> None:
    chunk = {"type": "error", "message": "boom", "code": "server_error"}
    decoder = ResponsesDecoder(counting_ids())
    assert decoder.decode_payloads([orjson.dumps(chunk)]) == ResponsesDecoder(counting_ids()).feed(chunk)
    with pytest.raises(orjson.JSONDecodeError):
        decoder.decode_payloads([b"{"])


def message_events(text: str, index: int = 0, item_id: str = "msg_up") -> list[Event]:
    """Returns the events of a message without deltas."""
    return [
        ItemStarted(index, items.new_message(item_id)),
        PartStarted(index, 0, TEXT),
        Delta(index, 0, text),
        PartEnded(index, 0, {**TEXT, "text": text}),
        ItemEnded(index, message(text, item_id)),
    ]


CASES: dict[str, tuple[list[Json], list[Event]]] = {
    "every event there should be": (
        [
            added(items.new_message("msg_up")),
            native("content_part.added", output_index=0, content_index=0, part=TEXT),
            delta("Hi", logprobs=[LOGPROB]),
            native("output_text.done", output_index=0, content_index=0, text="Hi"),
            native("content_part.done", output_index=0, content_index=0, part={**TEXT, "text": "Hi"}),
            done(message("Hi")),
        ],
        [
            ItemStarted(0, items.new_message("msg_up")),
            PartStarted(0, 0, TEXT),
            Delta(0, 0, "Hi", [LOGPROB]),
            PartEnded(0, 0, {**TEXT, "text": "Hi"}),
            ItemEnded(0, message("Hi")),
        ],
    ),
    "nothing but deltas": (
        [delta("Hi")],
        [*MADE_UP, PartEnded(0, 0), ItemEnded(0)],
    ),
    "nothing but the finished item": ([done(message("Hi"))], message_events("Hi")),
    "an item without its end": (
        [added(items.new_message("msg_up")), delta("Hi")],
        [ItemStarted(0, items.new_message("msg_up")), *MADE_UP[1:], PartEnded(0, 0), ItemEnded(0)],
    ),
    "a text only its end tells": (
        [native("output_text.done", output_index=0, content_index=0, item_id="msg_up", text="Hi", logprobs=[LOGPROB])],
        [
            ItemStarted(0, items.new_message("msg_up")),
            PartStarted(0, 0, TEXT),
            Delta(0, 0, "Hi", [LOGPROB]),
            PartEnded(0, 0),
            ItemEnded(0),
        ],
    ),
    "a text only its end tells, in an item that was announced": (
        [added(items.new_message("msg_up")), native("output_text.done", output_index=0, content_index=0, text="Hi")],
        [ItemStarted(0, items.new_message("msg_up")), *MADE_UP[1:], PartEnded(0, 0), ItemEnded(0)],
    ),
    "a part that is announced with its text": (
        [added(items.new_message("msg_up")), native("content_part.added", output_index=0, part={**TEXT, "text": "Hi"})],
        [ItemStarted(0, items.new_message("msg_up")), PartStarted(0, 0, TEXT), PartEnded(0, 0), ItemEnded(0)],
    ),
    "an item that is announced with its content": (
        [added(message("Hi")), done(message("Hi"))],
        [ItemStarted(0, {**message(""), "content": []}), *message_events("Hi")[1:]],
    ),
    "everything twice": (
        [
            *[added(items.new_message("msg_up"))] * 2,
            *[native("content_part.added", output_index=0, content_index=0, part=TEXT)] * 2,
            delta("Hi"),
            *[native("output_text.done", output_index=0, content_index=0, text="Hi")] * 2,
            *[native("content_part.done", output_index=0, content_index=0, part={**TEXT, "text": "Hi"})] * 2,
            *[done(message("Hi"))] * 2,
            added(message("Hi")),
        ],
        message_events("Hi"),
    ),
    "text after its end": (
        [
            done(message("Hi")),
            delta("late"),
            native("output_text.delta", output_index=0, content_index=1, delta="late"),
            native("output_text.annotation.added", output_index=0, content_index=0, annotation=CITATION),
        ],
        message_events("Hi"),
    ),
    "numbers with gaps": (
        [done(message("a", "msg_a"), 3), done(message("b", "msg_b"), 7)],
        [*message_events("a", 0, "msg_a"), *message_events("b", 1, "msg_b")],
    ),
    "one number for every item": (
        [done(message("a", "msg_a")), done(message("b", "msg_b"))],
        [*message_events("a", 0, "msg_a"), *message_events("b", 1, "msg_b")],
    ),
    "another kind of item under the number of an open one": (
        [added(items.new_message("msg_up")), done({**CALL, "arguments": "{}"})],
        [
            ItemStarted(0, items.new_message("msg_up")),
            ItemEnded(0),
            ItemStarted(1, CALL),
            Delta(1, None, "{}"),
            PartEnded(1, None),
            ItemEnded(1, {**CALL, "arguments": "{}"}),
        ],
    ),
    "no numbers at all": (
        [
            native("output_item.added", item=items.new_message("msg_up")),
            native("output_text.delta", delta="Hi"),
            native("output_item.done", item=message("Hi")),
        ],
        message_events("Hi"),
    ),
    "an id that changes with every event": (
        [added(items.new_message("a")), delta("Hi", item_id="b"), done(message("Hi", "c"))],
        [
            ItemStarted(0, items.new_message("a")),
            *MADE_UP[1:],
            PartEnded(0, 0, {**TEXT, "text": "Hi"}),
            ItemEnded(0, message("Hi", "c")),
        ],
    ),
    "an item without an id": (
        [done(message("Hi", ""))],
        [ItemStarted(0, items.new_message("msg_1")), *message_events("Hi", 0, "msg_1")[1:]],
    ),
    "empty deltas and deltas that are no text": (
        [delta(""), {**delta(""), "delta": None}, {**delta(""), "delta": 5}, delta("Hi")],
        [*MADE_UP, PartEnded(0, 0), ItemEnded(0)],
    ),
    "a citation": (
        [
            delta("Hi"),
            native("output_text.annotation.added", output_index=0, content_index=0, annotation=CITATION),
            native("output_text.annotation.added", output_index=0, content_index=0, annotation=None),
            done(
                message("Hi", content=[{**TEXT, "text": "Hi", "annotations": [CITATION, {**CITATION, "title": "B"}]}])
            ),
        ],
        [
            *MADE_UP,
            Annotated(0, 0, CITATION),
            Annotated(0, 0, {**CITATION, "title": "B"}),
            PartEnded(0, 0, {**TEXT, "text": "Hi", "annotations": [CITATION, {**CITATION, "title": "B"}]}),
            ItemEnded(
                0,
                message("Hi", content=[{**TEXT, "text": "Hi", "annotations": [CITATION, {**CITATION, "title": "B"}]}]),
            ),
        ],
    ),
    "an unannounced summary": (
        [native("reasoning_summary_text.delta", output_index=0, summary_index=0, delta="hm")],
        [
            ItemStarted(0, items.new_reasoning("rs_1")),
            PartStarted(0, 0, items.new_summary_text()),
            Delta(0, 0, "hm"),
            PartEnded(0, 0),
            ItemEnded(0),
        ],
    ),
    "keys that strict readers do not want null": (
        [
            added({**items.new_reasoning("rs_up"), "content": None, "encrypted_content": None}),
            native("reasoning_part.added", output_index=0, content_index=0, part=items.new_reasoning_text()),
            native("reasoning_text.delta", output_index=0, content_index=0, delta="hm"),
            native(
                "reasoning_part.done", output_index=0, content_index=0, part={"type": "reasoning_text", "text": "hm"}
            ),
            done({**items.new_reasoning("rs_up"), "encrypted_content": None}),
        ],
        [
            ItemStarted(0, items.new_reasoning("rs_up")),
            PartStarted(0, 0, items.new_reasoning_text()),
            Delta(0, 0, "hm"),
            PartEnded(0, 0, {"type": "reasoning_text", "text": "hm"}),
            ItemEnded(0, {**items.new_reasoning("rs_up"), "content": [{"type": "reasoning_text", "text": "hm"}]}),
        ],
    ),
    "a call": (
        [
            added(CALL),
            native("function_call_arguments.delta", output_index=0, delta="{}"),
            native("function_call_arguments.done", output_index=0, arguments="{}"),
            native("function_call_arguments.done", output_index=0, arguments="{}"),
            done({**CALL, "arguments": "{}", "status": "incomplete"}),
        ],
        [
            ItemStarted(0, CALL),
            Delta(0, None, "{}"),
            PartEnded(0, None, {"arguments": "{}"}),
            ItemEnded(0, {**CALL, "arguments": "{}", "status": "incomplete"}, "incomplete"),
        ],
    ),
    "an unannounced call": (
        [
            native("function_call_arguments.delta", output_index=0, delta="{"),
            native("function_call_arguments.done", output_index=0, arguments="{}"),
            done({**CALL, "arguments": "{}"}),
        ],
        [
            ItemStarted(0, CALL),
            Delta(0, None, "{}"),
            PartEnded(0, None),
            ItemEnded(0, {**CALL, "arguments": "{}"}),
        ],
    ),
    "a call with an empty end": (
        [added(CALL), native("function_call_arguments.done", output_index=0)],
        [ItemStarted(0, CALL), PartEnded(0, None), ItemEnded(0)],
    ),
    "a hosted tool": (
        [
            added({"id": "ws_1", "type": "web_search_call", "status": "in_progress"}),
            native("web_search_call.searching", output_index=0, item_id="ws_1", sequence_number=4),
            native("web_search_call.completed", output_index=0, item_id="ws_1", more=1),
            done({"id": "ws_1", "type": "web_search_call", "status": "completed", "action": SEARCH}),
            native("web_search_call.completed", output_index=0),
        ],
        [
            ItemStarted(0, {"id": "ws_1", "type": "web_search_call", "status": "in_progress"}),
            Progressed(0, "searching"),
            Progressed(0, "completed", {"more": 1}),
            ItemEnded(0, {"id": "ws_1", "type": "web_search_call", "status": "completed", "action": SEARCH}),
            Opaque("responses", native("web_search_call.completed", output_index=0), 0),
        ],
    ),
    "unknown kinds of items and parts": (
        [
            done({"type": "acme:thing", "id": "x", "content": [{"type": "hologram", "shape": "cat"}]}),
            native("hologram.turned", output_index=0),
            {"type": "keepalive"},
        ],
        [
            ItemStarted(0, {"type": "acme:thing", "id": "x", "content": []}),
            PartStarted(0, 0, {"type": "hologram", "shape": "cat"}),
            PartEnded(0, 0, {"type": "hologram", "shape": "cat"}),
            ItemEnded(0, {"type": "acme:thing", "id": "x", "content": [{"type": "hologram", "shape": "cat"}]}),
            Opaque("responses", native("hologram.turned", output_index=0), 0),
            Opaque("responses", {"type": "keepalive"}, 0),
        ],
    ),
}


@pytest.mark.parametrize(("chunks", "expected"), CASES.values(), ids=CASES)
def test_chunks_become_events(chunks: list[Json], expected: list[Event]) -> None:
    *events, finished = decoded(CREATED, native("in_progress", response={}), *chunks, COMPLETED)
    assert events == [STARTED, *expected]
    called = any(isinstance(event, ItemStarted) and event.item["type"] == "function_call" for event in expected)
    assert finished == (Finished("tool_calls", "completed", None, COMPLETED["response"]) if called else FINISHED)
