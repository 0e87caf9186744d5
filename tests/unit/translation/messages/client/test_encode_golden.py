"""Recorded streams of real servers, through the events, as the Messages API would have them."""

from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.unit.support.recorded_replies import RECORDED_REPLIES, decode_recording, name_recording
from tests.unit.support.stream_checks.messages_order import check_message, check_message_stream, read_frames
from tests.unit.support.translator_drivers import feed_to_end
from translation.messages.client.collect import MessageCollector
from translation.messages.client.encode import MessagesEncoder
from translation.messages.client.reply_objects import ThinkingView

VIEWS: tuple[ThinkingView, ...] = ("text", "omitted", "none")


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
@pytest.mark.parametrize("recording", RECORDED_REPLIES, ids=name_recording)
def test_a_real_stream_becomes_a_message_the_official_client_accepts(recording: Path, view: ThinkingView) -> None:
    batches = decode_recording(recording)
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
