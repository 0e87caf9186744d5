"""Whole items of an upstream: what is missing is completed, and what nobody can read is refused."""

from typing import Any

import pytest

from tests.unit.support.translator_drivers import counting_ids
from translation.errors import ProtocolViolation
from translation.representation.collector import TurnCollector
from translation.representation.events import ItemEnded, PartEnded
from translation.responses.item_forms import complete_item, complete_items
from translation.responses.upstream.decode import ResponsesDecoder

Json = dict[str, Any]

WHOLE: dict[str, Json] = {
    "message": {
        "type": "message",
        "id": "m",
        "role": "assistant",
        "content": [
            {
                "type": "output_text",
                "text": "a",
                "annotations": [{"type": "url_citation"}],
                "logprobs": [{"token": "a"}],
            },
            {"type": "refusal", "refusal": "no"},
        ],
    },
    "reasoning": {
        "type": "reasoning",
        "id": "r",
        "summary": [{"type": "summary_text", "text": "s"}],
        "content": [{"type": "reasoning_text", "text": "t"}],
    },
    "call": {"type": "function_call", "id": "f", "call_id": "c", "name": "n", "arguments": "{}"},
    "custom call": {"type": "custom_tool_call", "id": "f", "call_id": "c", "name": "n", "input": "x"},
    "MCP call": {"type": "mcp_call", "id": "f", "server_label": "s", "name": "n", "arguments": "{}"},
    "compaction": {"type": "compaction", "id": "c", "encrypted_content": "e"},
    "hidden code": {"type": "code_interpreter_call", "id": "c", "code": None},
    "a page of OpenRouter": {"type": "openrouter:web_fetch", "id": "f", "content": "the text of a page"},
    "unknown": {"type": "tomorrow", "id": "x", "anything": [1]},
}

MISSING: dict[str, tuple[Json, Json]] = {
    "a text": (
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "annotations": []}]},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "annotations": [], "text": ""}]},
    ),
    "annotations": (
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "a"}]},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "a", "annotations": []}]},
    ),
    "annotations that are null": (
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "", "annotations": None}]},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "", "annotations": []}]},
    ),
    "a summary": ({"type": "reasoning", "content": []}, {"type": "reasoning", "content": [], "summary": []}),
    "a summary that is null": ({"type": "reasoning", "summary": None}, {"type": "reasoning", "summary": []}),
    "a text that is null": (
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": None}]},
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": ""}]},
    ),
    "a refusal": (
        {"type": "message", "role": "assistant", "content": [{"type": "refusal"}]},
        {"type": "message", "role": "assistant", "content": [{"type": "refusal", "refusal": ""}]},
    ),
    "role and content": (
        {"type": "message", "content": None},
        {"type": "message", "role": "assistant", "content": []},
    ),
    "arguments": (
        {"type": "function_call", "call_id": "c", "name": "n"},
        {"type": "function_call", "call_id": "c", "name": "n", "arguments": ""},
    ),
    "input": (
        {"type": "custom_tool_call", "call_id": "c", "name": "n", "input": None},
        {"type": "custom_tool_call", "call_id": "c", "name": "n", "input": ""},
    ),
}

MALFORMED: dict[str, Any] = {
    "no object": "x",
    "no type": {"id": "m"},
    "an empty type": {"type": ""},
    "a type that is no string": {"type": 3},
    "an id that is no string": {"type": "message", "id": ["x"], "content": []},
    "no name": {"type": "function_call", "call_id": "c", "arguments": ""},
    "an empty name": {"type": "function_call", "call_id": "c", "name": "", "arguments": ""},
    "no call_id": {"type": "custom_tool_call", "name": "n", "input": ""},
    "an MCP call without its server": {"type": "mcp_call", "name": "n", "arguments": ""},
    "listed tools without their server": {"type": "mcp_list_tools", "tools": []},
    "no encrypted content": {"type": "compaction", "id": "c"},
    "arguments that are no string": {"type": "mcp_call", "name": "n", "server_label": "s", "arguments": {}},
    "content that is no list": {"type": "message", "content": "text"},
    "a summary that is no list": {"type": "reasoning", "summary": {}},
    "a part that is no object": {"type": "message", "content": ["text"]},
    "a part without a type": {"type": "message", "content": [{"text": "a"}]},
    "a text that is no string": {"type": "message", "content": [{"type": "output_text", "text": 3}]},
    "annotations that are no list": {
        "type": "message",
        "content": [{"type": "output_text", "text": "", "annotations": {}}],
    },
    "an annotation that is no object": {
        "type": "message",
        "content": [{"type": "output_text", "text": "", "annotations": ["x"]}],
    },
    "log probabilities that are no objects": {
        "type": "message",
        "content": [{"type": "output_text", "text": "", "logprobs": [0.5]}],
    },
}


@pytest.mark.parametrize("item", WHOLE.values(), ids=WHOLE)
def test_an_item_that_lacks_nothing_is_the_same_object(item: Json) -> None:
    assert complete_item(item) is item


def test_a_list_of_items_that_lack_nothing_is_the_same_object() -> None:
    items = [*WHOLE.values()]
    assert complete_items(items) is items


@pytest.mark.parametrize(("item", "expected"), MISSING.values(), ids=MISSING)
def test_what_is_missing_is_completed(item: Json, expected: Json) -> None:
    assert complete_items([item]) == [expected]


@pytest.mark.parametrize("item", MALFORMED.values(), ids=MALFORMED)
def test_what_nobody_can_read_is_refused(item: Any) -> None:
    with pytest.raises(TypeError):
        complete_item(item)


@pytest.mark.parametrize("item", MALFORMED.values(), ids=MALFORMED)
def test_a_whole_response_with_it_is_malformed(item: Any) -> None:
    response = {"object": "response", "status": "completed", "output": [item]}
    with pytest.raises(ProtocolViolation):
        ResponsesDecoder(counting_ids()).feed(response)


def test_an_item_of_another_type_may_have_a_text_as_content() -> None:
    page = WHOLE["a page of OpenRouter"]
    events = ResponsesDecoder(counting_ids()).feed({"object": "response", "status": "completed", "output": [page]})
    assert [event.item for event in events if isinstance(event, ItemEnded)] == [page]


def test_a_message_without_its_end_has_a_role() -> None:
    decoder = ResponsesDecoder(counting_ids())
    collector = TurnCollector()
    for event in (
        {"type": "response.output_item.added", "output_index": 0, "item": {"type": "message", "id": "m"}},
        {"type": "response.output_text.delta", "output_index": 0, "item_id": "m", "content_index": 0, "delta": "Hi"},
        {"type": "response.completed", "response": {"status": "completed", "output": []}},
    ):
        collector.feed(decoder.feed(event))
    [message] = collector.items
    assert (message["role"], message["content"][0]["text"]) == ("assistant", "Hi")


def test_a_part_without_a_text_is_the_same_at_its_end_and_in_its_item() -> None:
    item = {"type": "message", "id": "m", "role": "assistant", "content": [{"type": "output_text", "annotations": []}]}
    events = ResponsesDecoder(counting_ids()).feed({"object": "response", "status": "completed", "output": [item]})
    [part] = [event.part for event in events if isinstance(event, PartEnded)]
    [whole] = [event.item for event in events if isinstance(event, ItemEnded)]
    assert whole is not None
    assert [part] == whole["content"] == [{"type": "output_text", "annotations": [], "text": ""}]


def test_streamed_text_is_not_given_to_a_part_of_another_type() -> None:
    decoder = ResponsesDecoder(counting_ids())
    place = {"output_index": 0, "item_id": "m", "content_index": 0}
    refusal = {"type": "refusal", "refusal": "no"}
    item = {"type": "message", "id": "m", "role": "assistant", "content": [refusal]}
    decoder.feed({"type": "response.output_text.delta", **place, "delta": "Hi"})
    events = decoder.feed({"type": "response.output_item.done", "output_index": 0, "item": item})
    [whole] = [event.item for event in events if isinstance(event, ItemEnded)]
    assert whole is not None
    assert whole["content"] == [refusal]


def test_streamed_text_stands_where_the_final_item_lacks_it() -> None:
    decoder = ResponsesDecoder(counting_ids())
    place = {"output_index": 0, "item_id": "r", "summary_index": 0}
    item = {"type": "reasoning", "id": "r", "summary": [{"type": "summary_text"}]}
    events = [
        *decoder.feed({"type": "response.reasoning_summary_text.delta", **place, "delta": "thought"}),
        *decoder.feed({"type": "response.output_item.done", "output_index": 0, "item": item}),
    ]
    [ended] = [event for event in events if isinstance(event, ItemEnded)]
    assert ended.item is not None
    assert ended.item["summary"] == [{"type": "summary_text", "text": "thought"}]


def test_a_call_has_its_names_from_its_first_event_on() -> None:
    decoder = ResponsesDecoder(counting_ids())
    decoder.feed({"type": "response.created", "response": {"id": "r", "model": "m"}})
    added = {"type": "response.output_item.added", "output_index": 0, "item": {"type": "mcp_call", "name": "n"}}
    with pytest.raises(ProtocolViolation):
        decoder.feed(added)
