"""Recorded streams of real servers, through the events, as the Messages API would have them."""

from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.unit.support.golden import chunks_of, recordings
from tests.unit.support.messages_order import check_message, check_message_stream, read_frames
from tests.unit.support.translator_drivers import counting_ids, feed_to_end
from translation.anthropic.decode import AnthropicDecoder
from translation.chat.decode import ChatDecoder
from translation.gemini.decode import GeminiDecoder
from translation.messages.collect import MessageCollector
from translation.messages.encode import MessagesEncoder
from translation.messages.reply_objects import ThinkingView
from translation.representation.profile import DEFAULT_PROFILE
from translation.responses.decode import ResponsesDecoder

DECODERS: dict[str, Any] = {
    "anthropic": AnthropicDecoder,
    "chat": ChatDecoder,
    "gemini": GeminiDecoder,
    "responses": ResponsesDecoder,
}
RECORDINGS = [recording for dialect in DECODERS for recording in recordings(dialect)]
VIEWS: tuple[ThinkingView, ...] = ("text", "omitted", "none")


def batches_of(recording: Path) -> list[Any]:
    decoder = DECODERS[recording.parent.name](counting_ids(), DEFAULT_PROFILE)
    return [*map(decoder.feed, chunks_of(recording.read_bytes())), decoder.finish()]


def comparable(message: dict[str, Any]) -> dict[str, Any]:
    """A message without what a stream cannot have, because it is known only at the end, and without nulls."""
    message = {key: value for key, value in message.items() if value is not None}
    usage = {key: value for key, value in message["usage"].items() if key != "service_tier"}
    content = [{**block, "citations": block.get("citations") or None} for block in message["content"]]
    if message["stop_reason"] == "max_tokens":
        # A stream that was cut off within a call has the rest of its arguments in no form that could be compared.
        content = [{**block, "input": {}} if block["type"] == "tool_use" else block for block in content]
    return {**message, "content": content, "usage": usage}


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("recording", RECORDINGS, ids=lambda path: f"{path.parent.name} {path.stem}")
def test_a_real_stream_becomes_a_message_the_official_client_accepts(recording: Path, view: ThinkingView) -> None:
    batches = batches_of(recording)
    encoder = MessagesEncoder(message_id="msg_1", model="m", thinking=view)
    collector = MessageCollector(message_id="msg_1", model="m", thinking=view)
    wire = feed_to_end(encoder, *batches)
    for batch in batches:
        collector.feed(batch)
    if collector.failed is not None:
        assert read_frames(wire)[-1]["type"] == "error"
        return
    whole = orjson.loads(orjson.dumps(collector.result()))
    check_message(whole)
    assert comparable(check_message_stream(wire)) == comparable(whole)
