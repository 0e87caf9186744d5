"""Whole messages of upstreams that a client gets as a stream, although they lack something or are malformed."""

from typing import Any

import pytest

from tests.unit.support.stream_checks.messages_order import check_message_stream, read_frames
from tests.unit.support.translator_drivers import relay_to_end
from tests.upstream.anthropic import call_block, message, text_block
from translation.errors import ProtocolViolation
from translation.messages.relaying.relay import MessagesRelay
from translation.messages.relaying.reply_forms import build_message_stream
from translation.representation.json_types import Json

HM: Json = {"type": "thinking", "thinking": "Hm."}

INCOMPLETE: dict[str, tuple[list[Json], list[Json]]] = {
    # the blocks of the upstream, those that the official client has in the end
    "no signature": ([HM], [{**HM, "signature": ""}]),
    "a signature that is null": ([{**HM, "signature": None}], [{**HM, "signature": ""}]),
    "an empty signature": ([{**HM, "signature": ""}], [{**HM, "signature": ""}]),
    "only a signature": (
        [{"type": "thinking", "signature": "s"}],
        [{"type": "thinking", "thinking": "", "signature": "s"}],
    ),
    "thinking that is null": (
        [{"type": "thinking", "thinking": None, "signature": "s"}],
        [{"type": "thinking", "thinking": "", "signature": "s"}],
    ),
    "thinking before a text": ([HM, text_block("Hi")], [{**HM, "signature": ""}, text_block("Hi")]),
    "no text": ([{"type": "text"}], [text_block("")]),
    "a text that is null": ([{"type": "text", "text": None}], [text_block("")]),
    "citations that are null": ([{**text_block("Hi"), "citations": None}], [text_block("Hi")]),
    "an input as a text": ([{**call_block("f"), "input": '{"a":1}'}], [call_block("f", a=1)]),
    "an input that is null": ([{**call_block("f"), "input": None}], [call_block("f")]),
    "no input": ([{"type": "tool_use", "id": "toolu_1", "name": "f"}], [call_block("f")]),
}


def keep_known(blocks: list[Json]) -> list[Json]:
    keys = ("type", "text", "thinking", "signature", "id", "name", "input")
    return [{key: block[key] for key in keys if key in block} for block in blocks]


@pytest.mark.parametrize(("given", "expected"), INCOMPLETE.values(), ids=INCOMPLETE)
def test_a_message_that_lacks_something_becomes_a_stream(given: list[Json], expected: list[Json]) -> None:
    relay = MessagesRelay(model=None)
    wire = relay_to_end(relay, build_message_stream(message(*given)))
    assert relay.failed is None
    assert keep_known(check_message_stream(wire)["content"]) == keep_known(expected)


@pytest.mark.parametrize("signature", [None, ""])
def test_thinking_without_a_signature_has_no_delta_of_it(signature: str | None) -> None:
    assert b"signature_delta" not in build_message_stream(message({**HM, "signature": signature}))


def test_the_cut_off_input_of_a_call_is_streamed_as_it_is() -> None:
    cut = message({**call_block("f"), "input": '{"a": "b'}, stop_reason="max_tokens")
    deltas = [event["delta"] for event in read_frames(build_message_stream(cut)) if "delta" in event]
    assert deltas[0] == {"type": "input_json_delta", "partial_json": '{"a": "b'}


@pytest.mark.parametrize("content", ["missing", None, []], ids=str)
def test_a_message_may_have_no_content(content: Any) -> None:
    whole = {**message(), "content": content}
    if content == "missing":
        del whole["content"]
    relay = MessagesRelay(model=None)
    wire = relay_to_end(relay, build_message_stream(whole))
    assert relay.failed is None
    assert check_message_stream(wire)["content"] == []


MALFORMED: dict[str, Json] = {
    "a content that is a text": {"content": "Hi"},
    "a content that is a number": {"content": 5},
    "a content that is an object": {"content": text_block("Hi")},
    "a block that is a text": {"content": ["Hi"]},
    "a block that is null": {"content": [None]},
    "a block without a type": {"content": [{"text": "Hi"}]},
    "a text that is a number": {"content": [{"type": "text", "text": 5}]},
    "thinking that is a list": {"content": [{"type": "thinking", "thinking": ["Hm."]}]},
    "a signature that is an object": {"content": [{**HM, "signature": {}}]},
    "citations that are a number": {"content": [{**text_block("Hi"), "citations": 5}]},
    "an input that is no object": {"content": [{**call_block("f"), "input": [1]}]},
    "a stop reason that is a number": {"stop_reason": 3},
}


@pytest.mark.parametrize("changes", MALFORMED.values(), ids=MALFORMED)
def test_a_malformed_message_becomes_no_stream(changes: Json) -> None:
    with pytest.raises(ProtocolViolation):
        build_message_stream({**message(text_block("Hi")), **changes})
